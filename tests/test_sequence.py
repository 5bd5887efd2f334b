"""The chain against brute force, sequence methods on generated drives, and where order does not help."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from drives import drive_along, make_mixed_scenery, make_route

from displace.arrays import l2_normalize
from displace.sequence import SEQUENCES, engine
from displace.sequence.adaptation import MapRows, OnlineAdaptation, adapt, advance, tell_condition
from displace.sequence.engine import (
    KEPT,
    Belief,
    Blocks,
    Learner,
    Motion,
    fixed_lag,
    forward,
    likelihood,
    paced,
    predict,
    smooth,
    update,
)
from displace.sequence.following import Fix, Sparse
from displace.sequence.hindsight import Hindsight
from displace.sequence.pairing import pair, standardised_recording
from displace.sequence.roadway import Roadway
from displace.sequence.stops import Stops, moving, without_stops
from displace.sequence.tracking import UNDER_WAY, Tracker
from displace.sequence.weighing import (
    Scale,
    beyond_normal,
    level_between,
    own_levels,
    scores_by_frame,
    scores_by_frame_and_place,
    scores_of_row,
    scores_of_whole_drive,
    standardised,
    weighed,
)
from displace.sequence.whole_drive import smooth_drive


def over_all_paths(ratios: np.ndarray, motion: Motion) -> np.ndarray:
    """Joint likelihood (n, N + 1), summed over all paths at all paces; the last column is off the map."""
    n, places = ratios.shape
    paces = len(motion.each_pace)
    off = paces * places
    step = np.zeros((off + 1, off + 1))
    for (before, j), (pace, steps) in itertools.product(
        itertools.product(range(paces), range(places)), enumerate(motion.each_pace)
    ):
        change = (1 - KEPT) / paces + KEPT * (before == pace) if paces > 1 else 1
        for k, weight in enumerate(steps):
            to = pace * places + j + k if j + k < places else off
            step[before * places + j, to] += (1 - motion.leave) * (1 - motion.jump) * weight * change
    step[:off, :off] += (1 - motion.leave) * motion.jump / off
    step[:off, off] += motion.leave
    step[off, :off] = motion.back / off
    step[off, off] = 1 - motion.back
    likely = np.exp(np.c_[np.tile(ratios, paces), np.zeros(n)])
    start = np.r_[np.full(off, 0.8 / off), 0.2]
    joint = np.zeros((n, off + 1))
    for path in itertools.product(range(off + 1), repeat=n):
        weight = start[path[0]] * likely[0, path[0]]
        for t in range(1, n):
            weight *= step[path[t - 1], path[t]] * likely[t, path[t]]
        for t in range(n):
            joint[t, path[t]] += weight
    return np.c_[joint[:, :off].reshape(n, paces, places).sum(axis=1), joint[:, off]]


def brute_force(ratios: np.ndarray, motion: Motion) -> np.ndarray:
    """Posterior (n, N + 1) of the states."""
    joint = over_all_paths(ratios, motion)
    posterior: np.ndarray = joint / joint.sum(axis=1, keepdims=True)
    return posterior


@pytest.mark.parametrize("block", [1, 2, 16])
def test_smoothing_is_the_sum_over_all_paths(block: int) -> None:
    ratios = np.random.default_rng(0).normal(0, 1.5, (5, 4))
    motion = Motion((0.3, 0.4, 0.2, 0.1), jump=0.1, leave=0.05, back=0.2)
    found = np.zeros((5, 5))

    def see(frame: int, belief: Belief) -> None:
        found[frame] = [*belief.places, belief.off_map]

    counts = smooth(Blocks.of(ratios), motion, see, block)
    expected = brute_force(ratios.astype(np.float16).astype(float), motion)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    total = counts.steps.sum() + counts.jump + counts.leave + counts.back
    assert total <= 4 + 1e-9
    assert counts.on_map + counts.off_map == pytest.approx(4)


@pytest.mark.parametrize("block", [1, 16])
def test_a_drive_may_keep_its_pace(block: int) -> None:
    ratios = np.random.default_rng(0).normal(0, 1.5, (4, 3))
    motion = Motion(jump=0.1, leave=0.05, back=0.2, paces=((0.8, 0.2), (0.1, 0.8, 0.1), (0.0, 0.2, 0.8)))
    found = np.zeros((4, 4))

    def see(frame: int, belief: Belief) -> None:
        found[frame] = [*belief.places, belief.off_map]

    smooth(Blocks.of(ratios), motion, see, block)
    np.testing.assert_allclose(found, brute_force(ratios.astype(np.float16).astype(float), motion), atol=1e-6)


def test_later_frames_tell_what_smoothing_does() -> None:
    ratios = np.random.default_rng(0).normal(0, 1.5, (4, 3))
    motion = Motion(jump=0.1, leave=0.05, back=0.2, paces=((0.8, 0.2), (0.1, 0.8, 0.1)))
    places, off = likelihood(ratios)
    beliefs, belief = [], Belief.at_start(3, motion)
    for frame in range(4):
        belief, _ = update(predict(belief, motion) if frame else belief, places[frame], float(off[frame]))
        beliefs.append(belief)
    expected = brute_force(ratios, motion)
    for frame in range(4):
        told = fixed_lag(beliefs[frame:], list(places[frame:]), off[frame:].tolist(), motion)
        np.testing.assert_allclose([*told.places, told.off_map], expected[frame], atol=1e-9)


def frames_ago(scores: np.ndarray, lag: int, roadway: Roadway | None = None) -> list[tuple[Belief, Belief]]:
    """Beliefs of frames as they were told, and `lag` frames later."""
    tracker = Tracker(2.0, roadway=roadway)
    hindsight, told = Hindsight(tracker, lag), []
    for row in scores:
        told.append(tracker.step(row))
        hindsight.remember(told[-1])
    return [(told[-1 - n], hindsight.ago(n)) for n in reversed(range(lag + 1))]


@pytest.mark.parametrize("gone", [slice(0, 0), slice(70, 85)])
def test_hindsight_is_the_chain_given_later_frames(gone: slice) -> None:
    """The last frames of a drive, smoothed from what the tracker knew before them."""
    places, frames = make_route(120, 0.5, seed=1)
    kept = np.delete(np.arange(120), gone)
    at = drive_along(120, np.random.default_rng(3))
    at = at[: np.searchsorted(at, 90)]
    scores = (1.5 * scores_by_frame(Blocks.of(frames[at] @ places[kept].T)).whole()).astype(np.float32)
    roadway = Roadway(kept) if len(kept) < 120 else None
    tracker, lag, levels = Tracker(2.0, roadway=roadway), 12, []
    start = None
    for frame, row in enumerate(scores):
        levels.append(tracker.level)
        belief = tracker.step(row)
        if frame == len(scores) - 1 - lag:
            start = tracker.moment(belief).chain
    assert start is not None
    assert tracker.order > 0.999
    later = scores[-lag:] - np.array(levels[-lag:])[:, None]
    if roadway is not None:
        later = roadway.spread(later, 0.0)
    likely, off = likelihood(later)
    told = naive_hindsight(start, likely, off, tracker.motion)
    found = frames_ago(scores, lag, roadway)[0][1]
    between = [] if roadway is None else roadway.between
    assert found.off_map == pytest.approx(told.off_map + told.places[between].sum(), abs=1e-3)
    np.testing.assert_allclose(found.places, np.delete(told.places, between), atol=1e-3)


def naive_hindsight(start: Belief, likely: np.ndarray, off: np.ndarray, motion: Motion) -> Belief:
    """Each state of the chain in turn: how likely the frames that follow are from there."""
    paces, n = start.places.shape
    weights = np.zeros(paces * n + 1)
    for state in range(len(weights)):
        at = np.zeros(paces * n)
        at[state : state + 1] = 1
        belief, seen = Belief(at.reshape(paces, n), 0.0 if state < paces * n else 1.0), 1.0
        for places, beside in zip(likely, off, strict=True):
            belief, total = update(predict(belief, motion), places, float(beside))
            seen *= total
        weights[state] = seen
    joint = weights[:-1].reshape(paces, n) * start.places
    beside = weights[-1] * start.off_map
    total = joint.sum() + beside
    return Belief(joint.sum(axis=0) / total, float(beside / total))


def test_hindsight_is_surer_and_more_often_right() -> None:
    places, frames = make_route(150, 0.3, seed=2)
    at = drive_along(150, np.random.default_rng(1), stops=0)
    scores = (1.5 * scores_by_frame(Blocks.of(frames[at] @ places.T)).whole()).astype(np.float32)
    tracker = Tracker(2.0)
    hindsight, now, then = Hindsight(tracker, 8), [], []
    for row in scores:
        now.append(tracker.step(row))
        hindsight.remember(now[-1])
        if len(now) > 8:
            then.append(hindsight.ago(8))
    assert len(hindsight) == 9
    right = [
        np.mean([abs(b.places.argmax() - p) <= 1 for b, p in zip(bs, at, strict=False)]) for bs in (now, then)
    ]
    assert right[1] > right[0]
    for belief in then:
        assert float(belief.places.sum()) + belief.off_map == pytest.approx(1, abs=1e-4)


def test_the_frames_of_a_stop_are_told_as_one() -> None:
    scores = np.random.default_rng(0).normal(0, 1, (30, 60)).astype(np.float32)
    scores[np.arange(30), np.arange(30)] += 6
    tracker = Tracker(2.0)
    hindsight = Hindsight(tracker, 6)
    for row in scores:
        hindsight.remember(tracker.step(row))
    one = hindsight.ago(2)
    for _ in range(3):
        hindsight.remember(None)
    np.testing.assert_array_equal(hindsight.ago(5).places, one.places)
    np.testing.assert_array_equal(hindsight.ago(3).places, hindsight.ago(0).places)
    for _ in range(20):
        hindsight.remember(None)
    assert len(hindsight._moments) == 1


@pytest.mark.parametrize("motion", [Motion(), Motion().at_paces(1.0)])
def test_from_frame_to_frame_a_drive_moves_by_up_to_three_places(motion: Motion) -> None:
    places = np.zeros((len(motion.each_pace), 30))
    places[:, 10] = 1 / len(places)
    moved = predict(Belief(places, 0.0), motion).whatever_pace().places
    assert moved[10:14].min() > 0.03
    assert np.delete(moved, range(10, 14)).max() < 0.001


def test_memory_is_that_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """All evidence as float16 is 4 MB, all beliefs are 16."""

    def block(rows: slice) -> np.ndarray:
        return np.sin(np.arange(rows.start, rows.stop)[:, None] * 0.1 + np.arange(800), dtype=np.float32)

    monkeypatch.setattr(engine, "CACHED_BYTES", 2**20)
    tracemalloc.start()
    smooth(Blocks((2500, 800), block), Motion(), lambda *_: None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e6


def test_evidence_is_standardised_over_rows_and_columns() -> None:
    rng = np.random.default_rng(3)
    plain = rng.normal(0, 1, (60, 40))
    shifted = rng.uniform(0.1, 3, (60, 1)) * plain + rng.normal(0, 5, (60, 1))
    found, expected = (scores_by_frame_and_place(Blocks.of(values)).whole() for values in (shifted, plain))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(found.std(axis=0), 1, atol=1e-9)


@pytest.mark.parametrize("motion", [Motion(), Motion(jump=0.1, leave=0.05, back=0.2).at_paces(1.0)])
def test_what_frames_earn_is_the_likelihood_of_all_paths(motion: Motion) -> None:
    ratios = np.random.default_rng(1).normal(0, 1, (4, 3)).astype(np.float32)
    unlearned, earned = forward(Blocks.of(ratios), motion, learn=False)
    assert unlearned == motion
    for n in range(1, 5):
        evidence = over_all_paths(ratios[:n].astype(float), motion)[0].sum()
        assert earned[:n].sum() == pytest.approx(np.log(evidence), abs=1e-5)


@pytest.fixture(scope="module")
def similarity() -> tuple[np.ndarray, np.ndarray]:
    """Of 150 frames at changing speed, and their places among 120."""
    places, _ = make_route(120, 0.32, seed=1)
    _, frames = make_route(120, 0.32, seed=1, condition=2)
    at = drive_along(120, np.random.default_rng(3))
    return frames[at] @ places.T, at


@pytest.mark.parametrize("name", SEQUENCES.names())
def test_every_method_ranks_places(name: str, similarity: tuple[np.ndarray, np.ndarray]) -> None:
    values, at = similarity
    places, scores = SEQUENCES.get(name)().rank(Blocks.of(values), 5)
    assert places.shape == scores.shape == (len(at), 5)
    assert all(len(set(row)) == 5 for row in places.tolist())


@pytest.mark.parametrize("name", SEQUENCES.names())
def test_every_method_ranks_nothing_of_no_frames(name: str) -> None:
    """The smoother divided by their number."""
    places, scores = SEQUENCES.get(name)().rank(Blocks.of(np.empty((0, 30), np.float32)), 5)
    assert places.shape == scores.shape == (0, 5)


@pytest.mark.parametrize("n_places", [1, 3, 5])
@pytest.mark.parametrize("name", SEQUENCES.names())
def test_every_method_ranks_few_places(name: str, n_places: int) -> None:
    """SeqSLAM failed where its window was longer than the route."""
    values = np.random.default_rng(0).normal(0, 1, (30, n_places)).astype(np.float32)
    places, scores = SEQUENCES.get(name)().rank(Blocks.of(values), n_places)
    assert (np.sort(places, axis=1) == np.arange(n_places)).all()
    assert np.isfinite(scores).all()


def test_there_are_methods_to_compare_with() -> None:
    assert {"single_frame", "seqslam", "viterbi", "filter", "smoother"} <= set(SEQUENCES.names())
    assert SEQUENCES.get("seqslam")().label == "seqslam L=10"
    assert SEQUENCES.get("seqslam")(5).label == "seqslam L=5"
    assert SEQUENCES.get("smoother")().label == "smoother"


def test_seqslam_is_the_mean_along_diagonals() -> None:
    values = np.random.default_rng(2).normal(0, 1, (12, 9))
    z = standardised(values)
    _, scores = SEQUENCES.get("seqslam")(4).rank(Blocks.of(values), 9)
    for frame in range(12):
        means = [
            np.mean([z[frame - back, place - back] for back in range(min(4, frame + 1, place + 1))])
            for place in range(9)
        ]
        np.testing.assert_allclose(scores[frame], sorted(means, reverse=True))


@pytest.mark.parametrize("seed", range(6))
def test_viterbi_is_the_likeliest_of_all_paths(seed: int) -> None:
    values = np.random.default_rng(seed).normal(0, 1, (5, 4))
    evidence, motion = Scale().slope * standardised(values), Motion()
    step = np.full((4, 4), motion.jump / 4)
    for before, (k, weight) in itertools.product(range(4), enumerate(motion.steps)):
        if before + k < 4:
            step[before, before + k] = max(step[before, before + k], (1 - motion.jump) * weight)

    def log_probability(path: tuple[int, ...]) -> float:
        moves = sum(np.log(step[a, b]) for a, b in itertools.pairwise(path))
        return float(moves + evidence[range(len(path)), path].sum())

    best = max(itertools.product(range(4), repeat=5), key=log_probability)
    places, _ = SEQUENCES.get("viterbi")().rank(Blocks.of(values), 1)
    assert tuple(places[:, 0]) == best
    places, scores = SEQUENCES.get("viterbi")().rank(Blocks.of(values), 4)
    assert tuple(places[:, 0]) == best
    for n in range(1, 6):
        ends = np.full(4, -np.inf)
        for path in itertools.product(range(4), repeat=n):
            ends[path[-1]] = max(ends[path[-1]], log_probability(path))
        np.testing.assert_allclose(scores[n - 1], (ends - ends.max())[places[n - 1]], atol=1e-5)


def share_right(name: str, values: np.ndarray, at: np.ndarray, around: int = 1) -> float:
    places, _ = SEQUENCES.get(name)().rank(Blocks.of(values), 1)
    return float((np.abs(places[:, 0] - at) <= around).mean())


def test_the_chain_beats_single_frames_and_the_smoother_the_filter(
    similarity: tuple[np.ndarray, np.ndarray],
) -> None:
    single = share_right("single_frame", *similarity)
    assert single < 0.75
    assert share_right("filter", *similarity) > single + 0.1
    assert share_right("smoother", *similarity) > max(0.9, share_right("filter", *similarity))


@pytest.mark.parametrize("name", ["filter", "smoother"])
@pytest.mark.parametrize("what", ["frames", "places"])
def test_without_order_nothing_is_lost(
    name: str, what: str, similarity: tuple[np.ndarray, np.ndarray]
) -> None:
    values, at = similarity
    mixed = np.random.default_rng(5).permutation(values.shape[0 if what == "frames" else 1])
    if what == "frames":
        values, at = values[mixed], at[mixed]
    else:
        values, at = values[:, mixed], np.argsort(mixed)[at]
    assert share_right(name, values, at, 0) >= share_right("single_frame", values, at, 0) - 0.01


def test_a_kidnapped_drive_is_found_again() -> None:
    ratios = np.full((60, 200), -3.0)
    at = np.r_[np.arange(10, 40), np.arange(150, 180)]
    ratios[np.arange(60), at] = 4.0
    tracker = Tracker(level=3.0)
    found = [int(tracker.step(row + 3).places.argmax()) for row in ratios]
    assert found[29] == 39
    assert found[35:] == at[35:].tolist()


@pytest.mark.parametrize("pace", [0.5, 2.0])
def test_the_pace_of_a_drive_is_learned(pace: float) -> None:
    at = np.random.default_rng(1).binomial(4, pace / 4, 90).cumsum()
    ratios = np.full((90, 220), -3.0)
    ratios[np.arange(90), at] = 4.0
    tracker = Tracker(level=3.0)
    assert tracker.learner.motion.mean_step == pytest.approx(1.2)
    for row in ratios:
        tracker.step(row + 3)
    assert tracker.learner.motion.mean_step == pytest.approx(pace, abs=0.25)


def slow_chain(scores: np.ndarray, levels: list[float], roadway: Roadway) -> list[Belief]:
    """Beliefs of frames as `Tracker` defines them, by the chain that smooths: at two paces of the pace learned."""
    learner, belief, found = Learner(), Belief.unknown(scores.shape[1]), []
    for row, level in zip(scores, levels, strict=True):
        places, off = likelihood((row - level)[None])
        if not found:
            belief, _ = update(belief, places[0], off[0])
            at = roadway.spread(belief.places, 0.0)
            belief = Belief(np.stack([at / 2] * 2), belief.off_map)
        else:
            looks = 1 if len(found) < 50 else 2
            if len(found) % looks == 0:
                before = found[-1]
                learner.see(before.places, 1 - before.off_map, places[0], frames=looks)
            rate = learner.motion.mean_step
            paces = tuple(paced(rate * pace) for pace in UNDER_WAY)
            motion = replace(learner.motion, paces=paces, roadway=roadway if len(roadway.between) else None)
            belief, _ = update(predict(belief, motion), roadway.spread(places[0], off[0]), off[0])
        at = belief.whatever_pace().places
        found.append(Belief(at[roadway.places], belief.off_map + float(at[roadway.between].sum())))
    return found


@pytest.mark.parametrize("n_places", [99, 100, 499, 3876])
def test_the_evidence_of_one_frame_is_that_of_many(n_places: int) -> None:
    similarity = np.random.default_rng(0).standard_t(4, (5, n_places)).astype(np.float32)
    similarity[3] = 0.25
    many = scores_by_frame(Blocks.of(similarity)).whole()
    for row, expected in zip(similarity, many, strict=True):
        np.testing.assert_allclose(scores_of_row(row, 1.5), 1.5 * expected, atol=1e-4)
    assert not many[3].any()


def test_a_frame_that_resembles_many_places_must_earn_more() -> None:
    alike = np.random.default_rng(0).normal(0, 1, 300)
    alike[::20] += 5
    single = alike.copy()
    single[::20] -= 5
    alike[7] = single[7] = 8.0
    assert scores_of_row(alike, 1.0)[7] < scores_of_row(single, 1.0)[7] - 1
    # Places alike or not, the tail is told from the places of the frame alone.
    tail = np.sort((alike - alike.mean()) / alike.std())[int(0.98 * 300)]
    expected = (8.0 - alike.mean()) / alike.std() - 0.6 * (tail - 2.054)
    assert scores_of_row(alike, 1.0)[7] == pytest.approx(expected)


def test_few_places_have_no_tail() -> None:
    scores = np.random.default_rng(0).normal(0, 1, (4, 99))
    assert not beyond_normal(scores).any()
    similarity = Blocks.of(np.random.default_rng(1).normal(0, 1, (120, 200)))
    over_frames = scores_by_frame_and_place(similarity).whole()
    np.testing.assert_allclose(over_frames.mean(axis=0), 0, atol=1e-9)


def test_the_scores_of_a_whole_drive_are_standardised_three_times() -> None:
    """Naively: over places, over frames and fifty usual ones, over places."""
    similarity = np.random.default_rng(0).normal(0, 1, (40, 120)) + np.random.default_rng(1).normal(0, 1, 120)
    rows = np.array([(row - row.mean()) / row.std() for row in similarity])
    columns = []
    for column in rows.T:
        mean = column.sum() / 90
        spread = np.sqrt((np.sum(column**2) + 50) / 90 - mean**2)
        columns.append((column - mean) / max(spread, 0.3))
    expected = np.array([(row - row.mean()) / row.std() for row in np.array(columns).T])
    whole = scores_of_whole_drive(Blocks.of(similarity))
    assert whole.shape == (40, 120)
    np.testing.assert_allclose(whole.block(slice(5, 25)), expected[5:25], atol=1e-9)


def test_a_place_that_every_frame_resembles_does_not_hide_a_missing_stretch() -> None:
    """Places 100 to 119 look like what all frames have in common, and the map lacks 30 to 59."""
    rng = np.random.default_rng(0)
    similarity = rng.normal(0, 1, (160, 160))
    similarity[np.arange(160), np.arange(160)] += 3
    similarity[:, 100:120] += 2.5
    places = np.delete(np.arange(160), np.arange(30, 60))
    off = np.zeros(160)

    def see(frame: int, belief: Belief) -> None:
        off[frame] = belief.off_map

    assert smooth_drive(Blocks.of(similarity[:, places]), Scale(), see)
    assert (off[32:58] > 0.5).all()
    assert (off[places] > 0.5).mean() < 0.05


@pytest.mark.parametrize("gone", [slice(0, 0), slice(50, 70)])
def test_the_fast_chain_is_the_chain(gone: slice) -> None:
    places, frames = make_route(120, 0.5, seed=1)
    kept = np.delete(np.arange(120), gone)
    similarity = frames[drive_along(120, np.random.default_rng(3))] @ places[kept].T
    scores = 1.5 * scores_by_frame(Blocks.of(similarity)).whole()
    roadway = Roadway(kept)
    tracker = Tracker(2.0, roadway=roadway if len(roadway.between) else None, begins_off=engine.UNKNOWN)
    beliefs, levels, trust = [], [], []
    for row in similarity:
        levels.append(tracker.level)
        beliefs.append(tracker.step(scores_of_row(row, 1.5)))
        trust.append(tracker.order)
    # Where the order is trusted: elsewhere a frame is believed for itself, too.
    trusted = np.flatnonzero(np.array(trust) > 0.999)
    assert len(trusted) > 50
    slowly = slow_chain(scores, levels, roadway)
    for found, slow in ((beliefs[frame], slowly[frame]) for frame in trusted):
        np.testing.assert_allclose(found.places, slow.places, atol=1e-4)
        assert found.off_map == pytest.approx(slow.off_map, abs=1e-4)
        assert float(found.places.sum()) + found.off_map == pytest.approx(1, abs=1e-4)


def test_the_trust_in_order_outlasts_a_stretch_off_the_map() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, (120, 100)).astype(np.float32)
    scores[np.arange(40), np.arange(40)] += 8
    tracker = Tracker(level=3.0)
    trust = [(tracker.step(row), tracker.order)[1] for row in scores]
    assert trust[39] > 0.999
    assert trust[-1] > 0.99


def test_a_drive_that_begins_off_the_map_is_off_it() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(0, 1.5, (60, 200)).astype(np.float32)
    scores[np.arange(30, 60), np.arange(30)] += 6
    tracker = Tracker(level=2.2)
    beliefs = [tracker.step(row) for row in scores]
    off = np.array([belief.off_map for belief in beliefs])
    assert off[8:30].min() > 0.5
    assert off[40:].max() < 0.5
    for belief in beliefs:
        assert float(belief.places.sum()) + belief.off_map == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_drive_that_finds_no_path_for_long_is_off_the_map(seed: int) -> None:
    """Streets that look like the map's, which one frame, and a chain of some, cannot tell; and then the map."""
    noise = np.random.default_rng(seed).normal(0, 1, (240, 150))
    noise = sum(np.roll(noise, shift, axis=(0, 1)) for shift in ((0, 0), (0, 1), (1, 0), (1, 1)))
    scores = (1.5 * noise / noise.std()).astype(np.float32)
    scores[np.arange(180, 240), np.arange(60)] += 6
    tracker = Tracker(level=2.2)
    off = np.array([tracker.step(row).off_map for row in scores])
    assert (off[60:180] > 0.5).mean() > 0.9
    assert off[190:].max() < 0.5


