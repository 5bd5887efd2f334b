"""Drives and recordings of other streets, which look like those of the map as far as the next corner."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from displace import PlaceMap, ReferenceSet, build
from displace.arrays import l2_normalize
from displace.errors import InputError
from displace.places import Places
from displace.sequence.alignment import LEAST_STRETCH, align, least_gain
from displace.sequence.belonging import (
    BEYOND,
    FEW,
    MOST,
    NEEDED,
    Belonging,
    along_route,
    belongs,
    best_stretch,
)
from displace.sequence.engine import Belief, Blocks
from displace.sequence.hindsight import Hindsight
from displace.sequence.pairing import (
    RESEMBLES,
    SLOPE,
    _compared,
    earned_by_chance,
    earnings,
    pair,
    standardised_recording,
)
from displace.sequence.tracking import Tracker
from displace.sequence.weighing import Scale, scores_of_row
from displace.sequence.whole_drive import smooth_drive

LENGTH = 25
SURPLUS = arrays(np.float64, st.integers(0, 30), elements=st.floats(-5, 5).map(lambda x: round(x, 2)))


def drive(town: int, seed: int, n: int = 250, alike: float = 0.36, noise: float = 0.6) -> np.ndarray:
    """Frames of a drive: how far along a street it is looks the same in every town, the rest is the town's own."""
    dim = 48
    progress = np.random.default_rng(0).normal(size=(LENGTH, dim))
    progress = progress + np.roll(progress, 1, axis=0) + np.roll(progress, 2, axis=0)
    rng = np.random.default_rng(100 + town)
    own = rng.normal(size=(n + 2, dim))
    own = own[:-2] + own[1:-1] + own[2:]
    along = np.concatenate([np.linspace(0, LENGTH - 1, rng.integers(15, 40)) for _ in range(n)])[:n]
    frames = alike * progress[along.astype(int)] + (1 - alike) * own
    seen = frames + noise * np.random.default_rng(seed).normal(size=frames.shape)
    return l2_normalize(seen).astype(np.float32)


def similarity(frames: np.ndarray, alike: float = 0.36, noise: float = 0.6) -> np.ndarray:
    """Of frames to the places of town 1."""
    places = drive(1, 1, alike=alike, noise=noise)
    result: np.ndarray = (frames - frames.mean(axis=0)) @ (places - places.mean(axis=0)).T
    return result


def smoothed(frames: np.ndarray, alike: float = 0.36, noise: float = 0.6) -> list[Belief]:
    beliefs: dict[int, Belief] = {}
    scores = Blocks.of(similarity(frames, alike, noise))
    smooth_drive(scores, Scale(), lambda frame, belief: beliefs.update({frame: belief}))
    return [beliefs[frame] for frame in range(len(frames))]


def followed(frames: np.ndarray) -> list[Belief]:
    tracker = Tracker(2.2)
    return [tracker.step(scores_of_row(row, 1.5)) for row in similarity(frames)]


def told_later(frames: np.ndarray, lag: int = 10) -> list[Belief]:
    """Of each frame, so many frames later."""
    tracker = Tracker(2.2)
    hindsight, told = Hindsight(tracker, lag), []
    for row in similarity(frames):
        hindsight.remember(tracker.step(scores_of_row(row, 1.5)))
        if len(hindsight) > lag:
            told.append(hindsight.ago(lag))
    return told


def sure(beliefs: list[Belief]) -> np.ndarray:
    """Belief of the likeliest place and two beside it."""
    best = [int(belief.places.argmax()) for belief in beliefs]
    masses = [belief.places[max(0, at - 2) : at + 3].sum() for belief, at in zip(beliefs, best, strict=True)]
    return np.array(masses)


def off(beliefs: list[Belief]) -> np.ndarray:
    return np.array([belief.off_map for belief in beliefs])


@given(SURPLUS)
def test_the_best_stretch_is_the_best_of_all(surplus: np.ndarray) -> None:
    ends = range(len(surplus) + 1)
    best = max(surplus[first:last].sum() for first in ends for last in ends if first <= last)
    assert surplus[best_stretch(surplus)].sum() == pytest.approx(best, abs=1e-9)


