"""Recordings lined up by sight: generated drives with known truth, real seasons, and input that cannot be lined up."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from drives import drive_along, make_route

from displace.errors import InputError
from displace.references import ReferenceSet
from displace.sequence import alignment, refining
from displace.sequence.alignment import Alignment, Track, _Coarse, align
from displace.sequence.engine import PACES, Motion
from displace.sequence.equal_names import elsewhere
from displace.sequence.laps import second_lap
from displace.sequence.pairing import Pairing, pair, standardised_recording
from displace.sequence.refining import paired_again
from displace.synthetic import make_route as synthetic_route


@pytest.fixture(scope="module")
def conditions() -> dict[str, np.ndarray]:
    """A route of 220 places in three conditions."""
    return {
        name: make_route(220, 0.45, seed=2, condition=c)[1] for c, name in enumerate(("sun", "rain", "dusk"))
    }


@pytest.fixture(scope="module")
def drives() -> dict[str, np.ndarray]:
    """Places of the frames of three drives along the first 180; the second has a detour, the third a gap."""
    rng = np.random.default_rng(8)
    at = {name: drive_along(180, rng) for name in ("sun", "rain", "dusk")}
    rain = at["rain"]
    at["rain"] = np.r_[rain[:90], np.arange(185, 215), rain[90:]]
    at["dusk"] = at["dusk"][(at["dusk"] < 60) | (at["dusk"] > 90)]
    return at


@pytest.fixture(scope="module")
def aligned(conditions: dict[str, np.ndarray], drives: dict[str, np.ndarray]) -> Alignment:
    return align({name: conditions[name][at] for name, at in drives.items()}, anchor="sun")


def place_of(aligned: Alignment, drives: dict[str, np.ndarray]) -> np.ndarray:
    """True place of each place that the alignment made."""
    first = aligned.tracks["sun"].references
    return drives["sun"][first]


@pytest.mark.parametrize("name", ["rain", "dusk"])
def test_frames_get_the_place_they_show(aligned: Alignment, drives: dict[str, np.ndarray], name: str) -> None:
    track, at = aligned.tracks[name], drives[name]
    on = track.places >= 0
    error = np.abs(place_of(aligned, drives)[track.places[on]] - at[on])
    assert (error <= 2).mean() >= 0.95
    assert on[at < 180].mean() > 0.9
    assert ((track.low <= track.places) & (track.places <= track.high)).all()
    assert np.median(track.confidence[on]) > 0.8


def test_progress_begins_before_the_first_pair_and_ends_with_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    route = synthetic_route(n_places=60, n_traversals=3, dim=16).references.vectors.reshape(3, 60, 16)
    events: list[object] = []
    monkeypatch.setattr(alignment, "without_stops", _noted(alignment.without_stops, events))
    align(dict(zip("abc", route, strict=True)), progress=lambda done, total: events.append((done, total)))
    assert events[:2] == [(0, 2), "without_stops"]
    assert events[-1] == (7, 7)


def _noted(function: Callable[..., object], events: list[object]) -> Callable[..., object]:
    def noted(*given: object) -> object:
        events.append(function.__name__)
        return function(*given)

    return noted


def test_what_the_others_show_tells_where_a_recording_was() -> None:
    route = synthetic_route(n_places=120, n_traversals=4, dim=16)
    recordings = [*route.references.vectors.reshape(4, 120, 16), route.queries]
    names = ("sun", "rain", "dusk", "snow", "night")
    ready = {name: standardised_recording(v) for name, v in zip(names, recordings, strict=True)}
    first = {name: pair(ready[name], ready["sun"]) for name in names[1:]}
    again = paired_again("night", "sun", ready, first)
    assert again.gain > first["night"].gain + 0.2
    assert again.confidence.mean() > first["night"].confidence.mean()
    assert (np.abs(again.frames - np.arange(120)) <= 2).mean() > 0.98
    ready["night"] = standardised_recording(recordings[-1][::-1])
    first["night"] = pair(ready["night"], ready["sun"])
    assert paired_again("night", "sun", ready, first).gain < 0  # no space makes the wrong direction right


@pytest.fixture(scope="module")
def five() -> tuple[dict[str, np.ndarray], dict[str, Pairing]]:
    """Five recordings of 120 places, ready to be lined up, and the first pairing of each with the first."""
    route = synthetic_route(n_places=120, n_traversals=4, dim=16)
    recordings = [*route.references.vectors.reshape(4, 120, 16), route.queries]
    names = ("sun", "rain", "dusk", "snow", "night")
    ready = {name: standardised_recording(v) for name, v in zip(names, recordings, strict=True)}
    return ready, {name: pair(ready[name], ready["sun"]) for name in names[1:]}


def test_recordings_are_lined_up_again_where_that_helps(
    five: tuple[dict[str, np.ndarray], dict[str, Pairing]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, _ = five
    again = align(ready, anchor="sun").tracks["night"]
    monkeypatch.setattr(alignment, "can_refine", lambda _: False)
    once = align(ready, anchor="sun").tracks["night"]
    assert 1 - again.confidence.mean() < 0.6 * (1 - once.confidence.mean())


def test_a_second_round_that_fits_worse_is_dropped(
    five: tuple[dict[str, np.ndarray], dict[str, Pairing]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, first = five
    before = first["night"]
    for more, kept in ((-0.1, False), (0.1, True)):
        after = replace(before, gain=before.gain + more)
        monkeypatch.setattr(refining, "pair", lambda *_, found=after: found)
        assert (paired_again("night", "sun", ready, first) is after) == kept


def test_the_space_of_the_second_round_does_not_know_the_recording(
    five: tuple[dict[str, np.ndarray], dict[str, Pairing]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def spy(*parts: np.ndarray) -> ReferenceSet:
        asked.append(ReferenceSet(*parts))
        return asked[-1]

    monkeypatch.setattr(refining, "ReferenceSet", spy)
    paired_again("night", "sun", *five)
    assert set(asked[0].traversals.tolist()) == {"sun", "rain", "dusk", "snow"}


def told_otherwise(
    monkeypatch: pytest.MonkeyPatch, conditions: dict[str, np.ndarray], change: Callable[[Pairing], Pairing]
) -> tuple[Alignment, Alignment]:
    """Three drives along 160 places lined up as they are, and with what the last round says of rain changed."""
    recordings = {name: vectors[:160] for name, vectors in conditions.items()}
    sound = align(recordings, anchor="sun")

    def wrong(name: str, *others: object) -> Pairing:
        found = paired_again(name, *others)
        return change(found) if name == "rain" else found

    monkeypatch.setattr(alignment, "paired_again", wrong)
    return sound, align(recordings, anchor="sun")


def test_recordings_that_disagree_lower_the_confidence(
    monkeypatch: pytest.MonkeyPatch, conditions: dict[str, np.ndarray]
) -> None:
    def further_on(found: Pairing) -> Pairing:
        return replace(found, frames=np.where(found.frames < 60, found.frames, found.frames + 30))

    sound, found = told_otherwise(monkeypatch, conditions, further_on)
    before, after = (lined.tracks["rain"].confidence for lined in (sound, found))
    assert after[65:120].mean() < 0.6 * before[65:120].mean()
    assert after[:50].mean() > 0.95 * before[:50].mean()


def test_places_are_passed_in_their_order(
    monkeypatch: pytest.MonkeyPatch, conditions: dict[str, np.ndarray]
) -> None:
    def back(found: Pairing) -> Pairing:
        frames = found.frames.copy()
        frames[100:130] -= 60
        return replace(found, frames=frames)

    _, found = told_otherwise(monkeypatch, conditions, back)
    assert (found.tracks["rain"].places[100:130] == -1).all()
    assert (found.tracks["rain"].places[:95] >= 0).mean() > 0.9


def test_what_is_likely_wrong_is_said(
    monkeypatch: pytest.MonkeyPatch, conditions: dict[str, np.ndarray]
) -> None:
    sound, found = told_otherwise(
        monkeypatch, conditions, lambda found: replace(found, confidence=0.4 * found.confidence)
    )
    assert sound.notes == []
    assert found.notes == ["rain: only 0% of its places are likely right; displace align --check shows them"]


def test_recordings_that_hardly_overlap_are_told(conditions: dict[str, np.ndarray]) -> None:
    elsewhere = make_route(120, 0.5, seed=77)[1]
    found = align({"sun": conditions["sun"], "rain": np.r_[conditions["rain"][20:100], elsewhere]}, "sun")
    (note,) = found.notes
    assert note.startswith("rain: only 4")
    assert note.endswith("% of the frames show the anchor's route")


def test_what_a_condition_adds_to_all_frames_is_gone(conditions: dict[str, np.ndarray]) -> None:
    frames = conditions["sun"]
    added = np.random.default_rng(0).standard_normal(frames.shape[1]).astype(np.float32)
    np.testing.assert_allclose(
        standardised_recording(frames + added), standardised_recording(frames), atol=1e-5
    )


def test_a_place_that_resembles_every_frame_is_not_where_all_were_taken() -> None:
    rng = np.random.default_rng(4)
    places, frames = make_route(120, 0.5, seed=4, dim=64)
    common = rng.standard_normal(64)
    common /= np.linalg.norm(common)
    places[50:56] += 4 * common
    frames += 2 * common
    places, frames = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (places, frames))
    found = pair(frames.astype(np.float32), places.astype(np.float32))
    assert (np.abs(found.frames - np.arange(120)) <= 2).mean() > 0.9


def test_both_ends_are_open(conditions: dict[str, np.ndarray]) -> None:
    places, frames = (standardised_recording(conditions[name][:160]) for name in ("sun", "rain"))
    found = pair(frames[40:110], places)
    assert (np.abs(found.frames - np.arange(40, 110)) <= 2)[[0, 1, 2, -3, -2, -1]].all()
    assert (found.off[[0, 1, 2, -3, -2, -1]] < 0.5).all()


def test_the_anchor_is_the_one_that_the_others_fit_best(conditions: dict[str, np.ndarray]) -> None:
    fog = make_route(220, 0.25, seed=2, condition=8)[1]
    assert align({"fog": fog} | {name: v[:180] for name, v in conditions.items()}).anchor != "fog"


def test_a_detour_has_no_place(aligned: Alignment, drives: dict[str, np.ndarray]) -> None:
    off = aligned.tracks["rain"].places < 0
    detour = drives["rain"] >= 185
    assert (off & detour).sum() / detour.sum() >= 0.8
    assert (off & detour).sum() / off.sum() >= 0.8


def test_a_stop_is_one_reference(aligned: Alignment) -> None:
    for track in aligned.tracks.values():
        places = track.places[track.references]
        assert (places >= 0).all()
        assert len(set(places.tolist())) == len(places)


def test_the_anchor_is_chosen_and_the_same_whatever_the_order(
    conditions: dict[str, np.ndarray], drives: dict[str, np.ndarray]
) -> None:
    recordings = {name: conditions[name][at] for name, at in drives.items()}
    chosen = align(recordings).anchor
    assert chosen in recordings
    assert align(dict(reversed(recordings.items()))).anchor == chosen
    assert align(recordings, candidates=["dusk"]).anchor == "dusk"
    (other, *_) = {"sun", "rain"} - {chosen}
    assert align(recordings, anchor=other).anchor == other


def test_the_anchor_is_the_recording_that_the_others_fit_best() -> None:
    gains = {("sun", "rain"): 1.5, ("sun", "dusk"): 0.4, ("rain", "dusk"): 1.0}
    coarse = _Coarse({}, None, 0)
    coarse.names, coarse.pairs = (
        ["sun", "rain", "dusk"],
        {k: SimpleNamespace(gain=g) for k, g in gains.items()},
    )
    coarse.n_frames, coarse.lacking = {"sun": 90, "rain": 50, "dusk": 70}, dict.fromkeys(coarse.names, 0.0)
    assert coarse.best_anchor({"sun", "rain", "dusk"}) == "rain"
    assert coarse.best_anchor({"sun", "dusk"}) == "sun"
    coarse.pairs = dict.fromkeys(gains, SimpleNamespace(gain=1.0))
    assert coarse.best_anchor({"sun", "rain", "dusk"}) == "sun"  # of equals the one with most frames
    coarse.lacking["sun"] = 0.3
    assert coarse.best_anchor({"sun", "rain", "dusk"}) == "dusk"  # and before that the one that lacks least
    coarse.lacking["sun"] = 0.0
    coarse.pairs["rain", "dusk"] = SimpleNamespace(gain=90.0)
    coarse.pairs["sun", "dusk"] = SimpleNamespace(gain=3.5)
    assert coarse.best_anchor({"sun", "rain"}) == "sun"  # a fit that is good already counts as two at most


def test_a_resemblance_where_another_recording_never_was_is_no_disagreement() -> None:
    """Two recordings share the places 60 to 99; some frames before them resemble something at the other's end."""
    frames, sure = np.arange(100), np.full(100, 0.9)

    def on(places: np.ndarray, off: np.ndarray) -> Pairing:
        return Pairing(places, places, places, sure, off, Motion(), 1.0, np.zeros(len(places)))

    coarse = _Coarse({}, None, 0)
    coarse.taken = {"rain": frames, "dusk": frames}
    pairings = {"rain": on(frames, np.zeros(100)), "dusk": on(frames + 60, np.zeros(100))}
    shared = np.where(frames >= 60, frames - 60, 0)
    shared[20:23] = [90, 91, 92]
    off = np.where((frames >= 60) | (shared > 0), 0.0, 1.0)
    coarse.pairs = {("rain", "dusk"): on(shared, off)}
    np.testing.assert_array_equal(coarse.agreeing("rain", pairings).confidence, sure)
    np.testing.assert_array_equal(coarse.agreeing("dusk", pairings).confidence, sure)
    wrong = {**pairings, "rain": on(np.where(frames < 80, frames, frames - 40), np.zeros(100))}
    lowered = coarse.agreeing("rain", wrong).confidence
    assert (lowered[80:] < 0.5).all()
    assert (lowered[60:79] == 0.9).all()