def test_a_drive_without_a_path_does_not_bring_the_level_down_to_chance() -> None:
    """Else the best of wrong paths is soon good enough."""
    noise = np.random.default_rng(0).normal(0, 1, (300, 150))
    noise = sum(np.roll(noise, shift, axis=(0, 1)) for shift in ((0, 0), (0, 1), (1, 0), (1, 1)))
    tracker = Tracker(level=2.2)
    levels = [(tracker.step(row), tracker.level)[1] for row in (1.5 * noise / noise.std()).astype(np.float32)]
    assert levels[-1] > levels[35] - 0.1


@pytest.mark.parametrize("begins_off", [0.05, 0.5])
def test_the_first_frame_is_off_the_map_as_likely_as_drives_begin_there(begins_off: float) -> None:
    scores = np.random.default_rng(0).normal(0, 1.5, 80).astype(np.float32)
    level = Tracker(2.2).level
    on_map = (1 - begins_off) * np.exp(scores.astype(float)) / 80
    off_map = begins_off * np.exp(level)
    belief = Tracker(2.2, begins_off=begins_off).step(scores)
    np.testing.assert_allclose(belief.places, on_map / (on_map.sum() + off_map), rtol=1e-4)
    assert belief.off_map == pytest.approx(off_map / (on_map.sum() + off_map), rel=1e-4)


