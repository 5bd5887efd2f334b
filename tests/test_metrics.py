from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from displace.bootstrap import _resampled_means, block_length, bootstrap, paired_bootstrap
from displace.errors import InputError
from displace.matches import Matches
from displace.places import Places
from displace.recall import recall_at
from displace.references import ReferenceSet
from displace.truth import SamePlace, Tolerance, Truth, WithinFrames, WithinMetres


def by_hand(ranked, correct, k):
    """Share (%) of queries with a correct place among the first k, by loops."""
    return 100 * sum(any(correct(i, p) for p in row[:k]) for i, row in enumerate(ranked)) / len(ranked)


@given(st.integers(0, 2**32 - 1))
def test_ids_sets_frames_and_metres_against_loops(seed):
    rng = np.random.default_rng(seed)
    ranked = np.array([rng.permutation(30)[:10] for _ in range(20)])
    truth = rng.integers(0, 30, 20)
    sets = [set(rng.integers(0, 30, rng.integers(0, 4)).tolist()) for _ in range(20)]
    place_positions, positions = rng.uniform(0, 50, (30, 2)), rng.uniform(0, 50, (20, 2))
    frames = WithinFrames(truth, tolerance=2)
    metres = WithinMetres(positions, 9.0, np.arange(30), place_positions)
    for k in (1, 5, 10):
        assert recall_at(ranked, truth)[k] == pytest.approx(by_hand(ranked, lambda i, p: p == truth[i], k))
        assert recall_at(ranked, sets)[k] == pytest.approx(by_hand(ranked, lambda i, p: p in sets[i], k))
        near = by_hand(ranked, lambda i, p: abs(int(p) - int(truth[i])) <= 2, k)
        assert recall_at(ranked, frames)[k] == pytest.approx(near)
        close = by_hand(ranked, lambda i, p: np.hypot(*(place_positions[p] - positions[i])) <= 9, k)
        assert recall_at(ranked, metres)[k] == pytest.approx(close)


def test_matches_and_single_predictions_are_taken_too():
    places = np.array([["a", "b"], ["b", "a"]])
    assert recall_at(Matches(places, np.ones((2, 2))), ["a", "a"], ks=(1, 2)) == {1: 50.0, 2: 100.0}
    assert recall_at(["a", "b"], ["a", "a"]) == {1: 50.0}


@pytest.mark.parametrize("tolerance", range(10))
@pytest.mark.parametrize("length", [1, 2, 4])
def test_between_places_a_tolerance_in_frames_is_that_of_every_frame_of_the_query_s_place(length, tolerance):
    """A map knows the place of a held-out image, and evaluation its frame, too."""
    places, frames = np.repeat(np.arange(8), length), np.arange(8 * length)
    truth = Truth.of(Places(np.arange(8), frames=frames[::length]), f"{tolerance} frames")
    rule = WithinFrames(frames, tolerance, places, frames)
    of_frames = rule.correct(np.tile(np.arange(8), (len(frames), 1)))
    of_places = of_frames.reshape(8, length, 8).all(axis=1)
    np.testing.assert_array_equal(truth.correct(np.arange(8)[None, :], np.arange(8)[:, None]), of_places)