def test_more_is_needed_of_longer_drives() -> None:
    for frames in (20, 200, 20_000):
        needed = NEEDED * np.log(frames / FEW)
        assert along_route(needed, frames) == pytest.approx(0.5)
        assert along_route(needed + 6, frames) > 0.95 > 0.05 > along_route(needed - 6, frames)
    assert along_route(0.0, 0) == pytest.approx(0.5)
    assert along_route(1e9, 10) == 1


@given(SURPLUS.filter(len))
def test_under_way_it_is_the_best_stretch_so_far(surplus: np.ndarray) -> None:
    watch = Belonging()
    watch._MEMORY = np.inf
    for n, value in enumerate(surplus, start=1):
        expected = along_route(float(surplus[:n][best_stretch(surplus[:n])].sum()), n)
        assert watch.see(1.0 + BEYOND + value, 1.0) == pytest.approx(expected, abs=1e-6)


def test_where_wrong_paths_earn_much_the_right_one_need_not_earn_half_as_much_again() -> None:
    """A night walk through open country earned 1.2 times chance in each of 670 frames, and was told off the map."""
    chance = np.full(300, 4.0)
    probability, stretch = belongs(chance + MOST + 0.2, chance)
    assert probability > 0.99
    assert stretch == slice(0, 300)
    assert belongs(chance + MOST - 0.2, chance)[0] < 0.01
    watch = Belonging()
    assert [watch.see(4.0 + MOST + 0.2, 4.0) for _ in range(300)][-1] > 0.99


def test_what_speaks_for_the_route_is_earned_beyond_chance_there() -> None:
    chance = np.repeat([1.0, 4.0], 150)
    assert belongs(chance + 0.4, chance)[0] < 0.01
    assert belongs(chance + 1.0, chance)[0] > 0.99


def test_what_long_ago_spoke_for_the_route_fades() -> None:
    watch = Belonging()
    known = [watch.see(path, 1.0) for path in [3.0] * 60 + [1.0] * 1500]
    assert known[59] > 0.99
    assert known[-1] < 0.01


def test_chance_below_nothing_asks_for_no_less_than_nothing() -> None:
    path = np.full(50, -0.5)
    assert belongs(path, np.full(50, -3.0)) == (along_route(0.0, 50), slice(0, 0))
    assert Belonging().see(-0.5, -3.0) == along_route(0.0, 1)


@pytest.mark.parametrize("town", [2, 3, 4])
def test_a_drive_through_another_town_is_off_the_map(town: int) -> None:
    beliefs = smoothed(drive(town, 3))
    assert off(beliefs).min() > 0.9
    assert sure(beliefs).max() < 0.1
    for belief in beliefs:
        assert float(belief.places.sum()) + belief.off_map == pytest.approx(1, abs=1e-6)


def test_a_drive_that_finds_no_path_is_off_the_map_afterwards_too() -> None:
    beliefs = smoothed(drive(2, 3, alike=0.0))
    assert off(beliefs).min() > 0.9


def test_a_few_frames_without_a_path_may_be_anywhere() -> None:
    assert off(smoothed(drive(2, 3, n=12, alike=0.0))).max() < 0.5


def test_of_a_clip_that_says_nothing_nobody_knows() -> None:
    """Its frames follow the route's order, as those of a short visit at night do."""
    beliefs = smoothed(drive(2, 3, alike=0.4)[24:54], alike=0.4)
    assert sure(beliefs).max() < 0.5
    assert off(beliefs).max() < 0.5
    for belief in beliefs:
        assert float(belief.places.sum()) + belief.off_map == pytest.approx(1, abs=1e-6)


def test_a_short_clip_of_the_map_is_on_it() -> None:
    beliefs = smoothed(drive(1, 2)[100:112])
    assert np.median(sure(beliefs)) > 0.9
    assert [int(b.places.argmax()) for b in beliefs] == list(range(100, 112))


def test_a_drive_along_the_map_stays_on_it() -> None:
    beliefs = smoothed(drive(1, 2))
    assert off(beliefs).max() < 0.1
    assert np.mean([abs(int(b.places.argmax()) - at) <= 2 for at, b in enumerate(beliefs)]) > 0.99


