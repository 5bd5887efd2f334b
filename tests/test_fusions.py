"""The baselines against loops over the definition, with missing references, and their identities."""

from __future__ import annotations

import re

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory import peak_bytes, set_block_bytes

from displace import ReferenceSet, build, get_fusion
from displace.arrays import l2_normalize
from displace.errors import InputError
from displace.fusion.dmat_med import sort_layers
from displace.synthetic import make_route


def fit(name, references, **options):
    return get_fusion(name)(**options).fit(references.vectors, references.places, references.traversals)


def all_scores(fusion, Q):
    """Scores (q, N) in the order of place_ids_."""
    matches = fusion.rank(Q, k=len(fusion.place_ids_))
    order = np.argsort(matches.places, axis=1)
    return np.take_along_axis(matches.scores, order, axis=1)


@pytest.fixture(params=[0.0, 0.4], ids=["complete", "ragged"])
def route(request):
    return make_route(n_places=25, n_traversals=5, dim=12, drop=request.param, seed=5)


def fused_distances(route, fuse):
    """Apply `fuse` to each query's {traversal: {place: distance}}, giving {place: distance}; as scores (q, N)."""
    refs = route.references
    rows = []
    for q in route.queries:
        fused = fuse(naive.distances(refs.vectors, refs.places, refs.traversals, q))
        rows.append([fused[p] for p in refs.place_ids])
    return np.array(rows)


def over_traversals(reduce):
    def fuse(distances):
        places = {p for row in distances.values() for p in row}
        return {p: reduce([row[p] for row in distances.values() if p in row]) for p in places}

    return fuse


@pytest.mark.parametrize(
    ("name", "reduce"),
    [("dmat_avg", np.mean), ("dmat_min", np.min), ("dmat_med", np.median), ("pooling", np.min)],
)
def test_distance_matrices_are_fused_as_defined(route, name, reduce):
    expected = 1 - fused_distances(route, over_traversals(reduce))
    np.testing.assert_allclose(all_scores(fit(name, route.references), route.queries), expected, atol=1e-6)


def test_std_dmat_min_standardises_each_query(route):
    def fuse(distances):
        scaled = {}
        for t, row in distances.items():
            values = np.array(list(row.values()))
            deviation = values.std() or 1.0
            scaled[t] = {p: (d - values.mean()) / deviation for p, d in row.items()}
        return over_traversals(np.min)(scaled)

    expected = -fused_distances(route, fuse)
    scores = all_scores(fit("std_dmat_min", route.references), route.queries)
    np.testing.assert_allclose(scores, expected, atol=2e-4)


def test_std_dmat_min_standardises_each_traversal_over_all_queries(route):
    refs = route.references
    tables = [naive.distances(refs.vectors, refs.places, refs.traversals, q) for q in route.queries]
    moments = {}
    for t in refs.traversal_ids:
        values = np.array([d for table in tables for d in table[t].values()])
        moments[t] = values.mean(), values.std()

    def fuse(distances):
        scaled = {
            t: {p: (d - moments[t][0]) / moments[t][1] for p, d in row.items()}
            for t, row in distances.items()
        }
        return over_traversals(np.min)(scaled)

    expected = -fused_distances(route, fuse)
    scores = all_scores(fit("std_dmat_min", refs, axis="traversal"), route.queries)
    np.testing.assert_allclose(scores, expected, atol=2e-4)


def test_std_dmat_min_of_one_place_in_a_traversal_is_defined():
    refs = ReferenceSet(np.eye(3), ["a", "b", "a"], ["sun", "sun", "rain"])
    assert np.isfinite(all_scores(fit("std_dmat_min", refs), np.eye(3))).all()


def test_bsf_keeps_the_traversals_near_the_best_and_takes_the_mean(route):
    def fuse(distances):
        nearest = {t: min(row.values()) for t, row in distances.items()}
        kept = [t for t in distances if nearest[t] <= 1.2 * min(nearest.values())]
        places = {p for row in distances.values() for p in row}
        used = {p: [distances[t][p] for t in kept if p in distances[t]] for p in places}
        return {p: np.mean(values) / 0.1 if values else np.inf for p, values in used.items()}

    energies = fused_distances(route, fuse)
    posterior = np.exp(-energies) / np.exp(-energies).sum(axis=1, keepdims=True)
    scores = all_scores(fit("bsf", route.references, selection=0.2, scale=0.1), route.queries)
    np.testing.assert_allclose(np.exp(scores), posterior, atol=1e-5)


