"""Stretches that the numbers of the places leave out, as states of the chain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from drives import make_route

import displace
from displace.places import Places
from displace.sequence.engine import UNKNOWN, Belief, Blocks, Motion, smooth
from displace.sequence.roadway import Roadway
from displace.sequence.tracking import Tracker
from displace.sequence.weighing import Scale
from displace.sequence.whole_drive import smooth_drive


@pytest.mark.parametrize(
    ("numbers", "positions"),
    [
        ([0, 1, 2, 7, 8], [0, 1, 2, 7, 8]),
        ([5, 15, 25, 65, 75, 115, 125], [0, 1, 2, 6, 7, 11, 12]),
        ([0, 1, 1, 2, 6, 7], [0, 1, 2, 3, 7, 8]),
        ([0.0, 1.2, 2.1, 3.0, 7.6, 8.5], [0, 1, 2, 3, 8, 9]),
    ],
)
def test_what_the_numbers_leave_out_lies_between(numbers: list[float], positions: list[int]) -> None:
    roadway = Roadway.of(np.array(numbers, float))
    assert roadway is not None
    assert roadway.places.tolist() == positions
    assert sorted([*positions, *roadway.between.tolist()]) == list(range(roadway.n_positions))
    assert roadway.arrivals[roadway.between].tolist() == [0.0] * len(roadway.between)
    assert roadway.arrivals.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 1, 2, 3],
        [0, 1, 4, 5],  # reached by a drive that is fast
        [3, 3, 3],
        [7],
        [0, 1, np.nan],
        [0, 1, 2, 1000],  # a route of which next to nothing is mapped: the numbers are no count of places
        [0, 1, 2, 1e300],
    ],
)
def test_numbers_that_leave_out_nothing(numbers: list[float]) -> None:
    assert Roadway.of(np.array(numbers, float)) is None


def shortening(roadway: Roadway, share: float) -> np.ndarray:
    """As a matrix, from each position (row) to each (column)."""
    places = set(roadway.places.tolist())
    matrix = np.eye(roadway.n_positions)
    for position in set(range(roadway.n_positions)) - places:
        matrix[position, position] -= share
        matrix[position, min(place for place in places if place > position)] += share
    return matrix


FEW, MANY = [0, 3, 4, 9], np.cumsum([0, *[3, 1, 2] * 15]).tolist()
"""Positions of places with two gaps, and with thirty."""


@pytest.mark.parametrize("places", [FEW, MANY], ids=["few gaps", "many gaps"])
def test_a_missing_stretch_may_be_shorter_than_its_numbers(places: list[int]) -> None:
    roadway, rng = Roadway(np.array(places)), np.random.default_rng(0)
    n = roadway.n_positions
    for values in (rng.random(n), rng.random((2, n))):
        before, matrix = values.copy(), shortening(roadway, 0.3)
        np.testing.assert_allclose(roadway.shortened(values, 0.3), values @ matrix)
        np.testing.assert_allclose(roadway.shortened_back(values, 0.3), values @ matrix.T)
        np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize("places", [FEW, MANY], ids=["few gaps", "many gaps"])
@pytest.mark.parametrize("lines", [(), (2,)], ids=["a belief", "beliefs at paces"])
def test_values_of_places_are_those_of_their_positions(places: list[int], lines: tuple[int, ...]) -> None:
    roadway = Roadway(np.array(places))
    values = np.random.default_rng(0).random((*lines, len(places)))
    spread = roadway.spread(values, -1.0)
    np.testing.assert_array_equal(spread[..., places], values)
    assert (spread[..., roadway.between] == -1).all()
    np.testing.assert_array_equal(roadway.gathered(spread), values)


def brute_force(ratios: np.ndarray, motion: Motion) -> np.ndarray:
    """Posterior (n, M + 1) of a roadway's positions and of being elsewhere, by summing over all paths."""
    n, m = ratios.shape
    roadway = motion.roadway
    assert roadway is not None
    moves = np.zeros((m, m + 1))
    for position, (step, weight) in itertools.product(range(m), enumerate(motion.steps)):
        moves[position, min(position + step, m)] += weight
    moves = shortening(roadway, motion.back) @ moves
    arrivals = np.zeros(m + 1)
    arrivals[roadway.places] = 1 / len(roadway.places)
    step = np.zeros((m + 1, m + 1))
    step[:m] = (1 - motion.leave) * ((1 - motion.jump) * moves + motion.jump * arrivals)
    step[:m, m] += motion.leave
    step[m] = motion.back * arrivals
    step[m, m] = 1 - motion.back
    likely = np.exp(np.c_[ratios, np.zeros(n)])
    start = (1 - UNKNOWN) * arrivals
    start[m] = UNKNOWN
    posterior = np.zeros((n, m + 1))
    for path in itertools.product(range(m + 1), repeat=n):
        weight = start[path[0]] * likely[0, path[0]]
        for t in range(1, n):
            weight *= step[path[t - 1], path[t]] * likely[t, path[t]]
        posterior[np.arange(n), path] += weight
    return posterior / posterior.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("block", [1, 2, 16])