@pytest.mark.parametrize(("chance", "path"), [(1.6, 2.6), (1.6, 3.6), (1.6, 6.0), (2.0, 1.0)])
def test_the_level_lies_between_chance_and_path(chance: float, path: float) -> None:
    level = level_between(chance, path)
    assert chance <= level <= max(chance, (chance + path) / 2) + 1e-9
    assert level_between(chance, path + 0.1) >= level
    assert level_between(chance + 1, path + 1) == pytest.approx(level + 1)


@pytest.mark.parametrize("pace", [0.0, 0.3, 0.5, 1.0, 1.2, 2.0, 3.7, 4.5])
def test_a_pace_is_its_mean_step(pace: float) -> None:
    steps = np.array(paced(pace))
    assert steps.sum() == pytest.approx(1)
    assert steps @ np.arange(len(steps)) == pytest.approx(pace)
    assert (steps >= 0).all()
    assert steps[-1] > 0


def test_frames_off_the_path_do_not_count_for_the_level() -> None:
    path, chance = np.repeat([2.0, 1.0], 100), np.ones(200)
    levels = own_levels(path, chance, np.repeat([1.0, 0.0], 100), steep=0.35)
    np.testing.assert_allclose(levels, level_between(1.0, 2.0, steep=0.35), rtol=1e-6)
    assert levels.shape == (200, 1)


