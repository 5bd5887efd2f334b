"""Every verb of the command line as a function. Defaults live here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import getdoc
from pathlib import Path
from typing import Any

import numpy as np

from displace.datasets import DATASETS
from displace.datasets.base import Check
from displace.demo import Demo
from displace.demo import run as run_demo
from displace.descriptors.extraction import Extraction, Progress
from displace.descriptors.extraction import extract as extract_images
from displace.descriptors.store import DescriptorStore, is_store
from displace.descriptors.store_summary import StoreSummary, summarize_store
from displace.descriptors.store_writing import relabel as relabel_store
from displace.errors import InputError, ManifestError
from displace.fusion import FUSIONS
from displace.images import natural_key
from displace.manifest.builder import build_manifest
from displace.manifest.place_assignment import KnownPlaces, place_of_each_name
from displace.manifest.summary import Summary
from displace.manifest.table import Manifest
from displace.maps import PlaceMap
from displace.models import ModelRow, get_model, list_models
from displace.recordings.sources import unpack
from displace.registry import Registry
from displace.threads import limit_threads

PathLike = str | os.PathLike[str]
MAP_ENDING = ".displace"


def manifest(
    sources: Sequence[PathLike],
    output: PathLike,
    *,
    layout: str = "auto",
    against: PathLike | None = None,
    anchor: str | None = None,
    spacing: float = 5.0,
    radius: float = 10.0,
    max_heading: float = 45.0,
    max_gap: float = 2.0,
    drop_off_route: bool = False,
    every: str = "1",
    topic: str | None = None,
    positions_topic: str | None = None,
    allow_truncated: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Write the manifest of recordings: which image shows which place in which traversal.

    Parameters
    ----------
    sources : sequence of path-like
        One folder with a sub-folder, video or bag for each traversal; or each traversal's folder, video or bag.
    output : path-like
        CSV file to write; frames of videos and bags go into a folder beside it (``route.frames``).
    against : path-like, optional
        Manifest or map with the places to which the sources are assigned.
    layout, anchor, spacing, radius, max_heading, max_gap
        See `displace.manifest.builder.build_manifest`.
    drop_off_route : bool
        Leave out images that are near no place, which otherwise are kept with a blank place.
    every, topic, positions_topic, allow_truncated
        See `displace.recordings.sources.unpack`.
    overwrite : bool
        Replace `output` where it exists.
    progress : callable, optional
        Called with the traversal, frames done and frames in all while frames are taken out of videos and bags.

    Returns
    -------
    Summary
        Places, traversals and coverage.
    """
    output = Path(output)
    _check_new(output, overwrite)
    known = None if against is None else known_places(against)
    folders = unpack(
        sources[0] if len(sources) == 1 else sources,
        output.with_suffix(".frames"),
        every=every,
        topic=topic,
        positions_topic=positions_topic,
        max_gap=max_gap,
        allow_truncated=allow_truncated,
        progress=progress,
    )
    built = build_manifest(
        folders,
        layout,
        against=known,
        anchor=anchor,
        spacing=spacing,
        radius=radius,
        max_heading=max_heading,
        max_gap=max_gap,
        keep_off_route=not drop_off_route,
    )
    built.write(output)
    return built.summary()


def dataset_manifest(
    dataset: str, folder: PathLike, output: PathLike | None, *, overwrite: bool = False
) -> Check:
    """Write the manifest of a known data set, and compare what is on disk with the published counts.

    Parameters
    ----------
    dataset : str
        See `datasets`.
    folder : path-like
        Where the data set is.
    output : path-like, optional
        CSV file to write; without it only the counts are compared.
    overwrite : bool
        Replace `output` where it exists.
    """
    known = DATASETS.get(dataset)()
    if output is not None:
        _check_new(Path(output), overwrite)
        known.manifest(folder).write(output)
    return known.check(folder)


def check(manifest: PathLike, *, progress: Progress | None = None) -> Summary:
    """Count a manifest file and decode each of its images."""
    report = partial(progress, "decoding") if progress else None
    return read_manifest(manifest).summary(check_images=True, progress=report)


