"""Locating images, as a function. Defaults live here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.descriptors import DescriptorStore, is_store
from displace.descriptors.extraction import Progress, describe
from displace.errors import InputError
from displace.geo import Positions
from displace.interop import export as export_as
from displace.interop.locations import Locations
from displace.maps import PlaceMap
from displace.matches import Matches
from displace.models import get_model
from displace.models.base import DescriptorModel
from displace.pipeline.query_images import QueryImages, images_of

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Located:
    """What `locate` found.

    Parameters
    ----------
    locations : Locations
        A row for each image or frame; those that could not be read have no score (NaN) and no place.
    skipped : dict of str to str
        Images that could not be read, and why.
    """

    locations: Locations
    skipped: dict[str, str]


def locate(
    map_file: PathLike,
    sources: Sequence[PathLike],
    output: PathLike | None = None,
    *,
    k: int = 5,
    min_confidence: float = 0.0,
    traversal: str | None = None,
    search: str = "auto",
    every: str = "1",
    weights: PathLike | None = None,
    device: str = "auto",
    image_size: str | None = None,
    crop: str | None = None,
    mask: PathLike | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Located:
    """Find the places of images.

    Parameters
    ----------
    map_file : path-like
        A map made by `build`.
    sources : sequence of path-like
        Image files, folders of images or videos; or one descriptor store.
    output : path-like, optional
        CSV file to write, a row for each image or frame; ``.geojson`` for points.
    k : int
        Places for each image.
    min_confidence : float
        Below this probability an image counts as not in the map.
    traversal : str, optional
        For a store: which of its traversals; by default all of them.
    search : str
        See `displace.PlaceMap.locate`.
    every : str
        Videos: every n-th frame ("5") or one each so many seconds ("0.5s").
    weights, device
        See `displace.models.get_model`.
    image_size, crop, mask
        As the map's references were described. Size and crop are by default those that the map knows of; a mask must
        be given again.
    overwrite : bool
        Replace `output` where it exists.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    if output is not None:
        check_output(Path(output), overwrite)
    town = PlaceMap.load(map_file)
    if len(sources) == 1 and is_store(sources[0]):
        located = locate_store(town, DescriptorStore(sources[0]), traversal, k, search)
    else:
        model = model_of(town, weights=weights, device=device, image_size=image_size, crop=crop, mask=mask)
        with images_of(sources, every, part(progress, "frames")) as images:
            located = _locate_images(town, model, images, k, search, progress)
    located.locations.accepted(min_confidence)  # says what is wrong with it before anything is written
    if output is not None:
        form = "geojson" if Path(output).suffix.lower() in (".geojson", ".json") else "csv"
        export_as(form, located.locations, output, min_confidence=min_confidence)
    return located


def locate_store(
    town: PlaceMap, store: DescriptorStore, traversal: str | None, k: int, search: str
) -> Located:
    """Locate the images of a store, or of one of its traversals."""
    town.check_model(store.model)
    if traversal is not None:
        listed = {*store.index.manifest.select_traversals([traversal]).images}
        skipped = {image: why for image, why in store.skipped.items() if image in listed}
        return Located(Locations.of(town, store.queries(traversal), k, search=search), skipped)
    vectors = store.vectors()
    matches = town.locate(vectors, k, search=search)
    return Located(Locations(town, store.manifest, matches, vectors), dict(store.skipped))


def _locate_images(
    town: PlaceMap,
    model: DescriptorModel,
    images: QueryImages,
    k: int,
    search: str,
    progress: Progress | None,
) -> Located:
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
    matches = spread(town.locate(vectors[good], k, search=search), good)
    return Located(Locations(town, images.manifest(), matches, vectors), skipped)


def spread(matches: Matches, rows: NDArray[np.bool_]) -> Matches:
    """Give matches the rows of a mask; the rows between have blank places, and NaN for every number."""
    at = np.where(rows, np.cumsum(rows) - 1, 0)

    def numbers(values: NDArray[Any]) -> NDArray[Any]:
        return np.where(rows.reshape(-1, *[1] * (values.ndim - 1)), values[at], np.nan)

    positions, blank = matches.positions, np.zeros((), matches.places.dtype)
    if positions is not None:
        heading = None if positions.heading is None else numbers(positions.heading)
        positions = Positions(numbers(positions.points), positions.degrees, heading)
    return Matches(
        np.where(rows[:, None], matches.places[at], blank),
        numbers(matches.scores),
        None if matches.confidence is None else numbers(matches.confidence),
        positions,
    )


def model_of(
    town: PlaceMap, *, image_size: str | None, crop: str | None, mask: PathLike | None, **options: Any
) -> DescriptorModel:
    """Make the model that described a map's references, with the crop and image size that they had."""
    if town.model is None:
        raise InputError("the map was built from bare vectors: it knows no model to describe images with")
    if town.model.get("imported"):
        raise InputError(
            f"the map's descriptors were imported ({town.model_name}), so that no image can be described for it: "
            "describe the images with that program, import them with displace import, and locate the store"
        )
    if town.model.get("mask_sha256") and mask is None:
        raise InputError(
            "the map's references were described with a mask, of which the map knows only the SHA-256 "
            f"{town.model['mask_sha256'][:12]}…: give the same image again (mask=FILE, --mask FILE)"
        )
    crop = town.model.get("crop") if crop is None else crop
    make = partial(get_model, town.model_name, crop=crop, mask=mask, **options)
    if image_size is None:
        image_size = _recorded_size(make, town.model.get("preprocessing", {}))
    model = make(image_size=image_size)
    town.check_model(model.fingerprint())
    return model


def _recorded_size(make: Callable[..., DescriptorModel], preprocessing: Mapping[str, Any]) -> Any:
    """Image size, as `get_model` takes it, that gives a recorded pre-processing; None for the model's own."""
    size = preprocessing.get("size")
    plain = "native" if size is None else tuple(size) if isinstance(size, list) else size
    for candidate in (None, *getattr(make(), "published", ()), plain):
        with suppress(InputError):  # a size that the model does not take
            if make(image_size=candidate).settings() == preprocessing:
                return candidate
    return None


def check_output(output: Path, overwrite: bool) -> None:
    """Refuse to replace a file unless asked to."""
    if output.exists() and not overwrite:
        raise InputError(f"{output} exists; choose another name with -o, or replace it with --overwrite")


def part(progress: Progress | None, stage: str) -> Callable[[int, int], None] | None:
    """Make a callback for one stage of a longer work."""
    if progress is None:
        return None
    return lambda done, total: progress(stage, done, total)