def test_bsf_limits(route):
    """No tolerance: the best traversal alone, whose best place is dMat Min's. Any: all of them, as dMat Avg."""
    tight = fit("bsf", route.references, selection=0.0).predict(route.queries)
    np.testing.assert_array_equal(tight, fit("dmat_min", route.references).predict(route.queries))
    average = fit("dmat_avg", route.references).rank(route.queries, k=25).places
    for selection in (1e9, np.inf):
        loose = fit("bsf", route.references, selection=selection).rank(route.queries, k=25).places
        np.testing.assert_array_equal(loose, average)


def test_bsf_finds_an_exact_copy_of_a_reference(route):
    """A distance of 0, or of rounding below it, must not empty the selection."""
    refs = route.references
    fusion = fit("bsf", refs, selection=0.0)
    np.testing.assert_array_equal(fusion.predict(refs.vectors), refs.places)


def test_bsf_takes_rounding_for_a_distance_of_nothing():
    refs = ReferenceSet.from_traversals({"sun": np.eye(3), "rain": np.eye(3)[[1, 2, 0]]})
    fusion = fit("bsf", refs, selection=1.0)
    # Similarities of unit vectors come out above 1: twice a negative distance is below it, and none would be kept.
    above = np.array([[[1 + 1e-5, 0.2, 0.1], [0.3, 0.2, 0.4]]], np.float32)
    posterior = fusion._fuse(above.copy())
    assert np.isfinite(posterior).all()
    assert posterior.argmax() == 0
    # Copies of the query in two traversals differ by rounding, and no multiple of a distance of 0 reaches the second.
    distances = np.array(
        [[[0.0, 0.5, 0.6], [6e-8, 0.5, 0.6]], [[0.0, 0.5, 0.6], [1e-4, 0.5, 0.6]]], np.float32
    )
    assert fusion._kept(distances).tolist() == [[True, True], [True, False]]


def test_bsf_without_a_limit_keeps_all_traversals_for_an_exact_copy():
    """The distance is exactly 0 here, and no multiple of it keeps another traversal: ∞·0 is not a number."""
    traversals = {"sun": np.eye(4), "rain": l2_normalize(np.eye(4) + 0.3 * np.roll(np.eye(4), 1, axis=1))}
    refs = ReferenceSet.from_traversals(traversals)
    scores = all_scores(fit("bsf", refs, selection=np.inf), np.eye(4))
    assert np.isfinite(scores).all()
    expected = all_scores(fit("dmat_avg", refs), np.eye(4)) / 0.05
    np.testing.assert_allclose(np.diff(scores, axis=1), np.diff(expected, axis=1), atol=1e-10)


def test_pooling_ranks_as_dmat_min(route):
    ranks = [fit(name, route.references).rank(route.queries, k=25).places for name in ("pooling", "dmat_min")]
    np.testing.assert_array_equal(*ranks)


def test_dmat_avg_is_the_product_with_the_mean_of_unit_references(route):
    refs = route.references
    scaled = ReferenceSet(3 * refs.vectors, refs.places, refs.traversals)
    means = np.array([l2_normalize(scaled.vectors[refs.places == p]).mean(axis=0) for p in refs.place_ids])
    expected = l2_normalize(route.queries) @ means.T
    np.testing.assert_allclose(all_scores(fit("dmat_avg", scaled), route.queries), expected, atol=1e-6)


def test_hops_is_the_normalised_sum_as_given(route):
    refs = route.references
    scaled = ReferenceSet(refs.vectors * np.linspace(1, 3, len(refs))[:, None], refs.places, refs.traversals)
    sums = np.array([scaled.vectors[refs.places == p].sum(axis=0) for p in refs.place_ids])
    expected = l2_normalize(route.queries) @ l2_normalize(sums).T
    np.testing.assert_allclose(all_scores(fit("hops", scaled), route.queries), expected, atol=1e-6)


