"""Locating images, as a function. Defaults live here and nowhere else."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from displace.descriptors import DescriptorStore, is_store
from displace.descriptors.extraction import Progress, describe
from displace.errors import InputError
from displace.images import find_images
from displace.interop import export as export_as
from displace.interop.locations import Locations
from displace.manifest import Manifest
from displace.models import get_model
from displace.place_map import PlaceMap
from displace.video import extract_frames, is_video

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Located:
    """What `locate` found.

    Parameters
    ----------
    locations : Locations
        The images that could be read, with their matches.
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
        CSV file to write, a row for each image; ``.geojson`` for points.
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
    weights, device, image_size, crop, mask
        See `displace.models.get_model`; as the map's references were described.
    overwrite : bool
        Replace `output` where it exists.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    if output is not None:
        check_output(Path(output), overwrite)
    town = PlaceMap.load(map_file)
    options = {"weights": weights, "device": device, "image_size": image_size, "crop": crop, "mask": mask}
    if len(sources) == 1 and is_store(sources[0]):
        located = locate_store(town, DescriptorStore(sources[0]), traversal, k, search)
    else:
        with _images_of(sources, every, progress) as paths:
            located = _locate_images(town, paths, k, search, options, progress)
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
        return Located(Locations.of(town, store.queries(traversal), k, search=search), dict(store.skipped))
    vectors = store.vectors()
    matches = town.locate(vectors, k, search=search)
    return Located(Locations(town, store.manifest, matches, vectors), dict(store.skipped))


def _locate_images(
    town: PlaceMap,
    paths: list[Path],
    k: int,
    search: str,
    options: dict[str, Any],
    progress: Progress | None,
) -> Located:
    if town.model is None:
        raise InputError("the map was built from bare vectors: it knows no model to describe images with")
    model = get_model(town.model_name, **options)
    town.check_model(model.fingerprint())
    failures: dict[int, str] = {}
    vectors = describe(model, paths, failures=failures, progress=progress)
    good = [row for row in range(len(paths)) if row not in failures]
    skipped = {str(paths[row]): why for row, why in failures.items()}
    if not good:
        raise InputError(
            f"none of the {len(paths)} images could be read. First problem: {next(iter(skipped.values()))}"
        )
    names = [str(paths[row]) for row in good]
    manifest = Manifest(names, [""] * len(names), ["query"] * len(names), root=".")
    matches = town.locate(vectors[good], k, search=search)
    return Located(Locations(town, manifest, matches, vectors[good]), skipped)


@contextmanager
def _images_of(sources: Sequence[PathLike], every: str, progress: Progress | None) -> Iterator[list[Path]]:
    """All images named, in folders, or in videos; frames of videos live as long as the context."""
    with tempfile.TemporaryDirectory(prefix="displace-") as frames:
        paths: list[Path] = []
        for number, source in enumerate(map(Path, sources)):
            if not source.exists():
                raise InputError(f"no file or folder {source}")
            if source.is_dir():
                found = find_images(source)
                if not found:
                    raise InputError(f"no images in {source}")
                paths += found
            elif is_video(source):
                folder = Path(frames) / str(number) / source.name
                paths += find_images(extract_frames(source, folder, every, progress=part(progress, "frames")))
            else:
                paths.append(source)
        yield paths


def check_output(output: Path, overwrite: bool) -> None:
    """Refuse to replace a file unless asked to."""
    if output.exists() and not overwrite:
        raise InputError(f"{output} exists; choose another name with -o, or replace it with --overwrite")


def part(progress: Progress | None, stage: str) -> Callable[[int, int], None] | None:
    """Make a callback for one stage of a longer work."""
    if progress is None:
        return None
    return lambda done, total: progress(stage, done, total)