def test_recordings_that_share_next_to_nothing_do_not_contradict_the_anchor() -> None:
    """Rain shows the first half of the anchor, dusk the second: they fit each other somewhere, and rather badly."""
    frames, sure = np.arange(50), np.full(50, 0.9)

    def on(places: np.ndarray, gain: float) -> Pairing:
        return Pairing(places, places, places, sure, np.zeros(50), Motion(), gain, np.zeros(50))

    coarse = _Coarse({}, None, 0)
    coarse.names = ["sun", "rain", "dusk"]
    coarse.taken = {"rain": frames, "dusk": frames}
    pairings = {"rain": on(frames, 5.0), "dusk": on(frames + 50, 5.0)}  # lined up again, in another space
    anchored = {("sun", "rain"): on(frames, 1.2), ("sun", "dusk"): on(frames, 1.0)}
    for gain, kept in ((0.49, 0.9), (0.51, 0.45)):
        coarse.pairs = {**anchored, ("rain", "dusk"): on(frames, gain)}
        for name in pairings:
            np.testing.assert_allclose(coarse.agreeing(name, pairings).confidence, kept)
    strong = {pair: replace(link, gain=9.0) for pair, link in anchored.items()}
    coarse.pairs = {**strong, ("rain", "dusk"): on(frames, 1.1)}
    np.testing.assert_allclose(coarse.agreeing("rain", pairings).confidence, 0.45)  # good is good enough


