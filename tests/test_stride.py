"""Drives that are faster or slower than the one that a map was made of."""

from __future__ import annotations

import numpy as np
import pytest
from drives import make_route

from displace import ReferenceSet, build
from displace.maps.place_map import PlaceMap
from displace.places import Places
from displace.sequence.alignment import align
from displace.sequence.engine import Belief, Blocks, Learner, Motion, paced, rate_told, roughly_paced
from displace.sequence.following import Fix
from displace.sequence.pairing import pair, standardised_recording
from displace.sequence.stride import USUAL, right_in_order, stride, strides, told_strides
from displace.sequence.tracking import Tracker
from displace.sequence.weighing import scores_of_row
from displace.sequence.whole_drive import averaged, for_each

N = 400


def at_rates(*parts: tuple[float, int], seed: int = 0) -> np.ndarray:
    """Places of frames: so many frames of each rate, one after the other, not quite steady."""
    rng = np.random.default_rng(seed)
    steps = np.concatenate([rate * np.exp(rng.normal(0, 0.2, n)) for rate, n in parts])
    return np.rint(5 + np.cumsum(steps)).astype(int)


@pytest.fixture(scope="module")
def seen() -> dict[str, np.ndarray]:
    """One route by day and by night."""
    return {name: make_route(N, 0.42, seed=3, condition=c)[1] for c, name in enumerate(("day", "night"))}


@pytest.fixture(scope="module")
def place_map(seen: dict[str, np.ndarray]) -> PlaceMap:
    ids = np.arange(N)
    info = Places(ids, frames=ids.astype(float))
    return build(ReferenceSet(seen["day"], ids, np.full(N, "day"), info=info), "hops", tolerance="2 frames")


def right(fixes: list[Fix], at: np.ndarray) -> np.ndarray:
    found = np.array([int(fix.place) for fix in fixes])
    flags: np.ndarray = (np.abs(found - at) <= 2) & [fix.off_map < 0.5 for fix in fixes]
    return flags