class TestSetsOfCorrectPlaces:
    ranked = np.array([[0, 1], [1, 2], [2, 0]])

    @pytest.mark.parametrize(
        "sets",
        [
            [{0}, {2, 5}, {7, 9}],
            [frozenset([0]), frozenset([2, 5]), frozenset([7, 9])],
            [(0,), [2, 5], np.array([7, 9])],
            [{0: "x"}.keys(), {2: "x", 5: "x"}.keys(), {7: "x"}.keys()],
            np.array([[0, 3], [2, 5], [7, 9]]),
            [np.array([0, 3]), np.array([2, 5]), np.array([7, 9])],
            [iter([0]), iter([2, 5]), iter([7])],
            iter([{0}, {2, 5}, {7}]),
        ],
        ids=["sets", "frozen", "mixed kinds", "keys", "2-D", "equal lengths", "iterators", "one iterator"],
    )
    def test_whatever_holds_places_is_a_set(self, sets):
        recalls = recall_at(self.ranked, sets, ks=(1, 2))
        assert recalls == {1: pytest.approx(100 / 3), 2: pytest.approx(200 / 3)}
        assert recalls.protocol == "sets of correct places"

    def test_neighbours_within_a_radius_as_scikit_learn_returns_them(self):
        at = np.array([[0.0], [10.0], [20.0]])
        neighbours = NearestNeighbors(radius=6.0).fit(at)
        sets = neighbours.radius_neighbors([[0.0], [15.0], [99.0]], return_distance=False)
        assert sets.dtype == object
        recalls = recall_at(self.ranked, sets, ks=(1,), places=[0, 1, 2])
        assert (recalls[1], recalls.n_unanswerable) == (pytest.approx(200 / 3), 1)

    def test_strings(self):
        ranked = [["gate", "tower"], ["tower", "gate"]]
        assert recall_at(ranked, [{"gate"}, {"a longer name", "gate"}], ks=(1, 2)) == {1: 50.0, 2: 100.0}
        assert recall_at(np.array(ranked, object), [["gate"], ["gate"]], ks=(1,)) == {1: 50.0}

    @pytest.mark.parametrize(
        ("ranked", "truth", "message"),
        [
            ([["a"], ["b"]], [{1}, {2}], "truth has 1, but places are ranked such as 'a': use one kind"),
            ([[1], [2]], [{1}, {"b"}], "truth has 'b', but places are ranked such as 1"),
            (np.array([["a"], ["b"]], object), [{1}, {2}], "truth has 1, but places are ranked such as 'a'"),
            (np.array([["a"], ["b"]], object), [1, 2], "truth has 1, but places are ranked such as 'a'"),
            ([[1], [2]], [{1}, 2], r"but 2 for query 1: write a single place as \{2\}"),
            ([[1], [2]], [1, {2}], "but 1 for query 0"),
            ([[1], [2]], {1, 2}, "for each query in order; got set"),
            ([[1], [2]], {0: {1}, 1: {2}}, "for each query in order; got dict"),
            ([["a"]], "a", "for each query in order; got str"),
        ],
    )
    def test_what_cannot_be_compared_is_named(self, ranked, truth, message):
        with pytest.raises(InputError, match=message):
            recall_at(ranked, truth, ks=(1,))


@pytest.mark.parametrize(
    "truth",
    [np.array([1, None], object), [1, np.nan], [{1}, {None}], np.array([[1, 2], [np.nan, np.nan]])],
    ids=["none", "nan", "set of none", "padded"],
)
def test_no_known_place_is_a_miss_and_is_counted(truth):
    recalls = recall_at([[1], [2]], truth, ks=(1,))
    assert (recalls, recalls.n_unanswerable) == ({1: 50.0}, 1)


class Missing:
    """As pandas' NA, which compares with nothing."""

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


@pytest.mark.parametrize("missing", [None, np.nan, Missing()], ids=["none", "nan", "na"])
@pytest.mark.parametrize("places", [None, ["a", "b"]], ids=["map unknown", "map known"])
def test_a_missing_name_is_no_place(missing, places):
    for truth in (np.array(["a", missing], object), ["a", missing], [{"a"}, {missing}]):
        recalls = recall_at([["a"], ["b"]], truth, ks=(1,), places=places)
        assert (recalls, recalls.n_unanswerable) == ({1: 50.0}, 1)
    with pytest.raises(InputError, match=r"places has .* in row 1, which names nothing"):
        ReferenceSet(np.eye(2), np.array(["a", missing], object))


