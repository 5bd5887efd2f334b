"""Stretches that pass the places of a route in their order, and loops that are driven from another start."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from drives import make_route

from displace.sequence.alignment import align
from displace.sequence.engine import Motion
from displace.sequence.pairing import AROUND, LEAST_STRETCH, Pairing
from displace.sequence.passing import in_order


def found(frames: np.ndarray, confidence: np.ndarray | float = 0.9, surplus: float = 0.0) -> Pairing:
    """A pairing of frames with places; −1 for those off the map."""
    sure = np.broadcast_to(np.asarray(confidence, float), len(frames))
    off = (frames < 0).astype(float)
    at = np.maximum(frames, 0)
    return Pairing(at, at, at, sure, off, Motion(), 1.0, np.full(len(frames), surplus))


def kept(pairing: Pairing) -> np.ndarray:
    result = in_order(pairing)
    dropped = (result.off >= 0.5) & (pairing.off < 0.5)
    assert (result.confidence[dropped] == 0).all()
    np.testing.assert_array_equal(result.confidence[~dropped], pairing.confidence[~dropped])
    flags: np.ndarray = result.off < 0.5
    return flags


@pytest.mark.parametrize("seed", range(20))
def test_the_heaviest_pieces_that_follow_each_other_are_kept(seed: int) -> None:
    rng = np.random.default_rng(seed)
    starts, sizes = rng.permutation(12)[:6] * 40, rng.integers(3, 9, 6)
    pieces = [start + np.arange(size) for start, size in zip(starts, sizes, strict=True)]
    frames = np.concatenate([np.r_[piece, np.full(2, -1)] for piece in pieces])
    confidence = rng.uniform(0.3, 1.0, len(frames))
    flags = kept(found(frames, confidence))

    owner = np.concatenate([np.r_[np.full(size, k), -1, -1] for k, size in enumerate(sizes)])
    weights = [confidence[owner == k].sum() for k in range(6)]

    def follows(chain: tuple[int, ...]) -> bool:
        ends = [(pieces[k][0], pieces[k][-1]) for k in chain]
        return all(b[-1] <= c[0] + AROUND for b, c in pairwise(ends))

    chains = [chain for n in range(1, 7) for chain in combinations(range(6), n) if follows(chain)]
    best = max(sum(weights[k] for k in chain) for chain in chains)
    assert confidence[flags].sum() == pytest.approx(best)


@pytest.mark.parametrize("cut", [40, 160])
def test_a_loop_may_begin_elsewhere(cut: int) -> None:
    """The larger part counts as the route; the 40 frames that come after it, or before, must fit by themselves."""
    frames = np.r_[np.arange(cut, 200), np.arange(cut)]
    enough = LEAST_STRETCH * np.sqrt(200) / 40
    assert kept(found(frames, surplus=1.01 * enough)).all()
    assert kept(found(frames, surplus=0.99 * enough)).sum() == 160


def test_what_is_seen_a_second_time_is_no_loop() -> None:
    frames = np.r_[np.arange(150), np.arange(60, 110)]
    assert kept(found(frames, surplus=9.0)).sum() == 150


def test_no_frame_on_the_map_stays_so() -> None:
    assert not kept(found(np.full(9, -1))).any()


def test_recordings_of_a_loop_from_another_start_are_lined_up_whole() -> None:
    day, night = (make_route(200, 0.45, seed=8, condition=c)[1] for c in range(2))
    at = np.r_[120:200, 0:120]
    lined = align({"day": day, "night": night[at]}, anchor="day")
    places = np.flatnonzero(lined.tracks["day"].references)[lined.tracks["night"].places]
    on = lined.tracks["night"].places >= 0
    assert on.mean() > 0.95
    assert (np.abs(places - at)[on] <= 2).mean() > 0.95
    (note,) = lined.notes
    start, frame = note.split("; from frame ")
    assert start == "night: it drives a loop from another start"
    assert int(frame.split()[0]) == pytest.approx(80, abs=3)
    assert align({"day": day, "night": night}, anchor="day").notes == []