@pytest.mark.parametrize("rate", [5, 7, 10, 16, 24])
@pytest.mark.parametrize("wrong", [0.0, 0.35])
def test_a_stride_is_told_by_frames_of_which_some_are_wrong(rate: int, wrong: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        best = rate * np.arange(60) + rng.integers(-1, 2, 60)
        best = np.where(rng.random(60) < wrong, rng.integers(0, 60 * rate, 60), best)
        assert stride(best) == pytest.approx(rate, rel=0.25)
        assert (stride(best[::-1].copy()) or 0) <= USUAL  # a drive the other way is none


def test_usual_drives_are_not_fast() -> None:
    for seed in range(20):
        assert stride(at_rates((1.0, 60), seed=seed)) == 1.0
        assert stride(at_rates((0.2, 60), seed=seed)) == 1.0


def test_matches_by_chance_tell_no_stride() -> None:
    told = [
        stride(np.random.default_rng(seed).integers(0, size, 60))
        for size in (40, 200, 2000)
        for seed in range(100)
    ]
    assert sum(rate is not None for rate in told) <= 3


def test_a_drive_may_be_fast_now_and_then() -> None:
    slow, fast = np.arange(60), 8 * np.arange(60)
    assert strides([slow, slow]) == (None, ())
    assert strides([slow, slow, fast]) == (None, (8.0,))
    assert strides([slow, fast, fast]) == (8.0, (1.0,))
    assert strides([np.zeros(3, int)]) == (None, ())


def test_long_drives_are_looked_at_here_and_there() -> None:
    best = np.concatenate([np.arange(3000), 3000 + 5 * np.arange(200)])
    scores = np.zeros((len(best), 4001), np.float32)
    scores[np.arange(len(best)), best] = 1
    assert told_strides(Blocks.of(scores))[0] is None
    assert told_strides(Blocks.of(scores[3000:])) == (5.0, ())


@pytest.mark.parametrize("rate", [3.2, 4.0, 7.7, 12.0, 25.0])
def test_fast_paces_are_their_mean_steps_and_not_quite_steady(rate: float) -> None:
    steps = np.array(paced(rate))
    assert steps.sum() == pytest.approx(1)
    assert steps @ np.arange(len(steps)) == pytest.approx(rate)
    assert (steps > 0).sum() >= round(rate / 2)
    unknown = np.array(roughly_paced(rate))
    assert unknown.sum() == pytest.approx(1)
    assert unknown @ np.arange(len(unknown)) == pytest.approx(rate, abs=0.3)
    assert (unknown > 0).all()  # a step that has no probability is never learned


def test_what_a_drive_does_besides_has_a_pace() -> None:
    motion = Motion(besides=(8.0,)).at_paces(1.0)
    assert [np.dot(pace, np.arange(len(pace))) for pace in motion.paces] == pytest.approx(
        [0.5, 1.0, 2.0, 8.0]
    )


@pytest.mark.parametrize("rate", [5, 8, 12])
def test_a_fast_drive_is_on_the_map(place_map: PlaceMap, seen: dict[str, np.ndarray], rate: int) -> None:
    at = at_rates((rate, 380 // rate))
    at = at[at < N]
    found = right(place_map.smooth(seen["night"][at], adapt="none"), at)
    assert found.mean() >= 0.95
    if rate > 8:  # too few frames to be found on the way
        return
    follower = place_map.follow(adapt="none")
    fixes = [follower.step(frame) for frame in seen["night"][at]]
    assert right(fixes, at)[20:].mean() >= 0.8


@pytest.mark.parametrize("rates", [(1.0, 8.0), (8.0, 1.0)])
def test_a_drive_that_is_fast_for_a_while_is_on_the_map(
    place_map: PlaceMap, seen: dict[str, np.ndarray], rates: tuple[float, float]
) -> None:
    at = at_rates(*((rate, 120 if rate == 1 else 30) for rate in rates))
    frames = seen["night"][at]
    assert right(place_map.smooth(frames, adapt="none"), at).mean() >= 0.95
    follower = place_map.follow(adapt="none")
    clear = make_route(N, 0.6, seed=3, condition=1)[1][at]
    later = right([follower.step(frame) for frame in clear], at)
    assert later[-5:].mean() >= 0.8


def test_a_fast_drive_elsewhere_is_off_the_map(place_map: PlaceMap) -> None:
    elsewhere = make_route(N, 0.42, seed=77)[1][5::6]
    assert all(fix.off_map > 0.5 for fix in place_map.smooth(elsewhere, adapt="none"))
    follower = place_map.follow(adapt="none")
    assert not any(follower.step(frame).probability >= 0.5 for frame in elsewhere)


def test_the_pace_of_a_drive_that_has_a_path_is_learned_and_not_told(seen: dict[str, np.ndarray]) -> None:
    tracker = Tracker(2.2)
    for row in seen["night"][:200] @ seen["day"].T:
        tracker.step(scores_of_row(row, 1.5))
    assert tracker.learner.motion.mean_step < USUAL


@pytest.mark.parametrize("rate", [6, 10])
def test_recordings_of_very_different_rates_are_lined_up(seen: dict[str, np.ndarray], rate: int) -> None:
    few = np.arange(3, N, rate)
    for recordings in (
        {"foot": seen["day"], "car": seen["night"][few]},
        {"car": seen["night"][few], "foot": seen["day"]},
    ):
        tracks = align(recordings, anchor="foot").tracks
        found = np.flatnonzero(tracks["foot"].references)[tracks["car"].places]
        assert (np.abs(found - few) <= 2).mean() >= 0.95
    motion = pair(*(standardised_recording(v) for v in (seen["night"][few], seen["day"]))).motion
    assert motion.mean_step == pytest.approx(rate, rel=0.25)


def between(seen: np.ndarray, at: np.ndarray, seed: int = 0) -> np.ndarray:
    """Frames between places: what both show, in part, and a little of their own."""
    below, share = at.astype(int), (at % 1)[:, None]
    mixed = (1 - share) * seen[below] + share * seen[below + 1]
    own = np.random.default_rng(seed).standard_normal(mixed.shape) / np.sqrt(mixed.shape[1])
    return (mixed + 0.25 * own).astype(np.float32)


@pytest.mark.parametrize("rate", [0.06, 0.12, 0.25])
def test_a_slow_drive_is_on_the_map(place_map: PlaceMap, rate: float) -> None:
    """Frames that show the same place make the same errors: each counting by itself, they would fit anywhere."""
    at = np.arange(100, 150, rate)
    hard = between(make_route(N, 0.3, seed=3, condition=1)[1], at)
    assert right(place_map.smooth(hard, adapt="none"), at).mean() >= 0.9


def test_frames_that_count_together_are_their_mean() -> None:
    values = np.random.default_rng(0).standard_normal((11, 5)).astype(np.float32)
    some = averaged(Blocks.of(values), 3)
    assert some.shape == (4, 5)
    naive = np.stack([values[first : first + 3].mean(axis=0) for first in range(0, 11, 3)])
    np.testing.assert_allclose(some.whole(), naive, rtol=1e-5)
    np.testing.assert_allclose(some.block(slice(1, 3)), naive[1:3], rtol=1e-5)
    seen: list[int] = []
    each = for_each(lambda frame, belief: seen.append(frame), 3, 11)
    for number in reversed(range(4)):
        each(number, Belief.unknown(5))
    assert sorted(seen) == list(range(11))


@pytest.mark.parametrize("n_frames", [40, 150, 1000])
def test_what_frames_tell_is_what_was_learned_without_what_was_assumed(n_frames: int) -> None:
    learner, at = Learner(), np.eye(30, dtype=np.float32)
    for _ in range(n_frames):
        learner.see(at[10], 1.0, at[12])
    told = rate_told(learner.motion, Motion(), n_frames)
    assert told == pytest.approx(2.0, abs=0.1)
    assert learner.motion.mean_step < told
    assert rate_told(Motion(steps=(1.0,)), Motion(), 5) == 0.0


@pytest.mark.parametrize("way", [1, -1])
@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_no_more_matches_are_proved_right_than_are(seed: int, share: float, way: int) -> None:
    rng = np.random.default_rng(seed)
    places = np.arange(N)[::way]
    right = rng.random(N) < share
    in_order, n_right = right_in_order(np.where(right, places, rng.integers(0, N, N)), N)
    assert n_right <= right.sum()
    if share > 0.5:  # of fewer, some stretches prove nothing by themselves
        assert 0.5 * right.sum() < n_right
        assert in_order[right].mean() > 0.8
    assert in_order[~right].sum() <= 0.3 * (~right).sum()


@pytest.mark.parametrize("seed", range(20))
def test_matches_in_no_order_prove_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    some = rng.integers(0, N, 600)
    some[rng.random(600) < 0.3] = 7  # a place that resembles everything
    in_order, n_right = right_in_order(some, N)
    assert not in_order.any()
    assert n_right == 0


def test_photos_from_elsewhere_after_a_drive_are_not_in_order() -> None:
    rng = np.random.default_rng(0)
    in_order, n_right = right_in_order(np.r_[np.arange(200), rng.integers(0, N, 150)], N)
    assert in_order[:190].mean() > 0.95
    assert in_order[210:].mean() < 0.05
    assert 150 < n_right <= 200


@pytest.mark.parametrize("n", [0, 1, 2, 15])
def test_few_matches_prove_nothing(n: int) -> None:
    in_order, n_right = right_in_order(np.arange(n), N)
    assert (in_order.tolist(), n_right) == ([False] * n, 0)
