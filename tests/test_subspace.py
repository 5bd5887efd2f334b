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


@pytest.mark.parametrize(("dim", "rows"), [(1, 1), (2, 1), (3, 1), (4, 2), (7, 3)])
def test_a_basis_has_at_most_half_the_dimensions_and_at_least_one_vector(dim, rows):
    references = np.random.default_rng(0).normal(size=(5, dim))
    fusion = get_fusion("subspace")().fit(references, [0] * 5)
    assert fusion.basis_.shape == (rows, dim)
    assert get_fusion("subspace")(n_components=99).fit(references, [0] * 5).basis_.shape == (rows, dim)


def test_references_of_zeros_are_one_row_of_zeros():
    np.testing.assert_array_equal(basis_of(np.zeros((3, 4)), 2), np.zeros((1, 4)))


def test_what_points_away_from_the_references_scores_below_nothing():
    fusion = get_fusion("subspace")().fit(np.eye(4)[[0, 1, 2]], [0, 0, 1])
    scores = fusion._scores(np.array([[0.6, 0.0, 0.8, 0.0], [-0.6, -0.1, -0.8, 0.0]]))
    unit = np.sqrt(0.6**2 + 0.1**2 + 0.8**2)
    np.testing.assert_allclose(scores, [[0.6, 0.8], [-np.hypot(0.6, 0.1) / unit, -0.8 / unit]])
