"""DisPlace against the paper's equations, its identities, and degenerate input."""

from __future__ import annotations

import functools
import warnings

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import LinAlgError
from sklearn.exceptions import NotFittedError

import displace
from displace import DisPlace, get_fusion
from displace.arrays import l2_normalize
from displace.errors import ConditioningWarning, InputError, SingularScatterError
from displace.fusion.solver.eigen import Solution, solve
from displace.fusion.solver.scatter import Scatter
from displace.synthetic import make_route

PAPER = {"ridge": 0.0, "center": False}


def fit(fusion, references):
    return fusion.fit(references.vectors, references.places, references.traversals)


def all_scores(fusion, Q):
    """Scores (q, N) in the order of place_ids_."""
    matches = fusion.rank(Q, k=len(fusion.place_ids_))
    order = np.argsort(matches.places, axis=1)
    return np.take_along_axis(matches.scores, order, axis=1)


WIDE = {"n_places": 300, "n_traversals": 4, "dim": 40}  # more places than dimensions, as RobotCar at 512
CASES = {
    "wide": (WIDE, {}),
    "tall": ({"n_places": 60, "n_traversals": 24, "dim": 90}, {}),  # fewer, as Pittsburgh
    "ragged": ({**WIDE, "drop": 0.3}, {}),
    "few": ({"n_places": 40, "n_traversals": 3, "dim": 150}, {"ridge": 0.5}),  # references than dimensions
    "ridged and centred": (WIDE, {"ridge": 0.1, "center": True}),
}


@functools.cache
def by_the_paper(case):
    """A route, the settings, and what the paper's equations make of them in plain loops."""
    sizes, settings = CASES[case]
    route, options = make_route(**sizes, seed=3), {**PAPER, **settings}
    refs = route.references
    return refs, route.queries, options, naive.displace(refs.vectors, refs.places, route.queries, **options)


@pytest.mark.parametrize("solver", ["auto", "gram", "direct", "staged", "qr"])
@pytest.mark.parametrize("case", CASES)
def test_every_route_agrees_with_the_papers_equations(solver, case):
    refs, Q, options, (expected, n, share) = by_the_paper(case)
    fusion = fit(DisPlace(solver=solver, **options), refs)
    if fusion.n_components_ != n:
        assert abs(fusion.n_components_ - n) == 1
        assert abs(share[min(n, fusion.n_components_) - 1] - 0.95) < 1e-5
    scores = all_scores(fusion, Q)
    assert np.abs(scores - expected).max() <= 1e-3
    assert np.mean(scores.argmax(axis=1) == expected.argmax(axis=1)) >= 0.999


def test_ill_conditioned_float32_references_are_solved_in_float64():
    route = make_route(n_places=300, n_traversals=4, dim=12, seed=3)
    scales = np.geomspace(1, 1e5, 12).astype(np.float32)  # S_W has a condition of 1e10
    refs, Q = route.references, route.queries * scales
    fusion = DisPlace(**PAPER).fit(refs.vectors * scales, refs.places, refs.traversals)
    expected, n, _ = naive.displace(refs.vectors * scales, refs.places, Q, **PAPER)
    assert fusion.n_components_ == n
    assert fusion.projection_.dtype == np.float32
    assert np.abs(all_scores(fusion, Q) - expected).max() <= 1e-3


def test_ill_conditioned_statistics_are_solved_in_float64_without_the_references():
    route = make_route(n_places=300, n_traversals=4, dim=12, seed=3)
    scales = np.geomspace(1, 1e4, 12).astype(np.float32)
    refs, Q = route.references, route.queries * scales
    statistics = Scatter.of(refs.vectors * scales, refs.places)
    with pytest.raises(LinAlgError):
        solve(statistics, 0.0)
    fusion = DisPlace(**PAPER).from_statistics(statistics)
    expected, n, _ = naive.displace(refs.vectors * scales, refs.places, Q, **PAPER)
    assert fusion.n_components_ == n
    assert fusion.projection_.dtype == np.float32
    assert np.abs(all_scores(fusion, Q) - expected).max() <= 1e-2


