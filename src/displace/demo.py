"""The demonstration, from the first picture to the page, on the same steps as anybody's own recordings."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from displace.datasets import town
from displace.descriptors.extraction import Progress, extract
from displace.descriptors.preparation import n_cores
from displace.descriptors.store import DescriptorStore, is_store
from displace.errors import DisplaceError, InputError
from displace.evaluation.benchmark import run_suite
from displace.evaluation.methods import Method, methods_named
from displace.evaluation.suites import Suite
from displace.files.atomic import atomic_write
from displace.manifest.place_assignment import KnownPlaces
from displace.manifest.table import Manifest
from displace.maps import PlaceMap, build
from displace.models import get_model
from displace.report.demonstration import Demo, demo_markdown
from displace.report.html.demo_page import write_demo_page
from displace.threads import limit_threads

__all__ = ["Demo", "run"]

QUERY = "night"
PROTOCOL = "town-1"
TOLERANCE = 9.0
"""Metres that reach the neighbouring places of the town and no others: the protocol's "right", for the confidence."""
MIN_PLACES = 20


def run(folder: str | os.PathLike[str], places: int, progress: Progress | None = None) -> Demo:
    """Draw the town, describe it, map it without the night, locate the night, compare all fusions.

    Run again, it keeps the pictures, descriptors and results that are there.

    Parameters
    ----------
    folder : path-like
        Where everything goes; created where absent.
    places : int
        Places along the route, 20 to 2000.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    if not MIN_PLACES <= places <= town.MAX_PLACES:
        raise InputError(
            f"places={places} must be from {MIN_PLACES} to {town.MAX_PLACES}: with fewer there is nothing to compare"
        )
    folder = Path(folder)
    check_own(folder)
    manifest = town.write(
        folder / "town", places, workers=n_cores(), progress=_stage(progress, "drawing the town")
    )
    store = extract(
        Manifest.read(manifest), get_model("hog"), folder / "town.desc", strict=True, progress=progress
    ).store
    queries = store.queries(QUERY)
    protocol = town.Town().protocol(PROTOCOL)
    methods = (Method("single", each_reference=True), *methods_named())
    suite = Suite("town", "the town", "town", protocol, methods, {"hog": folder / "town.desc"})
    with limit_threads(1):  # these problems are too small for more, and every fusion is timed alike
        place_map = _build(store, _stage(progress, "calibrating"))
        matches = place_map.locate(queries.vectors, k=5)
        results = run_suite(suite, folder / "demo_results", progress).results
    demo = Demo(folder, place_map, queries.manifest, matches, results, protocol, QUERY)
    place_map.save(demo.map_file)
    with atomic_write(folder / "demo.md", "w") as file:
        file.write(demo_markdown(demo))
    write_demo_page(demo)
    return demo


def check_own(folder: Path) -> None:
    """Refuse a folder in which something of another origin has a name that the demonstration writes to."""
    for name, own in (("town.displace", _own_map), ("town.desc", _own_store), ("demo.html", _own_page)):
        path = folder / name
        if path.exists() and not own(path):
            raise InputError(
                f"{path} was not made by displace demo, which would replace it: choose another folder with --folder"
            )


def _own_map(path: Path) -> bool:
    try:
        found = PlaceMap.load(path, verify=False)
    except DisplaceError:
        return False
    return sorted(map(str, found.traversals)) == sorted(set(town.TRAVERSALS) - {QUERY})


def _own_store(path: Path) -> bool:
    return (
        is_store(path) and DescriptorStore(path).manifest.root.resolve() == (path.parent / "town").resolve()
    )


def _own_page(path: Path) -> bool:
    return "<title>displace: located at" in path.read_text("utf-8", errors="replace")[:1000]


def _build(store: DescriptorStore, progress: Callable[[int, int], None] | None) -> PlaceMap:
    """Build the map of all traversals but the query's."""
    refs = store.references(exclude=[QUERY])
    rows = store.manifest.select(store.traversals != QUERY)
    known = KnownPlaces.of(rows)
    order = np.argsort(known.ids)
    first = dict(zip(reversed(rows.places.tolist()), reversed(rows.images), strict=True))
    return build(
        refs,
        model=store.model,
        positions=None if known.positions is None else known.positions.take(order),
        images=[first[place] for place in refs.place_ids.tolist()],
        tolerance=TOLERANCE,
        progress=progress,
    )


def _stage(progress: Progress | None, name: str) -> Callable[[int, int], None] | None:
    return None if progress is None else partial(progress, name)
