"""Hard drives along a route told from drives through streets that look like it, by what the route's order saves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_belonging import drive, off, smoothed

from displace.sequence import continuity
from displace.sequence.alignment import LEAST_STRETCH, align, least_gain
from displace.sequence.belonging import belongs
from displace.sequence.continuity import BLOCK, MOST, ORDERS, continues, rearranged
from displace.sequence.engine import Blocks, Floats, Motion
from displace.sequence.pairing import goes_on, pair, standardised_recording
from displace.sequence.weighing import backwards, earnings

HARD = {"alike": 0.44, "noise": 2.8}
"""A night whose frames earn little more than those of another town do."""


@given(st.integers(4 * BLOCK, 20 * BLOCK), st.integers(0, 100))
def test_a_rearranged_route_has_every_place_and_no_two_blocks_in_a_row(n_places: int, seed: int) -> None:
    order = rearranged(n_places, np.random.default_rng(seed))
    assert sorted(order.tolist()) == list(range(n_places))
    ends = np.flatnonzero(np.diff(order) != 1)
    lengths = np.diff(np.r_[-1, ends, n_places - 1])
    assert lengths.max() <= BLOCK
    assert (lengths == BLOCK).sum() >= n_places // BLOCK - 1


def test_scores_are_rearranged_for_the_frames_that_are_compared() -> None:
    scores = np.arange(20.0).reshape(5, 4)
    some = Blocks.of(scores).part(slice(1, 4), np.array([2, 3, 0, 1]))
    assert some.shape == (3, 4)
    assert some.block(slice(1, 3)).tolist() == scores[2:4][:, [2, 3, 0, 1]].tolist()


def numbered(n_frames: int, n_places: int) -> Blocks:
    """Scores that tell their frame and, by the part after the point, their place."""
    return Blocks.of(np.arange(n_frames)[:, None] + np.arange(n_places) / n_places)


class Asked:
    """Earnings that are known beforehand, of `numbered` scores: of the true order, and of each other one in turn."""

    def __init__(self, true: float, others: list[float]) -> None:
        self.true, self.others, self.frames = true, iter(others), set[tuple[int, int]]()

    def __call__(self, scores: Blocks, slope: float, motion: Motion) -> Floats:
        assert slope == 1.5
        assert motion.jump == 0.01
        values = scores.whole()
        self.frames.add((int(values[0].min()), int(values[-1].min()) + 1))
        in_order = (np.diff(values[0]) > 0).all()
        return np.full(1, self.true if in_order else next(self.others))


Told = Callable[..., float]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What `continues` says, given what the true order and the others earn."""

    def ask(
        true: float, others: list[float], n_frames: int = 300, n_places: int = 400, rate: float = 1.0
    ) -> float:
        monkeypatch.setattr(continuity, "earnings", Asked(true, others))
        motion = Motion((1 - rate, rate), jump=0.01)
        return continues(numbered(n_frames, n_places), 1.5, motion, slice(0, n_frames), usual=0.4)

    return ask


def test_what_is_saved_is_compared_with_what_all_jumps_cost(told: Told) -> None:
    """A drive of 300 frames passes 10 blocks of 30, and each jump costs log(400 / 0.01) nats."""
    others = list(range(100, 100 + ORDERS))
    cost = 10 * np.log(400 / 0.01)
    level = np.mean(others) + 0.4 * cost + 2
    assert told(level, others) == pytest.approx(0.5)
    assert told(level + 3, others) == pytest.approx(1 / (1 + np.exp(-3)))
    assert told(level - 1e6, others) < 1e-20 < 1 == told(level + 1e6, others)
    assert told(level - 0.2 * cost, others, rate=0.5) == pytest.approx(0.5)


def test_a_short_route_tells_nothing(told: Told) -> None:
    assert told(1e6, [0.0] * ORDERS, n_places=4 * BLOCK - 1) == 0
    assert told(1e6, [0.0] * ORDERS, n_places=4 * BLOCK) == 1


@pytest.mark.parametrize(
    ("around", "compared"),
    [
        (slice(0, 40), (0, MOST)),
        (slice(1000, 1100), (750, 750 + MOST)),
        (slice(1990, 2000), (2000 - MOST, 2000)),
    ],
)
def test_of_a_long_drive_the_frames_around_its_best_stretch_are_compared(
    around: slice, compared: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(0.0, [0.0] * ORDERS)
    monkeypatch.setattr(continuity, "earnings", asked)
    continues(numbered(2000, 150), 1.5, Motion(jump=0.01), around, usual=0.4)
    assert asked.frames == {compared}


def test_a_hard_night_along_the_map_is_on_it() -> None:
    """All of its places were right, and all of its frames were reported off the map."""
    frames = drive(1, 3, **HARD)
    beliefs = smoothed(frames, **HARD)
    assert off(beliefs).max() < 0.5
    assert np.mean([abs(int(b.places.argmax()) - at) <= 2 for at, b in enumerate(beliefs)]) > 0.95


@pytest.mark.parametrize("town", [2, 3])
@pytest.mark.parametrize("alike", [0.36, 0.4])
def test_the_order_saves_a_drive_through_another_town_little(town: int, alike: float) -> None:
    """Its frames follow the route's order more than the reversed one."""
    places, frames = (drive(at, seed, alike=alike) for at, seed in ((1, 1), (town, 3)))
    similarity = (frames - frames.mean(axis=0)) @ (places - places.mean(axis=0)).T
    scores = Blocks.of((similarity - similarity.mean(1)[:, None]) / similarity.std(1)[:, None])
    path, chance = (earnings(way, 1.5, Motion()) for way in (scores, backwards(scores)))
    assert path.mean() > chance.mean() + 0.3
    _, stretch = belongs(path, chance)
    assert continues(scores, 1.5, Motion(), stretch, usual=0.37) < 0.01


def test_recordings_that_go_on_along_each_other_are_lined_up() -> None:
    """They were refused: their frames earn hardly more in order than backwards, and no more than those of two towns."""
    day, night, elsewhere = (drive(town, seed, 250, 0.44, 3.2) for town, seed in ((1, 1), (1, 3), (2, 3)))
    ready = [standardised_recording(frames) for frames in (night, day, elsewhere)]
    found = pair(*ready[:2], rounds=1)
    assert found.gain < least_gain(250)
    assert found.stretch < LEAST_STRETCH
    assert goes_on(*ready[:2])
    assert not goes_on(ready[2], ready[1])
    track = align({"day": day, "night": night}, anchor="day").tracks["night"]
    placed = track.places >= 0
    assert placed.mean() > 0.9
    assert np.mean(np.abs(track.places - np.arange(250))[placed] <= 2) > 0.9