def test_rates_up_to_four_are_found(conditions: dict[str, np.ndarray]) -> None:
    sun, rain = (standardised_recording(conditions[name][:160]) for name in ("sun", "rain"))
    for queries, anchor, rate in ((sun[::4], rain, 4.0), (sun, rain[::3], 1 / 3), (sun[40:80], rain, 1.0)):
        found = pair(queries, anchor)
        assert found.motion.mean_step == pytest.approx(rate, rel=0.25)
    found = pair(sun[::4], rain, rounds=1)  # before anything was learned
    assert (np.abs(found.frames - np.arange(0, 160, 4)) <= 2).mean() > 0.9
    assert (found.off < 0.5).mean() > 0.9
    day, night = (standardised_recording(make_route(240, 0.25, seed=0, condition=c)[1]) for c in range(2))
    found = pair(day[::3], night)  # frames by themselves do not tell, their numbers do
    assert (np.abs(found.frames - np.arange(0, 240, 3)) <= 2).mean() > 0.96


def test_steps_are_probabilities() -> None:
    for rate in (0.25, 1.0, 2.3, 4.0):
        motion = Motion().at_paces(rate)
        for steps, pace in zip(motion.paces, PACES, strict=True):
            assert sum(steps) == pytest.approx(1)
            assert np.arange(len(steps)) @ steps == pytest.approx(pace * rate)


