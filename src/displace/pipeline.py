"""Every verb of the command line as a function. Defaults live here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from inspect import getdoc
from pathlib import Path
from typing import Any

from rich.console import Console
from threadpoolctl import threadpool_limits

from displace.datasets import DATASETS
from displace.demo import run as run_demo
from displace.descriptors import DescriptorStore, is_store
from displace.errors import InputError, ManifestError
from displace.extraction import Extraction, Progress
from displace.extraction import extract as extract_images
from displace.fusion import FUSIONS
from displace.interop.sources import unpack
from displace.manifest import Manifest
from displace.manifest_builder import build_manifest
from displace.manifest_summary import Summary, Traversal
from displace.models import ModelRow, get_model, list_models
from displace.registry import Registry
from displace.store_writing import relabel as relabel_store

PathLike = str | os.PathLike[str]


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
    keep_off_route: bool = True,
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
        Manifest file with the places to which the sources are assigned.
    layout, anchor, spacing, radius, max_heading, max_gap, keep_off_route
        See `displace.manifest_builder.build_manifest`.
    every, topic, positions_topic, allow_truncated
        See `displace.interop.sources.unpack`.
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
    if output.exists() and not overwrite:
        raise ManifestError(f"{output} exists; choose another name with -o, or replace it with --overwrite")
    known = None if against is None else read_manifest(against)
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
        keep_off_route=keep_off_route,
    )
    built.write(output)
    return built.summary()


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
        See `displace.extraction.extract`.
    download : callable, optional
        Called with bytes done and bytes in all while weights are downloaded.
    """
    if threads is not None and threads < 1:
        raise InputError(f"threads={threads} must be at least 1")
    table = read_manifest(manifest)
    described_by = get_model(model, weights, device, image_size, crop, mask)
    described_by.load(download)
    # Now that the model's libraries are loaded their threads can be limited.
    limits: AbstractContextManager[Any] = threadpool_limits(threads) if threads else nullcontext()
    with limits:
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


def read_manifest(path: PathLike) -> Manifest:
    """Read a manifest file, with a hint where a folder is given instead."""
    if Path(path).is_dir():
        what = "is a descriptor store" if is_store(path) else "is a folder"
        raise ManifestError(
            f"{path} {what}, a manifest is a CSV file; make one with: displace manifest FOLDER"
        )
    return Manifest.read(path)


@dataclass(frozen=True)
class StoreSummary:
    """What `inspect` tells of a descriptor store."""

    folder: str
    model: dict[str, Any]
    """Fingerprint of the model."""
    dim: int
    dtype: str
    n_listed: int
    """Images in its manifest."""
    n_described: int
    n_places: int
    traversals: list[Traversal]
    """Described images of each traversal."""
    skipped: dict[str, str]
    """Images that could not be read, and why."""
    n_pending: int
    """Images that a run has not reached yet."""
    n_shards: int
    n_bytes: int
    """Bytes of all vectors."""
    n_unused: int
    """Vectors of contents that the manifest lists no more."""
    damaged: list[str]
    """Shards that cannot be used; their images will be described again."""


def inspect(store: PathLike) -> StoreSummary:
    """Say what a descriptor store holds, without reading a vector."""
    opened = DescriptorStore(store)
    counted = opened.manifest.summary()
    return StoreSummary(
        folder=str(store),
        model=opened.model,
        dim=opened.dim,
        dtype=str(opened.dtype),
        n_listed=len(opened.index.manifest),
        n_described=len(opened),
        n_places=counted.places,
        traversals=counted.traversals,
        skipped=opened.skipped,
        n_pending=len(set(opened.missing) - set(opened.skipped)),
        n_shards=opened.shards.n_files,
        n_bytes=opened.shards.nbytes,
        n_unused=opened.shards.n_rows - len(set(opened.contents)),
        damaged=opened.shards.damaged,
    )


@dataclass(frozen=True)
class Entry:
    """One name that can be used, and what it stands for."""

    name: str
    about: str


def models() -> list[ModelRow]:
    """List every descriptor model and variant, and whether it can be used on this machine."""
    return list_models()


def datasets() -> list[Entry]:
    """List the data sets whose layouts are known."""
    return _entries(DATASETS)


def fusions() -> list[Entry]:
    """List the ways to fuse references."""
    return _entries(FUSIONS)


def demo(console: Console) -> None:
    """Fit every fusion on a generated route and print how they compare."""
    run_demo(console)


def _entries(registry: Registry[Any]) -> list[Entry]:
    """Each name with the first line of its class's documentation."""
    found = ((name, getdoc(registry.get(name)) or "") for name in registry.names())
    return [Entry(name, text.partition("\n")[0]) for name, text in found]
