"""Drives: a step against locating one query, smoothing and aligning at size, and how well generated drives line up."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

import displace
from benchmarks._measure import Cost, header, measure, row
from benchmarks._seen import drawn_of, located, seen, smoothed, vectors_of, with_pictures_of
from benchmarks._shared import shared_folder
from benchmarks.confidence import CACHE, shared_data
from benchmarks.seasons import MADE, railway
from displace.datasets import town_drives
from displace.datasets.town.writing import Chunk, write_chunks
from displace.manifest.table import Manifest
from displace.models import get_model
from displace.places import Places
from displace.sequence.alignment import Track, align
from displace.sequence.following import Fix
from displace.sequence.pairing import pair, standardised_recording
from displace.sequence.stops import without_stops
from displace.sequence.tracking import BEGINS_OFF
from displace.sequence.viewpoint import moved_by
from displace.verbs.align import LEAST_CONFIDENCE

N_ROBOTCAR, DIM = 3876, 512
"""RobotCar: places of a traversal, numbers of a descriptor."""
N_LANE = 250
"""Places of the map on which a drive looks for the offset of its pictures."""
MAPPED = "sun", "overcast", "rain", "dusk"
"""Drives of the town that maps are made of."""
NEAR, FAR = 2, 4
"""Places to the anchor's nearest frame: up to the first a frame has a place, beyond the second it may have none."""
LACKED = 20
"""Places between two of the anchor's frames that it lacks; where fewer are, frames were dropped on the way."""
LAG = 10
"""Frames after which a followed drive is asked again where it was."""
WAYS = "single", "followed", f"{LAG} frames later", "smoothed"
"""What `recalls` are of."""


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sequence", description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--smooth", type=int, nargs=2, default=(10_000, 27_592), metavar=("FRAMES", "PLACES"))
    parser.add_argument("--align", type=int, default=20_000, metavar="FRAMES")
    parser.add_argument("--drives", type=int, default=17, help="generated drives along nordland811")
    parser.add_argument("--town", type=Path, default=Path(tempfile.gettempdir()) / "town_drives")
    parser.add_argument("--towns", type=int, default=2, help="towns of `--only gaps` and `--only elsewhere`")
    parser.add_argument("--model", default="hog", help="of `drives`, `unordered`, `town` and `gaps`")
    parser.add_argument(
        "--renumbered", action="store_true", help="`--only gaps`: numbers that leave out nothing"
    )
    parser.add_argument(
        "--begins-off", type=float, default=BEGINS_OFF, help="`--only gaps`: as that of `follow`"
    )
    parser.add_argument(
        "--only",
        choices=(
            *("step", "smooth", "align", "drives", "speeds", "unordered", "approach", "town", "gaps"),
            "elsewhere",
        ),
    )
    options = parser.parse_args(argv)
    if options.only in (None, "step"):
        step_against_locate(options.steps)
        steps_that_look()
    if options.only in (None, "drives"):
        real_seasons(options.drives, options.model)
    if options.only in (None, "speeds"):
        speeds()
        slow_drives(options.town)
    if options.only in (None, "approach"):
        approaches()
    if options.only in (None, "unordered"):
        unordered(options.model)
    if options.only in (None, "town"):
        town(options.town, options.model)
    if options.only in (None, "gaps"):
        gaps(options.town, options.towns, options.renumbered, options.begins_off, options.model)
    if options.only in (None, "elsewhere"):
        elsewhere(options.town, options.towns)
    if options.only in (None, "smooth"):
        smoothing(*options.smooth)
    if options.only in (None, "align"):
        aligning(options.align)


def route(n_places: int, dim: int, seed: int = 0) -> np.ndarray:
    """Unit descriptors of places that resemble their neighbours."""
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((n_places + 2, dim), np.float32)
    mixed = 0.5 * base[:-2] + base[1:-1] + 0.5 * base[2:]
    return mixed / np.linalg.norm(mixed, axis=1, keepdims=True)


def seen_again(places: np.ndarray, at: np.ndarray, seed: int, likeness: float = 0.35) -> np.ndarray:
    """Frames at some places, in another condition."""
    noise = np.random.default_rng(seed).standard_normal((len(at), places.shape[1]), np.float32)
    return likeness * places[at] + (1 - likeness) * noise / np.sqrt(places.shape[1])