def test_a_stretch_at_twice_the_usual_speed_is_no_detour() -> None:
    """Each frame says little: a chain that pays for every fast step anew takes the stretch for another road."""
    places = make_route(200, 0.5, seed=1)[1]
    at = np.r_[0:70, 70:130:2, 130:200]
    night = make_route(200, 0.23, seed=1, condition=5)[1][at]
    found = pair(standardised_recording(night), standardised_recording(places))
    fast = slice(70, 100)
    assert (found.off[fast] < 0.5).mean() > 0.9
    assert (np.abs(found.frames[fast] - at[fast]) <= 2).mean() > 0.8


def test_a_stretch_that_the_anchor_lacks_is_said(conditions: dict[str, np.ndarray]) -> None:
    places = np.arange(160)
    short = np.r_[0:70, 105:160]
    recordings = {
        "heavy rain": conditions["rain"][places],
        "dusk": conditions["dusk"][places],
        "sun": conditions["sun"][short],
    }
    (note,) = (note for note in align(recordings, anchor="sun").notes if "a stretch that both show" in note)
    assert note.startswith("heavy rain and dusk: ")
    assert note.endswith("line up with --anchor 'heavy rain'")
    assert not any("a stretch" in note for note in align(recordings, anchor="heavy rain").notes)


def test_a_short_second_lap_is_said(conditions: dict[str, np.ndarray]) -> None:
    sun, rain = (conditions[name][:160] for name in ("sun", "rain"))
    again = rain[:20] + 0.1 * np.random.default_rng(0).standard_normal((20, 32))
    assert align({"sun": sun, "rain": rain}).notes == []
    (note,) = align({"sun": sun, "rain": np.r_[rain, again.astype(np.float32)]}).notes
    found = re.fullmatch(
        r"rain: it may drive a part of its route twice, what frames (\d+) to (\d+) show is seen again from frame "
        r"(\d+); if so, cut it there",
        note,
    )
    assert found is not None
    np.testing.assert_allclose([int(text) for text in found.groups()], [0, 19, 160], atol=4)