def test_the_scaling_of_the_eigenvectors_is_part_of_the_method():
    route = make_route(n_places=200, dim=64, seed=1)
    fusion = fit(DisPlace(**PAPER), route.references)
    S_W, _, _ = naive.scatter_matrices(route.references.vectors, route.references.places)
    P = fusion.projection_.astype(np.float64)
    np.testing.assert_allclose(P.T @ S_W @ P, np.eye(fusion.n_components_), atol=1e-4)
    unit = P / np.linalg.norm(P, axis=0)
    sums = np.array([route.references.vectors[route.references.places == p].sum(axis=0) for p in range(200)])
    other = l2_normalize(route.queries @ unit) @ l2_normalize(sums @ unit).T
    assert np.mean(other.argmax(axis=1) == fusion.predict(route.queries)) < 0.999


@pytest.mark.parametrize("drop", [0.0, 0.4], ids=["complete", "ragged"])
def test_the_identity_as_projection_is_hops(drop, monkeypatch):
    route = make_route(n_places=80, dim=32, drop=drop)
    identity = Solution(np.eye(32, dtype=np.float32), np.ones(32))
    monkeypatch.setattr("displace.fusion.displace.solve", lambda *_: identity)
    fusion = fit(DisPlace(ridge=0.1, center=False), route.references)
    hops = fit(get_fusion("hops")(), route.references)
    np.testing.assert_array_equal(fusion.projection_, np.eye(32))
    np.testing.assert_allclose(fusion.place_vectors_, hops.place_vectors_, atol=1e-6)
    np.testing.assert_allclose(all_scores(fusion, route.queries), all_scores(hops, route.queries), atol=1e-6)


@pytest.mark.parametrize("drop", [0.0, 0.4], ids=["complete", "ragged"])
def test_references_that_are_white_within_places_are_fused_as_by_hops(drop):
    """S_W = I leaves a rotation as projection where all directions are kept."""
    route = make_route(n_places=200, dim=16, drop=drop)
    refs = route.references
    S_W, _, _ = naive.scatter_matrices(refs.vectors, refs.places)
    values, vectors = np.linalg.eigh(S_W)
    whitening = vectors / np.sqrt(values) @ vectors.T
    white = displace.ReferenceSet(refs.vectors @ whitening, refs.places, refs.traversals)
    Q = route.queries @ whitening
    fusion = fit(DisPlace(tau=1.0, **PAPER), white)
    np.testing.assert_allclose(
        all_scores(fusion, Q), all_scores(fit(get_fusion("hops")(), white), Q), atol=1e-8
    )
    # … and it is the whitening that makes them alike.
    assert np.abs(all_scores(fit(DisPlace(tau=1.0, **PAPER), refs), Q) - all_scores(fusion, Q)).max() > 0.01


def test_tau_one_with_full_rank_is_within_place_whitening():
    route = make_route(n_places=100, n_traversals=3, dim=16)
    refs = route.references
    fusion = fit(DisPlace(tau=1.0, **PAPER), refs)
    assert fusion.n_components_ == 16
    S_W, _, _ = naive.scatter_matrices(refs.vectors, refs.places)
    values, vectors = np.linalg.eigh(S_W)
    whitening = vectors / np.sqrt(values) @ vectors.T
    means = np.array([refs.vectors[refs.places == p].mean(axis=0) for p in range(100)])
    expected = l2_normalize(route.queries @ whitening) @ l2_normalize(means @ whitening).T
    np.testing.assert_allclose(all_scores(fusion, route.queries), expected, atol=1e-4)


@settings(max_examples=15)
@given(st.integers(0, 1000))
def test_labelled_references_may_come_in_any_order(seed):
    route = make_route(n_places=80, n_traversals=3, dim=12, drop=0.2, seed=seed)
    refs = route.references
    shuffled = refs.select(np.random.default_rng(seed).permutation(len(refs)))
    for options in ({}, PAPER):
        a, b = (fit(DisPlace(**options), r) for r in (refs, shuffled))
        assert (a.ridge_, a.center_, a.n_components_) == (b.ridge_, b.center_, b.n_components_)
        np.testing.assert_allclose(all_scores(a, route.queries), all_scores(b, route.queries), atol=2e-3)