NAMES = ["displace", "hops", "pooling", "dmat_avg", "dmat_min", "dmat_med", "std_dmat_min", "bsf", "single"]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8)
@given(seed=st.integers(0, 1000))
def test_order_of_labelled_references_never_matters(name, seed):
    route = make_route(n_places=60, n_traversals=4, dim=10, drop=0.3, seed=seed)
    order = np.random.default_rng(seed).permutation(len(route.references))
    a, b = fit(name, route.references), fit(name, route.references.select(order))
    np.testing.assert_array_equal(a.place_ids_, b.place_ids_)
    np.testing.assert_allclose(all_scores(a, route.queries), all_scores(b, route.queries), atol=2e-3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hops", {}),
        ("pooling", {}),
        ("dmat_avg", {}),
        ("dmat_min", {}),
        ("dmat_med", {}),
        ("bsf", {"selection": np.inf}),
        ("single", {"traversal": "t1"}),
        ("displace", {"ridge": 0.1, "center": False}),
        ("displace", {"ridge": 0.1, "center": True}),
    ],
)
@settings(max_examples=8)
@given(seed=st.integers(0, 1000))
def test_a_place_that_is_missing_everywhere_but_once_is_as_good_as_that_reference(name, options, seed):
    """Ragged against padded: a place with one reference scores as if every traversal had that same reference.

    Copies of a reference have no deviation: they scale S_W as a whole, which moves no projected vector's direction.
    """
    route = make_route(n_places=12, n_traversals=3, dim=8, seed=seed)
    refs = route.references
    ragged = refs.select((refs.places != 4) | (refs.traversals == "t1"))
    padded_vectors = refs.vectors.copy()
    padded_vectors[refs.places == 4] = refs.vectors[(refs.places == 4) & (refs.traversals == "t1")]
    padded = ReferenceSet(padded_vectors, refs.places, refs.traversals)
    a = all_scores(fit(name, ragged, **options), route.queries)
    b = all_scores(fit(name, padded, **options), route.queries)
    np.testing.assert_allclose(a, b, atol=1e-4 if name in ("bsf", "displace") else 1e-6)


@settings(max_examples=8)
@given(seed=st.integers(0, 1000))
def test_std_dmat_min_of_a_ragged_set_is_the_best_of_its_complete_parts(seed):
    """A padded reference would move its traversal's mean; what is left out must move nothing there."""
    route = make_route(n_places=12, n_traversals=3, dim=8, seed=seed)
    refs = route.references
    once = refs.places == 4
    ragged = fit("std_dmat_min", refs.select(~once | (refs.traversals == "t1")))
    with_it = fit("std_dmat_min", refs.only("t1"))
    without_it = fit("std_dmat_min", refs.select(~once & (refs.traversals != "t1")))
    expected = all_scores(with_it, route.queries)
    others = np.arange(12) != 4
    expected[:, others] = np.maximum(expected[:, others], all_scores(without_it, route.queries))
    np.testing.assert_allclose(all_scores(ragged, route.queries), expected, atol=1e-5)


def test_two_images_of_one_place_in_one_traversal_count_both():
    refs = ReferenceSet(np.eye(3), ["a", "a", "b"], ["sun", "sun", "sun"])
    query = l2_normalize(np.array([[0.0, 1.0, 0.9]]))
    assert fit("dmat_min", refs).predict(query).tolist() == ["a"]
    np.testing.assert_allclose(all_scores(fit("dmat_avg", refs), query)[0, 0], query[0, :2].mean())


