from __future__ import annotations

import numpy as np

from displace.synthetic import make_route


def test_sizes_units_and_seeds():
    route = make_route(n_places=30, n_traversals=3, dim=16, seed=5)
    assert route.references.vectors.shape == (90, 16)
    assert route.queries.shape == (30, 16)
    np.testing.assert_allclose(np.linalg.norm(route.references.vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(make_route(30, 3, 16, seed=5).queries, route.queries)
    assert not np.array_equal(make_route(30, 3, 16, seed=6).queries, route.queries)


def test_dropped_references_leave_every_place_one():
    refs = make_route(n_places=200, n_traversals=3, dim=8, drop=0.9).references
    assert 200 <= len(refs) < 350
    assert len(refs.place_ids) == 200


def test_neighbours_are_alike_and_shared_directions_vary():
    similar = make_route(n_places=300, dim=64, similarity=0.9, noise=0.1, nuisance=0.0).queries
    neighbours = np.einsum("nd,nd->n", similar[1:], similar[:-1]).mean()
    assert neighbours > 0.7 > abs(np.einsum("nd,nd->n", similar[50:], similar[:-50]).mean()) + 0.3
