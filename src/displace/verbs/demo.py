"""`displace demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from displace.errors import DisplaceError, InputError
from displace.progress import Progress, part
from displace.verbs.base import PathLike

if TYPE_CHECKING:
    from displace.datasets.base import Protocol
    from displace.descriptors.store import Queries
    from displace.maps import PlaceMap
    from displace.references import ReferenceSet
    from displace.report.demonstration import Demo, NightDrive

RESUMES = True
QUERY = "night"
PROTOCOL = "town-1"
TOLERANCE = 9.0
"""Metres that reach the neighbouring places of the town and no others, as the protocol does, for the confidence."""
MIN_PLACES = 20


def demo(folder: PathLike = "displace-demo", *, places: int = 200, progress: Progress | None = None) -> Demo:
    """Draw a town in six conditions, map five, locate the night, compare all fusions.

    Takes about a minute and needs no download. Writes demo.html, a page with a map and pictures, and demo.md, its
    tables. A second run reuses what is drawn.

    Parameters
    ----------
    folder : path-like
        Folder for the pictures, the map and the page.
    places : int
        Number of places along the route, 20 to 2000.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    ::

        displace demo
        displace demo --folder town --places 400
    """
    from displace.datasets import town
    from displace.descriptors.extraction import extract
    from displace.descriptors.preparation import n_cores
    from displace.evaluation.benchmark import run_suite
    from displace.evaluation.methods import Method, methods_named
    from displace.evaluation.suites import Suite
    from displace.files.atomic import write_whole
    from displace.manifest.table import Manifest
    from displace.maps import PlaceMap
    from displace.maps.building import build
    from displace.maps.sketching import with_sketches
    from displace.models import get_model
    from displace.report.demonstration import Demo, demo_markdown
    from displace.report.html.demo_page import write_demo_page
    from displace.threads import limit_threads

    if not MIN_PLACES <= places <= town.MAX_PLACES:
        raise InputError(
            f"places={places} must be from {MIN_PLACES} to {town.MAX_PLACES}: with fewer there is nothing to compare"
        )
    folder = Path(folder)
    check_own(folder)
    manifest = town.write(
        folder / "town", places, workers=n_cores(), progress=part(progress, "drawing the town")
    )
    store = extract(
        Manifest.read(manifest), get_model("hog"), folder / "town.desc", strict=True, progress=progress
    ).store
    queries = store.queries(QUERY)
    protocol = town.Town().protocol(PROTOCOL)
    methods = (Method("single", each_reference=True), *methods_named())
    suite = Suite("town", "the town", "town", protocol, methods, {"hog": folder / "town.desc"})
    refs = store.references(exclude=[QUERY])
    with limit_threads(1):  # these problems are too small for more, and every fusion is timed alike
        place_map = build(
            refs, model=store.model, tolerance=TOLERANCE, progress=part(progress, "calibrating")
        )
        place_map = PlaceMap(with_sketches(place_map.state, [store], exclude=[QUERY]))
        matches = place_map.locate(queries.vectors, k=5, pictures=queries.manifest.paths())
        results = run_suite(suite, folder / "demo_results", progress).results
        drive = _drive(place_map, refs, queries, protocol)
    demo = Demo(folder, place_map, queries.manifest, matches, results, protocol, QUERY, drive)
    place_map.save(demo.map_file)
    write_whole(folder / "demo.md", demo_markdown(demo))
    write_demo_page(demo)
    return demo


def check_own(folder: Path) -> None:
    """Refuse a folder with files of another origin that the demonstration would overwrite."""
    for name, own in (("town.displace", _own_map), ("town.desc", _own_store), ("demo.html", _own_page)):
        path = folder / name
        if path.exists() and not own(path):
            raise InputError(
                f"{path} was not made by displace demo and would be replaced: choose another folder with --folder"
            )


def _own_map(path: Path) -> bool:
    from displace.datasets import town
    from displace.maps import PlaceMap

    try:
        found = PlaceMap.load(path, verify=False)
    except DisplaceError:
        return False
    return sorted(map(str, found.traversals)) == sorted(set(town.TRAVERSALS) - {QUERY})


def _own_store(path: Path) -> bool:
    from displace.descriptors.store import DescriptorStore, is_store

    return (
        is_store(path) and DescriptorStore(path).manifest.root.resolve() == (path.parent / "town").resolve()
    )


def _own_page(path: Path) -> bool:
    return "<title>displace: located at" in path.read_text("utf-8", errors="replace")[:1000]


def _drive(place_map: PlaceMap, refs: ReferenceSet, queries: Queries, protocol: Protocol) -> NightDrive:
    """Follow the query's pictures as a drive, along the map and along one without the middle fifth of its places."""
    import numpy as np

    from displace.maps.building import build
    from displace.report.demonstration import follow_night
    from displace.truth import Truth

    ids = place_map.place_ids
    gone = ids[2 * len(ids) // 5 : 3 * len(ids) // 5]
    kept = refs.select(~np.isin(refs.places, gone))
    without = build(kept, model=place_map.model, tolerance=TOLERANCE, calibration=False)
    if (sketches := place_map.state.sketches) is not None:
        without = without.changed(sketches=sketches.of_places(place_map.places.rows_of(without.place_ids)))
    truth = Truth(place_map.places, protocol.tolerance)
    return follow_night(
        place_map,
        without,
        queries.vectors,
        queries.manifest.paths(),
        lambda found: truth.correct(found, queries.places),
    )