def test_a_translation_is_absorbed_by_centring():
    route = make_route(n_places=80, dim=24)
    refs = route.references
    plain = fit(DisPlace(ridge=0.1, center=True), refs)
    moved = DisPlace(ridge=0.1, center=True).fit(refs.vectors + 0.5, refs.places, refs.traversals)
    np.testing.assert_allclose(
        all_scores(plain, route.queries), all_scores(moved, route.queries + 0.5), atol=1e-3
    )


def test_learned_attributes():
    route = make_route(n_places=30, n_traversals=4, dim=20)
    fusion = fit(DisPlace(ridge=0.1, center=True), route.references)
    n = fusion.n_components_
    assert fusion.projection_.shape == (20, n)
    assert fusion.place_vectors_.shape == (30, n)
    assert fusion.transform(route.queries).shape == (30, n)
    np.testing.assert_allclose(np.linalg.norm(fusion.transform(route.queries), axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(fusion.mean_, route.references.vectors.mean(axis=0), atol=1e-6)
    assert np.all(np.diff(fusion.eigenvalues_) <= 0)
    assert fusion.sampling_ratio_ == pytest.approx(20 / 90)
    assert fusion.nbytes_ == 4 * (30 * n + 20 * n + 20)
    assert fit(DisPlace(ridge=0.1, center=False, n_components=n), route.references).nbytes_ == 4 * 50 * n
    assert (fusion.ridge_, fusion.center_) == (0.1, True)
    assert "as given" in fusion.explain()


def test_storage_is_the_papers():
    """Section on complexity: N=3876, K=5, D=512, n=259, MiB of float32 with the projection."""
    rng = np.random.default_rng(0)
    refs = displace.ReferenceSet(
        rng.normal(size=(3876 * 5, 512)).astype(np.float32),
        np.tile(np.arange(3876), 5),
        np.repeat(np.arange(5), 3876),
    )
    mebibytes = {
        "displace": fit(DisPlace(n_components=259, **PAPER), refs).nbytes_ / 2**20,
        "hops": fit(get_fusion("hops")(), refs).nbytes_ / 2**20,
        "pooling": fit(get_fusion("pooling")(), refs).nbytes_ / 2**20,
        "dmat_avg": fit(get_fusion("dmat_avg")(), refs).nbytes_ / 2**20,
    }
    assert {name: round(value, 2) for name, value in mebibytes.items()} == {
        "displace": 4.34,
        "hops": 7.57,
        "pooling": 37.85,
        "dmat_avg": 37.85,
    }


class TestDegenerateInput:
    def refs(self, **options):
        return make_route(n_places=20, n_traversals=3, dim=10, similarity=0.0, noise=0.2, **options)

    def test_one_traversal_is_plain_retrieval_with_a_warning(self):
        X = np.random.default_rng(0).normal(size=(6, 4))
        with pytest.warns(ConditioningWarning, match="no place has more than one reference"):
            fusion = DisPlace().fit(X, np.arange(6))
        np.testing.assert_array_equal(fusion.predict(3 * X), np.arange(6))
        np.testing.assert_allclose(
            all_scores(fusion, X), all_scores(get_fusion("hops")().fit(X, np.arange(6)), X)
        )
        assert "plain retrieval" in fusion.explain()

    def test_one_place_is_always_the_answer(self):
        with pytest.warns(ConditioningWarning, match="one place only"):
            fusion = DisPlace().fit(np.random.default_rng(0).normal(size=(3, 5)), ["home"] * 3)
        assert fusion.predict(np.ones((2, 5))).tolist() == ["home", "home"]

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("dim", [4, 128])
    def test_duplicate_references_only(self, dim, dtype):
        """In their own span, of references that are fewer than dimensions, they differ by rounding."""
        X = np.random.default_rng(0).normal(size=(6, dim)).astype(dtype)
        with pytest.warns(ConditioningWarning, match="are all equal"):
            fusion = DisPlace().fit(np.concatenate([X, X]), np.tile(np.arange(6), 2))
        np.testing.assert_array_equal(fusion.predict(X), np.arange(6))

    def test_some_duplicate_references(self):
        route = self.refs()
        refs = route.references
        X = np.concatenate([refs.vectors, refs.vectors[:20]])
        fusion = DisPlace().fit(X, np.concatenate([refs.places, refs.places[:20]]))
        assert np.mean(fusion.predict(route.queries) == route.truth) > 0.5

    @pytest.mark.parametrize("dim", [2, 128])
    def test_places_that_are_all_alike(self, dim):
        X = np.tile(np.random.default_rng(0).normal(size=(2, dim)), (3, 1))
        with pytest.warns(ConditioningWarning, match="same mean"):
            fusion = DisPlace().fit(X, [0, 0, 1, 1, 2, 2])
        assert np.ptp(all_scores(fusion, X[:1])) < 1e-12

    @pytest.mark.parametrize("name", displace.fusion.FUSIONS.names())
    def test_zero_vectors_have_a_defined_score(self, name):
        route = self.refs()
        X = route.references.vectors.copy()
        X[[0, 20]] = 0
        fusion = get_fusion(name)().fit(X, route.references.places, route.references.traversals)
        queries = np.concatenate([route.queries, np.zeros((1, 10), np.float32)])
        assert not np.isnan(fusion.rank(queries, k=3).scores).any()

    def scores_of_zeros(self, name, **options):
        """Scores of a zero query, and of all queries against a place whose references are zero; the fusion."""
        route = self.refs()
        X = route.references.vectors.copy()
        X[route.references.places == 3] = 0
        fusion = get_fusion(name)(**options).fit(X, route.references.places, route.references.traversals)
        query = all_scores(fusion, np.zeros((1, 10), np.float32))
        return query, all_scores(fusion, route.queries)[:, 3], fusion, route.queries

    @pytest.mark.parametrize(
        ("name", "options"),
        [
            ("hops", {}),
            ("pooling", {}),
            ("single", {}),
            ("dmat_avg", {}),
            ("dmat_min", {}),
            ("dmat_med", {}),
            ("displace", {"ridge": 0.5, "center": False}),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_zero_vector_scores_zero(self, name, options):
        query, place, fusion, _ = self.scores_of_zeros(name, **options)
        assert not query.any()
        assert not place.any()
        assert fusion.rank(np.zeros((1, 10)), k=3).places.tolist() == [[0, 1, 2]]

    def test_a_zero_vector_is_centred_as_any_other(self):
        query, place, fusion, queries = self.scores_of_zeros("displace", ridge=0.5, center=True)
        moved = l2_normalize(-fusion.mean_[None] @ fusion.projection_)
        np.testing.assert_allclose(query, moved @ fusion.place_vectors_.T, atol=1e-6)
        np.testing.assert_allclose(place, fusion.transform(queries) @ moved[0], atol=1e-5)
        assert np.abs(query).max() > 0.1

    def test_a_zero_vector_is_at_distance_one_where_distances_are_fused(self):
        query, place, _, _ = self.scores_of_zeros("bsf", selection=np.inf, scale=0.5)
        np.testing.assert_allclose(query, -np.log(20), atol=1e-6)
        similarity = self.scores_of_zeros("dmat_avg")[2].rank(self.refs().queries, k=20).scores
        np.testing.assert_allclose(place, -np.log(np.exp(similarity / 0.5).sum(axis=1)), atol=1e-5)
        query, place, fusion, queries = self.scores_of_zeros("std_dmat_min")
        assert not query.any()
        similarities = (l2_normalize(queries) @ fusion.reference_vectors_.T).reshape(20, 3, 20)
        expected = (-similarities.mean(axis=2) / similarities.std(axis=2)).max(axis=1)
        np.testing.assert_allclose(place, expected, atol=1e-5)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    @pytest.mark.parametrize("name", displace.fusion.FUSIONS.names())
    def test_nan_and_infinity_are_errors_that_name_the_row(self, name, bad):
        route = self.refs()
        X = route.references.vectors.copy()
        X[7, 2] = bad
        with pytest.raises(InputError, match="X contain NaN or infinity, first in row 7"):
            get_fusion(name)().fit(X, route.references.places)
        fusion = fit(get_fusion(name)(), route.references)
        with pytest.raises(InputError, match="Q contain NaN or infinity, first in row 7"):
            fusion.rank(X[:20])

    @pytest.mark.parametrize("name", displace.fusion.FUSIONS.names())
    @pytest.mark.parametrize("scale", [1e20, 1e-25], ids=str)
    def test_very_large_and_very_small_numbers(self, name, scale):
        """Their squares are beyond float32; directions are what counts."""
        route = self.refs()
        refs, scale = route.references, np.float32(scale)
        expected = fit(get_fusion(name)(), refs)
        fusion = get_fusion(name)().fit(refs.vectors * scale, refs.places, refs.traversals)
        np.testing.assert_array_equal(fusion.predict(route.queries * scale), expected.predict(route.queries))
        np.testing.assert_allclose(
            all_scores(fusion, route.queries * scale), all_scores(expected, route.queries), atol=1e-3
        )

    def test_constant_dimensions(self):
        route = self.refs()
        X = np.hstack([route.references.vectors, np.ones((60, 2), np.float32)])
        Q = np.hstack([route.queries, np.ones((20, 2), np.float32)])
        fusion = DisPlace().fit(X, route.references.places, route.references.traversals)
        assert np.mean(fusion.predict(Q) == route.truth) > 0.5
        with pytest.warns(ConditioningWarning), pytest.raises(SingularScatterError):
            DisPlace(**PAPER).fit(X, route.references.places)

    @pytest.mark.parametrize("name", displace.fusion.FUSIONS.names())
    def test_kinds_of_array(self, name, tmp_path):
        route = self.refs()
        X = np.round(route.references.vectors * 1000)  # integers, exact in all of these
        y, traversals = route.references.places, route.references.traversals
        mapped = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, X.shape)
        mapped[:] = X
        queries = np.round(route.queries * 1000)
        expected = get_fusion(name)().fit(X, y, traversals).predict(queries)
        for other in (
            X.astype(np.float16),
            X.astype(np.float64),
            X.astype(np.int16),
            np.asfortranarray(X),
            np.load(tmp_path / "x.npy", mmap_mode="r"),
            X.tolist(),
        ):
            fusion = get_fusion(name)().fit(other, y, traversals)
            np.testing.assert_array_equal(fusion.predict(queries), expected)

    @pytest.mark.parametrize("name", displace.fusion.FUSIONS.names())
    def test_string_place_ids(self, name):
        route = self.refs()
        ids = np.array([f"place {p:02d}" for p in range(20)])
        numbers = fit(get_fusion(name)(), route.references).predict(route.queries)
        strings = get_fusion(name)().fit(
            route.references.vectors, ids[route.references.places], route.references.traversals
        )
        np.testing.assert_array_equal(strings.predict(route.queries), ids[numbers])

    @pytest.mark.parametrize("name", displace.fusion.FUSIONS.names())
    def test_labels_that_cannot_be_told_apart(self, name):
        X, fusion = np.eye(4), get_fusion(name)()
        with pytest.raises(InputError, match="y has both 'a' and 1: use strings only, or numbers only"):
            fusion.fit(X, np.array([1, "a", 1, "a"], object))
        with pytest.raises(InputError, match="y has None in row 1"):
            fusion.fit(X, np.array(["a", None, "b", "b"], object))
        with pytest.raises(InputError, match="traversals has None in row 2, which names nothing"):
            fusion.fit(X, [0, 1, 0, 1], [1, "a", None, 2])
        with pytest.raises(InputError, match="traversals has nan in row 3"):
            fusion.fit(X, [0, 1, 0, 1], [1, 1, 2, np.nan])

    def test_float64_stays_float64(self):
        route = self.refs()
        fusion = DisPlace().fit(route.references.vectors.astype(np.float64), route.references.places)
        assert fusion.transform(route.queries.astype(np.float64)).dtype == np.float64
        assert fit(DisPlace(), route.references).projection_.dtype == np.float32

    def test_wrong_shapes(self):
        route = self.refs()
        fusion = fit(DisPlace(), route.references)
        with pytest.raises(ValueError, match="10 features"):
            fusion.predict(np.ones((2, 9)))
        with pytest.raises(ValueError, match="Expected 2D array"):
            fusion.predict(np.ones(10))
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            DisPlace().fit(np.ones((3, 2)), [0, 1])
        with pytest.raises(InputError, match=r"traversals must have shape \(3,\)"):
            DisPlace().fit(np.ones((3, 2)), [0, 1, 0], traversals=["sun"])
        with pytest.raises(NotFittedError):
            DisPlace().predict(np.ones((2, 9)))
        for k in (0, 2.5, None, "3", True):
            with pytest.raises(InputError, match=f"k={k!r} must be a whole number of at least 1"):
                fusion.rank(route.queries, k=k)
        assert fusion.rank(route.queries, k=np.int64(2)).places.shape == (20, 2)

    def test_more_components_than_places(self):
        with pytest.raises(
            InputError, match=r"n_components=600 must be .* at least 1 and at most 10 .*20 places"
        ):
            fit(DisPlace(n_components=600), self.refs().references)
        few = make_route(n_places=8, n_traversals=3, dim=10).references
        with pytest.raises(
            InputError, match=r"n_components=9 must be .* at least 1 and at most 7 \(places − 1"
        ):
            fit(DisPlace(n_components=9), few)

    def test_more_neighbours_than_places(self):
        route = self.refs()
        assert fit(DisPlace(), route.references).rank(route.queries, k=100).places.shape == (20, 20)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"tau": 0}, "tau=0 must be a number above 0 and at most 1"),
            ({"tau": 1.5}, "tau=1.5 must be"),
            ({"tau": "0.9"}, "tau='0.9' must be"),
            ({"tau": np.nan}, "tau=nan must be"),
            ({"ridge": -1.0}, "ridge=-1.0 must be 'auto' or a finite number of at least 0"),
            ({"ridge": "none"}, "ridge='none' must be 'auto'"),
            ({"ridge": np.inf}, "ridge=inf must be"),
            ({"ridge": np.nan}, "ridge=nan must be"),
            ({"ridge": None}, "ridge=None must be"),
            ({"center": "yes"}, "center='yes' must be 'auto', True or False"),
            ({"center": None}, "center=None must be"),
            ({"center": 7}, "center=7 must be"),
            ({"n_components": 2.5}, "n_components=2.5 must be None or a whole number"),
            ({"n_components": 0}, "n_components=0 must be"),
            ({"solver": "svd"}, "solver='svd' must be one of auto, gram, direct, staged, qr"),
        ],
    )
    def test_parameters_out_of_range(self, options, message):
        with pytest.raises(InputError, match=message):
            fit(DisPlace(**options), self.refs().references)


class TestPaperSetting:
    def test_too_few_references_raise_and_say_the_way_out(self):
        refs = make_route(n_places=20, n_traversals=3, dim=64).references
        with pytest.raises(
            SingularScatterError, match=r"60 references of 20 places give 40 deviations in 64"
        ) as e:
            fit(DisPlace(**PAPER), refs)
        assert "1.60" in str(e.value)
        assert 'ridge="auto"' in str(e.value)

    def test_poor_sampling_is_warned_about(self):
        refs = make_route(n_places=50, n_traversals=3, dim=30).references  # γ = 0.3
        with pytest.warns(ConditioningWarning, match=r"γ = 0.30: 150 references of 50 places"):
            fit(DisPlace(**PAPER), refs)

    def test_good_sampling_is_not(self):
        refs = make_route(n_places=100, n_traversals=3, dim=30).references  # γ = 0.15
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit(DisPlace(**PAPER), refs)
