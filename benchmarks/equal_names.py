"""Whether `build` tells recordings in step from those with equal file names and other speeds, on a real railway.

Cells are counts: names kept, recordings lined up by sight, refused as of different routes.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks._measure import header, row
from benchmarks._shared import shared_folder
from displace.descriptors.extraction import describe
from displace.descriptors.imported import write_store
from displace.descriptors.store import DescriptorStore, Queries
from displace.errors import InputError
from displace.manifest.table import Manifest
from displace.models import get_model
from displace.neighbours import sample
from displace.verbs._sight import check_names

Case = tuple[np.ndarray, np.ndarray]
"""Places at which the frames of two recordings were taken."""


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks equal_names", description=__doc__)
    parser.add_argument("--model", default="hog")
    parser.add_argument("--cases", type=int, default=6, help="of each kind and size")
    parser.add_argument("--sizes", type=int, nargs="+", default=[30, 60, 100, 200, 400])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    logging.getLogger("displace").setLevel(logging.ERROR)
    for name, pairs in (
        ("nordland811", [("summer", "winter"), ("winter", "summer")]),
        ("sped400", [("ref1", "query"), ("ref2", "ref3")]),
    ):
        folder = shared_folder() / "data" / name
        if not folder.is_dir():
            print(f"skipped: no {folder}")
            continue
        traversals = sorted({traversal for pair in pairs for traversal in pair})
        seen = {traversal: described(folder / traversal, options.model) for traversal in traversals}
        table(name, seen, pairs, options.model, options.cases, options.sizes, options.seed)


def described(folder: Path, model: str) -> np.ndarray:
    return describe(get_model(model), sorted(folder.glob("*.jpg")))


def table(
    name: str,
    seen: dict[str, np.ndarray],
    pairs: list[tuple[str, str]],
    model: str,
    n_cases: int,
    sizes: list[int],
    seed: int,
) -> None:
    """Judge recordings of each kind and size; sped400 has no route, and is judged in step only."""
    rng = np.random.default_rng(seed)
    n_places = len(seen[pairs[0][0]])
    sizes = [n for n in sizes if n <= n_places]
    print()
    header(f"{name}, {model}: kept / lined up / refused", *(f"{n} frames" for n in sizes), *SHARES)
    for kind in KINDS if name == "nordland811" else KINDS[:1]:
        cells: list[str] = []
        off: dict[str, list[int]] = {outcome: [] for outcome in OUTCOMES}
        for n in sizes:
            outcomes = []
            for case in range(n_cases):
                a, b = pairs[case % len(pairs)]
                for at_a, at_b in of_kind(kind, n, n_places, rng):
                    outcome, away = judged(seen[a][at_a], seen[b][at_b], at_a, at_b)
                    outcomes.append(outcome)
                    off[outcome] += away
            cells.append(" / ".join(str(outcomes.count(outcome)) for outcome in OUTCOMES))
        near = (off[outcome] for outcome in OUTCOMES[:2])
        row(kind, *cells, *(f"{100 * np.mean(np.array(own) <= 2):.1f} %" if own else "–" for own in near))


OUTCOMES = ["kept", "lined up", "refused"]
SHARES = ["kept: within ±2", "lined up: within ±2"]
KINDS = [
    "in step",
    "5 behind",
    "25 behind",
    "50 behind",
    "speeds 0.8 to 1.25",
    "speeds 0.5 to 2",
    "one stops",
    "other routes",
    "backwards",
]


def of_kind(kind: str, n: int, n_places: int, rng: np.random.Generator) -> Iterator[Case]:
    """Where two recordings of `n` frames were, for a start that leaves room for it; none where nothing is in common."""
    start = int(rng.integers(0, n_places - n + 1))
    at = np.arange(start, start + n)
    if kind == "in step":
        yield at, at
    elif kind.endswith("behind"):
        behind = int(kind.split()[0])
        if 2 * behind <= n <= n_places - behind:
            at = np.arange(n) + int(rng.integers(0, n_places - n - behind + 1))
            yield at, at + behind
    elif kind.startswith("speeds"):
        least, most = float(kind.split()[1]), float(kind.split()[3])
        yield driven(start, n, n_places, least, most, rng), driven(start, n, n_places, least, most, rng)
    elif kind == "one stops":
        since = int(rng.integers(n // 4, n // 2))
        yield at, np.r_[at[:since], np.full(n // 8, at[since]), at[since:]][:n]
    elif kind == "backwards":
        yield at, at[::-1]
    elif 2 * n < n_places:
        yield at, (start + n + int(rng.integers(0, n_places - 2 * n + 1)) + np.arange(n)) % n_places


def driven(
    start: int, n: int, n_places: int, least: float, most: float, rng: np.random.Generator
) -> np.ndarray:
    """Places of the frames of a drive whose speed changes every 30 frames."""
    knots = np.exp(rng.uniform(np.log(least), np.log(most), n // 30 + 2))
    speed = np.interp(np.arange(n), 30 * np.arange(len(knots)), knots)
    return np.minimum(start + np.r_[0, np.cumsum(speed[:-1])], n_places - 1).round().astype(int)


def judged(a: np.ndarray, b: np.ndarray, at_a: np.ndarray, at_b: np.ndarray) -> tuple[str, list[int]]:
    """What becomes of two recordings with equal names, and how far off each reference is."""
    with tempfile.TemporaryDirectory() as folder:
        names = np.repeat(["a", "b"], [len(a), len(b)])
        places = np.concatenate([np.arange(len(a)), np.arange(len(b))])
        labels = [f"{place:05d}" for place in places]
        images = [f"{name}/{label}.jpg" for name, label in zip(names, labels, strict=True)]
        manifest = Manifest(images, labels, names, folder, frame=places)
        written = Path(folder) / "drives.desc"
        write_store(Queries(np.concatenate([a, b]), manifest.places, manifest), written, "made")
        store, output = DescriptorStore(written), Path(folder) / "drives.csv"
        try:
            check_names(store, sample(store.stream()), output, None)
        except InputError:
            return "refused", []
        if not output.exists():
            return "kept", np.abs(at_a - at_b).tolist()
        found = Manifest.read(output)
    shown = dict(zip("ab", (at_a, at_b), strict=True))
    first: dict[str, dict[str, int]] = {"a": {}, "b": {}}
    for name in "ab":
        own = found.places[found.traversals == name]
        for place, where in zip(own.tolist(), shown[name].tolist(), strict=True):
            if place:
                first[name][place] = where
    return "lined up", [abs(first["a"][p] - first["b"][p]) for p in first["a"].keys() & first["b"].keys()]
