"""Drives: a step against locating one query, smoothing and aligning at size, and how well generated drives line up."""

from __future__ import annotations

import argparse
import time

import numpy as np

import displace
from benchmarks._measure import Cost, header, measure, row
from displace.places import Places
from displace.sequence.alignment import align
from displace.sequence.pairing import pair, standardised_recording

N_ROBOTCAR, DIM = 3876, 4096
"""RobotCar: places of a traversal, numbers of a descriptor."""


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sequence", description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--smooth", type=int, nargs=2, default=(10_000, 27_592), metavar=("FRAMES", "PLACES"))
    parser.add_argument("--align", type=int, default=20_000, metavar="FRAMES")
    parser.add_argument("--only", choices=("step", "smooth", "align"))
    options = parser.parse_args(argv)
    if options.only in (None, "step"):
        step_against_locate(options.steps)
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
    fusion = displace.DisPlace() if n_traversals > 1 else displace.get_fusion("hops")()
    return displace.build(refs, fusion, calibration=n_traversals > 2, dtype="float32", tolerance="5 frames")


def step_against_locate(n_steps: int) -> None:
    """CPU time of one step, beside that of locating the same query."""
    place_map = map_of(N_ROBOTCAR, DIM, 5)
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
    middle = {name: float(np.median(seconds[20:])) for name, seconds in cost.items()}
    header(f"{N_ROBOTCAR} places, D={DIM}, n={place_map.vectors.shape[1]}", "ms of CPU", "of locate")
    row("locate, one query", f"{1e3 * middle['locate']:.2f}", "1.00")
    row("step", f"{1e3 * middle['none']:.2f}", f"{middle['none'] / middle['locate']:.2f}")
    row("step, adapting", f"{1e3 * middle['online']:.2f}", f"{middle['online'] / middle['locate']:.2f}")


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
