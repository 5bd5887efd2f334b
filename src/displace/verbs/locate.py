"""`displace locate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from displace.errors import InputError
from displace.progress import Progress, part
from displace.verbs.base import (
    MAP_ENDING,
    Argument,
    MapPath,
    Option,
    Output,
    PathLike,
    Sources,
    check_output,
    listed,
    unfinished_store,
)

if TYPE_CHECKING:
    from displace.arrays import Vectors
    from displace.maps import PlaceMap
    from displace.maps.located import Located
    from displace.maps.remote import RemoteMap
    from displace.recordings.query_images import QueryImages


ADAPT = ("none", "batch", "auto")
SHOWN = 5
"""Places per image on the screen."""
FORMS = {".csv": "csv", ".geojson": "geojson", ".json": "geojson"}
"""Export formats by the ending of the file's name."""


def locate(
    map_file: MapPath,
    sources: Annotated[Sources, Argument("IMAGE")],
    output: Output = None,
    *,
    k: Annotated[int | None, Option("-k")] = None,
    min_confidence: float | None = None,
    traversal: str | None = None,
    search: str = "auto",
    near: Annotated[str | None, Option(metavar="LAT,LON")] = None,
    radius: float | None = None,
    follow: bool | None = None,
    adapt: str = "auto",
    every: str = "1",
    topic: str | None = None,
    weights: PathLike | None = None,
    device: str = "auto",
    image_size: str | None = None,
    crop: Annotated[str | None, Option(metavar="T,R,B,L")] = None,
    mask: PathLike | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Located:
    """Find out where images were taken.

    Confidence is the probability that the first place is right; below 0.5, or `min_confidence`, the result is "not in
    the map". It is less reliable for maps of one or two traversals.

    The exit code is 1 if no image reached `min_confidence`, or if some images could not be read.

    Parameters
    ----------
    map_file : path-like
        A map made by `build`; or one in a database, postgresql://host/database#name; or one on a server,
        http://host:8008, which also describes the images (set its token in the environment, DISPLACE_TOKEN).
    sources : path-like, or sequence of path-like
        Images, folders of images, videos, ROS bags; or one descriptor store.
    output : path-like, optional
        File with one row per image or frame: .csv, or .geojson for points.
    k : int, optional
        Number of places per image; by default 5 on the screen and 1 in a file.
    min_confidence : float, optional
        Below this probability an image counts as not in the map, and its place in files is blank. By default 0.5 on
        the screen; files then hold the best place of every image, with its confidence.
    traversal : str, optional
        For a store: which traversal; by default all.
    search : str
        exact, faiss, or auto (the fastest available); optionally with a kind, such as faiss:int8.
    near : str, optional
        Where the images are known to be, latitude,longitude or easting,northing: search only places within `radius`.
    radius : float, optional
        Metres around `near`.
    follow : bool, optional
        Follow drives along the route, so that their frames support each other, or locate each frame by itself. By
        default videos and bags are followed; if you ask for it, so are the images of a folder in the order of their
        names, images in the order given, and the traversals of a store.
    adapt : str
        Whether many images in one condition adapt the matching to it and are judged together: none, batch, or auto
        (from 100 images on; from a store, those of one traversal).
    every : str
        Video, bag: take every n-th frame (5), or one frame per interval (0.5s).
    topic : str, optional
        Bag: image topic; by default the only one.
    weights : path-like, optional
        Weights file; by default the published one.
    device : str
        Where the model runs: auto, cpu, cuda, cuda:1 …
    image_size : str, optional
        As for the references; by default the map's.
    crop : str, optional
        As for the references; by default the map's.
    mask : path-like, optional
        The mask of the references, if they had one: the map stores only its content hash.
    overwrite : bool
        Replace an existing output.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    ::

        displace locate town.displace photo.jpg -k 5
        displace locate town.displace evening.mp4 --every 0.5s -o positions.csv
        displace locate town.displace photos/ --min-confidence 0.5 --json
        displace locate town.displace frames/ --follow
        displace locate town.displace route.desc --traversal night
        displace locate town.displace photo.jpg --near 51.752,-1.258 --radius 300
        displace locate 'postgresql://reader@db/maps#city' photo.jpg
        displace locate http://robot:8008 photo.jpg
    """
    from displace.arrays import check_count
    from displace.descriptors.store import is_store
    from displace.interop import export
    from displace.maps import PlaceMap
    from displace.maps.located import Located
    from displace.maps.remote import is_served
    from displace.recordings.query_images import images_of

    sources = listed(sources)
    _check_order(map_file, sources)
    form = None if output is None else _form(Path(output))
    if output is not None:
        check_output(output, overwrite)
    shown = SHOWN if k is None else k
    check_count(shown, "k")
    centre = parsed_area(near, radius)
    options = {"weights": weights, "image_size": image_size, "crop": crop, "mask": mask}
    place_map: PlaceMap | RemoteMap
    if is_served(map_file):
        place_map = _served(str(map_file), {**options, "device": None if device == "auto" else device})
    else:
        place_map = PlaceMap.load(map_file)
    _check_options(place_map, search, adapt, min_confidence, form)
    if follow:
        _check_following(place_map, near)
    if centre is not None and radius is not None:
        place_map = place_map.within(centre, radius)
    if len(sources) == 1 and is_store(sources[0]):
        located = Located.of_store(
            place_map,
            unfinished_store(sources[0]),
            traversal,
            shown,
            search=search,
            adapt=adapt,
            min_confidence=min_confidence,
            follow=bool(follow),
        )
    else:
        _check_images(sources, traversal)
        describe = _describer(place_map, device=device, **options)
        with images_of(sources, every, part(progress, "frames"), topic) as images:
            drives = {} if follow is False or centre is not None else images.videos()
            if follow:
                drives |= images.folders
            located = _locate_images(place_map, describe, images, shown, search, drives, adapt, progress)
            located = replace(located, min_confidence=min_confidence)
    if output is not None and form is not None:
        export(form, located, output, min_confidence=min_confidence or 0.0, places=k or 1)
    return located


def _check_order(map_file: PathLike, sources: Sequence[PathLike]) -> None:
    """Refuse a map that is given after the images."""
    behind = [str(source) for source in sources if Path(source).suffix == MAP_ENDING]
    if behind and Path(map_file).suffix != MAP_ENDING and "://" not in str(map_file):
        raise InputError(f"the map comes first: displace locate {quote(behind[0])} {quote(str(map_file))}")


def _check_images(sources: Sequence[Path], traversal: str | None) -> None:
    """Refuse what applies to a descriptor store alone."""
    from displace.descriptors.store import is_store

    if stores := [source for source in sources if is_store(source)]:
        raise InputError(
            f"{stores[0]} is a descriptor store, which is located alone; leave the other sources out"
        )
    if tables := [source for source in sources if source.suffix.lower() == ".csv"]:
        raise InputError(
            f"{tables[0]} is a table, not an image; describe the images of a manifest with displace extract "
            f"{quote(str(tables[0]))} -o STORE, and locate that store"
        )
    if traversal is not None:
        raise InputError(f"traversal={traversal!r} applies to a descriptor store; images have no traversal")


def _served(address: str, options: dict[str, PathLike | None]) -> RemoteMap:
    """Open the map of a server, which describes images itself."""
    from displace.client import Client
    from displace.maps.remote import RemoteMap

    for name, value in options.items():
        if value is not None:
            raise InputError(
                f"{name}={str(value)!r} has no effect on a server, which describes images itself; leave it out"
            )
    return RemoteMap(Client(address))


def _form(output: Path) -> str:
    """Export format of a file name."""
    ending = output.suffix.lower()
    if ending not in FORMS:
        raise InputError(
            f"cannot tell the format from the name {output.name}; use a name that ends in .csv for a table or in "
            ".geojson for points"
        )
    return FORMS[ending]


def _check_options(
    place_map: PlaceMap | RemoteMap, search: str, adapt: str, min_confidence: float | None, form: str | None
) -> None:
    """Refuse options that the map does not support, before anything is described."""
    from displace.arrays import check_one_of
    from displace.maps.located import check_limit
    from displace.search import INDEXES

    if search != "auto":
        name, _, kind = search.partition(":")
        INDEXES.get(name).check_kind(kind)
    check_one_of(adapt, ADAPT, "adapt")
    if min_confidence is not None:
        check_limit(min_confidence, known=place_map.calibration is not None)
    if form == "geojson" and not place_map.has_positions:
        raise InputError(
            "the map has no positions, so there are no points to write; use an output that ends in .csv, or print JSON "
            "with --json"
        )
    if form == "geojson" and not place_map.in_degrees:
        raise InputError(
            "the map's positions are easting and northing in metres, and GeoJSON needs latitude and longitude; use an "
            "output that ends in .csv, or give the UTM zone: displace export MAP --to geojson --queries STORE --crs "
            "EPSG:32630 (zone 30 north)"
        )


def _check_following(place_map: PlaceMap | RemoteMap, near: str | None) -> None:
    """Refuse to follow drives if that is not possible."""
    if near is not None:
        raise InputError("follow and near exclude each other: a drive is followed along the whole route")
    if not place_map.has_order:
        raise InputError(
            "the map's places have no order along a route, so nothing can be followed; the manifest's column 'frame' "
            "gives them one"
        )


def parsed_area(near: str | None, radius: float | None) -> tuple[float, float] | None:
    """Parse the centre of an area; None if no area is given."""
    if near is None and radius is None:
        return None
    if near is None or radius is None:
        raise InputError("near and radius belong together: give both")
    try:
        first, second = map(float, near.split(","))
    except ValueError:
        raise InputError(
            f"near={near!r} must be two numbers with a comma between, latitude,longitude or easting,northing"
        ) from None
    return first, second


def _describer(place_map: PlaceMap | RemoteMap, **options: PathLike | None) -> Callable[..., Vectors]:
    """What describes images: the map's model, or the server that has the map."""
    from displace.descriptors.extraction import describe
    from displace.maps.remote import RemoteMap

    if isinstance(place_map, RemoteMap):
        return place_map.described
    return partial(describe, place_map.open_model(**options))


def _locate_images(
    place_map: PlaceMap | RemoteMap,
    describe: Callable[..., Vectors],
    images: QueryImages,
    k: int,
    search: str,
    drives: dict[str, list[int]],
    adapt: str,
    progress: Progress | None,
) -> Located:
    import numpy as np

    from displace.maps.located import Located, along_drives

    failures: dict[int, str] = {}
    vectors = describe(images.paths, failures=failures, progress=progress)
    # Frames of videos are in a temporary folder: messages name the video instead.
    skipped = {
        images.label(row): why.replace(str(images.paths[row]), images.label(row))
        for row, why in sorted(failures.items())
    }
    good = np.array([row not in failures for row in range(len(vectors))])
    if not good.any():
        raise InputError(
            next(iter(skipped.values()))
            if len(good) == 1
            else f"none of the {len(good)} images could be read. First problem: {next(iter(skipped.values()))}"
        )
    drives = drives if place_map.has_order else {}
    matches = along_drives(
        place_map,
        vectors,
        drives,
        k,
        good,
        search=search,
        adapt=adapt,
        pictures=images.paths,
        progress=part(progress, "comparing"),
    )
    return Located(
        place_map,
        images.manifest(),
        matches,
        vectors,
        skipped,
        adapted=matches.adapted,
        followed=bool(drives),
    )
