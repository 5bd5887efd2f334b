"""`displace locate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from displace.errors import InputError
from displace.verbs.base import Argument, MapPath, Option, Output, PathLike, Progress, check_output, part

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from displace.descriptors.store import DescriptorStore
    from displace.interop.locations import Locations
    from displace.maps import PlaceMap
    from displace.models.base import DescriptorModel
    from displace.recordings.query_images import QueryImages


@dataclass(frozen=True)
class Located:
    """What `locate` found.

    Parameters
    ----------
    locations : Locations
        A row for each image or frame; those that could not be read have no score (NaN) and no place.
    skipped : dict of str to str
        Images that could not be read, and why.
    min_confidence : float
        Below this probability an image counts as not in the map.
    """

    locations: Locations
    skipped: dict[str, str]
    min_confidence: float = 0.0

    @property
    def in_map(self) -> NDArray[np.bool_]:
        """Which images are in the map."""
        return self.locations.accepted(self.min_confidence)

    def to_json(self) -> list[dict[str, Any]]:
        """Make a record of each image, for other programs."""
        return self.locations.to_json(self.min_confidence)


def locate(
    map_file: MapPath,
    sources: Annotated[Sequence[PathLike], Argument("IMAGE")],
    output: Output = None,
    *,
    k: Annotated[int, Option("-k")] = 5,
    min_confidence: float = 0.0,
    traversal: str | None = None,
    search: str = "auto",
    every: str = "1",
    weights: PathLike | None = None,
    device: str = "auto",
    image_size: str | None = None,
    crop: Annotated[str | None, Option(metavar="T,R,B,L")] = None,
    mask: PathLike | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Located:
    """Say where images were taken.

    Confidence is the probability that the first place is right; a low one reads "not in the map". Maps of fewer than
    three traversals have none.

    The command exits with 1 where no image reached `min_confidence`, or images could not be read.

    Parameters
    ----------
    map_file : path-like
        A map made by `build`.
    sources : sequence of path-like
        Images, folders of them, videos; or one descriptor store.
    output : path-like, optional
        Write a row for each image or frame: .csv, or .geojson for points.
    k : int
        Places for each image.
    min_confidence : float
        Below this probability an image counts as not in the map.
    traversal : str, optional
        Of a store: which traversal; by default all.
    search : str
        exact, faiss, or auto: the fastest there is.
    every : str
        Video: take every n-th frame (5), or one each so many seconds (0.5s).
    weights : path-like, optional
        Weights file; by default the published one.
    device : str
        Where the model runs: auto, cpu, cuda, cuda:1 …
    image_size : str, optional
        As for the references; by default the map's.
    crop : str, optional
        As for the references; by default the map's.
    mask : path-like, optional
        The references' mask, if they had one: the map knows only its content hash.
    overwrite : bool
        Replace the output where it exists.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    ::

        displace locate town.displace photo.jpg -k 5
        displace locate town.displace evening.mp4 --every 0.5s -o positions.csv
        displace locate town.displace drive/ --min-confidence 0.5 --json
        displace locate town.displace route.desc --traversal night
    """
    from displace.descriptors.store import DescriptorStore, is_store
    from displace.interop import export
    from displace.maps import PlaceMap
    from displace.recordings.query_images import images_of

    if output is not None:
        check_output(output, overwrite)
    place_map = PlaceMap.load(map_file)
    if len(sources) == 1 and is_store(sources[0]):
        located = locate_store(place_map, DescriptorStore(sources[0]), traversal, k, search)
    else:
        model = place_map.open_model(
            weights=weights, device=device, image_size=image_size, crop=crop, mask=mask
        )
        with images_of(sources, every, part(progress, "frames")) as images:
            located = _locate_images(place_map, model, images, k, search, progress)
    located = replace(located, min_confidence=min_confidence)
    _ = located.in_map  # says what is wrong with it before anything is written
    if output is not None:
        form = "geojson" if Path(output).suffix.lower() in (".geojson", ".json") else "csv"
        export(form, located.locations, output, min_confidence=min_confidence)
    return located


def locate_store(
    place_map: PlaceMap, store: DescriptorStore, traversal: str | None, k: int, search: str
) -> Located:
    """Locate the images of a store, or of one of its traversals."""
    from displace.interop.locations import Locations

    place_map.check_model(store.model)
    if traversal is not None:
        listed = {*store.index.manifest.select_traversals([traversal]).images}
        skipped = {image: why for image, why in store.skipped.items() if image in listed}
        return Located(Locations.of(place_map, store.queries(traversal), k, search=search), skipped)
    vectors = store.vectors()
    matches = place_map.locate(vectors, k, search=search)
    return Located(Locations(place_map, store.manifest, matches, vectors), dict(store.skipped))


def _locate_images(
    place_map: PlaceMap,
    model: DescriptorModel,
    images: QueryImages,
    k: int,
    search: str,
    progress: Progress | None,
) -> Located:
    import numpy as np

    from displace.descriptors.extraction import describe
    from displace.interop.locations import Locations

    failures: dict[int, str] = {}
    vectors = describe(model, images.paths, failures=failures, progress=progress)
    # Frames of videos lie in a folder that nobody will find again: messages name the video instead.
    skipped = {
        images.label(row): why.replace(str(images.paths[row]), images.label(row))
        for row, why in sorted(failures.items())
    }
    good = np.array([row not in failures for row in range(len(vectors))])
    if not good.any():
        raise InputError(
            f"none of the {len(good)} images could be read. First problem: {next(iter(skipped.values()))}"
        )
    matches = place_map.locate(vectors[good], k, search=search).spread(good)
    return Located(Locations(place_map, images.manifest(), matches, vectors), skipped)