def test_the_level_goes_up_and_down_with_chance_where_the_path_does() -> None:
    chance = 3 + 2 * np.sin(np.arange(300) / 30)
    path = chance + 1
    levels = own_levels(path, chance, np.ones(300), steep=0.35)[:, 0]
    assert (levels > chance).all()
    assert (levels < path).all()
    assert np.ptp(levels) > 3.5


def test_the_level_is_the_same_all_along_where_chance_tells_nothing_about_the_path() -> None:
    chance = 3 + np.sin(np.arange(300) / 30)
    path = np.full(300, 5.0)
    assert np.ptp(own_levels(path, chance, np.ones(300), steep=0.35)) < 1e-6


def test_a_very_distinct_route_asks_little_more_than_chance_of_its_plain_stretches() -> None:
    assert own_levels(np.full(100, 9.0), np.ones(100), np.ones(100), steep=0.35).max() == pytest.approx(2.0)


@pytest.mark.parametrize("seed", [0, 2])
def test_plain_stretches_of_a_route_are_on_the_map(seed: int) -> None:
    """One level for the whole drive told 17 to 40 % of these frames off the map, however they were asked for."""
    places, frames = (standardised_recording(vectors) for vectors in make_mixed_scenery(seed))
    similarity, at = frames @ places.T, np.arange(len(places))
    beliefs: dict[int, Belief] = {}
    assert smooth_drive(Blocks.of(similarity), Scale(), lambda frame, belief: beliefs.update({frame: belief}))
    assert np.mean([beliefs[frame].off_map > 0.5 for frame in at]) < 0.02
    assert np.mean([abs(beliefs[frame].places.argmax() - frame) <= 2 for frame in at]) > 0.99
    tracker = Tracker(Scale().level)
    scaled = weighed(scores_by_frame(Blocks.of(similarity)), Scale().slope, 0.0).whole()
    assert np.mean([tracker.step(row).off_map > 0.5 for row in scaled]) < 0.02
    paired = pair(frames, places)
    assert np.mean(paired.off > 0.5) < 0.02
    assert np.mean(np.abs(paired.frames - at) <= 2) > 0.99