def test_of_a_drive_that_visits_the_map_the_rest_is_off_it() -> None:
    """Most of it shows streets that earn more than chance does: on average the drive is hardly on the map."""
    elsewhere, here = drive(2, 3, 400, 0.44, 1.6), drive(1, 2, alike=0.44, noise=1.6)
    beliefs = smoothed(np.concatenate([elsewhere[:120], here[60:140], elsewhere[120:]]), 0.44, 1.6)
    assert (off(beliefs)[125:195] < 0.5).mean() > 0.95
    assert (np.r_[off(beliefs)[:115], off(beliefs)[205:]] > 0.5).mean() > 0.9


@pytest.mark.parametrize("alike", [0.36, 0.4])
def test_a_drive_through_another_town_is_followed_without_certainty(alike: float) -> None:
    assert sure(followed(drive(2, 3, alike=alike))).max() < 0.5


def test_later_frames_make_a_drive_through_another_town_no_surer() -> None:
    """Its short paths are certain in hindsight: up to 30 of 180 frames were told with probabilities above 0.8."""
    beliefs = told_later(drive(2, 3, alike=0.4))
    assert sure(beliefs).max() < 0.5
    for belief in beliefs:
        assert float(belief.places.sum()) + belief.off_map == pytest.approx(1, abs=1e-4)
    here = told_later(drive(1, 2))
    assert np.median(sure(here)[15:]) > 0.9


def test_a_drive_that_only_resembles_the_route_is_told_off_it_in_the_end() -> None:
    beliefs = followed(drive(2, 3, n=500, alike=0.4))
    assert off(beliefs)[:60].mean() < 0.5 < (off(beliefs)[300:] > 0.5).mean()


def test_a_drive_along_the_map_is_soon_followed_with_certainty() -> None:
    beliefs = followed(drive(1, 2))
    assert np.median(sure(beliefs)[15:]) > 0.9
    assert off(beliefs).max() < 0.5


def test_a_map_says_that_another_town_is_off_it() -> None:
    ids = np.arange(250)
    refs = ReferenceSet(
        np.concatenate([drive(1, seed) for seed in (1, 5, 6)]),
        np.tile(ids, 3),
        np.repeat(["sun", "rain", "dusk"], 250),
        info=Places(ids, frames=ids),
    )
    place_map: PlaceMap = build(refs, "hops", tolerance="2 frames")
    elsewhere, here = place_map.smooth(drive(2, 3)), place_map.smooth(drive(1, 2))
    assert min(fix.off_map for fix in elsewhere) > 0.5 > max(fix.off_map for fix in here)
    assert max(fix.probability for fix in elsewhere) < 0.5 < np.median([fix.probability for fix in here])


@pytest.mark.parametrize("town", [2, 4])
def test_recordings_of_towns_that_look_alike_are_not_lined_up(town: int) -> None:
    """Their frames fit better in order than backwards."""
    recordings = {"a": drive(1, 1, 200, 0.4, 1.2), "b": drive(town, 3, 200, 0.4, 1.2)}
    found = pair(*(standardised_recording(recordings[name]) for name in ("b", "a")), rounds=1)
    assert found.gain > least_gain(200)
    assert found.stretch < LEAST_STRETCH
    with pytest.raises(
        InputError, match=r"different routes that look alike.*two towns are\. A map needs drives of one"
    ):
        align(recordings, anchor="a")
    assert align(recordings | {"b": drive(1, 3, 200, 0.4, 1.2)}).notes == []


def test_the_stretch_of_a_pair_is_what_it_earns_beyond_chance() -> None:
    one, other = (standardised_recording(drive(1, seed, 120)) for seed in (1, 2))
    scores, motion = _compared(one, other)
    surplus = earnings(scores, SLOPE, motion) - RESEMBLES * earned_by_chance(scores, SLOPE, motion)
    best = max(surplus[first:last].sum() for first in range(120) for last in range(first, 121))
    assert pair(one, other).stretch == pytest.approx(best / np.sqrt(120), rel=1e-6)


def test_frames_that_are_surely_off_the_map_are_told_so():
    """As on a map whose recordings are nearly equal, with a high level: the smoother divided by zero."""
    scores, told = np.random.default_rng(0).standard_normal((5, 50)).astype(np.float32), {}
    assert not smooth_drive(Blocks.of(scores), Scale(level=90.0), told.__setitem__, ordered=False)
    assert [told[frame].off_map for frame in range(5)] == [1.0] * 5
