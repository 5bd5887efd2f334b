"""Subspace: the residual outside of a place's span."""

from __future__ import annotations

import numpy as np
import pytest

from displace import get_fusion
from displace.errors import InputError
from displace.fusion.subspace import basis_of
from displace.synthetic import make_route


def test_scores_rank_as_residuals():
    route = make_route(n_places=12, n_traversals=3, dim=16)
    refs = route.references
    fusion = get_fusion("subspace")().fit(refs.vectors, refs.places, refs.traversals)
    scores = np.array(fusion.rank(route.queries, k=12).scores)
    places = fusion.rank(route.queries, k=12).places
    for query, row, names in zip(route.queries, scores, places, strict=True):
        unit = query / np.linalg.norm(query)
        for score, name in zip(row, names, strict=True):
            B = np.linalg.qr(refs.vectors[refs.places == name].T)[0]
            residual = np.linalg.norm(unit - B @ (B.T @ unit))
            assert np.sqrt(1 - score**2) == pytest.approx(residual, abs=1e-3)


def test_the_basis_is_orthonormal_spans_the_references_and_starts_along_their_sum():
    references = np.random.default_rng(0).normal(size=(3, 8))
    basis = basis_of(references, 4)
    np.testing.assert_allclose(basis @ basis.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(references @ basis.T @ basis, references, atol=1e-12)
    total = references.sum(axis=0)
    np.testing.assert_allclose(basis[0], total / np.linalg.norm(total), atol=1e-12)


def test_equal_references_count_once_and_the_basis_can_be_cut():
    references = np.eye(6)[[0, 0, 1, 1, 2]]
    assert len(basis_of(references, 3)) == 3
    assert len(basis_of(references, 2)) == 2
    fusion = get_fusion("subspace")(n_components=1).fit(references, ["a", "a", "a", "b", "b"])
    assert fusion.basis_.shape == (2, 6)
    assert fusion.nbytes_ == 4 * 12


def test_one_reference_a_place_is_cosine():
    route = make_route(n_places=20, n_traversals=1, dim=16)
    refs = route.references
    ranked = [
        get_fusion(name)().fit(refs.vectors, refs.places).rank(route.queries, k=1).places
        for name in ("subspace", "hops")
    ]
    np.testing.assert_array_equal(*ranked)


def test_a_wrong_number_of_components_is_refused():
    with pytest.raises(InputError, match="n_components=0"):
        get_fusion("subspace")(n_components=0).fit(np.eye(3), [0, 1, 2])