def map_of(
    n_places: int, dim: int, n_traversals: int, left_out: int = 0, confident: bool = False
) -> displace.PlaceMap:
    """A map of generated references, in route order; half way along it, so many numbers are left out."""
    places = route(n_places, dim)
    ids = np.array([f"{p:05d}" for p in range(n_places)])
    vectors = np.concatenate([seen_again(places, np.arange(n_places), t + 1) for t in range(n_traversals)])
    refs = displace.ReferenceSet(
        vectors,
        np.tile(ids, n_traversals),
        np.repeat([f"t{t}" for t in range(n_traversals)], n_places),
        info=Places(ids, frames=np.arange(n_places) + left_out * (np.arange(n_places) >= n_places // 2)),
    )
    return displace.build(refs, "hops", calibration=confident, dtype="float32", tolerance="5 frames")


def step_against_locate(n_steps: int) -> None:
    """CPU time of one step, beside that of locating the same query; also on a map that lacks a fifth of its route.

    On a map of three traversals as `build` makes it, and on one of a single traversal without a confidence, where
    locating a query costs least.
    """
    queries = seen_again(route(N_ROBOTCAR, DIM), np.arange(n_steps) + 500, 99)
    header(f"{N_ROBOTCAR} places, D=n={DIM}", "ms of CPU", "of locate")
    for confident, of in ((True, ""), (False, ", no confidence")):
        for left_out, gap in ((0, ""), (N_ROBOTCAR // 4, ", a fifth of the route left out")):
            place_map = map_of(N_ROBOTCAR, DIM, 3 if confident else 1, left_out, confident)
            for way, seconds, share in costs_of_steps(place_map, queries):
                row(way + of + gap, f"{1e3 * seconds:.2f}", f"{share:.2f}")


def costs_of_steps(place_map: displace.PlaceMap, queries: np.ndarray) -> Iterator[tuple[str, float, float]]:
    """What is done, its CPU time in seconds, and how many times that of locating one query this is."""
    ways: dict[str, Callable[[np.ndarray], object]] = {
        "locate, one query": lambda query: place_map.locate(query[None]),
        "step": place_map.follow(adapt="none").step,
        "step, adapting": place_map.follow().step,
    }
    cost: dict[str, list[float]] = {way: [] for way in ways}
    for query in queries:  # in turn, so that a busy machine slows all alike
        for way, call in ways.items():
            start = time.process_time()
            call(query)
            cost[way].append(time.process_time() - start)
    # The mean, as not all steps cost the same, without the slowest 5 % (interrupts).
    n = int(0.95 * (len(queries) - 20))
    middle = {way: float(np.mean(sorted(times[20:])[:n])) for way, times in cost.items()}
    for way, seconds in middle.items():
        yield way, seconds, seconds / middle["locate, one query"]


def steps_that_look() -> None:
    """CPU time of those steps of `follow` that look for the offset of the pictures; the first one finds it."""
    model = get_model("hog")
    places, ids = route(N_LANE, model.dim), np.array([f"{p:05d}" for p in range(N_LANE)])
    info = Places(ids, frames=np.arange(N_LANE))
    mapped, seen = (seen_again(places, np.arange(N_LANE), seed, 0.8) for seed in (1, 99))
    refs = displace.ReferenceSet(mapped, ids, np.full(N_LANE, "t"), info=info)
    place_map = displace.build(refs, "hops", model=model.fingerprint())
    frames = moved_by(seen, model.grid, (0, 2), seen.mean(axis=0))
    seconds = np.zeros((5, N_LANE))
    for drive_seconds in seconds:
        follower = place_map.follow()
        for frame, descriptor in enumerate(frames):
            start = time.process_time()
            follower.step(descriptor)
            drive_seconds[frame] = time.process_time() - start
    each = np.median(seconds, axis=0)
    usual = float(np.median(each))
    header(f"{N_LANE} places, hog", "ms of CPU", "of a step")
    row("step, adapting", f"{1e3 * usual:.2f}", "1")
    for n in (25, 50, 100, 200):
        row(f"step {n}, with a look", f"{1e3 * each[n - 1]:.0f}", f"{each[n - 1] / usual:.0f}")


def real_seasons(n_drives: int, model_name: str) -> None:
    """How well generated drives along a real railway line up: speeds, stops, detours, gaps, dropped frames."""
    shared = shared_data(CACHE)
    if shared is None:
        return
    grid, pictures = get_model(model_name).grid, railway(shared, model_name, CACHE)
    total = np.zeros(3, int)
    found: dict[str, list[list[list[str]]]] = {name: [] for name in MADE}
    header(f"alignment, {model_name}", "within ±2", "p90", "null precision", "null recall")
    for seed in range(n_drives):
        rng = np.random.default_rng(seed)
        drop = 0.3 * (seed % 2)
        anchor, anchor_frames = drive(650, rng, detour=False, drop=drop)
        queries, query_frames = drive(650, rng, detour=True, drop=drop)
        recordings = {"summer": pictures["summer"][query_frames], "winter": pictures["winter"][anchor_frames]}
        described = {name: vectors_of(recording) for name, recording in recordings.items()}
        tracks = align(described, anchor="winter", grid=grid).tracks
        at = anchor[tracks["winter"].references]
        *errors, counts = judged(tracks["summer"], queries, at)
        name = f"summer to winter, drive {seed}, {len(queries)} frames"
        row(name, *errors, *precision_and_recall(*counts))
        total += counts
        drives = {"summer": (recordings["summer"], queries), "winter": (recordings["winter"], anchor)}
        by_sight = place_map_of({name: aligned(tracks[name], drives[name]) for name in drives}, model_name)
        by_truth = place_map_of({name: nearest(drives[name], at) for name in drives}, model_name)
        for name in MADE:
            asked = pictures[name], np.arange(len(pictures[name])), at
            found[name].append([recalls(by_sight, *asked), recalls(by_truth, *asked)])
    row("all of them", "", "", *precision_and_recall(*total))
    header(f"R@1 (±2 frames), {model_name}: map by sight / by truth", *WAYS, "single, worst drive")
    for name in MADE:
        sight, truth = np.array(found[name], float).transpose(1, 2, 0)
        means = zip(sight.mean(axis=1), truth.mean(axis=1), strict=True)
        worst = f"{(sight - truth)[0].min():+.1f}"
        row(name, *(f"{mine:.1f} / {theirs:.1f}" for mine, theirs in means), worst)


def speeds() -> None:
    """Drives along a real railway that pass several places from one frame to the next; and how they line up."""
    folder = shared_folder() / "data" / "nordland811"
    if not folder.is_dir():
        print(f"skipped: no {folder}")
        return
    grid, mapped = get_model("hog").grid, np.arange(100, 560)
    shown = {season: seen("hog", sorted((folder / season).glob("*.jpg"))) for season in ("summer", "winter")}
    header(
        "places a frame, HOG",
        "frames",
        "R@1, single",
        "followed",
        "smoothed",
        "reported off the map, followed",
        "smoothed",
        "lined up within ±2",
    )
    for reference, query in (("summer", "winter"), ("winter", "summer")):
        place_map = place_map_of({reference: (shown[reference][mapped], mapped)})
        for rate in (1, 3, 5, 8, 12):
            places = at_rate(rate, 103, 555, np.random.default_rng(3))
            frames = shown[query][places]
            ways = followed(place_map, frames)[0], smoothed(place_map, frames)
            found = [located(place_map, frames, "none").places[:, 0]]
            found += [np.array([int(fix.place) for fix in fixes]) for fixes in ways]
            off = [np.array([fix.off_map > 0.5 for fix in fixes]) for fixes in ways]
            recordings = {query: vectors_of(frames), reference: vectors_of(shown[reference][mapped])}
            tracks = align(recordings, reference, grid=grid).tracks
            at = mapped[tracks[reference].references][tracks[query].places]
            row(
                f"{query}, map of {reference}, {rate}",
                str(len(places)),
                *(f"{100 * np.mean(np.abs(where - places) <= 2):.1f}" for where in found),
                *(f"{100 * told.mean():.1f}" for told in off),
                f"{100 * np.mean((np.abs(at - places) <= 2) & (tracks[query].places >= 0)):.1f} %",
            )


def slow_drives(folder: Path) -> None:
    """Drives through the rendered town that are as slow as someone on foot, along a map made by car."""
    drives = town_recordings(folder, seed=0)
    slow = folder.with_name(f"{folder.name}_slow")
    places = at_rate(0.12, 40, 90, np.random.default_rng(4), whole=False)
    parts = [slice(first, first + 40) for first in range(0, len(places), 40)]
    if not slow.is_dir():
        write_chunks(
            [
                Chunk(str(slow), name, places[part].tolist(), 0, town_drives.SIZE, first=part.start)
                for name in ("overcast", "night")
                for part in parts
            ],
            workers=2,
            progress=None,
            drives=town_drives.PLACES,
        )
    at = drives["sun"][1][without_stops(vectors_of(drives["sun"][0]))[1]]
    place_map = place_map_of({name: nearest(drives[name], at) for name in ("sun", "rain", "dusk")})
    header(
        "places a frame, town, HOG",
        "frames",
        "R@1, single",
        "followed",
        "smoothed",
        "reported off the map, smoothed",
    )
    for name in ("overcast", "night"):
        shown = seen("hog", sorted((slow / name).glob("*.jpg")))
        for every in (1, 2, 4, 8):
            frames, true = shown[::every], np.abs(places[::every, None] - at).argmin(axis=1)
            fixes = followed(place_map, frames)[0], smoothed(place_map, frames)
            found = [located(place_map, frames, "none").places[:, 0]]
            found += [np.array([int(fix.place) for fix in some]) for some in fixes]
            row(
                f"{name}, {every * np.diff(places).mean():.2f}",
                str(len(frames)),
                *(f"{100 * np.mean(np.abs(where.astype(int) - true) <= 2):.1f}" for where in found),
                f"{100 * np.mean([fix.off_map > 0.5 for fix in fixes[1]]):.1f}",
            )


def at_rate(rate: float, first: int, last: int, rng: np.random.Generator, whole: bool = True) -> np.ndarray:
    """Places of a drive's frames that move on by so many at a time, from half to twice as many."""
    at, speed, seen = float(first), 0.0, []
    while at < last:
        seen.append(at)
        speed = float(np.clip(0.9 * speed + rng.normal(0, 0.15), -0.69, 0.69))
        at += rate * np.exp(speed)
    return np.rint(seen).astype(int) if whole else np.array(seen)


def unordered(model_name: str) -> None:
    """Queries in no order, along an order of places that means nothing to them: single frames' recall must stay."""
    folder = shared_folder() / "data"
    header(f"R@1 (±1), {model_name}, queries shuffled", "single", "followed", "smoothed")
    for name, references, query in (
        ("sped400", ("ref1", "ref2", "ref3"), "query"),
        ("nordland811", ("summer",), "winter"),
    ):
        if not (folder / name).is_dir():
            print(f"skipped: no {folder / name}")
            continue
        shown = {
            traversal: seen(model_name, sorted((folder / name / traversal).glob("*.jpg")))
            for traversal in (*references, query)
        }
        at = np.arange(len(shown[query]))
        place_map = place_map_of({traversal: (shown[traversal], at) for traversal in references}, model_name)
        order = np.random.default_rng(0).permutation(at)
        frames = shown[query][order]
        ways = (
            located(place_map, frames, "none").places[:, 0],
            np.array([fix.place for fix in followed(place_map, frames, adapt="none")[0]]),
            np.array([fix.place for fix in smoothed(place_map, frames, "none")]),
        )
        row(name, *(f"{100 * np.mean(np.abs(found.astype(int) - order) <= 1):.1f}" for found in ways))


def approaches() -> None:
    """Drives that begin some 290 frames before the map: how many of these are off it, and how soon the map is found."""
    folder = shared_folder() / "data" / "nordland811"
    if not folder.is_dir():
        print(f"skipped: no {folder}")
        return
    mapped = np.arange(300, 600, 2)
    header(
        "a drive that begins before the map", "off the map", "on the map", "R@1 there", "frames until found"
    )
    for name in ("hog", "efficientnet_lite"):
        shown = {
            season: seen(name, sorted((folder / season).glob("*.jpg"))) for season in ("summer", "winter")
        }
        for references, query in (
            (["winter"], "summer"),
            (["summer"], "winter"),
            (["summer", "winter"], "winter"),
        ):
            place_map = place_map_of({season: (shown[season][mapped], mapped) for season in references}, name)
            off, on, right, until = approach(
                place_map, shown[query], int(mapped[0]), np.random.default_rng(1)
            )
            numbers = (f"{off:.2f}", f"{on:.2f}", f"{100 * right:.1f}", str(until))
            row(f"{' and '.join(references)}, asked for {query}, {name}", *numbers)


def approach(
    place_map: displace.PlaceMap, frames: np.ndarray, first: int, rng: np.random.Generator
) -> tuple[float, float, float, int]:
    """Share of frames before the map that are reported off it, and of later ones on it; recall and delay there."""
    at, speed, seen = 10.0, 0.0, []
    while at < 560:
        seen.append(int(at))
        speed = float(np.clip(0.95 * speed + rng.normal(0, 0.2), -0.69, 0.69))
        at += np.exp(speed)
    places = np.array(seen)
    fixes = followed(place_map, frames[places])[0]
    off = np.array([fix.off_map > 0.5 for fix in fixes])
    right = np.abs(np.array([int(fix.place) for fix in fixes]) - places) <= 4
    there = places > first - 4
    until = int(np.argmax((right & ~off)[there]))
    return float(off[~there].mean()), float((~off)[there].mean()), float(right[there].mean()), until


def drive(n: int, rng: np.random.Generator, detour: bool, drop: float) -> tuple[np.ndarray, np.ndarray]:
    """True positions along the first `n` frames of a recording (NaN on a detour), and the frames that are taken."""
    at, speed, seen = rng.uniform(0, 0.1) * n, 0.0, []
    end = n * (1 - rng.uniform(0, 0.1))
    kinds = ["stop"] * 3 + ["detour", "gap"] * detour
    events = sorted((rng.uniform(at + 0.08 * n, end - 0.08 * n), kind) for kind in kinds)
    while at <= end:
        seen.append((at, round(at)))
        speed = float(np.clip(0.95 * speed + rng.normal(0, 0.2), -0.69, 0.69))
        at += np.exp(speed)
        while events and at >= events[0][0]:
            kind = events.pop(0)[1]
            if kind == "stop":
                seen += [(at, round(at))] * int(rng.integers(5, 25))
            elif kind == "gap":
                at += rng.integers(20, 40)
            else:
                length, first = int(rng.integers(20, 60)), int(rng.integers(n, 740))
                seen += [(np.nan, first + i) for i in range(length)]
                at += rng.integers(0, length)
    kept = [frame for frame in seen if rng.random() >= drop]
    return np.array([p for p, _ in kept]), np.array([f for _, f in kept])


def judged(track: Track, places: np.ndarray, at: np.ndarray) -> tuple[str, str, np.ndarray]:
    """Share within two frames, 90th percentile of the error, and what became of frames without a place.

    `at` are the places of the anchor's frames. The last are three numbers: frames without a place that were given none,
    all that were given none, and all without a place. Neither of the last two counts frames of which both are true: the
    anchor drove past, and no frame of it was taken within `NEAR` places.
    """
    away = distances(places, at)
    nearest, order = away.min(axis=1), np.sort(at)
    around = np.concatenate([[np.inf], np.diff(order), [np.inf]])[np.searchsorted(order, places)]
    null = (nearest > FAR) & (np.isnan(places) | (around >= LACKED))
    off, told = track.places < 0, null | (nearest <= NEAR)
    error = [
        np.abs(np.flatnonzero(away[i] <= nearest[i] + 0.5) - track.places[i]).min()
        for i in np.flatnonzero(~null & ~off)
    ]
    counts = np.array([(null & off).sum(), (off & told).sum(), null.sum()])
    return f"{100 * np.mean(np.array(error) <= 2):.1f} %", f"{np.quantile(error, 0.9):.0f}", counts


def distances(places: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Distances (q, N) of frames from the anchor's, in places; infinite where a frame has no place (NaN)."""
    return np.abs(np.where(np.isnan(places), np.inf, places)[:, None] - at)


def precision_and_recall(both: int, found: int, true: int) -> tuple[str, str]:
    """Of what was found, what is true; and of what is true, what was found."""
    return tuple(f"{both / n:.2f}" if n else "–" for n in (found, true))


def town(folder: Path, model_name: str) -> None:
    """Drives through the rendered town: how they line up, a map of them, the night along it, and a map with a hole."""
    drives = town_recordings(folder, 0, model_name)
    grid = get_model(model_name).grid
    found = align({name: vectors_of(drives[name][0]) for name in drives}, anchor="sun", grid=grid)
    at = drives["sun"][1][found.tracks["sun"].references]
    header(f"town_drives, {model_name}, to 'sun'", "within ±2", "p90", "null precision", "null recall")
    for name, track in found.tracks.items():
        if name != "sun":
            *errors, counts = judged(track, drives[name][1], at)
            row(f"{name}, {len(track.places)} frames", *errors, *precision_and_recall(*counts))
    lined = place_map_of({name: aligned(found.tracks[name], drives[name]) for name in MAPPED}, model_name)
    true = place_map_of({name: nearest(drives[name], at) for name in MAPPED}, model_name)
    once = place_map_of({name: each_once(*nearest(drives[name], at)) for name in MAPPED}, model_name)
    header("R@1 (±2 frames)", *WAYS)
    maps = {"map by sight": lined, "map by truth": true, "map by truth, each frame at one place": once}
    for title, place_map in maps.items():
        for name in ("night", "snow"):
            size = f"{sum(place_map.traversals.values())} references"
            row(f"{title}, {size}, {name}", *recalls(place_map, *drives[name], at))
    removed(drives, at, {"a fifth of the places removed": [(0.4, 0.6)]}, model_name)
    shuffled(true, *drives["snow"], at)


def gaps(folder: Path, n_towns: int, renumbered: bool, begins_off: float, model_name: str) -> None:
    """Other stretches removed from the map, in several towns; the first of them is that of `town`."""
    stretches = {
        "the first fifth removed": [(0.0, 0.2)],
        "the middle fifth removed": [(0.4, 0.6)],
        "the last fifth removed": [(0.8, 1.0)],
        "two tenths removed": [(0.2, 0.3), (0.65, 0.75)],
    }
    for seed in range(n_towns):
        drives = town_recordings(folder.with_name(f"{folder.name}{seed or ''}"), seed, model_name)
        at = drives["sun"][1][without_stops(vectors_of(drives["sun"][0]))[1]]
        print(f"\ntown {seed}\n")
        removed(drives, at, stretches, model_name, renumbered, begins_off)


def elsewhere(folder: Path, n_towns: int) -> None:
    """Maps of a town asked for drives through the next one, and for drives that visit it; what lines up with what."""
    towns = [
        town_recordings(folder.with_name(f"{folder.name}{seed or ''}"), seed) for seed in range(n_towns + 1)
    ]
    wrong: dict[str, list[tuple[float, ...]]] = {}
    for drives, others in pairwise(towns):
        at = drives["sun"][1][without_stops(vectors_of(drives["sun"][0]))[1]]
        for names in (MAPPED, MAPPED[::3], MAPPED[:1]):
            place_map = place_map_of({name: nearest(drives[name], at) for name in names})
            for name in ("sun", "dusk", "night", "snow"):
                frames = others[name][0]
                found = elsewhere_judged(place_map, frames, np.full(len(frames), np.nan), at)
                wrong.setdefault(f"another town, map of {len(names)}", []).append(found)
            for name in ("night", "snow"):
                visit = [others[name][0][:110], drives[name][0][60:140], others[name][0][110:]]
                places = [np.full(110, np.nan), drives[name][1][60:140], np.full(len(visit[2]), np.nan)]
                found = elsewhere_judged(place_map, np.concatenate(visit), np.concatenate(places), at)
                wrong.setdefault(f"another town and 80 frames of this one, map of {len(names)}", []).append(
                    found
                )
    header(
        "drives through",
        "wrongly located, followed",
        "smoothed",
        "elsewhere and told so, followed",
        "smoothed",
        "R@1 on the map, smoothed",
    )
    for title, found in wrong.items():
        row(f"{title}, {len(found)} drives", *_percents(np.array(found)))
    grid = get_model("hog").grid
    names = list(towns[0])
    header("two recordings", "lined up", "refused")
    for title, step in (("of one town", 0), ("of two towns", 1)):
        lined = [
            lines_up(towns[seed][a][0], towns[seed + step][b][0], grid)
            for seed in range(n_towns)
            for a, b in zip(names, names[1:] + names[:1], strict=True)
        ]
        row(title, str(sum(lined)), str(len(lined) - sum(lined)))


def _percents(found: np.ndarray) -> list[str]:
    """Means over drives, in percent; of what some of them have."""
    known = [column[~np.isnan(column)] for column in found.T]
    return [f"{100 * column.mean():.1f}" if len(column) else "–" for column in known]


def elsewhere_judged(
    place_map: displace.PlaceMap, frames: np.ndarray, places: np.ndarray, at: np.ndarray
) -> tuple[float, ...]:
    """Shares of a drive, followed and smoothed: frames located wrongly, frames elsewhere told so; right on the map."""
    away = distances(places, at)
    gone = away.min(axis=1) > 2
    ways = followed(place_map, frames)[0], smoothed(place_map, frames)
    off = [np.array([fix.off_map > 0.5 for fix in fixes]) for fixes in ways]
    right = [~gone & (np.abs(np.array([int(f.place) for f in w]) - away.argmin(axis=1)) <= 2) for w in ways]
    sure = [np.array([fix.probability >= 0.5 for fix in fixes]) for fixes in ways]
    wrong = [float((s & ~o & ~r).mean()) for s, o, r in zip(sure, off, right, strict=True)]
    on_map = float(right[1][~gone].mean()) if (~gone).any() else float("nan")
    return (*wrong, *(float(told[gone].mean()) for told in off), on_map)


def lines_up(one: np.ndarray, other: np.ndarray, grid: tuple[int, int, int] | None) -> bool:
    """Whether two recordings are lined up, rightly or not."""
    try:
        align({"one": vectors_of(one), "other": vectors_of(other)}, grid=grid)
    except displace.errors.InputError:
        return False
    return True


def town_recordings(folder: Path, seed: int, model_name: str = "hog") -> dict[str, References]:
    """Drives through a town, drawn where they are not there."""
    manifest = Manifest.read(town_drives.write(folder, seed=seed))
    pictures = seen(model_name, manifest.paths())
    return {
        name: (pictures[manifest.traversals == name], town_drives.driven(name, seed=seed))
        for name in town_drives.DRIVES
    }


def removed(
    drives: dict[str, References],
    at: np.ndarray,
    stretches: dict[str, list[tuple[float, float]]],
    model_name: str,
    renumbered: bool = False,
    begins_off: float = BEGINS_OFF,
) -> None:
    """Precision and recall of being off a map without some of its places, of two drives that it has not seen."""
    for title, parts in stretches.items():
        gone = [np.arange(int(first * len(at)), int(last * len(at))) for first, last in parts]
        kept = np.setdiff1d(np.arange(len(at)), np.concatenate(gone))
        header(title, "off-map precision", "off-map recall")
        holed = place_map_of(
            {name: nearest(drives[name], at, kept) for name in MAPPED}, model_name, renumbered
        )
        for name in ("night", "snow"):
            frames, places = drives[name]
            missing = distances(places, at[kept]).min(axis=1) > 2
            now, later = followed(holed, frames, begins_off)
            for way, fixes in (
                ("followed", now),
                (f"{LAG} frames later", later),
                ("smoothed", smoothed(holed, frames)),
            ):
                off = np.array([fix.off_map > 0.5 for fix in fixes])
                both = (off & missing).sum()
                row(f"{name}, {way}", f"{both / max(1, off.sum()):.2f}", f"{both / missing.sum():.2f}")


def followed(
    place_map: displace.PlaceMap,
    pictures: np.ndarray,
    begins_off: float = BEGINS_OFF,
    adapt: str = "online",
) -> tuple[list[Fix], list[Fix]]:
    """Fixes of a drive's frames as they come, and `LAG` frames later (at its end sooner)."""
    follower = place_map.follow(adapt=adapt, begins_off=begins_off, lag=LAG)
    now: list[Fix] = []
    later: list[Fix] = []
    for vector, sketch in zip(vectors_of(pictures), drawn_of(pictures), strict=True):
        now.append(follower.take(vector, sketch))
        if len(now) > LAG:
            later.append(follower.ago(LAG))
    later += [follower.ago(n) for n in range(min(LAG, len(now)) - 1, 0, -1)]
    return now, [*later, now[-1]]


References = tuple[np.ndarray, np.ndarray]
"""Pictures (`_seen.seen`), and the place of each."""


def aligned(track: Track, drive: References) -> References:
    """References of a recording as `displace align` makes them."""
    keep = track.references & (track.confidence >= LEAST_CONFIDENCE)
    return drive[0][keep], track.places[keep]


def nearest(drive: References, at: np.ndarray, kept: np.ndarray | None = None) -> References:
    """For each place the frame that was taken nearest to it, where one was within a place."""
    away = distances(drive[1], at)
    places = np.arange(len(at)) if kept is None else kept
    places = places[away[:, places].min(axis=0) <= 1]
    return drive[0][away[:, places].argmin(axis=0)], places


def each_once(pictures: np.ndarray, places: np.ndarray) -> References:
    """The same without frames that are the nearest of a place before, as an alignment gives a frame one place."""
    first = np.append(True, (np.diff(pictures, axis=0) != 0).any(axis=1))
    return pictures[first], places[first]


def place_map_of(
    references: dict[str, References], model_name: str = "hog", renumbered: bool = False
) -> displace.PlaceMap:
    """A map with confidence and sketches."""
    pictures, places = (np.concatenate(column) for column in zip(*references.values(), strict=True))
    ids = np.unique(places)
    refs = displace.ReferenceSet(
        vectors_of(pictures),
        places,
        np.repeat(list(references), [len(at) for _, at in references.values()]),
        info=Places(ids, frames=(np.arange(len(ids)) if renumbered else ids).astype(float)),
    )
    place_map = displace.build(refs, tolerance="2 frames", model={"model": model_name})
    return with_pictures_of(place_map, pictures, places)


def recalls(
    place_map: displace.PlaceMap, pictures: np.ndarray, places: np.ndarray, at: np.ndarray
) -> list[str]:
    """R@1 of each picture for itself, followed, later and smoothed, of frames at places of the map."""
    away = distances(places, at)
    here = away.min(axis=1) <= 2
    drive = *followed(place_map, pictures), smoothed(place_map, pictures)
    ways = (
        located(place_map, pictures, "none").places[:, 0],
        *(np.array([fix.place for fix in fixes]) for fixes in drive),
    )
    right = [np.abs(found.astype(int) - away.argmin(axis=1)) <= 2 for found in ways]
    return [f"{100 * flags[here].mean():.1f}" for flags in right]


def shuffled(place_map: displace.PlaceMap, frames: np.ndarray, places: np.ndarray, at: np.ndarray) -> None:
    """Frames that follow no order: what single frames reach must stay."""
    header("R@1, frames shuffled", *WAYS)
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(frames))
        row(f"snow, order {seed}", *recalls(place_map, frames[order], places[order], at))


def smoothing(n_frames: int, n_places: int) -> None:
    """Time and memory of smoothing a long drive along a large map."""
    place_map = map_of(n_places, 256, 1)
    at = np.clip(np.cumsum(np.random.default_rng(1).integers(0, 4, n_frames)), 0, n_places - 1)
    queries = seen_again(route(n_places, 256), at, 7)
    place_map.locate(queries[:1])
    cost = Cost()
    fixes = measure(lambda: place_map.smooth(queries, adapt="none"), cost)
    found = np.array([int(fix.place) for fix in fixes])
    told("smoothing", f"{n_frames} × {n_places}", cost, np.abs(found - at), 5)


def aligning(n_frames: int) -> None:
    """Time and memory of lining up two long recordings."""
    places = route(n_frames, 512)
    at = np.arange(n_frames)
    recordings = {name: seen_again(places, at, seed) for name, seed in (("day", 1), ("night", 2))}
    cost = Cost()
    if n_frames > 2000:
        sample = {name: standardised_recording(vectors) for name, vectors in recordings.items()}
        found = measure(lambda: pair(sample["night"], sample["day"]), cost).frames
    else:
        found = measure(lambda: align(recordings, anchor="day"), cost).tracks["night"].places
    told("aligning", f"{n_frames} × {n_frames}", cost, np.abs(found - at), 2)


def told(what: str, size: str, cost: Cost, away: np.ndarray, near: int) -> None:
    """Print time and memory of something, and how often it was near enough."""
    header(what, "CPU s", "extra MB", f"right (±{near})")
    right = 100 * float((away <= near).mean())
    row(size, f"{cost.median:.0f}", f"{cost.extra_bytes / 2**20:.0f}", f"{right:.1f} %")