@pytest.mark.parametrize("seed", [0, 2])
def test_stretches_that_the_map_lacks_are_told_in_mixed_scenery(seed: int) -> None:
    places, frames = (standardised_recording(vectors) for vectors in make_mixed_scenery(seed))
    kept = np.r_[:200, 260:400]  # the end of a built-up stretch and the beginning of a plain one are missing
    off = np.zeros(len(frames))

    def see(frame: int, belief: Belief) -> None:
        off[frame] = belief.off_map

    assert smooth_drive(Blocks.of((frames @ places.T)[:, kept]), Scale(), see)
    assert np.mean(off[200:260] > 0.5) > 0.95
    assert np.mean(np.delete(off, slice(200, 260)) > 0.5) < 0.06


def test_a_drive_that_leaves_the_map_is_off_it() -> None:
    ratios = np.full((50, 100), -3.0)
    ratios[np.arange(30), np.arange(30)] = 4.0
    tracker = Tracker(level=3.0)
    off = [tracker.step(row + 3).off_map for row in ratios]
    assert max(off[8:29]) < 0.1
    assert min(off[35:]) > 0.9


def one_traversal() -> tuple[np.ndarray, np.ndarray]:
    """Rows of one condition and queries of another that shifts all of them."""
    places, _ = make_route(200, 0.35, seed=4)
    _, frames = make_route(200, 0.35, seed=4, condition=7, shift=1.2)
    return places, frames