@pytest.mark.parametrize("name", ["pooling", "dmat_avg", "dmat_min", "dmat_med", "std_dmat_min", "bsf"])
def test_fitting_holds_one_copy_of_the_references(name, monkeypatch):
    X = np.random.default_rng(0).standard_normal((4000, 256), np.float32)
    places, traversals = np.tile(np.arange(1000), 4), np.repeat(np.arange(4), 1000)
    set_block_bytes(monkeypatch, X.nbytes // 16)
    peak = peak_bytes(lambda: get_fusion(name)().fit(X, places, traversals))
    assert X.nbytes < peak < 1.5 * X.nbytes


def test_fitting_leaves_the_references_alone(route):
    refs = route.references
    for name in NAMES:
        before = refs.vectors.copy()
        fit(name, refs)
        np.testing.assert_array_equal(refs.vectors, before)


class TestSingle:
    def test_uses_the_traversal_given_and_only_its_places(self):
        refs = ReferenceSet(np.eye(4), ["a", "b", "a", "c"], ["sun", "sun", "rain", "rain"])
        fusion = fit("single", refs, traversal="rain")
        assert fusion.place_ids_.tolist() == ["a", "c"]
        assert fusion.predict(np.eye(4)[2:]).tolist() == ["a", "c"]

    def test_chooses_the_traversal_from_which_the_others_are_found(self):
        rng = np.random.default_rng(0)
        own = rng.normal(size=(60, 12))
        noisy = {"fog": 3.0, "sun": 0.3, "rain": 0.9}
        refs = ReferenceSet.from_traversals(
            {name: own + noise * rng.normal(size=own.shape) for name, noise in noisy.items()}
        )
        fusion = fit("single", refs)
        recalls = {}
        for name in noisy:  # by hand: the other traversals' references against this one
            X, others = refs.only(name).vectors, refs.without(name)
            found = (l2_normalize(others.vectors) @ l2_normalize(X).T).argmax(axis=1)
            recalls[name] = 100 * np.mean(found == others.places)
        assert fusion.traversal_recalls_ == pytest.approx(recalls)
        assert fusion.traversal_ == max(recalls, key=recalls.get) == "sun"

    def test_a_short_traversal_does_not_win_by_answering_its_own_places(self):
        """Four recordings of one street by night, one of the whole town by day."""
        rng = np.random.default_rng(0)
        own, night = rng.normal(size=(200, 16)), 2 * rng.normal(size=(20, 16))
        parts = {"town": own + 0.3 * rng.normal(size=own.shape)}
        parts |= {f"street{i}": own[:20] + night + 0.3 * rng.normal(size=night.shape) for i in range(4)}
        refs = ReferenceSet(
            np.concatenate([*parts.values()]),
            np.concatenate([np.arange(len(part)) for part in parts.values()]),
            np.repeat([*parts], [len(part) for part in parts.values()]),
        )
        fusion = fit("single", refs)
        assert fusion.traversal_ == "town"
        assert all(recall <= 10 for name, recall in fusion.traversal_recalls_.items() if name != "town")

    def test_the_choice_is_by_the_images_that_are_then_used(self):
        """The second image of each place of the first traversal would be good, but the first is what is used."""
        rng = np.random.default_rng(0)
        own = rng.normal(size=(40, 8))
        parts = [rng.normal(size=own.shape), own, own + 0.8 * rng.normal(size=own.shape), own]
        refs = ReferenceSet(
            np.concatenate(parts), [*range(40)] * 4, np.repeat(["blurred", "blurred", "plain", "other"], 40)
        )
        fusion = fit("single", refs)
        assert fusion.traversal_ != "blurred"
        assert fusion.traversal_recalls_["blurred"] < 10

    @pytest.mark.parametrize("traversal", [None, 1, "1"])
    def test_traversals_that_are_numbers_make_a_map(self, traversal):
        rng = np.random.default_rng(0)
        own = rng.normal(size=(30, 8))
        X = np.concatenate([own + noise * rng.normal(size=own.shape) for noise in (2, 0.1, 2)])
        refs = ReferenceSet(X, [*range(30)] * 3)
        fusion = get_fusion("single")(traversal)
        assert fit("single", refs, **fusion.get_params()).traversal_ == 1
        place_map = build(refs, fusion)
        assert place_map.settings == {"traversal": "1"}
        assert place_map.calibration is not None

    def test_unknown_traversal(self):
        refs = ReferenceSet(np.eye(2), ["a", "b"], ["sun", "sun"])
        with pytest.raises(InputError, match="traversal='snow' is none of sun"):
            fit("single", refs, traversal="snow")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bsf", {"likelihood": "cauchy"}, "likelihood='cauchy' must be one of exponential, gaussian"),
        ("bsf", {"selection": -1}, "selection=-1 must be a number of at least 0"),
        ("bsf", {"selection": np.nan}, "selection=nan must be"),
        ("bsf", {"selection": None}, "selection=None must be"),
        ("bsf", {"scale": 0}, "scale=0 must be a finite number above 0"),
        ("bsf", {"scale": np.inf}, "scale=inf must be"),
        ("bsf", {"scale": "0.1"}, "scale='0.1' must be"),
        ("std_dmat_min", {"axis": "place"}, "axis='place' must be one of query, traversal"),
    ],
)
def test_parameters_out_of_range(name, options, message):
    refs = make_route(n_places=5, dim=4).references
    with pytest.raises(InputError, match=message):
        fit(name, refs, **options)