def extract(
    manifest: PathLike,
    output: PathLike | None = None,
    *,
    model: str = "hog",
    weights: PathLike | None = None,
    device: str = "auto",
    threads: int | None = None,
    batch_size: int = 16,
    image_size: str | None = None,
    crop: str | None = None,
    mask: PathLike | None = None,
    dtype: str | None = None,
    strict: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    download: Callable[[int, int | None], None] | None = None,
) -> Extraction:
    """Describe the images of a manifest file; run again, it goes on where it stopped.

    Parameters
    ----------
    manifest : path-like
        CSV file with image, place, traversal.
    output : path-like, optional
        The store; by default the manifest's name with ``.desc``.
    model, weights, device, image_size, crop, mask
        See `displace.models.get_model`.
    threads : int, optional
        Cores to use for reading and for the model; by default all.
    batch_size, dtype, strict, overwrite, progress
        See `displace.descriptors.extraction.extract`.
    download : callable, optional
        Called with bytes done and bytes in all while weights are downloaded.
    """
    if threads is not None and threads < 1:
        raise InputError(f"threads={threads} must be at least 1")
    table = read_manifest(manifest)
    described_by = get_model(model, weights, device, image_size, crop, mask)
    described_by.load(download)
    # Now that the model's libraries are loaded their threads can be limited.
    with limit_threads(threads):
        return extract_images(
            table,
            described_by,
            Path(manifest).with_suffix(".desc") if output is None else output,
            dtype=dtype,
            overwrite=overwrite,
            strict=strict,
            workers=threads,
            batch_size=batch_size,
            progress=progress,
        )


def relabel(store: PathLike, manifest: PathLike) -> DescriptorStore:
    """Replace places, traversals and positions of a store by those of a manifest file; no image is read."""
    return relabel_store(store, read_manifest(manifest))


def _check_new(output: Path, overwrite: bool) -> None:
    """Refuse to replace a manifest, which may have been edited by hand, unless asked to."""
    if output.exists() and not overwrite:
        raise ManifestError(f"{output} exists; choose another name with -o, or replace it with --overwrite")


def known_places(path: PathLike) -> Manifest | KnownPlaces:
    """Read the places that a manifest or a map knows; those of a map are in natural order (9 before 10)."""
    if Path(path).suffix != MAP_ENDING:
        return read_manifest(path)
    town = PlaceMap.load(path)
    ids = [str(place) for place in town.place_ids.tolist()]
    names = {} if town.images is None else place_of_each_name(town.images, ids)
    names.pop("", None)  # places without an image
    order = sorted(range(len(ids)), key=lambda row: natural_key(ids[row]))
    positions = None if town.positions is None else town.positions.take(np.array(order, np.intp))
    return KnownPlaces([ids[row] for row in order], positions, names)


def read_manifest(path: PathLike) -> Manifest:
    """Read a manifest file, with a hint where a folder is given instead."""
    if Path(path).is_dir():
        what = "is a descriptor store" if is_store(path) else "is a folder"
        raise ManifestError(
            f"{path} {what}, a manifest is a CSV file; make one with: displace manifest FOLDER"
        )
    return Manifest.read(path)


def inspect(store: PathLike) -> StoreSummary:
    """Say what a descriptor store holds, without reading a vector."""
    return summarize_store(DescriptorStore(store))


@dataclass(frozen=True)
class Entry:
    """One name that can be used, and what it stands for."""

    name: str
    about: str
    paper: str = ""
    obtain: str = ""
    """How to get it, where it is not part of the package."""


def models() -> list[ModelRow]:
    """List every descriptor model and variant, and whether it can be used on this machine."""
    return list_models()


def datasets() -> list[Entry]:
    """List the data sets whose layouts are known."""
    return _entries(DATASETS)


def fusions() -> list[Entry]:
    """List the ways to fuse references."""
    return _entries(FUSIONS)


def demo(folder: PathLike = "displace-demo", *, places: int = 200, progress: Progress | None = None) -> Demo:
    """Draw a town in six conditions, map five of them, locate the night, compare all fusions, write a page.

    Parameters
    ----------
    folder : path-like
        Where everything goes; run again, it keeps the pictures and descriptors that are there.
    places : int
        Places along the route, 20 to 2000.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    return run_demo(folder, places, progress)


def _entries(registry: Registry[Any]) -> list[Entry]:
    """Each name with the first line of its class's documentation."""
    found = ((name, registry.get(name)) for name in registry.names())
    return [
        Entry(
            name,
            (getdoc(entry) or "").partition("\n")[0],
            getattr(entry, "paper", ""),
            getattr(entry, "obtain", ""),
        )
        for name, entry in found
    ]