def right(scores: np.ndarray, at: np.ndarray) -> float:
    return float((scores.argmax(axis=1) == at).mean())


def test_adapting_to_a_batch_undoes_its_condition() -> None:
    places, frames = one_traversal()
    rows = MapRows(places, np.arange(200))
    plain = right(frames @ places.T, np.arange(200))
    adapted = adapt(rows, frames)
    assert adapted.coverage > 0.9
    assert right(adapted.scores(frames), np.arange(200)) > plain + 0.1


def naive_batch(places: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Scores as `Adaptation` defines them, for one row of each place."""
    kept = frames[moving(frames)]
    mean, part = kept.mean(axis=0), np.arange(len(places)) * 20 // len(places)

    def cosines(rows: np.ndarray, queries: np.ndarray) -> np.ndarray:
        return (queries @ rows.T) / np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(rows, axis=1))

    def best_ten(scores: np.ndarray) -> np.ndarray:
        return np.sort(scores, axis=0)[-10:].mean(axis=0)

    def shares(scores: np.ndarray) -> np.ndarray:
        return np.bincount(part[scores.argmax(axis=1)], minlength=20) / len(kept)

    first = cosines(places - places.mean(axis=0), kept - mean)
    weights = shares(2 * first - best_ten(first))[part]
    rows = places - weights @ places / weights.sum()
    found = cosines(rows, kept - mean)
    coverage = min(1.0, 1 / (shares(found) ** 2).sum() / 20)
    scores = cosines(rows, frames - mean)
    return ((1 + coverage) * scores - coverage * best_ten(found)) / (1 + coverage / 2)


@pytest.mark.parametrize("part", [slice(0, 200), slice(40, 150)])
def test_adapting_to_a_batch_is_its_definition(part: slice) -> None:
    places, frames = one_traversal()
    found = adapt(MapRows(places, np.arange(200)), frames[part]).scores(frames[part])
    np.testing.assert_allclose(
        found, naive_batch(places.astype(float), frames[part].astype(float)), atol=1e-4
    )


def test_adapting_to_a_part_of_the_route_does_not_hurt() -> None:
    places, frames = one_traversal()
    at = np.arange(60, 110)
    adapted = adapt(MapRows(places, np.arange(200)), frames[at])
    assert adapted.coverage < 0.5
    assert right(adapted.scores(frames[at]), at) >= right(frames[at] @ places.T, at)


def test_adapting_online_is_causal_and_helps() -> None:
    places, frames = one_traversal()
    rows = MapRows(places, np.arange(200))
    online = OnlineAdaptation(rows)
    scores = np.array([online.scores(frame) for frame in frames])
    np.testing.assert_allclose(scores[0], places @ frames[0], atol=1e-5)
    late = np.arange(100, 200)
    assert right(scores[late], late) >= right(frames[late] @ places.T, late)


def naive_online(places: np.ndarray, frames: np.ndarray) -> list[np.ndarray]:
    """Scores as `OnlineAdaptation` defines them, from all frames so far each time."""
    n_places, mean = len(places), places.mean(axis=0)
    kept: list[np.ndarray] = []
    parts: list[int] = []
    scores = []
    for n, frame in enumerate(frames, 1):
        counts = np.bincount(parts, minlength=20) if parts else np.zeros(20)
        coverage = min(1.0, len(parts) ** 2 / (counts**2).sum() / 20) if parts else 0.0
        own = frames[:n].mean(axis=0)
        spread = np.mean(np.sum((frames[:n] - own) ** 2, axis=1))
        certain = max(0.0, 1 - 3 * spread / n / np.sum((own - mean) ** 2))
        taken = certain * np.clip(20 * coverage - 1, 0, 1)
        query = frame - taken * own
        rows = places - taken * mean
        found = rows @ query / np.linalg.norm(query) / np.linalg.norm(rows, axis=1)
        parts.append(int(found.argmax()) * 20 // n_places)
        if n <= 50 or n % 4 == 0:
            kept.append(found)
        share = coverage * n / (n + 50)
        if n < 10 or not share:
            scores.append(found)
            continue
        best = np.sort(kept, axis=0)[-10:].mean(axis=0)
        scores.append(((1 + share) * found - share * best) / (1 + share / 2))
    return scores


def test_adapting_online_is_its_definition() -> None:
    places, frames = one_traversal()
    online = OnlineAdaptation(MapRows(places, np.arange(200)))
    # Lengths of rows are computed anew where the share of the mean has changed by 0.5 %, no sooner.
    for frame, expected in zip(frames[:120], naive_online(places, frames[:120]), strict=True):
        np.testing.assert_allclose(online.scores(frame), expected, atol=4e-3)


def test_a_drive_in_the_dark_is_found_after_some_frames() -> None:
    """What the condition adds is told long before the drive has covered the route."""
    places, _ = make_route(200, 0.35, seed=4)
    _, frames = make_route(200, 0.35, seed=4, condition=7, shift=3.0)
    online = OnlineAdaptation(MapRows(places, np.arange(200)))
    at = np.arange(60)
    scores = np.array([online.scores(frames[i]) for i in at])
    assert right(scores[20:], at[20:]) > right(frames[20:60] @ places.T, at[20:]) + 0.1


def test_a_camera_that_stays_at_a_place_is_not_adapted_away() -> None:
    places, _ = make_route(200, 0.35, seed=4)
    noise = 0.02 * np.random.default_rng(0).standard_normal((100, places.shape[1]))
    frames = l2_normalize((places[50] + noise).astype(np.float32))
    online = OnlineAdaptation(MapRows(places, np.arange(200)))
    assert {int(online.scores(frame).argmax()) for frame in frames} == {50}


def under_a_lamp() -> tuple[np.ndarray, np.ndarray]:
    """Places, of which one looks like the dark, and frames of a dark drive: all of them resemble that one most."""
    places, frames = make_route(200, 0.5, seed=4, condition=7, shift=4.0)
    places = places.copy()
    places[120] = l2_normalize(frames.mean(axis=0)[None])[0]
    assert set((frames @ places.T).argmax(axis=1).tolist()) == {120}
    return places, frames


def test_a_place_that_resembles_all_of_a_dark_drive_is_no_stop() -> None:
    """Nothing was adapted, as if the camera stood there, and no frame was located."""
    places, frames = under_a_lamp()
    rows = MapRows(places, np.arange(200))
    assert tell_condition(rows, frames)
    assert right(adapt(rows, frames).scores(frames), np.arange(200)) > 0.5
    assert not tell_condition(rows, np.random.default_rng(0).permutation(frames))
    online = OnlineAdaptation(rows)
    scores = np.array([online.scores(frame) for frame in frames])
    assert right(scores[:50], np.arange(50)) < 0.05
    assert right(scores[110:], np.arange(110, 200)) > 0.3


@pytest.mark.parametrize("seed", range(5))
def test_pictures_of_one_spot_do_not_adapt_the_matching(seed: int) -> None:
    places, _ = make_route(200, 0.35, seed=4)
    noise = 0.05 * np.random.default_rng([seed, 99]).standard_normal((400, places.shape[1]))
    frames = l2_normalize((places[50] + noise).astype(np.float32))
    rows = MapRows(places, np.arange(200))
    assert not tell_condition(rows, frames)
    online = OnlineAdaptation(rows)
    assert {int(online.scores(frame).argmax()) for frame in frames} == {50}


def test_a_place_scores_as_its_best_row() -> None:
    rows = MapRows(np.eye(4, dtype=np.float32), np.array([0, 2]))
    assert rows.best(np.array([[0.1, 0.7, 0.4, 0.2]])).tolist() == [[0.7, 0.4]]


def test_a_stop_at_night_is_one_frame() -> None:
    """The camera's noise alone makes more than half of what is usual from frame to frame."""
    rng = np.random.default_rng(5)
    places = make_route(80, 0.4, seed=8, dim=256)[1]
    at = np.r_[0:40, np.full(20, 40), 41:80]
    frames = places[at] + 0.0275 * rng.standard_normal((len(at), 256))
    frames = (frames / np.linalg.norm(frames, axis=1, keepdims=True)).astype(np.float32)
    apart = np.linalg.norm(np.diff(frames, axis=0), axis=1)
    assert np.median(apart[40:59]) > 0.5 * np.quantile(apart, 0.75)
    kept = moving(frames)
    assert np.isin(kept, np.arange(41, 60)).sum() <= 2
    assert len(kept) > 70
    means, first, stands = without_stops(frames)
    assert means[stands[50]] @ places[40] > frames[50] @ places[40]
    assert (first[stands] <= np.arange(len(at))).all()
    stops = Stops()
    still = np.array([stops.still(frame) for frame in frames])
    assert still[42:60].mean() > 0.85
    assert still[:40].sum() + still[61:].sum() <= 8


@pytest.mark.parametrize("standing", [20, 200, 2000])
def test_a_stop_is_one_frame_however_long_it_is(standing: int) -> None:
    """Most of what frames of such a drive differ by is noise, which is not usual under way."""
    rng = np.random.default_rng(5)
    places = make_route(80, 0.4, seed=8, dim=256)[1]
    at = np.r_[0:40, np.full(standing, 40), 41:80]
    frames = l2_normalize((places[at] + 0.02 * rng.standard_normal((len(at), 256))).astype(np.float32))
    kept = moving(frames)
    assert (at[kept] == 40).sum() <= 3
    assert len(kept) > 70


def test_frames_that_advance_are_no_stop_though_others_change_far_more() -> None:
    """A dark road behind a lit town: its frames differ by less than two thirds of what those of the town do."""
    places, dark = make_route(300, 0.6, seed=4, shift=2.0, dim=64)
    town = l2_normalize(np.random.default_rng(3).standard_normal((60, 64)).astype(np.float32))
    frames, rows = np.concatenate([town, dark]), MapRows(places, np.arange(300))
    assert len(moving(frames)) < 70
    assert len(without_stops(frames, partial(advance, rows))[0]) == 360
    np.testing.assert_allclose(adapt(rows, frames).mean, frames.mean(axis=0), atol=1e-6)
    stops, alone = Stops(partial(advance, rows)), Stops()
    assert sum(map(alone.still, frames)) > 200
    assert sum(map(stops.still, frames)) < 60


def test_stops_along_a_route_do_not_advance() -> None:
    """Between the stops of a bus there are fewer frames than at them; from stop to stop, places advance."""
    rng = np.random.default_rng(3)
    places, seen = make_route(300, 0.6, seed=4, dim=256)
    at = np.repeat(np.arange(300), np.where(np.arange(300) % 4 == 3, 10, 1))
    frames = l2_normalize(seen[at] + 0.02 * rng.standard_normal((len(at), 256)).astype(np.float32))
    rows = MapRows(places, np.arange(300))
    assert len(without_stops(frames, partial(advance, rows))[0]) == len(without_stops(frames)[0]) < 330
    stops, alone = Stops(partial(advance, rows)), Stops()
    assert [stops.still(frame) for frame in frames] == [alone.still(frame) for frame in frames]


def test_black_frames_do_not_make_a_slow_drive_a_stop() -> None:
    rng = np.random.default_rng(5)
    way = np.linspace(0, 1, 120)[:, None] * np.eye(64)[1]
    frames = way + 0.01 * rng.standard_normal((120, 64)) + np.eye(64)[0]
    frames[5::10] = 3 * np.eye(64)[2]
    assert len(moving(frames)) > 100


@pytest.mark.parametrize("kept", [np.full(2000, 0.9 / 2000), Sparse.of(np.full(2000, 0.9 / 2000))])
def test_a_fix_is_printed_without_its_belief(kept: np.ndarray | Sparse) -> None:
    fix = Fix("corner", 0.75, 0.1, kept)
    assert str(fix) == "Fix(place='corner', probability=0.75, off_map=0.1)"
    assert fix.belief.shape == (2000,)


def test_frames_of_one_spot_search_no_path() -> None:
    """All but two of a camera's frames match one place: that they have no path speaks against nothing."""
    rng = np.random.default_rng(1)
    off: dict[bool, list[float]] = {True: [], False: []}
    for stands, beliefs in off.items():
        similarity = 0.1 * rng.standard_normal((120, 140)).astype(np.float32)
        at = np.full(120, 50) if stands else rng.permutation(120)
        at[[40, 80]] = 90, 10
        similarity[np.arange(120), at] += 0.6
        assert not smooth_drive(
            Blocks.of(similarity), Scale(), lambda _, belief, b=beliefs: b.append(belief.off_map)
        )
    assert np.mean(off[True]) < 0.2
    assert np.mean(off[False]) > 0.8