def test_a_place_is_near_by_any_of_its_frames():
    """Four frames are a place: it is right at each of them, and one frame beside it."""
    frames = np.arange(12)
    places = np.array(["p", "q", "r"])[frames // 4]
    rule = WithinFrames(frames, 0, places, frames)
    recalls = recall_at(places, rule)
    assert (recalls, recalls.n_unanswerable) == ({1: 100.0}, 0)
    near = WithinFrames(frames, 1, places, frames).correct(np.full((12, 1), "q"))[:, 0]
    assert np.flatnonzero(near).tolist() == [3, 4, 5, 6, 7, 8]
    assert recall_at(places, rule, places=["q"], unanswerable="drop").n_queries == 4


def test_a_second_lap_passes_the_same_places():
    rule = WithinFrames([101, 1], 1, ["a", "b", "a", "b"], [0, 1, 100, 101])
    assert rule.correct(np.array([["a", "b"], ["a", "b"]])).all()


def test_places_without_a_frame_are_near_nothing():
    rule = WithinFrames([0, 1], 5, ["a", "b"], [np.nan, np.nan])
    assert recall_at([["a"], ["b"]], rule).n_unanswerable == 2


def test_rules_take_what_numpy_takes():
    ranked, at = [["a"], ["b"]], [[0, 0], [0, 99]]
    for rule in (
        SamePlace(["a", "b"]),
        WithinFrames([0, 9], 1, ["a", "b"], [0, 9]),
        WithinMetres(at, 5, ["a", "b"], at),
    ):
        for known in (None, ["a", "b"], {"a", "b"}, np.array(["a", "b"])):
            recalls = recall_at(ranked, rule, places=known)
            assert (recalls[1], recalls.n_unanswerable) == (100.0, 0)


def test_frames_of_named_places():
    rule = WithinFrames(
        np.array([100, 200]), tolerance=5, places=np.array(["x", "y"]), place_frames=np.array([104, 300])
    )
    recalls = recall_at([["x"], ["y"]], rule, ks=(1,))
    assert recalls[1] == 50.0
    assert recalls.n_unanswerable == 1
    assert str(recalls) == "R@1 50.0  (±5 frames, 2 queries; 1 without a correct place count as misses)"


def test_numbers_of_numpy_are_numbers():
    recalls = recall_at([[1, 2], [2, 0]], [2, 2], ks=np.arange(1, 3))
    assert json.loads(json.dumps(recalls)) == {"1": 50.0, "2": 100.0}
    assert str(Tolerance.parse(np.float32(2))) == "within 2 m"


def test_sets_of_right_places_may_be_tensors():
    """The items of a tensor are tensors, which equal no number."""
    torch = pytest.importorskip("torch")
    for truth in ([torch.tensor([1, 7]), torch.tensor([0])], [{torch.tensor(1)}, {torch.tensor(0)}]):
        recalls = recall_at([[1, 2], [2, 0]], truth, ks=(1, 2))
        assert (recalls[1], recalls[2], recalls.n_unanswerable) == (50, 100, 0)


def test_flags_are_no_truth_and_rankings_have_one_length():
    with pytest.raises(InputError, match="truth is True or False for each query: give the id of its place"):
        recall_at([[1, 2], [0, 1]], [True, False])
    mask = np.array([[False, True, False], [True, False, True]])
    with pytest.raises(
        InputError, match=r"truth has sets of True and False: .*\[place_ids\[row\] for row in mask\]"
    ):
        recall_at([[1, 2], [0, 1]], mask)
    assert recall_at([[1, 2], [0, 1]], [np.arange(3)[row] for row in mask], ks=(1,))[1] == 100
    with pytest.raises(InputError, match="rankings of unequal lengths"):
        recall_at([[1, 2], [1]], [1, 1])


@pytest.mark.parametrize("n_right", [255, 275])
def test_recalls_are_rounded_once(n_right):
    """255 of 400 are 63.75 %; 100 times the mean is a little less, and was printed as 63.7."""
    places = np.where(np.arange(400) < n_right, 1, 2)
    assert recall_at(places, np.ones(400, int), ks=(1,))[1] == n_right / 4
    assert bootstrap(places == 1, n_samples=1).value == n_right / 4


class TestQueriesWithoutACorrectPlace:
    ranked = np.array([[0], [1], [2]])

    def test_count_as_misses_and_are_counted(self):
        recalls = recall_at(self.ranked, [0, 1, 99], ks=(1,), places=[0, 1, 2])
        assert recalls[1] == pytest.approx(200 / 3)
        assert (recalls.n_queries, recalls.n_unanswerable) == (3, 1)

    def test_can_be_dropped_and_it_says_so(self):
        recalls = recall_at(self.ranked, [0, 1, 99], ks=(1,), places=[0, 1, 2], unanswerable="drop")
        assert recalls[1] == 100.0
        assert str(recalls) == "R@1 100.0  (exact place, 2 queries; 1 without a correct place left out)"

    @pytest.mark.parametrize(
        "truth", [[0, 1, 99], WithinFrames(np.array([0, 1, 99]), 1)], ids=["ids", "frames"]
    )
    def test_cannot_be_dropped_where_the_map_is_not_known(self, truth):
        with pytest.raises(InputError, match="unanswerable='drop' needs places=, the ids"):
            recall_at(self.ranked, truth, ks=(1,), unanswerable="drop")
        assert recall_at(self.ranked, truth, ks=(1,), places=[0, 1, 2], unanswerable="drop").n_queries == 2

    def test_empty_sets_are_dropped_without_a_map(self):
        assert recall_at(self.ranked, [{0}, set(), {7}], ks=(1,), unanswerable="drop").n_queries == 2

    def test_empty_sets(self):
        recalls = recall_at(self.ranked, [{0}, set(), {7}], ks=(1,), places=[0, 1, 2])
        assert recalls[1] == pytest.approx(100 / 3)
        assert recalls.n_unanswerable == 2

    def test_frames_in_the_map(self):
        rule = WithinFrames(np.array([0, 5, 50]), tolerance=3)
        assert recall_at(self.ranked, rule, ks=(1,), places=[0, 1, 2]).n_unanswerable == 1

    def test_metres(self):
        rule = WithinMetres(np.array([[0.0, 0], [0, 30], [0, 60]]), 25, np.arange(3), np.zeros((3, 2)))
        recalls = recall_at(self.ranked, rule, ks=(1,), unanswerable="drop")
        assert (recalls[1], recalls.n_queries, recalls.protocol) == (100.0, 1, "within 25 m")

    def test_positions_that_are_not_known(self):
        """A query at NaN is near no place, and nothing is near a place at NaN."""
        queries = np.array([[0.0, 0.0], [np.nan, 0.0], [50.0, 0.0]])
        place_positions = np.array([[0.0, 0.0], [1.0, 0.0], [np.nan, np.nan]])
        rule = WithinMetres(queries, 25, np.arange(3), place_positions)
        for options in ({}, {"places": [0, 1, 2]}):
            recalls = recall_at(self.ranked, rule, ks=(1,), **options)
            assert (recalls[1], recalls.n_unanswerable) == (pytest.approx(100 / 3), 2)
        nowhere = WithinMetres(queries, 25, np.arange(3), np.full((3, 2), np.nan))
        assert recall_at(self.ranked, nowhere, ks=(1,)).n_unanswerable == 3


def test_rankings_truth_and_ks_may_be_generated():
    rankings, truth = [[1, 2], [2, 1]], [1, 1]
    found = recall_at(iter(rankings), (place for place in truth), ks=(k for k in (1, 2)))
    assert found == recall_at(rankings, truth, ks=(1, 2)) == {1: 50.0, 2: 100.0}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: recall_at([[1, 2]], [1], ks=(1, 5)), "ks has 5, but 2 places are ranked"),
        (lambda: recall_at([[1, 2]], [1], ks=(0,)), "ks has 0"),
        (lambda: recall_at([[1, 2]], [1], ks=5), "ks=5 must be a sequence of whole numbers"),
        (lambda: recall_at([[1, 2]], [1], ks=(1, 2.5)), r"ks=\(1, 2.5\) must be"),
        (lambda: recall_at([[1, 2]], [1], ks=(True,)), r"ks=\(True,\) must be"),
        (
            lambda: recall_at([[1, 2]], [1], ks=()),
            r"ks=\(\) must be a sequence of whole numbers, at least one",
        ),
        (lambda: WithinFrames(np.array([1]), -2), "tolerance=-2 must be at least 0 frames, and finite"),
        (lambda: WithinFrames(np.array([1]), np.nan), "tolerance=nan must be at least 0 frames"),
        (
            lambda: WithinMetres(np.zeros((1, 2)), np.nan, np.arange(3), np.zeros((3, 2))),
            "radius=nan must be",
        ),
        (lambda: Tolerance("frames", np.nan), "tolerance=nan must be at least 0 frames"),
        (lambda: Tolerance("metres", -1), "tolerance=-1 must be at least 0 metres"),
        (lambda: Tolerance.parse(np.inf), "tolerance=inf must be at least 0 metres, and finite"),
        (lambda: recall_at([[1, 2]], [1, 2]), "truth is for 2 queries, and ranked_places has 1: both"),
        (lambda: recall_at([[1, 2]], [{1}, {2}]), "truth is for 2 queries, and ranked_places has 1"),
        (lambda: recall_at([[1, 2]], ["a"]), "use one kind of place id"),
        (lambda: recall_at([["a"]], np.array([b"a"])), "truth has b'a', but places are ranked such as 'a'"),
        (lambda: recall_at([["a"]], [{b"a", "a"}]), "truth has b'a', but places are ranked such as 'a'"),
        (
            lambda: WithinMetres([[0, 0]], 25, ["a", "b", "a"], [[0, 0], [9, 9], [50, 0]]),
            "places has 'a' twice: give one position of each place",
        ),
        (
            lambda: recall_at([[1]], WithinMetres([[0, 0]], 25, [], np.empty((0, 2)))),
            "no place has a frame or position",
        ),
        (lambda: recall_at([["a"]], WithinFrames(np.array([1]), 1)), "place ids are not frame numbers"),
        (lambda: WithinFrames(np.zeros((3, 1)), 1), r"frames must have shape \(q,\); got shape \(3, 1\)"),
        (lambda: WithinFrames([1], "1"), "tolerance='1' must be a number of frames"),
        (lambda: WithinFrames(["a"], 1), "frames must be numbers; got dtype <U1"),
        (lambda: WithinFrames([1], 1, place_frames=[1]), "place_frames needs places="),
        (lambda: WithinFrames([1], 1, [1, 2], [1, 2, 3]), r"place_frames must have shape \(2,\); got"),
        (
            lambda: WithinMetres([[0, 0]], [1, 2], [[0, 0]] * 2, 25),
            r"radius=\[1, 2\] must be a number of metres",
        ),
        (
            lambda: WithinMetres([0, 0], 25, [1], [[0, 0]]),
            r"positions must have shape \(q, 2\); got shape \(2,\)",
        ),
        (lambda: WithinMetres([[0, 0]], 25, [1, 2], [[0, 0]]), r"place_positions must have shape \(2, 2\)"),
        (lambda: SamePlace(np.zeros((2, 2))), r"places must have shape \(q,\); got shape \(2, 2\)"),
        (lambda: recall_at([[0.25, 0.5]], [1]), r"ranked_places has 0.25, which names no place: .*argsort"),
        (
            lambda: recall_at([[1]], [1], places=["1"]),
            "places has '1', but places are ranked such as 1: use one",
        ),
        (
            lambda: recall_at([[1]], [1], places=[[1, 2]]),
            r"places must have shape \(N,\), the id of each place",
        ),
        (lambda: recall_at(np.empty((0, 5)), []), "no queries"),
        (lambda: recall_at([[1]], [1], unanswerable="skip"), "must be 'miss' or 'drop'"),
        (lambda: recall_at([[1]], [5], places=[1], unanswerable="drop"), "nothing is left to count"),
        (
            lambda: recall_at([[9]], WithinMetres(np.zeros((1, 2)), 5, np.arange(3), np.zeros((3, 2)))),
            "place .*9.* has no frame or position",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("ks", [(1, 5, 10), [1, 5, 10], np.array([1, 5, 10])], ids=["tuple", "list", "array"])
def test_the_default_ks_mean_the_same_when_written_out(ks):
    ranked = np.arange(5)[None]
    assert recall_at(ranked, [4], ks) == recall_at(ranked, [4]) == {1: 0.0, 5: 100.0}
    complete = {"places": np.arange(5)}
    assert recall_at(ranked, [4], ks, **complete) == recall_at(ranked, [4], **complete)
    assert recall_at(ranked, [4], **complete) == {1: 0.0, 5: 100.0, 10: 100.0}


def test_fewer_places_than_k_is_complete_when_the_map_is_known():
    assert recall_at([[1, 2, 3]], [3], ks=(1, 10), places=[1, 2, 3]) == {1: 0.0, 10: 100.0}


def naive_bootstrap(values, groups, n_samples, seed):
    """Resample queries one by one within each group, by loops."""
    rng = np.random.default_rng(seed)
    means = []
    for _ in range(n_samples):
        parts = [values[groups == g] for g in sorted(set(groups.tolist()))]
        means.append(np.mean([part[rng.integers(0, len(part), len(part))].mean() for part in parts]))
    return 100 * np.quantile(means, [0.025, 0.975])


class TestBootstrap:
    rng = np.random.default_rng(5)
    hits = rng.random(300) < 0.8
    other = np.where(rng.random(300) < 0.85, hits, rng.random(300) < 0.5)
    groups = np.repeat(["dusk", "rain", "sun"], [50, 100, 150])

    def test_the_interval_of_a_share_is_the_binomial_one(self):
        estimate = bootstrap(self.hits)
        share = self.hits.mean()
        half = 1.96 * np.sqrt(share * (1 - share) / 300)
        assert estimate.value == pytest.approx(100 * share)
        np.testing.assert_allclose(
            [estimate.low, estimate.high], [100 * (share - half), 100 * (share + half)], atol=0.5
        )

    def test_groups_against_loops(self):
        estimate = bootstrap(self.hits, groups=self.groups)
        assert estimate.value == pytest.approx(
            100 * np.mean([self.hits[self.groups == g].mean() for g in ("dusk", "rain", "sun")])
        )
        low, high = naive_bootstrap(self.hits.astype(float), self.groups, 4000, seed=1)
        np.testing.assert_allclose([estimate.low, estimate.high], [low, high], atol=0.5)

    def test_pairs_against_loops(self):
        estimate = paired_bootstrap(self.hits, self.other, groups=self.groups)
        difference = self.hits.astype(float) - self.other
        low, high = naive_bootstrap(difference, self.groups, 4000, seed=1)
        np.testing.assert_allclose([estimate.low, estimate.high], [low, high], atol=0.4)

    def test_pairing_narrows_the_interval(self):
        paired = paired_bootstrap(self.hits, self.other)
        a, b = bootstrap(self.hits), bootstrap(self.other)
        alone = np.hypot(a.high - a.low, b.high - b.low)
        assert paired.high - paired.low < 0.8 * alone

    def test_numbers_of_many_values_against_loops(self):
        values = self.rng.normal(size=200)
        estimate = bootstrap(values)
        low, high = naive_bootstrap(values, np.zeros(200), 4000, seed=2)
        np.testing.assert_allclose([estimate.low, estimate.high], [low, high], atol=1.0)

    def test_the_interval_covers_the_truth_about_as_often_as_it_says(self):
        rng = np.random.default_rng(0)
        truth = 70.0
        estimates = [bootstrap(rng.random(400) < truth / 100, n_samples=1000, level=0.9) for _ in range(300)]
        assert 0.85 <= np.mean([e.low <= truth <= e.high for e in estimates]) <= 0.95

    def test_equal_seeds_give_equal_intervals(self):
        values = np.linspace(0, 1, 50)  # hits alone take too few values to tell seeds apart
        assert bootstrap(values) == bootstrap(values)
        assert bootstrap(values, seed=1) != bootstrap(values, seed=2)

    def test_queries_of_no_named_condition_are_one_condition(self):
        named = bootstrap([1, 0, 1, 1], groups=[1.0, 2.0, 1.0, 2.0])
        assert bootstrap([1, 0, 1, 1], groups=[1.0, np.nan, 1.0, np.nan]) == named

    def test_no_width_where_all_are_found(self):
        assert str(bootstrap([True, True])) == "100.0 [100.0, 100.0]"

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (
                lambda: bootstrap([True], order=[1, 2]),
                r"order must have shape \(1,\), a number for each query",
            ),
            (lambda: bootstrap([]), r"at least one; got shape \(0,\)"),
            (lambda: bootstrap([[True]]), r"got shape \(1, 1\)"),
            (lambda: bootstrap([1.0, np.nan]), "hits has NaN or infinity, of which there is no mean"),
            (lambda: bootstrap([True], level=1.5), "level=1.5 must be above 0 and below 1"),
            (lambda: bootstrap([True], n_samples=0), "n_samples=0 must be a whole number of at least 1"),
            (lambda: bootstrap([True], groups=["a", "b"]), r"groups must have shape \(1,\)"),
            (lambda: paired_bootstrap([True], [True, False]), r"same queries; got shapes \(1,\) and \(2,\)"),
        ],
    )
    def test_bad_input_is_named(self, call, message):
        with pytest.raises(InputError, match=message):
            call()


