"""Is the query in the map? Real images crosswise: sped400, nordland811 and the rendered town; needs the shared data.

Maps of each set, of few and many places, are asked for the pictures of a traversal that they have not seen, for the
half of their own route that they do not hold, and for pictures of the other sets. The calibration error is over the
traversal that was not seen and a third as many pictures without an answer, one half of them of the own route, one half
foreign (all foreign where the map holds the whole route). Descriptors are computed once and kept in --cache.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks._measure import header, row
from displace import PlaceMap, ReferenceSet, build
from displace.datasets import town
from displace.descriptors.extraction import describe
from displace.errors import ConditioningWarning
from displace.maps.calibration import calibration_error
from displace.models import get_model
from displace.places import Places

Descriptors = dict[str, np.ndarray]

TOWN_PLACES = 200
GAP = 5
"""Places at each side of a map that are neither in it nor in the half that it does not hold."""
ASKED = 600
"""Pictures of each other set that a map is asked for."""
NOT_IN_MAP = 1 / 3
"""Pictures without an answer for each one that has it, in the calibration error."""


@dataclass(frozen=True)
class Case:
    """One map: which set, which of its traversals, which places."""

    name: str
    references: list[str]
    query: str | None
    tolerance: str
    first: int
    n_places: int


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks confidence", description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "displace-confidence")
    parser.add_argument("--models", default="hog,efficientnet_lite")
    parser.add_argument("--sizes", default="30,80,200,400")
    options = parser.parse_args(argv)
    shared = Path(os.environ.get("DISPLACE_SHARED", "../shared")) / "data"
    if not shared.is_dir():
        print(f"skipped: no {shared}")
        return
    options.cache.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", ConditioningWarning)
    header(
        "map of",
        "traversals",
        "places",
        "model",
        "right ≥ 0.5",
        "own half ≥ 0.5",
        "≥ 0.8",
        "right at 1 % of own half",
        "foreign ≥ 0.5",
        "≥ 0.8",
        "calibration error",
    )
    for model in options.models.split(","):
        sets = {
            name: described(shared, name, model, options.cache) for name in ("sped400", "nordland811", "town")
        }
        for name, n_traversals, n_places in plan([int(size) for size in options.sizes.split(",")]):
            cases = list(cases_of(sets[name], name, n_traversals, n_places))
            row(name, n_traversals, n_places, model, *measured(cases, sets))


def plan(sizes: list[int]) -> Iterator[tuple[str, int, int]]:
    """Set, traversals and places of the maps in a table."""
    for name, total, most in (("sped400", 400, 3), ("nordland811", 811, 2), ("town", TOWN_PLACES, 5)):
        for n_traversals in (1, 2, 3, 5):
            for n_places in sizes:
                few = n_traversals < min(most, 3)
                if n_traversals <= most and n_places <= total and not (few and n_places > 80):
                    yield name, n_traversals, n_places


def described(shared: Path, name: str, model: str, cache: Path) -> Descriptors:
    """Descriptors of a set by traversal, row i being place i."""
    path = cache / f"{name}_{model}.npz"
    if not path.is_file():
        root = shared / name
        if name == "town":
            root = cache / "town"
            town.write(root, places=TOWN_PLACES)
        folders = sorted(folder for folder in root.iterdir() if folder.is_dir())
        found = {folder.name: describe(get_model(model), sorted(folder.glob("*.jpg"))) for folder in folders}
        np.savez(path, **found)
    with np.load(path) as arrays:
        return {key: arrays[key].astype(np.float32) for key in arrays}


def cases_of(vectors: Descriptors, name: str, n_traversals: int, n_places: int) -> Iterator[Case]:
    """Maps of one line: several where they are small, with other places and, in the town, another query."""
    total = len(next(iter(vectors.values())))
    for number in range({30: 4, 80: 2}.get(n_places, 1)):
        half = total // 2
        room = half - n_places
        first = (number % 2) * half + (37 * number % room if room > 0 else 0) if room >= 0 else 0
        if name == "sped400":
            names, query, tolerance = ["ref1", "ref2", "ref3"], "query", "exact"
        elif name == "nordland811":
            names, tolerance = ["summer", "winter"], "2 frames"
            query = "winter" if n_traversals == 1 else None
        else:
            query, tolerance = town.TRAVERSALS[(4 + number) % 6], "1 frames"
            names = [other for other in town.TRAVERSALS if other != query]
        yield Case(name, names[:n_traversals], query, tolerance, first, n_places)


def measured(cases: list[Case], sets: dict[str, Descriptors]) -> list[str]:
    """Shares (%) of accepted pictures, and the calibration error, over the maps of one line."""
    right, half, foreign, judged = [], [], [], []
    for case in cases:
        place_map = map_of(case, sets[case.name])
        inside = np.arange(case.first, case.first + case.n_places)
        total = len(next(iter(sets[case.name].values())))
        outside = np.setdiff1d(np.arange(total), np.arange(inside[0] - GAP, inside[-1] + GAP + 1))
        asked = [case.query] if case.query else case.references
        rng = np.random.default_rng(0)
        pictures = [np.concatenate(list(sets[name].values())) for name in sets if name != case.name]
        foreign.append(
            sure(place_map, np.concatenate([some[rng.permutation(len(some))[:ASKED]] for some in pictures]))
        )
        without = [foreign[-1]]
        if len(outside):
            half.append(sure(place_map, np.concatenate([sets[case.name][name][outside] for name in asked])))
            without.append(half[-1])
        if case.query:
            matches = place_map.locate(sets[case.name][case.query][inside], k=1)
            assert matches.confidence is not None
            correct = place_map.state.truth.correct(matches.places[:, 0], inside)
            right.append(matches.confidence[correct])
            judged.append((matches.confidence, correct, np.ones(len(inside))))
            for part in without:
                counts = np.full(len(part), NOT_IN_MAP * len(inside) / len(without) / len(part))
                judged.append((part, np.zeros(len(part), bool), counts))
    error = "–"
    if judged:
        error = f"{calibration_error(*(np.concatenate(part) for part in zip(*judged, strict=True))):.3f}"
    return [
        share(right, 0.5),
        share(half, 0.5),
        share(half, 0.8),
        share(right, np.nextafter(np.quantile(np.concatenate(half), 0.99), 1)) if right and half else "–",
        share(foreign, 0.5),
        share(foreign, 0.8),
        error,
    ]


def map_of(case: Case, vectors: Descriptors) -> PlaceMap:
    """Build the map of a case."""
    ids = np.arange(case.first, case.first + case.n_places)
    n = len(case.references)
    refs = ReferenceSet(
        np.concatenate([vectors[name][ids] for name in case.references]),
        np.tile(ids, n),
        np.repeat(np.array(case.references), len(ids)),
        info=Places(ids, frames=ids),
    )
    return build(refs, tolerance=case.tolerance)


def sure(place_map: PlaceMap, queries: np.ndarray) -> np.ndarray:
    """Confidence of each query; 0 where the map has none."""
    confidence = place_map.locate(queries, k=1).confidence
    return np.zeros(len(queries)) if confidence is None else confidence


def share(parts: list[np.ndarray], limit: float) -> str:
    """Share (%) of all values that reach a limit."""
    values = np.concatenate(parts) if parts else np.empty(0)
    return f"{100 * np.mean(values >= limit):.1f}" if len(values) else "–"
