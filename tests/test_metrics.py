from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from displace.errors import InputError
from displace.matches import Matches
from displace.metrics import WithinFrames, WithinMetres, recall_at


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


def test_frames_of_named_places():
    rule = WithinFrames(
        np.array([100, 200]), tolerance=5, places=np.array(["x", "y"]), place_frames=np.array([104, 300])
    )
    recalls = recall_at([["x"], ["y"]], rule, ks=(1,))
    assert recalls[1] == 50.0
    assert recalls.n_unanswerable == 1
    assert str(recalls) == "R@1 50.0  (±5 frames, 2 queries; 1 without a correct place count as misses)"


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: recall_at([[1, 2]], [1], ks=(1, 5)), "ks has 5, but 2 places are ranked"),
        (lambda: recall_at([[1, 2]], [1], ks=(0,)), "ks has 0"),
        (lambda: recall_at([[1, 2]], [1, 2]), r"truth must have shape \(1,\)"),
        (lambda: recall_at([[1, 2]], [{1}, {2}]), "truth is for 2 queries; ranked_places has 1"),
        (lambda: recall_at([[1, 2]], ["a"]), "use one kind of place id"),
        (lambda: recall_at([["a"]], WithinFrames(np.array([1]), 1)), "place ids are not frame numbers"),
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


def test_fewer_places_than_k_is_complete_when_the_map_is_known():
    assert recall_at([[1, 2, 3]], [3], ks=(1, 10), places=[1, 2, 3]) == {1: 0.0, 10: 100.0}