def drive(n, share, correlation, rng):
    """Hits of which neighbours are alike: ``correlation ** lag`` is the correlation of two frames."""
    fresh, hits = rng.random(n) >= correlation, rng.random(n) < share
    return hits[np.maximum.accumulate(np.where(fresh, np.arange(n), 0))]


def naive_blocks(values, length, n_samples, seed):
    """Means of samples of circular blocks, by loops."""
    rng, n = np.random.default_rng(seed), len(values)
    means = []
    for _ in range(n_samples):
        starts = rng.integers(0, n, -(-n // length))
        rows = np.concatenate([np.arange(start, start + length) for start in starts])[:n] % n
        means.append(values[rows].mean())
    return np.array(means)


def covers(estimates, truth):
    return np.mean([estimate.low <= truth <= estimate.high for estimate in estimates])


class TestBlocksOfNeighbours:
    """Frames of a drive that are found or missed together."""

    TEN = np.exp(-1 / 10)
    """Correlation of neighbours with a correlation length of ten frames."""

    def test_a_drive_is_covered_as_often_as_it_says_and_by_single_queries_is_not(self):
        rng, order = np.random.default_rng(0), np.arange(400)
        drives = [drive(400, 0.7, self.TEN, rng) for _ in range(400)]
        assert covers([bootstrap(hits, order=order, n_samples=1000) for hits in drives], 70) >= 0.92
        assert covers([bootstrap(hits, n_samples=1000) for hits in drives], 70) < 0.5

    def test_differences_of_two_methods_too(self):
        rng, order = np.random.default_rng(1), np.arange(400)
        pairs = [(drive(400, 0.7, self.TEN, rng), drive(400, 0.6, self.TEN, rng)) for _ in range(300)]
        of_blocks = [paired_bootstrap(*pair, order=order, n_samples=1000) for pair in pairs]
        assert covers(of_blocks, 10) >= 0.92
        assert covers([paired_bootstrap(*pair, n_samples=1000) for pair in pairs], 10) < 0.5

    def test_without_correlation_it_is_the_interval_of_single_queries(self):
        rng = np.random.default_rng(2)
        drives = [rng.random(400) < 0.7 for _ in range(100)]
        same = [bootstrap(hits, order=np.arange(400)) == bootstrap(hits) for hits in drives]
        assert np.mean(same) >= 0.95

    def test_the_length_is_what_theory_gives(self):
        """Of an autoregressive series, G/g is 2ρ/(1 − ρ²)."""
        rng = np.random.default_rng(3)
        for correlation in (0.3, 0.6, 0.9):
            best = (1.5 * 20_000 * (2 * correlation / (1 - correlation**2)) ** 2) ** (1 / 3)
            found = np.mean([block_length(drive(20_000, 0.5, correlation, rng)) for _ in range(5)])
            assert found == pytest.approx(best, rel=0.15)

    def test_the_length_has_bounds(self):
        assert block_length(np.arange(900) < 450) <= 90
        assert block_length(np.arange(30) < 15) <= 10
        assert block_length([True, False]) == block_length([True] * 100) == block_length([0.1] * 100) == 1
        assert block_length(np.arange(100) % 2) == 1

    def test_blocks_against_loops(self):
        """All but the widening: 50 values of which the last block is cut off."""
        values = np.repeat([0.0, 1.0, 1.0, 0.0, 1.0], 10) + 0.0
        length = block_length(values)
        assert length > 1
        assert 50 % length
        rng = np.random.default_rng(0)
        drawn = _resampled_means(values, length, 20_000, rng)
        loops = naive_blocks(values, length, 20_000, seed=1)
        quantiles = np.linspace(0.02, 0.98, 9)
        np.testing.assert_allclose(np.quantile(drawn, quantiles), np.quantile(loops, quantiles), atol=0.02)
        scattered = values + np.linspace(0, 1e-3, 50)  # every block is another: drawn one by one
        np.testing.assert_allclose(
            _resampled_means(scattered, length, 20_000, rng).std(), drawn.std(), rtol=0.03
        )

    def test_the_order_counts_not_the_listing(self):
        rng = np.random.default_rng(4)
        hits, other = drive(300, 0.7, 0.8, rng), drive(300, 0.7, 0.8, rng)
        shuffled = rng.permutation(300)
        found = paired_bootstrap(hits, other, order=np.arange(300))
        assert found.block > 1
        assert paired_bootstrap(hits[shuffled], other[shuffled], order=shuffled) == found

    def test_each_condition_has_its_own_blocks(self):
        rng = np.random.default_rng(5)
        hits = np.concatenate([drive(300, 0.7, 0.8, rng), rng.random(300) < 0.7])
        groups, frames = np.repeat(["drive", "photos"], 300), np.arange(600.0)
        both = bootstrap(hits, groups=groups, order=frames)
        photos = bootstrap(hits, groups=groups, order=np.where(groups == "drive", frames, np.nan))
        assert both.block == photos.block == block_length(hits[:300])
        assert both == photos
        assert bootstrap(hits, groups=groups, order=np.full(600, np.nan)) == bootstrap(hits, groups=groups)

    def test_no_interval_leaves_what_recalls_can_be(self):
        hits = np.repeat([True, True, True, False], 5)
        found = bootstrap(np.tile(hits, 3), order=np.arange(60))
        assert found.block > 1
        assert 0 <= found.low < found.high <= 100


def test_an_image_without_a_place_is_a_miss_also_where_a_place_is_called_0():
    """Places that are numbers are 0 where there is none, and have no score."""
    found = Matches(np.array([[3, 0], [0, 0]]), np.array([[0.9, 0.8], [np.nan, np.nan]]))
    assert recall_at(found, [3, 0], ks=(1, 2)) == {1: 50.0, 2: 50.0}
    assert recall_at(found, [0, 3], ks=(1, 2)) == {1: 0.0, 2: 50.0}
