"""The demonstration from the first picture to the page."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from displace.datasets import town
from displace.demo.comparison import compare
from displace.demo.markdown import comparison_markdown
from displace.demo.outcome import Demo
from displace.demo.page import write_page
from displace.descriptors.extraction import Progress, extract
from displace.descriptors.preparation import n_cores
from displace.descriptors.store import DescriptorStore
from displace.errors import InputError
from displace.files.atomic import atomic_write
from displace.manifest.place_assignment import KnownPlaces
from displace.manifest.table import Manifest
from displace.maps import PlaceMap, build
from displace.models import get_model
from displace.threads import limit_threads

QUERY = "night"
PROTOCOL = "town-1"
TOLERANCE = 9.0
"""Metres that reach the neighbouring places of the town and no others: the protocol's "right", for the confidence."""
MIN_PLACES = 20


def run(folder: str | os.PathLike[str], places: int, progress: Progress | None = None) -> Demo:
    """Draw the town, describe it, map it without the night, locate the night, compare all fusions.

    Run again, it keeps the pictures and descriptors that are there.

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
    manifest = town.write(
        folder / "town", places, workers=n_cores(), progress=_stage(progress, "drawing the town")
    )
    store = extract(
        Manifest.read(manifest), get_model("hog"), folder / "town.desc", strict=True, progress=progress
    ).store
    queries = store.queries(QUERY)
    with limit_threads(1):  # these problems are too small for more, and every fusion is timed alike
        built = _build(store, _stage(progress, "calibrating"))
        matches = built.locate(queries.vectors, k=5)
        comparison = compare(
            store, town.Town().protocol(PROTOCOL), QUERY, _stage(progress, "comparing fusions")
        )
    demo = Demo(folder, built, queries.manifest, matches, comparison)
    built.save(demo.map_file)
    with atomic_write(folder / "demo.md", "w") as file:
        file.write(comparison_markdown(comparison))
    write_page(demo)
    return demo


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
