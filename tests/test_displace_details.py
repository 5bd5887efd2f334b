"""DisPlace in detail: limits of its parameters, what it asks for, and what it keeps."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from displace import DisPlace, get_fusion
from displace.arrays import l2_normalize
from displace.errors import ConditioningWarning, InputError, SingularScatterError
from displace.fusion import displace as module
from displace.fusion.pooling import Pooling
from displace.fusion.solver.eigen import _clip_rounding, pick_route, solve
from displace.fusion.solver.kept_references import KeptViews
from displace.fusion.solver.scatter import Scatter
from displace.fusion.solver.tuning import Settings
from displace.synthetic import make_route

PAPER = {"ridge": 0.0, "center": False}


@pytest.fixture(scope="module")
def refs():
    return make_route(n_places=20, n_traversals=4, dim=6, seed=1).references


def fit(refs, **options):
    return DisPlace(**options).fit(refs.vectors, refs.places, refs.traversals)


class TestParameters:
    @pytest.mark.parametrize(
        "options",
        [
            *({"tau": tau} for tau in (1e-6, 1, 1.0)),
            *({"ridge": ridge} for ridge in (0, 0.0, 5, "auto")),
            *({"n_components": n} for n in (1, 6, np.int64(3), None)),
            *({"n_rows": n} for n in (1, 4, "auto", "all")),
            {"center": np.bool_(True)},
            {"views": False, "project": True},
        ],
    )
    def test_what_is_just_allowed(self, refs, options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConditioningWarning)
            fit(refs, **options)

    @pytest.mark.parametrize(
        "options",
        [
            *({"tau": tau} for tau in (0, 1.0001, -0.5, True, "1", np.nan)),
            *({"ridge": ridge} for ridge in (-1e-9, np.inf, np.nan, True, None)),
            *({"n_components": n} for n in (0, 7, 2.0, True)),
            *({"n_rows": n} for n in (0, -1, 1.5, True, "some")),
            *({name: value} for name in ("center", "views", "project") for value in (1, None, "yes")),
            {"solver": "fast"},
        ],
    )
    def test_what_is_just_not(self, refs, options):
        (name,) = options
        with pytest.raises(InputError, match=f"{name}="):
            fit(refs, **options)

    def test_statistics_are_fitted_with_the_same_limits(self, refs):
        with pytest.raises(InputError, match="tau=2"):
            DisPlace(tau=2).from_statistics(Scatter.of(refs.vectors, refs.places))

    def test_components_are_fewer_than_places(self):
        few = make_route(n_places=4, n_traversals=5, dim=6).references
        assert fit(few, ridge=1.0, center=True, n_components=3).projection_.shape == (6, 3)
        with pytest.raises(InputError, match="at most 3"):
            fit(few, n_components=4)
        with pytest.raises(InputError, match="n_components=2 must be"):
            fit(few.select(few.places == few.place_ids[0]), n_components=2)


class TestConditioning:
    def test_as_many_deviations_as_dimensions_are_needed(self):
        enough = make_route(n_places=6, n_traversals=2, dim=6, seed=2).references
        with pytest.warns(ConditioningWarning, match=r"γ = 1\.00"):
            fit(enough, **PAPER)
        with pytest.raises(SingularScatterError, match="5 deviations in 6 dimensions"):
            fit(enough.select(np.arange(1, 12)), **PAPER)

    def test_a_ridge_needs_no_warning_and_no_error(self):
        few = make_route(n_places=3, n_traversals=2, dim=6, seed=2).references
        assert fit(few, ridge=0.01, center=False).n_components_ >= 1

    @pytest.mark.parametrize("above", [True, False])
    def test_the_warning_begins_at_its_limit(self, above):
        dim = 20
        n = int(dim / module.WARN_ABOVE) + (0 if above else 1)
        some = make_route(n_places=n, n_traversals=2, dim=dim, seed=3).references
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit(some, **PAPER)
        assert bool(caught) == (dim / n > module.WARN_ABOVE)

    @pytest.mark.parametrize(
        ("scale", "kind"), [(9e-13, "f8"), (1.2e-12, "f4"), (9e11, "f4"), (1.2e12, "f8"), (0, "f4")]
    )
    def test_numbers_whose_squares_float32_has_not_are_added_up_in_float64(self, refs, scale, kind):
        unit = refs.vectors / np.abs(refs.vectors).max()
        for sign in (1, -1):
            assert module._squarable((sign * unit * scale).astype(np.float32)).dtype == np.dtype(kind)
            alike = np.full((2, 3), sign * scale, np.float32)  # all of one sign
            assert module._squarable(alike).dtype == np.dtype(kind)
        assert module._squarable(np.full((1, 1), 1e300)).dtype == np.float64


class TestDecisions:
    def test_references_are_wanted_where_they_would_decide(self, monkeypatch):
        assert DisPlace().wants_references(100, 64, 3)
        assert DisPlace(ridge=1.0).wants_references(100, 64, 3)
        assert not DisPlace().wants_references(100, 64, 2)
        assert not DisPlace(ridge=1.0, center=True).wants_references(100, 64, 3)
        assert not DisPlace().wants_references(3876, 8448, 3)  # none is affordable
        few = 3876, 512, 5
        monkeypatch.setattr(module, "AT_HAND", 4 * 3876 * 512 * 5)
        assert DisPlace().wants_references(*few)
        monkeypatch.setattr(module, "AT_HAND", 4 * 3876 * 512 * 5 - 1)
        assert not DisPlace().wants_references(*few)
        assert DisPlace().wants_references(100, 64, 3)  # few places are wanted whatever they take

    def test_blocks_of_places_are_fused_without_views(self):
        places, names = np.array([0, 1, 0, 1]), np.array(["a", "a", "b", "b"])
        one_view = DisPlace(tau=0.8).for_blocks(places, names)
        assert (one_view.views, one_view.project, one_view.tau) == (False, True, 0.8)
        closed = DisPlace(ridge=1.0, center=True).for_blocks(places, names)
        assert closed.get_params() == DisPlace(ridge=1.0, center=True).get_params()
        given = DisPlace(views=False).for_blocks(np.zeros(4, int), names)
        assert given.get_params() == DisPlace(views=False).get_params()
        several = np.array([0, 0, 1, 1])
        assert isinstance(DisPlace().for_blocks(several, np.array(["a"] * 4)), Pooling)
        with pytest.raises(InputError, match="telling their views apart needs all references"):
            DisPlace().for_blocks(several, names)

    def test_settings_fit_the_same_again(self, refs):
        for options in (
            {},
            {"ridge": 0.5},
            {"project": False},
            {"n_rows": "all"},
            {"ridge": 1, "center": True},
        ):
            first = fit(refs, **options)
            again = fit(refs, **first.settings())
            np.testing.assert_array_equal(again.place_vectors_, first.place_vectors_)
            np.testing.assert_array_equal(again.row_places_, first.row_places_)
            assert again.settings() == first.settings()

    @pytest.mark.parametrize("name", ["project", "views", "center"])
    @pytest.mark.parametrize("value", [True, False])
    def test_a_choice_by_numpy_is_one_by_python(self, refs, name, value):
        """``project=np.False_`` was allowed, and projected."""
        by_numpy, by_python = {name: np.bool_(value)}, {name: value}
        assert fit(refs, **by_numpy).settings() == fit(refs, **by_python).settings()
        kinds = [type(DisPlace(**given).statistics(refs)) for given in (by_numpy, by_python)]
        assert kinds[0] is kinds[1]

    def test_what_is_kept_for_updates(self, refs):
        assert isinstance(DisPlace().statistics(refs), Scatter)
        for options in ({"views": True}, {"n_rows": "all"}):
            assert isinstance(DisPlace(**options).statistics(refs), KeptViews)
        kept, scatter = KeptViews.of(refs), Scatter.of(refs.vectors, refs.places)
        assert isinstance(DisPlace().further_statistics(refs, kept), KeptViews)
        assert isinstance(DisPlace(views=True).further_statistics(refs, scatter), Scatter)
        assert fit(refs).kept_statistics(scatter, refs) is scatter
        assert isinstance(fit(refs, n_rows="all").kept_statistics(scatter, refs), KeptViews)


class TestRows:
    def test_every_reference_can_be_a_row(self, refs):
        fusion = fit(refs, n_rows="all", ridge=1.0, center=True)
        order = np.argsort(refs.places, kind="stable")
        np.testing.assert_array_equal(fusion.row_places_, refs.places[order])
        np.testing.assert_allclose(fusion.place_vectors_, fusion.transform(refs.vectors[order]), atol=1e-6)

    @pytest.mark.parametrize(("rows", "same"), [(1, "hops"), ("auto", "hops"), ("all", "pooling")])
    def test_without_a_projection_it_is_one_of_the_plain_ones(self, refs, rows, same):
        fusion = fit(refs, project=False, n_rows=rows)
        plain = get_fusion(same)().fit(refs.vectors, refs.places, refs.traversals)
        queries = l2_normalize(np.random.default_rng(0).standard_normal((30, 6)).astype(np.float32))
        one, other = (f.rank(queries, k=20) for f in (fusion, plain))
        np.testing.assert_array_equal(one.places, other.places)
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)
        assert fusion.explain().startswith("P = I")
        assert fusion.sampling_ratio_ == 6 / 60
        assert (fusion.ridge_, fusion.center_, fusion.n_components_) == (0, False, 6)
        limit = None if rows == "all" else 1
        assert fusion.settings_ == Settings(0.0, False, "as given", rows=limit, projects=False)
        assert fusion.nbytes_ == plain.nbytes_

    def test_a_budget_of_rows_without_a_projection(self, refs):
        fusion = fit(refs, project=False, n_rows=2)
        assert np.bincount(fusion.row_places_).tolist() == [2] * 20
        np.testing.assert_allclose(np.linalg.norm(fusion.place_vectors_, axis=1), 1, rtol=1e-5)

    def test_statistics_alone_give_hops_where_nothing_is_projected(self, refs):
        fusion = DisPlace(project=False, n_rows=1).from_statistics(Scatter.of(refs.vectors, refs.places))
        expected = fit(refs, project=False, n_rows=1)
        np.testing.assert_allclose(fusion.place_vectors_, expected.place_vectors_, atol=1e-6)


class TestSolver:
    @pytest.mark.parametrize(
        ("solver", "dim", "thin"),
        [
            ("auto", 40, True),
            ("qr", 40, True),
            ("gram", 40, False),
            ("direct", 40, False),
            ("auto", 30, False),
        ],
    )
    def test_few_references_are_solved_in_their_own_span(self, solver, dim, thin, monkeypatch):
        """Thirty references: in 40 dimensions their span is smaller than the space."""
        asked, real = [], module.thin_basis
        monkeypatch.setattr(module, "thin_basis", lambda X: asked.append(X.shape) or real(X))
        refs = make_route(n_places=10, n_traversals=3, dim=dim).references
        fit(refs, solver=solver, ridge=0.5, center=False)
        assert asked == [(30, dim)] * thin

    def test_routes_at_their_limit(self):
        assert [pick_route(n, 10) for n in (10, 11)] == ["gram", "staged"]

    @pytest.mark.parametrize("route", ["gram", "direct", "staged"])
    def test_eigenvectors_are_scaled_and_in_order(self, refs, route):
        scatter = Scatter.of(refs.vectors.astype(np.float64), refs.places)
        S_W = scatter.within / len(refs)
        S_W = S_W + np.tril(S_W, -1).T + 0.2 * np.eye(6)
        found = solve(scatter, 0.2, tau=1.0, route=route)
        P = found.projection
        np.testing.assert_allclose(P.T @ S_W @ P, np.eye(6), atol=1e-8)
        B = scatter.between_rows()
        np.testing.assert_allclose(P.T @ B.T @ B @ P, np.diag(found.eigenvalues), atol=1e-8)
        assert (np.diff(found.eigenvalues) <= 0).all()
        assert solve(scatter, 0.2, n_components=2, route=route).projection.shape == (6, 2)
        assert solve(scatter, 0.2, n_components=99, route=route).projection.shape == (6, 6)
        assert len(found.eigenvalues) == 6

    def test_what_is_rounding_counts_as_zero(self):
        eps = np.finfo(np.float32).eps
        values = np.array([2.0, 7 * eps, 5 * eps, -1e-3])
        assert _clip_rounding(values, np.dtype(np.float32)).tolist() == [2, 0, 0, 0]
        assert _clip_rounding(np.array([2.0, 5 * eps]), np.dtype(np.float32)).tolist() == [2, 5 * eps]
        assert _clip_rounding(np.array([-1e-9]), np.dtype(np.float32)).tolist() == [0]
        assert _clip_rounding(np.array([-2.0, -3.0]), np.dtype(np.float32)).tolist() == [0, 0]
        assert _clip_rounding(np.empty(0), np.dtype(np.float32)).shape == (0,)

    @pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
    def test_rounding_is_a_share_of_the_largest(self, scale):
        eps = float(np.finfo(np.float32).eps)
        values = np.array([1.0, 0.5, 5 * eps, 3 * eps, -0.1]) * scale
        np.testing.assert_array_equal(_clip_rounding(values, np.float32), [scale, 0.5 * scale, 0, 0, 0])
        values[2] = 6 * eps * scale
        assert _clip_rounding(values, np.float32)[2] > 0
        assert not _clip_rounding(-values, np.float32)[:4].any()

    def test_no_more_eigenvalues_than_places_less_one(self):
        few = make_route(n_places=4, n_traversals=5, dim=6).references
        found = solve(Scatter.of(few.vectors.astype(np.float64), few.places), 0.2, tau=1.0)
        assert len(found.eigenvalues) == 3
        assert found.projection.shape == (6, 3)


class TestScatter:
    def test_shares_and_traces(self, refs):
        X = refs.vectors.astype(np.float64)
        scatter = Scatter.of(X, refs.places)
        means = np.stack([X[refs.places == place].mean(axis=0) for place in range(20)])
        np.testing.assert_allclose(scatter.mean, means.mean(axis=0))
        deviations = X - means[refs.places]
        assert scatter.within_trace() == pytest.approx(float((deviations**2).sum()) / 80)
        assert scatter.mean_square() == pytest.approx(float((means[refs.places] ** 2).sum()) / 80)
        assert (scatter.freedom, scatter.n_references, scatter.sampling_ratio) == (60, 80, 0.1)
        assert not scatter.means_are_equal()
        assert Scatter.of(np.ones((4, 2)), np.array([0, 0, 1, 1])).means_are_equal()
        assert Scatter.of(X[:3], np.arange(3)).sampling_ratio == np.inf

    def test_means_are_equal_in_every_number_of_every_block(self, monkeypatch):
        scatter = Scatter.of(np.array([[1.0, 2], [1, 2], [1, 3]]), np.arange(3))
        assert not scatter.means_are_equal()
        monkeypatch.setattr(Scatter, "_blocks", lambda *_: iter([slice(0, 2), slice(2, 3)]))
        assert not scatter.means_are_equal()
        scatter.means = np.ones((3, 2))
        assert scatter.means_are_equal()

    def test_an_empty_one_is_empty(self):
        none = Scatter.empty(3)
        assert (none.mean_square(), none.within_trace(), none.n_references) == (0, 0, 0)

    def test_files_give_back_what_was_written_and_nothing_else(self, refs):
        scatter = Scatter.of(refs.vectors, refs.places)
        again = Scatter.from_arrays(scatter.to_arrays())
        np.testing.assert_array_equal(np.tril(again.within), np.tril(scatter.within))
        np.testing.assert_array_equal(again.means, scatter.means)
        for name, change in (
            ("counts", lambda a: a * 0),
            ("counts", lambda a: a + 2**31),
            ("counts", lambda a: a.astype(np.uint64)),
            ("counts", lambda a: a[1:]),
            ("means", lambda a: a * np.float32(1e19)),
            ("means", lambda a: a.astype(np.float64)),
            ("means", lambda a: np.where(a == a.max(), np.nan, a).astype(np.float32)),
            ("place_ids", lambda a: a[::-1]),
            ("place_ids", lambda a: a * 0),
            ("within", lambda a: a[1:]),
            ("within", lambda a: a.astype(np.float64)),
            ("within", lambda a: np.where(a == a.max(), np.inf, a).astype(np.float32)),
        ):
            arrays = scatter.to_arrays()
            arrays[name] = change(arrays[name])
            with pytest.raises(ValueError, match=r"places|counts|means|scatter|order"):
                Scatter.from_arrays(arrays)
        edge = scatter.to_arrays()
        edge["counts"] = np.full(20, 2**31)
        assert Scatter.from_arrays(edge).counts.max() == 2**31
