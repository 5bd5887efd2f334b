"""What DisPlace decides for places with one view and with many, and what would have been best; needs the shared data.

Real: nordland811 in one season, 4 and 8 frames a place, asked in the other, as it is and adapted to the queries'
condition; sped400, every folder asked in turn. Rendered: the town, every condition asked in turn, and its panoramas
(drawn on the first run into --panoramas), asked from another lane. The last line is the cost of deciding.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks._measure import header, interleaved, row
from benchmarks._shared import shared_folder
from displace import DisPlace, ReferenceSet, get_fusion
from displace.datasets import town, town_panoramas
from displace.errors import ConditioningWarning
from displace.fusion.base import Rows
from displace.fusion.solver.views import group_views
from displace.images import find_images, read_image
from displace.manifest.table import Manifest
from displace.models import get_model
from displace.references import heading_groups
from displace.sequence.adaptation import MapRows
from displace.sequence.adaptation import adapt as adapt_to
from displace.synthetic import make_route

Arrays = dict[str, np.ndarray]
Case = tuple[str, ReferenceSet, np.ndarray, np.ndarray]


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks views", description=__doc__)
    parser.add_argument("--models", nargs="+", default=["hog", "efficientnet_lite"])
    parser.add_argument("--panoramas", type=Path, default=Path(tempfile.gettempdir()) / "town_panoramas")
    parser.add_argument("--cache", type=Path, help="folder with descriptors NAME_MODEL.npz of earlier runs")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore", ConditioningWarning)
    header("case", "HOPS", "Pooling", "DisPlace()", "rows a place", "what it did")
    for model in options.models:
        for case in _drives(model, options.cache):
            _line(*case)
            _line(*case, adapt=True)
        for case in (
            *_each_in_turn("sped400", model, options.cache),
            *_each_in_turn("town", model, options.cache),
        ):
            _line(*case)
    for model in options.models:
        _pairs(model, options.cache)
        for name in ("sped400", "town"):
            _two_traversals(name, model, options.cache)
    _panoramas(options.panoramas)
    _cost()


def _pairs(model: str, cache: Path | None) -> None:
    """Say how many of the views that were paired across two seasons are the same frame."""
    arrays = _described("nordland811", model, cache)
    for n in (4, 8, 16) if arrays else ():
        frames = np.arange(len(arrays["summer"]))
        vectors = np.concatenate([arrays["summer"], arrays["winter"]])
        found = group_views(vectors, np.tile(frames // n, 2), np.repeat(["summer", "winter"], len(frames)))
        summer, winter = np.split(found.index, 2)
        paired, a, b = np.intersect1d(summer, winter, return_indices=True)
        print(
            f"\nnordland811 {model}, {n} frames a place: {len(paired)} pairs, {100 * np.mean(a == b):.1f} % right"
        )


def _two_traversals(name: str, model: str, cache: Path | None) -> None:
    """Compare the default with the better of HOPS and pooling where the map has two traversals, decided by rule."""
    arrays = _described(name, model, cache)
    ahead = []
    for query in arrays:
        for pair in combinations([other for other in arrays if other != query], 2):
            refs = ReferenceSet.from_traversals({other: arrays[other] for other in pair})
            found = [
                100 * float(np.mean(get_fusion(f)().fit_references(refs).predict(arrays[query]) == truth))
                for truth in [np.arange(len(arrays[query]))]
                for f in ("hops", "pooling", "displace")
            ]
            ahead.append(found[2] - max(found[:2]))
    if ahead:
        print(
            f"\n{name} {model}, two traversals in the map, {len(ahead)} cases: DisPlace() is ahead of the better of "
            f"HOPS and pooling in {np.sum(np.array(ahead) >= 0)}, by {np.mean(ahead):.1f} on average, at least "
            f"{min(ahead):.1f}"
        )


def _line(
    name: str, refs: ReferenceSet, queries: np.ndarray, places: np.ndarray, adapt: bool = False
) -> None:
    """One row of the table."""
    found = {}
    for name_of in ("hops", "pooling", "displace"):
        fusion = get_fusion(name_of)().fit_references(refs)
        scores = _adapted(fusion.rows(), queries) if adapt else fusion.rows().scores(queries)
        found[name_of] = 100 * float(np.mean(fusion.place_ids_[scores.argmax(axis=1)] == places))
    worse = max(found["hops"], found["pooling"]) - found["displace"]
    row(
        name + (", adapted" if adapt else ""),
        *(f"{value:.1f}" for value in found.values()),
        f"{len(fusion.rows().vectors) / len(refs.place_ids):.1f}",
        f"{_decision(fusion.explain())}{f'; {worse:.1f} below the best' if worse > 0 else ''}",
    )


def _adapted(rows: Rows, queries: np.ndarray) -> np.ndarray:
    """Scores of places as `locate(adapt="batch")` has them."""
    starts = np.searchsorted(rows.place_index, np.arange(rows.place_index[-1] + 1))
    projected = rows.project(queries)
    return adapt_to(MapRows(rows.vectors, starts), projected).scores(projected)


def _decision(reason: str) -> str:
    """The reason without its numbers."""
    head, _, why = reason.partition(": ")
    return f"{'P = I' if head.startswith('P = I') else 'projected'}; {why.split('(')[0].strip()}"


def _drives(model: str, cache: Path | None) -> Iterator[Case]:
    arrays = _described("nordland811", model, cache)
    for n in (4, 8) if arrays else ():
        places = np.arange(len(arrays["summer"])) // n
        for season, other in (("summer", "winter"), ("winter", "summer")):
            refs = ReferenceSet(arrays[season], places, [season] * len(places))
            yield f"nordland811 {model}, {n} frames a place, {season} → {other}", refs, arrays[other], places


def _each_in_turn(name: str, model: str, cache: Path | None) -> Iterator[Case]:
    arrays = _described(name, model, cache)
    for query in arrays:
        refs = ReferenceSet.from_traversals({name: arrays[name] for name in arrays if name != query})
        yield f"{name} {model}, {query}", refs, arrays[query], np.arange(len(arrays[query]))


def _described(name: str, model: str, cache: Path | None) -> Arrays:
    """Descriptors of each folder's images; none, and a line that says so, where they are absent."""
    kept = None if cache is None else cache / f"{name}_{model}.npz"
    if kept is not None and kept.is_file():
        with np.load(kept) as arrays:
            return {key: arrays[key].astype(np.float32) for key in arrays}
    folder = shared_folder() / "data" / name
    if name == "town":
        folder = Path(tempfile.gettempdir()) / "town"
        town.write(folder)
        return {key: _describe(model, find_images(folder / key)) for key in town.TRAVERSALS}
    if not folder.is_dir():
        print(f"skipped: no {folder}")
        return {}
    return {path.name: _describe(model, find_images(path)) for path in sorted(folder.iterdir())}