def test_a_route_with_parts_that_look_alike_is_lined_up_if_one_says_so() -> None:
    """The aisles of a warehouse: sight takes the second for a second lap, and who recorded it had no way out."""
    rng = np.random.default_rng(0)
    aisle, own = rng.standard_normal((80, 64)), rng.standard_normal((160, 64))
    route = np.r_[aisle, aisle] + 0.6 * own
    at = {"monday": np.arange(160), "tuesday": np.arange(0, 160, 2), "friday": np.arange(5, 150)}
    recordings = {
        name: (route[along] + 0.4 * rng.standard_normal((len(along), 64))).astype(np.float32)
        for name, along in at.items()
    }
    with pytest.raises(InputError, match=r"drives a part of its route twice: .* look alike .*, add --alike$"):
        align(recordings)
    found = align(recordings, anchor="monday", alike=True)
    assert any(note.startswith("monday: it may drive a part of its route twice") for note in found.notes)
    for name, along in at.items():
        track = found.tracks[name]
        assert (np.abs(track.places[track.references] - along[track.references]) <= 2).mean() > 0.95
        assert track.references.mean() > 0.8


def slow_scenery(n: int, seed: int) -> np.ndarray:
    """Frames of a drive through scenery that changes slowly, beside what is each frame's own."""
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((n, 64))
    scenery = rng.standard_normal((n, 64))
    for at in range(1, n):
        scenery[at] = 0.98 * scenery[at - 1] + 0.2 * scenery[at]
    return (scenery + own).astype(np.float32)