@pytest.mark.parametrize("n_layers", [1, 2, 3, 8, 30])
def test_sorting_network(n_layers):
    layers = np.random.default_rng(0).integers(0, 5, (4, n_layers, 7)).astype(np.float32)
    layers[0, 0, 0] = np.inf
    np.testing.assert_array_equal(sort_layers(layers.copy()), np.sort(layers, axis=1))


def test_gaussian_likelihood_ranks_by_mean_squared_distance(route):
    def fuse(distances):
        return over_traversals(lambda values: np.mean(np.square(values)))(distances)

    expected = fused_distances(route, fuse)
    ranks = (
        fit("bsf", route.references, selection=1e9, likelihood="gaussian").rank(route.queries, k=25).places
    )
    np.testing.assert_array_equal(ranks[:, 0], expected.argmin(axis=1))


@pytest.mark.parametrize("name", ["dmat_med", "std_dmat_min", "bsf"])
def test_a_layer_for_each_traversal_and_no_more(name):
    fusion = get_fusion(name)().fit(np.eye(3)[[0, 1, 2, 0]], [0, 1, 2, 0], ["a", "a", "a", "b"])
    assert fusion.present_.tolist() == [[True, True, True], [True, False, False]]


@pytest.mark.parametrize("axis", ["query", "traversal"])
def test_distances_that_are_all_equal_have_a_deviation_of_one(axis):
    same = np.tile([1.0, 0.0], (4, 1))
    fusion = get_fusion("std_dmat_min")(axis=axis).fit(same, [0, 1, 0, 1], ["a", "a", "b", "b"])
    np.testing.assert_array_equal(fusion.rank(same[:3], k=2).scores, np.zeros((3, 2)))


@pytest.mark.parametrize("axis", ["query", "traversal"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_that_are_equal_but_for_rounding_have_a_deviation_of_one(axis, dtype):
    """A black recording stood one deviation above or below every other: what rounding the mean leaves."""
    vector, queries = np.random.default_rng(0).normal(size=(2, 1, 64)).astype(dtype)
    lengths = np.linspace(0.1, 9, 50, dtype=dtype)[:, None]
    fusion = get_fusion("std_dmat_min")(axis=axis).fit(lengths * vector, np.arange(50))
    np.testing.assert_allclose(fusion.rank(queries, k=50).scores, 0, atol=1e-6)


@pytest.mark.parametrize(
    ("fuse", "shape"),
    [
        (lambda s: s.mean(axis=2), "(7, 3)"),
        (lambda s: s.mean(axis=1).T, "(25, 7)"),
        (lambda s: s[0, 0], "(25,)"),
    ],
)
def test_scores_of_another_shape_are_refused(monkeypatch, fuse, shape):
    """They ranked other places: scores over the wrong axis the first three, whatever the query."""
    route = make_route(n_places=25, n_traversals=3, dim=12, seed=5)
    fusion = fit("dmat_avg", route.references)
    monkeypatch.setattr(fusion, "_fuse", fuse)
    message = f"dMat. Avg.: the scores have shape {shape}, and must have (7, 25): a row for each query"
    with pytest.raises(InputError, match=re.escape(message)):
        fusion.rank(route.queries[:7])


@pytest.mark.parametrize("k", [1, 15, 30, 50])
def test_scores_that_are_no_numbers_are_refused_however_many_places_are_asked_for(monkeypatch, k):
    """From eleven places on it was an error of numpy's about shapes."""
    fusion = get_fusion("hops")().fit(np.eye(50), np.arange(50))
    monkeypatch.setattr(fusion, "_scores", lambda Q: np.where(np.arange(50) % 2, 0.5, np.nan) * Q[:, :1])
    with pytest.raises(InputError, match="HOPS: the scores of 3 of 3 queries are NaN, without order"):
        fusion.rank(np.ones((3, 50)), k=k)