def test_smoothing_along_a_roadway_is_the_sum_over_all_paths(block: int) -> None:
    roadway = Roadway(np.array([0, 1, 4, 5]))
    ratios = roadway.spread(np.random.default_rng(0).normal(0, 1.5, (5, 4)), 0.0)
    motion = Motion((0.3, 0.4, 0.2, 0.1), jump=0.1, leave=0.05, back=0.2, roadway=roadway)
    found = np.zeros((5, 7))

    def see(frame: int, belief: Belief) -> None:
        found[frame] = [*belief.places, belief.off_map]

    counts = smooth(Blocks.of(ratios), motion, see, block)
    np.testing.assert_allclose(found, brute_force(ratios.astype(np.float16).astype(float), motion), atol=1e-6)
    assert counts.on_map + counts.off_map == pytest.approx(4)
    assert counts.motion(motion).roadway is roadway


def test_what_is_between_is_off_the_map() -> None:
    """A drive of 60 frames, one for each position, of which 20 have no place."""
    at = np.r_[0:20, 40:60]
    roadway = Roadway.of(at.astype(float))
    scores = np.random.default_rng(0).normal(0, 1, (60, 40)).astype(np.float32)
    scores[at, np.arange(40)] += 5
    off = np.zeros(60)

    def see(frame: int, belief: Belief) -> None:
        assert belief.places.shape == (40,)
        assert float(belief.places.sum()) + belief.off_map == pytest.approx(1)
        off[frame] = belief.off_map

    assert smooth_drive(Blocks.of(scores), Scale(), see, roadway=roadway)
    np.testing.assert_array_equal(off > 0.5, ~np.isin(np.arange(60), at))


def test_numbers_left_out_where_nothing_lies_between_cost_few_frames() -> None:
    """A drive of 60 frames along 60 places; that the 31st has the number 50 says nothing about the route."""
    roadway = Roadway.of(np.r_[0:30, 50:80].astype(float))
    scores = np.random.default_rng(0).normal(0, 1, (60, 60)).astype(np.float32)
    scores[np.arange(60), np.arange(60)] += 5
    smoothed, best = np.zeros(60), np.zeros(60, int)

    def see(frame: int, belief: Belief) -> None:
        smoothed[frame], best[frame] = belief.off_map, belief.places.argmax()

    assert smooth_drive(Blocks.of(scores), Scale(), see, roadway=roadway)
    assert (smoothed > 0.5).sum() <= 2
    np.testing.assert_array_equal(best, np.arange(60))
    tracker = Tracker(level=2.2, roadway=roadway)
    beliefs = [tracker.step(1.5 * row) for row in scores]
    assert sum(belief.off_map > 0.5 for belief in beliefs[10:]) <= 4
    assert all(belief.places.argmax() == frame for frame, belief in enumerate(beliefs) if frame >= 34)


N, GONE = 140, slice(60, 74)


def place_map(numbered: bool) -> displace.PlaceMap:
    """A map that lacks a tenth of its route; what it lacks looks like another part of it."""
    keep = np.r_[0 : GONE.start, GONE.stop : N]
    vectors = np.concatenate([alike(c)[keep] for c in range(4)])
    info = Places(keep, frames=(keep if numbered else np.arange(len(keep))).astype(float))
    refs = displace.ReferenceSet(vectors, np.tile(keep, 4), np.repeat(list("abcd"), len(keep)), info=info)
    return displace.build(refs, fusion="hops", tolerance="1 frames")


def alike(condition: int) -> np.ndarray:
    """Frames of a route of which places 60 to 73 look somewhat like 100 to 113."""
    frames = make_route(N, 0.45, seed=6, condition=condition)[1].copy()
    again = make_route(N, 0.45, seed=6, condition=condition + 50)[1][100:114]
    frames[GONE] += 0.7 * again
    return frames


@pytest.mark.parametrize("way", ["followed", "smoothed"])
def test_a_gap_that_resembles_another_street_is_told_by_the_numbers(way: str) -> None:
    told = {}
    gone = np.zeros(N, bool)
    gone[GONE] = True
    for numbered in (False, True):
        along = place_map(numbered)
        follower = along.follow()
        frames = alike(9)
        fixes = along.smooth(frames) if way == "smoothed" else [follower.step(frame) for frame in frames]
        off = np.array([fix.off_map > 0.5 for fix in fixes])
        told[numbered] = (off & gone).sum() / gone.sum(), (off & gone).sum() / max(1, off.sum())
        for fix in fixes:
            assert fix.belief.shape == (N - 14,)
            assert float(fix.belief.sum()) + fix.off_map == pytest.approx(1, abs=1e-3)
    assert told[True][0] > told[False][0] + 0.2
    assert told[True][1] >= 0.8