@pytest.mark.parametrize("n_frames", [60, 100, 200])
def test_slow_scenery_is_no_second_lap(n_frames: int) -> None:
    for seed in range(6):
        assert second_lap(standardised_recording(slow_scenery(n_frames, seed))) is None


@pytest.mark.parametrize("laps", [2, 3])
def test_laps_through_slow_scenery_are_found(laps: int) -> None:
    for seed in range(6):
        once = slow_scenery(60, seed)
        noise = 0.3 * np.random.default_rng(seed).standard_normal((laps, *once.shape)).astype(np.float32)
        found = second_lap(standardised_recording(np.concatenate(once + noise)))
        assert found is not None
        assert found.sure
        assert found.again - found.first in (60, 60 * (laps - 1))


@pytest.mark.parametrize("n_frames", [12, 24, 48])
def test_short_recordings_of_different_routes_are_not_lined_up(n_frames: int) -> None:
    """Few frames fit some order by chance: nearly as well as long ones of one route do."""
    for seed in range(12):
        recordings = {
            name: make_route(n_frames, 0.45, seed=100 * k + seed)[1] for k, name in enumerate(("a", "b"))
        }
        with pytest.raises(InputError, match=r"different routes: their frames|opposite direction"):
            align(recordings)
    align({name: make_route(n_frames, 0.6, seed=5, condition=c)[1] for c, name in enumerate(("a", "b"))})


def test_frames_that_show_nothing_are_no_references(conditions: dict[str, np.ndarray]) -> None:
    """As in a tunnel, or before the exposure has settled: a covered camera would be found there."""
    dark = {
        name: np.r_[vectors[:100], np.zeros_like(vectors[:3]), vectors[103:]]
        for name, vectors in conditions.items()
    }
    for track in align(dark).tracks.values():
        assert not track.references[100:103].any()
        assert track.references[:100].any()
        assert (track.places[95:108] >= 0).any()


def test_what_cannot_be_lined_up_is_said(conditions: dict[str, np.ndarray]) -> None:
    sun, rain = conditions["sun"], conditions["rain"]
    elsewhere = make_route(150, 0.5, seed=99)[1]
    cases = [
        ({"a": sun}, "1 recording cannot be lined up.*, then displace build one.csv"),
        ({"a": sun, "b": rain[:3]}, "'b' has 3 frames; at least 10"),
        ({"a": sun, "b": np.zeros_like(rain)}, "'b' shows nothing to line it up by: 220 of its 220 frames"),
        (
            {"a": sun, "b": np.r_[np.zeros_like(rain[:154]), rain[154:]]},
            "154 of its 220 frames are without any",
        ),
        ({"a": sun, "b": np.ones_like(rain)}, "all are alike"),
        (
            {"a": sun, "b": rain[::-1]},
            "recording '[ab]' drives the route in the opposite .* of each direction$",
        ),
        (
            {"a": sun, "b": elsewhere},
            r"different routes: their frames look hardly more alike .*\. A map needs drives of one route\. If they do "
            r"show one route, longer recordings tell more$",
        ),
        ({"a": sun, "b": np.r_[rain[:120], sun[:120]]}, "'b' drives a part of its route twice"),
    ]
    for recordings, message in cases:
        with pytest.raises(InputError, match=message):
            align(recordings)
    with pytest.raises(InputError, match="anchor='x' is not among the recordings: a, b"):
        align({"a": sun, "b": rain}, anchor="x")


