"""Drives: a step against locating one query, smoothing and aligning at size, and how well generated drives line up."""

from __future__ import annotations

import argparse
import time

import numpy as np

import displace
from benchmarks._measure import Cost, header, measure, row
from benchmarks._shared import shared_folder
from displace.images import read_image
from displace.models import get_model
from displace.places import Places
from displace.sequence.alignment import align, in_order
from displace.sequence.pairing import Pairing, pair, standardised_recording

N_ROBOTCAR, DIM = 3876, 512
"""RobotCar: places of a traversal, numbers of a descriptor."""


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sequence", description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--smooth", type=int, nargs=2, default=(10_000, 27_592), metavar=("FRAMES", "PLACES"))
    parser.add_argument("--align", type=int, default=20_000, metavar="FRAMES")
    parser.add_argument("--drives", type=int, default=3, help="generated drives along nordland811")
    parser.add_argument("--only", choices=("step", "smooth", "align", "drives"))
    options = parser.parse_args(argv)
    if options.only in (None, "step"):
        step_against_locate(options.steps)
    if options.only in (None, "drives"):
        real_seasons(options.drives)
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


def map_of(n_places: int, dim: int, n_traversals: int) -> displace.PlaceMap:
    """A map of generated references, in route order."""
    places = route(n_places, dim)
    ids = np.array([f"{p:05d}" for p in range(n_places)])
    vectors = np.concatenate([seen_again(places, np.arange(n_places), t + 1) for t in range(n_traversals)])
    refs = displace.ReferenceSet(
        vectors,
        np.tile(ids, n_traversals),
        np.repeat([f"t{t}" for t in range(n_traversals)], n_places),
        info=Places(ids, frames=np.arange(n_places)),
    )
    return displace.build(refs, "hops", calibration=False, dtype="float32", tolerance="5 frames")


def step_against_locate(n_steps: int) -> None:
    """CPU time of one step, beside that of locating the same query."""
    place_map = map_of(N_ROBOTCAR, DIM, 1)
    queries = seen_again(route(N_ROBOTCAR, DIM), np.arange(n_steps) + 500, 99)
    followers = {mode: place_map.follow(adapt=mode) for mode in ("none", "online")}
    cost: dict[str, list[float]] = {"locate": [], "none": [], "online": []}
    for query in queries:  # in turn, so that a busy machine slows all alike
        start = time.process_time()
        place_map.locate(query[None])
        cost["locate"].append(time.process_time() - start)
        for mode, follower in followers.items():
            start = time.process_time()
            follower.step(query)
            cost[mode].append(time.process_time() - start)
    # The mean, as not all steps cost the same, without the slowest 5 % (interrupts).
    middle = {name: float(np.mean(sorted(times[20:])[: int(0.95 * n_steps)])) for name, times in cost.items()}
    header(f"{N_ROBOTCAR} places, D={DIM}, n={place_map.vectors.shape[1]}", "ms of CPU", "of locate")
    row("locate, one query", f"{1e3 * middle['locate']:.2f}", "1.00")
    row("step", f"{1e3 * middle['none']:.2f}", f"{middle['none'] / middle['locate']:.2f}")
    row("step, adapting", f"{1e3 * middle['online']:.2f}", f"{middle['online'] / middle['locate']:.2f}")


def real_seasons(n_drives: int) -> None:
    """How well generated drives along a real railway line up: speeds, stops, detours, gaps, dropped frames."""
    folder = shared_folder() / "data" / "nordland811"
    if not folder.is_dir():
        print(f"skipped: no {folder}")
        return
    model = get_model("hog")
    seasons = {
        season: np.stack(
            [model.prepare(read_image(file)) for file in sorted((folder / season).glob("*.jpg"))]
        )
        for season in ("summer", "winter")
    }
    header("alignment, HOG", "within ±2", "p90", "null precision", "null recall")
    for seed in range(n_drives):
        rng = np.random.default_rng(seed)
        drop = 0.3 * (seed % 2)
        anchor, anchor_frames = drive(650, rng, detour=False, drop=drop)
        queries, query_frames = drive(650, rng, detour=True, drop=drop)
        found = in_order(
            pair(
                standardised_recording(seasons["summer"][query_frames]),
                standardised_recording(seasons["winter"][anchor_frames]),
            )
        )
        row(f"summer to winter, drive {seed}, {len(queries)} frames", *judged(found, queries, anchor))


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


def judged(found: Pairing, queries: np.ndarray, anchor: np.ndarray) -> list[str]:
    """Share within two frames, 90th percentile of the error, precision and recall of frames without a place."""
    away = np.abs(queries[:, None] - anchor)
    away[np.isnan(queries)] = np.inf
    nearest = away.min(axis=1)
    null, off = nearest > 4, found.off >= 0.5
    error = [
        np.abs(np.flatnonzero(away[i] <= nearest[i] + 0.5) - found.frames[i]).min()
        for i in np.flatnonzero(~null & ~off)
    ]
    both = (null & off).sum()
    return [
        f"{100 * np.mean(np.array(error) <= 2):.1f} %",
        f"{np.quantile(error, 0.9):.0f}",
        f"{both / max(1, off.sum()):.2f}",
        f"{both / max(1, null.sum()):.2f}",
    ]


def smoothing(n_frames: int, n_places: int) -> None:
    """Time and memory of smoothing a long drive along a large map."""
    place_map = map_of(n_places, 256, 1)
    at = np.clip(np.cumsum(np.random.default_rng(1).integers(0, 4, n_frames)), 0, n_places - 1)
    queries = seen_again(route(n_places, 256), at, 7)
    place_map.locate(queries[:1])
    cost = Cost()
    fixes = measure(lambda: place_map.smooth(queries, adapt="none"), cost)
    found = np.array([int(fix.place) for fix in fixes])
    header("smoothing", "CPU s", "extra MB", "right (±5)")
    right = float((np.abs(found - at) <= 5).mean())
    row(
        f"{n_frames} × {n_places}",
        f"{cost.median:.0f}",
        f"{cost.extra_bytes / 2**20:.0f}",
        f"{100 * right:.1f} %",
    )


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
    header("aligning", "CPU s", "extra MB", "right (±2)")
    right = float((np.abs(found - at) <= 2).mean())
    row(
        f"{n_frames} × {n_frames}",
        f"{cost.median:.0f}",
        f"{cost.extra_bytes / 2**20:.0f}",
        f"{100 * right:.1f} %",
    )
