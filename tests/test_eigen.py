from __future__ import annotations

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import LinAlgError, eigh

from displace.fusion.solver import eigen
from displace.fusion.solver.scatter import Scatter

ROUTES = ["gram", "direct", "staged"]


def references(n_places=60, n_traversals=5, dim=24, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(n_places, dim)) * np.linspace(3, 0.3, dim)
    noise = rng.normal(size=(n_traversals, n_places, dim)) * np.linspace(0.5, 1.5, dim)
    return (own + noise).reshape(-1, dim).astype(dtype), np.tile(np.arange(n_places), n_traversals)


def exact(X, y, ridge=0.0):
    """Generalized eigenvalues (descending, N − 1 of them) and vectors by LAPACK in float64."""
    S_W, S_B, _ = naive.scatter_matrices(X, y)
    values, vectors = eigh(S_B, S_W + ridge * np.eye(len(S_W)))
    rank = min(len(S_W), len(np.unique(y)) - 1)
    return values[::-1][:rank], vectors[:, ::-1], S_W


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_places", [15, 60])  # fewer and more places than dimensions
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_every_route_solves_the_problem(route, dtype, n_places, ridge):
    X, y = references(n_places, dtype=dtype)
    solution = eigen.solve(Scatter.of(X, y), ridge, tau=0.9, route=route)
    values, vectors, S_W = exact(X, y, ridge)
    tolerance = 2e-5 if dtype == np.float32 else 1e-10
    P = solution.projection.astype(np.float64)
    n = P.shape[1]
    assert P.shape == (24, eigen.choose_n(values, 0.9))
    np.testing.assert_allclose(solution.eigenvalues, values, atol=tolerance * values[0])
    # The scaling vᵀ(S_W + ρI)v = 1 is part of the method …
    np.testing.assert_allclose(P.T @ (S_W + ridge * np.eye(24)) @ P, np.eye(n), atol=10 * tolerance)
    # … and so the span is all that matters: PPᵀ is the same.
    expected = vectors[:, :n] @ vectors[:, :n].T
    np.testing.assert_allclose(P @ P.T, expected, atol=20 * tolerance * np.abs(expected).max())


def test_divide_and_conquer_that_fails_in_float32_is_tried_in_float64(monkeypatch):
    X, y = references(dtype=np.float32)
    expected = eigen.solve(Scatter.of(X, y), 0.1)
    real, tried = eigen.get_lapack_funcs, []

    def failing(names, *args, **kwargs):
        found = real(names, *args, **kwargs)
        if names != ("stevd",):
            return found
        tried.append(np.dtype(kwargs["dtype"]).name)
        values_of = found[0]
        return (lambda d, e: (*values_of(d, e)[:2], 1 if len(tried) == 1 else 0),)

    monkeypatch.setattr(eigen, "get_lapack_funcs", failing)
    solution = eigen.solve(Scatter.of(X, y), 0.1)
    assert tried == ["float32", "float64"]
    np.testing.assert_allclose(
        solution.projection @ solution.projection.T, expected.projection @ expected.projection.T, atol=1e-4
    )


@pytest.mark.parametrize(("n_places", "dim"), [(2, 6), (3, 6), (4, 6), (5, 1), (5, 2), (5, 3)])
@pytest.mark.parametrize("route", ["gram", "staged"])
def test_the_smallest_problems_have_a_solution(n_places, dim, route):
    X, y = references(n_places, dim=dim)
    values, _, _ = exact(X, y, 0.5)
    found = eigen.solve(Scatter.of(X, y), 0.5, route=route)
    np.testing.assert_allclose(found.eigenvalues, values[: len(found.eigenvalues)], atol=1e-9)
    assert len(found.eigenvalues) == min(dim, n_places - 1)


def test_a_singular_scatter_is_an_error():
    X, y = references(dim=6)
    X[:, 2] = 1.0  # constant: no variation within places
    with pytest.raises(LinAlgError, match="not positive definite"):
        eigen.solve(Scatter.of(X, y), 0.0)


def test_thin_basis_has_the_same_solution():
    X, y = references(n_places=10, n_traversals=3, dim=70)
    Q, coordinates = eigen.thin_basis(X)
    np.testing.assert_allclose(coordinates @ Q.T, X, atol=1e-12)
    inside = eigen.solve(Scatter.of(coordinates, y), 0.2)
    outside = eigen.solve(Scatter.of(X, y), 0.2)
    P = Q @ inside.projection
    np.testing.assert_allclose(inside.eigenvalues, outside.eigenvalues, atol=1e-9)
    np.testing.assert_allclose(P @ P.T, outside.projection @ outside.projection.T, atol=1e-9)


def test_routes_by_size():
    assert eigen.pick_route(n_places=417, dim=4096) == "gram"
    assert eigen.pick_route(n_places=3876, dim=512) == "staged"
    assert eigen.pick_route(n_places=27592, dim=4096) == "staged"


@given(st.lists(st.just(0.0) | st.floats(1e-9, 1e6), min_size=1, max_size=40), st.floats(0.01, 1))
def test_choose_n_is_the_fewest_that_reach_tau(values, tau):
    values = np.sort(np.array(values))[::-1]
    n = eigen.choose_n(values, tau)
    total = values.sum()
    if total == 0:
        assert n == 0
    elif tau == 1:
        assert n == np.count_nonzero(values)
    else:
        assert values[:n].sum() >= tau * total * (1 - 1e-9)
        assert values[: n - 1].sum() < tau * total


def test_all_positive_eigenvalues_are_kept_for_a_tau_of_one_however_small():
    assert eigen.choose_n(np.array([1.0, 1e-13, 0.0]), 1.0) == 2
    assert eigen.choose_n(np.array([1.0, 1e-13, 0.0]), 0.999) == 1
    assert eigen.choose_n(np.array([0.5, 0.3, 0.2, -0.1]), 0.8) == 2


def test_n_components_never_exceeds_the_rank():
    X, y = references(n_places=20, dim=24)
    X = np.concatenate([X, X + 0.1])  # places 20 … 39 repeat places 0 … 19, moved by a constant
    y = np.concatenate([y, y + 20])
    values, _, _ = exact(X, y, 0.1)
    assert eigen.solve(Scatter.of(X, y), 0.1, n_components=24).projection.shape[1] == np.sum(values > 1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["full", "diagonal", "some of each"])
def test_eigenvectors_are_brought_back_in_blocks(monkeypatch, dtype, kind):
    monkeypatch.setattr(eigen, "NARROW", 7)
    monkeypatch.setattr(eigen, "AT_ONCE", 5)
    C = np.random.default_rng(0).normal(size=(40, 40))
    C = C + C.T
    first = {"full": 40, "diagonal": 0, "some of each": 15}[kind]
    C[first:] = C[:, first:] = 0
    C += np.diag(np.arange(40.0))
    values, vectors = eigen._tridiagonal(np.asfortranarray(C, dtype), lambda _: 23)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(C)[::-1], atol=1e-4)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(23), atol=1e-5)
    np.testing.assert_allclose(C @ vectors, vectors * values[:23], atol=2e-4)