def _describe(model: str, images: list[Path]) -> np.ndarray:
    describer = get_model(model)
    parts = [images[at : at + 32] for at in range(0, len(images), 32)]
    return np.concatenate(
        [describer.describe(np.stack([describer.prepare(read_image(i)) for i in part])) for part in parts]
    ).astype(np.float32)


def _panoramas(folder: Path) -> None:
    """R@1 on the panoramas by rows a place: given and found views, pooling with all, one row."""
    manifest = Manifest.read(town_panoramas.write(folder))
    vectors = _describe("hog", manifest.paths())
    asked = ("night", "snow")
    mine = ~np.isin(manifest.traversals, asked)
    groups = heading_groups(manifest.heading[mine], manifest.places[mine], manifest.traversals[mine])
    alternatives = {
        "HOPS": get_fusion("hops")(),
        "Pooling": get_fusion("pooling")(),
        "DisPlace, places": DisPlace(views=False, project=True),
        **{f"DisPlace, views, n_rows={n}": DisPlace(n_rows=n) for n in (1, 2, 4, 6, 12)},
        "DisPlace()": DisPlace(),
    }
    for sort, given in (("headings", groups), ("found", None)):
        print()
        header(f"town_panoramas, {sort}", *asked, "mean", "rows a place", "MiB")
        for name, fusion in alternatives.items():
            views = {"groups": given} if isinstance(fusion, DisPlace) else {}
            fusion.fit(vectors[mine], manifest.places[mine], manifest.traversals[mine], **views)
            found = [
                100 * float(np.mean(fusion.predict(vectors[at]) == manifest.places[at]))
                for at in (manifest.traversals == query for query in asked)
            ]
            stored = fusion.rows()
            rows = len(stored.vectors) / len(fusion.place_ids_)
            row(
                name,
                *(f"{value:.1f}" for value in (*found, float(np.mean(found)))),
                f"{rows:.1f}",
                f"{fusion.nbytes_ / 2**20:.1f}",
            )


def _cost() -> None:
    """CPU time of a fit that decides, and of one that is told what to do, at the size of RobotCar with D=512."""
    refs = make_route(n_places=3876, n_traversals=5, dim=512).references
    told = DisPlace(ridge=1e-4, center=False)
    costs = interleaved(
        {
            "told": lambda: told.fit(refs.vectors, refs.places, refs.traversals),
            "decides": lambda: DisPlace().fit(refs.vectors, refs.places, refs.traversals),
        },
        5,
    )
    fixed, auto = costs["told"].median, costs["decides"].median
    print(
        f"\nN=3876, K=5, D=512: fit {fixed:.2f} s, with its decision {auto:.2f} s: "
        f"the choice costs {(auto - fixed) / fixed:.2f}× the fit"
    )
