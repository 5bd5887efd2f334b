"""Every verb of the command line as a function. Defaults live here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from displace.descriptors import DescriptorStore, is_store
from displace.errors import InputError, ManifestError
from displace.extraction import Extraction, Progress
from displace.extraction import extract as extract_images
from displace.manifest import Manifest
from displace.manifest_summary import Traversal
from displace.models import get_model
from displace.store_writing import relabel as relabel_store

PathLike = str | os.PathLike[str]


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