def test_real_seasons_line_up(shared: Path) -> None:
    from displace.images import read_image
    from displace.models.hog import Hog

    model = Hog()
    rng = np.random.default_rng(0)
    at = {"summer": drive_along(150, rng), "winter": drive_along(150, rng)}
    vectors = {}
    for season, places in at.items():
        files = sorted((shared / "data" / "nordland811" / season).glob("*.jpg"))[300:450]
        described = np.stack([model.prepare(np.asarray(read_image(file))) for file in files])
        vectors[season] = described[places]
    found = align(vectors, anchor="summer")
    track, first = found.tracks["winter"], at["summer"][found.tracks["summer"].references]
    on = track.places >= 0
    assert on.mean() > 0.85
    assert (np.abs(first[track.places[on]] - at["winter"][on]) <= 2).mean() >= 0.9


def test_frames_that_sight_finds_elsewhere_than_their_names_are_counted() -> None:
    """Where that is sure, at names that the anchor has; two places off are the same place."""
    at = np.array([0, 1, 4, 6, 9, 11, -1, 3])
    sure = np.array([1, 1, 1, 1, 0.8, 0.9, 0, 1])
    here = np.arange(7)
    tracks = {
        "sun": Track(here, here, here, np.ones(7), np.ones(7, bool)),
        "dusk": Track(at, at, at, sure, np.ones(8, bool)),
    }
    names = {"sun": np.array(list("abcdefg")), "dusk": np.array(list("abcdefgh"))}
    assert elsewhere(Alignment("sun", 7, tracks, []), names) == {"sun": 0.0, "dusk": 2 / 6}


def test_several_routes_are_told_apart(conditions: dict[str, np.ndarray]) -> None:
    elsewhere = {name: make_route(220, 0.45, seed=99, condition=c)[1] for c, name in enumerate(("x", "y"))}
    with pytest.raises(
        InputError, match=r"fit each other: 'sun', 'rain', 'dusk'; 'x', 'y'\. Make a map of each"
    ):
        align({**conditions, **elsewhere})


def test_of_equally_good_anchors_the_one_with_most_frames_is_taken(
    conditions: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment, "_COARSE", 60)
    recordings = {"sun": conditions["sun"][::2], "rain": conditions["rain"]}
    assert align(recordings).anchor == "rain"
    assert align(dict(reversed(recordings.items()))).anchor == "rain"


def test_of_equally_good_anchors_the_one_that_shows_the_whole_route_is_taken(
    conditions: dict[str, np.ndarray],
) -> None:
    """Here it has fewer frames than a slow drive along a part."""
    part = conditions["sun"][:150]
    between = (part[:-1] + part[1:]) / np.linalg.norm(part[:-1] + part[1:], axis=1, keepdims=True)
    slow = np.stack([part[:-1], between], axis=1).reshape(-1, part.shape[1])
    assert len(slow) > len(conditions["rain"])
    for recordings in (
        {"slow": slow, "whole": conditions["rain"]},
        {"whole": conditions["rain"], "slow": slow},
    ):
        assert align(recordings).anchor == "whole"


def test_a_dark_recording_with_a_lit_detour_is_lined_up() -> None:
    """Its dark frames differ by so little, beside those of the detour, that they seem to be one long stop."""
    day, dark = make_route(200, 0.6, seed=4, shift=2.0, dim=64)
    lights = np.random.default_rng(3).standard_normal((60, 64)).astype(np.float32)
    lights /= np.linalg.norm(lights, axis=1, keepdims=True)
    night = np.concatenate([dark[:100], lights, dark[100:]])
    at = np.r_[:100, np.full(60, -1), 100:200]
    for others in ({}, {"rain": make_route(200, 0.6, seed=4, dim=64, condition=1)[1]}):
        found = align({"day": day, "night": night, **others}, anchor="day").tracks["night"]
        assert (found.places[at < 0] < 0).mean() > 0.9
        assert (abs(found.places - at)[at >= 0] <= 2).mean() > 0.9
