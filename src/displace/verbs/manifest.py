"""`displace manifest`."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from displace.errors import DisplaceError, InputError, ManifestError
from displace.progress import Progress, part
from displace.verbs.base import (
    MAP_ENDING,
    Argument,
    Option,
    Output,
    PathLike,
    Sources,
    beside,
    check_folder_of,
    listed,
    read_manifest,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from displace.arrays import Indices
    from displace.datasets.base import Check
    from displace.manifest.place_assignment import KnownPlaces
    from displace.manifest.summary import Summary
    from displace.manifest.table import Manifest
    from displace.maps import PlaceMap
    from displace.sequence.following import Fix

logger = logging.getLogger(__name__)

RESUMES = True
LEAST_SHARE = 0.05
"""Share of a recording's frames that must match distinct places of a map, or the recording is of another route."""
LEAST_PROBABILITY = 0.5
"""Least probability of a frame's place: a reference that is probably wrong would spoil the map."""


def manifest(
    sources: Annotated[Sources, Argument("SOURCE")],
    output: Output = None,
    *,
    check: bool = False,
    layout: str = "auto",
    dataset: str | None = None,
    against: PathLike | None = None,
    anchor: str | None = None,
    spacing: float = 5.0,
    radius: float = 10.0,
    max_heading: float = 45.0,
    max_gap: float = 2.0,
    clock_offset: Annotated[Sequence[str] | None, Option(metavar="[NAME=]OFFSET")] = None,
    drop_off_route: bool = False,
    every: str = "1",
    topic: str | None = None,
    positions_topic: str | None = None,
    allow_truncated: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Summary | Check:
    """Make the table that says which image shows which place in which traversal.

    A route has a folder for each traversal, and places are told by equal file names, equal order, positions (a GPX
    track, NMEA log or CSV file beside each traversal), GPS in the images (EXIF) or file names of the form
    @easting@northing@…@.jpg; or it has a folder for each place. The layout is detected, or set with `layout`. Otherwise
    places stay blank, and `extract` and `align` find them by sight.

    Parameters
    ----------
    sources : path-like, or sequence of path-like
        A folder with one sub-folder, video or bag for each traversal; or each traversal's folder, video or bag. With
        `check`: a manifest.
    output : path-like, optional
        CSV file to write, by default the first source's name with ``.csv``; frames of videos and bags go into a
        folder beside it (``route.frames``).
    check : bool
        Write nothing; summarize a manifest and decode each of its images.
    layout : str
        How places are determined: auto, utm, positions, landmarks, names, order, or sight (later, by `align`; against
        a map, now).
    dataset : str, optional
        The source is this data set (see: displace list datasets); compare its counts with the published ones.
    against : path-like, optional
        Manifest or map with known places, to which the sources are assigned: by position, names or order, and along
        a map by sight where nothing else tells.
    anchor : str, optional
        Traversal that defines the places; by default the one that fits best.
    spacing : float
        Metres between places.
    radius : float
        Metres within which an image shows a place.
    max_heading : float
        Degrees by which its heading may differ from the place's.
    max_gap : float
        Largest time in seconds between an image and the nearest recorded position; beyond a track's ends at most the
        usual time between its positions.
    clock_offset : sequence of str, optional
        What to add to the times of images for the clock of the positions: seconds (-12.5) or hours (-1h); or when a
        video began (2027-01-04T12:30:00Z). For one traversal: NAME=-1h.
    drop_off_route : bool
        Leave out images that are near no place; otherwise they are kept with a blank place.
    every : str
        Video, bag: take every n-th frame (5), or one frame per interval (0.5s).
    topic : str, optional
        Bag: image topic; by default the only one.
    positions_topic : str, optional
        Bag: NavSatFix or Odometry topic; by default the first NavSatFix, then Odometry.
    allow_truncated : bool
        Video: use what can be read of a damaged file.
    overwrite : bool
        Replace an existing CSV file.
    progress : callable, optional
        Called as ``progress(stage, done, total)`` while frames are taken out of videos and bags, or images decoded.

    Returns
    -------
    Summary or Check
        Places, traversals and coverage; or the counts of a data set beside the published ones.

    Examples
    --------
    ::

        displace manifest ROUTE -o route.csv
        displace manifest ROUTE -o route.csv --spacing 2 --radius 5
        displace manifest sun.mp4 night.mp4 -o route.csv --every 0.5s
        displace manifest sun.mp4 night.mp4 -o route.csv --clock-offset -1h --clock-offset night=-2h
        displace manifest drive.bag -o route.csv --topic /camera/image_raw
        displace manifest 2027-01-04 -o snow.csv --against route.csv
        displace manifest NORDLAND -o nordland.csv --dataset nordland
        displace manifest route.csv --check
    """
    sources = listed(sources)
    if (check or dataset) and len(sources) > 1:
        raise InputError(f"--check and --dataset take one SOURCE; got {len(sources)}")
    if not check and Path(sources[0]).suffix.lower() == ".csv" and Path(sources[0]).is_file():
        raise ManifestError(
            f"{sources[0]} is not a recording; if it is a manifest, use --check to see what it holds"
        )
    output = manifest_output(sources, output)
    if not check:
        check_folder_of(output)
        if output.exists():
            check_is_manifest(output)
            if not overwrite:  # it may have been edited by hand
                raise ManifestError(
                    f"{output} exists; choose another name with -o, or replace it with --overwrite"
                )
    if dataset:
        return _of_dataset(dataset, sources[0], None if check else output)
    if check:
        return read_manifest(sources[0]).summary(check_images=True, progress=part(progress, "decoding"))

    from displace.manifest.clock import read_offsets
    from displace.manifest.place_assignment import KnownPlaces
    from displace.recordings.sources import check_numbers, tells_no_place, unpack

    offsets = read_offsets(clock_offset or ())
    known, place_map = (None, None) if against is None else _known(against)
    source = sources[0] if len(sources) == 1 else sources
    if known is None and layout == "auto" and tells_no_place(source):
        logger.warning("videos without positions: their places are found by sight later")
    options: dict[str, Any] = {
        "anchor": anchor,
        "spacing": spacing,
        "radius": radius,
        "max_heading": max_heading,
        "max_gap": max_gap,
        "clock_offset": offsets,
        "keep_off_route": not drop_off_route,
    }
    if layout == "order" and known is None and not allow_truncated:
        check_numbers(source, every)
    frames = output.with_suffix(".frames")
    with _kept_if_refused(frames):
        folders = unpack(
            source,
            frames,
            every=every,
            topic=topic,
            positions_topic=positions_topic,
            max_gap=max_gap,
            allow_truncated=allow_truncated,
            clock_offset=offsets,
            progress=progress,
        )
        built = _built(folders, layout, known, place_map, options, progress)
    built.write(output)
    if known is None:
        return built.summary()
    return built.summary().against(len(known.ids if isinstance(known, KnownPlaces) else known.place_ids()))


@contextmanager
def _kept_if_refused(frames: Path) -> Iterator[None]:
    """Where what follows is refused, say that the decoded frames are kept; a new folder without any is removed."""
    from displace.images import has_images

    there = frames.exists()
    try:
        yield
    except DisplaceError:
        if frames.is_dir() and has_images(frames):
            logger.warning(
                "the frames are kept in %s: another try need not decode them again; delete the folder otherwise",
                frames,
            )
        elif not there:
            shutil.rmtree(frames, ignore_errors=True)
        raise


def manifest_output(sources: Sequence[PathLike], output: PathLike | None) -> Path:
    """Path of the manifest."""
    return Path(beside(Path(sources[0]).resolve(), ".csv").name if output is None else output)


def check_is_manifest(output: Path) -> None:
    """Refuse to overwrite a file that is not a manifest, such as the positions of a recording of the same name."""
    from displace.manifest.csv_file import is_table

    if output.stat().st_size and not is_table(output):
        raise ManifestError(
            f"{output} is no manifest, and is not written over: choose another name with -o. "
            "(Beside a map is its manifest.)"
        )


def _of_dataset(dataset: str, folder: PathLike, output: Path | None) -> Check:
    from displace.datasets import DATASETS

    known = DATASETS.get(dataset)()
    made = known.manifest(folder)
    check = known.check_manifest(made, folder)
    if output is not None:
        made.write(output)
    return check


def _known(path: PathLike) -> tuple[Manifest | KnownPlaces, PlaceMap | None]:
    """Read the places of a manifest or a map, and the map if it is one."""
    if Path(path).suffix != MAP_ENDING:
        return read_manifest(path), None
    from displace.maps import PlaceMap

    place_map = PlaceMap.load(path)
    return known_in(place_map), place_map


def known_in(place_map: PlaceMap) -> KnownPlaces:
    """Places of a map in route order; without one, in natural order (9 before 10)."""
    from displace.manifest.place_assignment import KnownPlaces, place_of_each_name

    places = place_map.places
    ids = places.route
    names = {} if places.images is None else place_of_each_name(places.images, map(str, places.ids.tolist()))
    names.pop("", None)  # places without an image
    return KnownPlaces([str(place) for place in ids.tolist()], places.positions_of(ids), names)


def _built(
    folders: Path | dict[str, Path],
    layout: str,
    known: Manifest | KnownPlaces | None,
    place_map: PlaceMap | None,
    options: dict[str, Any],
    progress: Progress | None,
) -> Manifest:
    """Make the manifest; if a map can be followed and nothing else gives the places, by sight."""
    from displace.manifest.builder import build_manifest

    by_another = layout not in ("auto", "sight")
    if by_another or place_map is None or place_map.model is None or not place_map.has_order:
        return build_manifest(folders, layout, against=known, **options)
    if layout == "auto":
        # Equal names of frames would only be equal numbers.
        told = "auto" if _names_are_places(place_map) else "positions"
        with suppress(ManifestError):
            return build_manifest(folders, told, against=known, **options)
    return by_sight(place_map, build_manifest(folders, "sight", **options), progress)


def _names_are_places(place_map: PlaceMap) -> bool:
    """Whether images of a map are named after their places, as in recordings synchronised by name."""
    images = place_map.images or []
    named = [
        Path(image).stem == str(place) for image, place in zip(images, place_map.place_ids, strict=False)
    ]
    return bool(named) and 2 * sum(named) >= len(named)


def by_sight(place_map: PlaceMap, blank: Manifest, progress: Progress | None = None) -> Manifest:
    """Assign frames of recordings to a map's places by following its route; one frame for each place."""
    import numpy as np

    from displace.arrays import shows_something
    from displace.descriptors.extraction import describe
    from displace.manifest.table import Manifest

    model, paths = place_map.open_model(), blank.paths()
    places, sure = np.full(len(blank), "", dtype=object), np.full(len(blank), np.nan)
    for name in blank.traversal_names():
        rows = np.flatnonzero(blank.traversals == name)
        failures: dict[int, str] = {}
        vectors = describe(model, [paths[row] for row in rows], failures=failures, progress=progress)
        good = np.array([i for i in range(len(rows)) if i not in failures], np.intp)
        if not len(good):
            raise ManifestError(
                f"recording {name!r} cannot be placed by sight: none of its {len(rows)} images can be read. First "
                f"problem: {failures[0]}"
            )
        shown = [paths[rows[i]] for i in good]
        fixes = place_map.smooth(vectors[good], pictures=shown, progress=part(progress, "comparing"))
        sure[rows[good]] = [fix.probability for fix in fixes]
        best, without = _surest(rows[good], fixes, shows_something(vectors[good]))
        without["unreadable"] = len(failures)
        reasons = ", ".join(f"{count:,} {why}" for why, count in without.items() if count)
        if len(best) < LEAST_SHARE * len(rows):
            matching = f"only {len(best)}" if best else "none"
            named = "; if names tell the places: --layout names" * _names_are_places(place_map)
            raise ManifestError(
                f"recording {name!r} does not seem to follow the map's route: {matching} of its {len(rows)} frames "
                f"match a place of their own ({reasons}){named}"
            )
        if reasons:
            logger.warning("%s: frames without a place: %s", name, reasons)
        for place, row in best.items():
            places[row] = place
    numbers = {**blank.numbers, "alignment": sure.round(4)}
    return Manifest(blank.images, places.tolist(), blank.traversals, blank.root, **numbers)


def _surest(
    rows: Indices, fixes: Sequence[Fix], shown: NDArray[np.bool_]
) -> tuple[dict[str, int], Counter[str]]:
    """Row of the surest frame of each place, and why the other frames get none."""
    likely: dict[str, dict[int, float]] = {}
    without: Counter[str] = Counter()
    for row, fix, seen in zip(rows.tolist(), fixes, shown, strict=True):
        if not seen:
            without["black or of one colour"] += 1
        elif fix.off_map >= 0.5:
            without["off the map"] += 1
        elif fix.probability < LEAST_PROBABILITY:
            without[f"unsure (probability below {LEAST_PROBABILITY})"] += 1
        else:
            likely.setdefault(str(fix.place), {})[row] = fix.probability
    best = {place: max(frames, key=lambda row: frames[row]) for place, frames in likely.items()}
    without["of a place that another frame shows more surely"] = sum(map(len, likely.values())) - len(best)
    return best, without
