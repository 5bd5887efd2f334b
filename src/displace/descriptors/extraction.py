"""Extraction: from a manifest's images to a descriptor store, resumable at any point.

Two passes: the first reads the content hash of every file, which shows what is new; the second describes the
new contents, reading and preparing images ahead of the model, and writes a shard every so often.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors, check_count, check_one_of
from displace.descriptors.preparation import (
    Failure,
    Key,
    Prepared,
    Source,
    attempt,
    in_batches,
    in_chunks,
    in_order,
    n_cores,
    preparing,
)
from displace.descriptors.shards import Shards
from displace.descriptors.store import DescriptorStore
from displace.descriptors.store_index import StoreIndex
from displace.descriptors.store_writing import opened_for_writing
from displace.errors import ImageError, InputError, SkippedImagesError, StoreError
from displace.files.reading import PathLike
from displace.images import content_hash
from displace.manifest.table import Manifest
from displace.models.base import DescriptorModel
from displace.progress import Progress

Part = tuple[list[Key], Vectors, dict[Key, str]]
"""Some images that were described, their vectors, and why other images could not be."""
Describer = Callable[[list[tuple[str, str]]], Generator[Part[str]]]
"""Describes files, given as (content hash, path)."""

DTYPES = ("float32", "float16")
SHARD_BYTES = 32 * 2**20
SHARD_SECONDS = 30.0
"""A shard is written when one of these is reached; a killed run loses at most that much."""
HASHED_AT_ONCE = 32
NOT_FINITE = "its descriptor is not finite (NaN or infinity)"


@dataclass(frozen=True)
class Extraction:
    """What a run of `extract` did."""

    store: DescriptorStore
    n_described: int
    """Contents that went through the model."""
    n_reused: int
    """Images whose content had been described before."""
    n_unlisted: int
    """Images that an earlier manifest listed and this one does not; their descriptors are kept."""
    seconds: float

    @property
    def skipped(self) -> dict[str, str]:
        """Images that could not be described, and why."""
        return self.store.skipped


def extract(
    manifest: Manifest,
    model: DescriptorModel,
    folder: PathLike,
    *,
    dtype: str | None = None,
    overwrite: bool = False,
    strict: bool = False,
    workers: int | None = None,
    batch_size: int = 16,
    describer: Describer | None = None,
    progress: Progress | None = None,
) -> Extraction:
    """Describe the images of a manifest and keep the descriptors in a store.

    Running it again continues where it stopped: an image whose content already has a descriptor of this model is not
    described again, whatever its name or position. The store then lists exactly the manifest's images.

    Parameters
    ----------
    manifest : Manifest
        Images with their places and traversals.
    model : DescriptorModel
        From `displace.models.get_model`.
    folder : path-like
        The store, created if it does not exist (``route.desc``).
    dtype : {"float32", "float16"}, optional
        Stored type; by default the store's own, float32 for a new one.
    overwrite : bool
        Drop the descriptors that the store holds and start over.
    strict : bool
        Raise `SkippedImagesError` at the end if images could not be read.
    workers : int, optional
        Threads or processes that read and prepare images; by default one for each core.
    batch_size : int
        Images of one shape given to the model at a time.
    describer : callable, optional
        Describes the files elsewhere, such as on a cluster; by default `model` does so here.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Extraction
        The store and what was done.
    """
    start, folder = time.perf_counter(), Path(folder)
    workers = n_cores() if workers is None else workers
    check_count(workers, "workers")
    check_count(batch_size, "batch_size")
    if dtype is not None:
        check_one_of(dtype, DTYPES, "dtype")
    if not len(manifest):
        raise InputError("the manifest lists no images; there is nothing to describe")
    report = progress or (lambda *_: None)
    with opened_for_writing(folder, model.fingerprint(), model.dim, dtype, overwrite) as before:
        n_before = len(before.shards)
        hashes, skipped = _hash_all(manifest, workers, report)
        if len(before) and not any(hashes):  # a disk that is not there costs no descriptors
            raise _none_described(manifest, skipped, f"; {folder} stays as it was")
        index = before.index.listing(manifest, hashes)
        index.write(folder)
        n_reused = sum(content in before.shards for content in hashes)
        here = partial(_described, model, workers=workers, batch_size=batch_size)
        failures = _describe_new(index, before.shards, describer or here, report)
        paths = [str(path) for path in manifest.paths()]
        # Of equal files one was read, and is named in the message.
        read = dict(zip(hashes, paths, strict=True))
        for name, path, content in zip(manifest.images, paths, hashes, strict=True):
            if content in failures:
                skipped[name] = failures[content].replace(read[content], path)
        index = replace(index, skipped=skipped)
        index.write(folder)
    store = before.with_index(index)
    _check_outcome(store, strict)
    n_unlisted = len({*before.index.manifest.images} - {*manifest.images})
    return Extraction(store, len(store.shards) - n_before, n_reused, n_unlisted, time.perf_counter() - start)


def _hash_all(manifest: Manifest, workers: int, report: Progress) -> tuple[list[str | None], dict[str, str]]:
    """Content hash of every image (None where the file cannot be read), and why files cannot be read."""
    hashes: list[str | None] = []
    skipped: dict[str, str] = {}
    files = zip(manifest.images, _paths(manifest.root, manifest.images), strict=True)
    with ThreadPoolExecutor(workers, thread_name_prefix="displace-hash") as pool:
        # In chunks: handing over single files costs more than hashing them.
        for names, answers in in_order(pool, _hash_each, in_chunks(files, HASHED_AT_ONCE), ahead=4 * workers):
            for name, answer in zip(names, answers, strict=True):
                if isinstance(answer, Failure):
                    skipped[name] = str(answer)
                hashes.append(None if isinstance(answer, Failure) else answer)
                report("reading", len(hashes), len(manifest))
    return hashes, skipped


def _hash_each(paths: list[str]) -> list[str | Failure]:
    return [attempt(content_hash, path) for path in paths]


def _paths(root: Path, names: Iterable[str]) -> Iterator[str]:
    """Paths of the images as plain strings: making a Path of each costs as much as hashing it."""
    folder = str(root)
    return (os.path.join(folder, name) for name in names)  # noqa: PTH118


def _describe_new(
    index: StoreIndex, shards: Shards, describer: Describer, report: Progress
) -> dict[str, str]:
    """Describe the contents that `shards` lacks; return those that cannot be described, and why."""
    names = {
        c: name for c, name in zip(index.hashes, index.manifest.images, strict=True) if c and c not in shards
    }
    files = list(zip(names, _paths(index.manifest.root, names.values()), strict=True))
    failures: dict[str, str] = {}
    done = 0
    report("describing", 0, len(files))
    with ShardBuffer(shards) as buffer, closing(describer(files)) as parts:
        for contents, vectors, failed in parts:
            buffer.add(contents, vectors)
            failures |= failed
            done += len(contents) + len(failed)
            report("describing", done, len(files))
    return failures


def _described(
    model: DescriptorModel, files: Sequence[tuple[Key, Source]], workers: int, batch_size: int
) -> Generator[Part[Key]]:
    """Describe files batch by batch. Closing the generator ends the workers."""
    failures: dict[Key, str] = {}

    def readable(answers: Iterable[tuple[Key, Prepared | Failure]]) -> Iterator[tuple[Key, Prepared]]:
        for key, answer in answers:
            if isinstance(answer, Failure):
                failures[key] = str(answer)
            else:
                yield key, answer

    with preparing(model, files, len(files), workers, batch_size + 2 * workers) as answers:
        for keys, batch in in_batches(readable(answers), batch_size):
            vectors = described_batch(model, batch)
            good = np.asarray(np.isfinite(vectors).all(axis=1))
            failures |= {key: NOT_FINITE for key, fine in zip(keys, good, strict=True) if not fine}
            yield [key for key, fine in zip(keys, good, strict=True) if fine], vectors[good], failures
            failures = {}
    if failures:  # of images after the last batch
        yield [], np.empty((0, model.dim), np.float32), failures


class ShardBuffer:
    """Collects vectors and writes a shard when there are enough, or when the work ends or is interrupted."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self._clear()

    def _clear(self) -> None:
        self._keys: list[str] = []
        self._parts: list[Vectors] = []
        self._since = time.monotonic()

    def add(self, keys: Sequence[str], vectors: Vectors) -> None:
        """Add vectors, which are lost if the process dies before the next `flush`."""
        self._keys += keys
        self._parts.append(vectors)
        full = len(self._keys) * self.shards.dim * self.shards.dtype.itemsize >= SHARD_BYTES
        if full or time.monotonic() - self._since >= SHARD_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write all vectors to disk."""
        if self._keys:
            self.shards.append(self._keys, np.concatenate(self._parts))
        self._clear()

    def __enter__(self) -> ShardBuffer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After a failed write another attempt would only hide the first error.
        if kind is None or not issubclass(kind, StoreError):
            self.flush()


def describe(
    model: DescriptorModel,
    images: Sequence[PathLike | bytes | NDArray[np.uint8]],
    *,
    workers: int | None = None,
    batch_size: int = 16,
    failures: dict[int, str] | None = None,
    progress: Progress | None = None,
) -> Vectors:
    """Describe images without keeping anything: (q, dim), in the order of `images`.

    Images are files, the content of files, or RGB pixels (H, W, 3). `failures` takes the row and the reason of each
    that cannot be read, whose vector is NaN; without it the first one raises `ImageError`. The rest is as in `extract`.
    """
    workers = n_cores() if workers is None else workers
    check_count(workers, "workers")
    files = [
        (row, os.fspath(image) if isinstance(image, os.PathLike) else image)
        for row, image in enumerate(images)
    ]
    vectors = np.full((len(images), model.dim), np.nan, np.float32)
    failed: dict[int, str] = {}
    done = 0
    with closing(_described(model, files, workers, batch_size)) as parts:
        for rows, found, wrong in parts:
            vectors[rows] = found
            failed |= {row: _named(images[row], why) for row, why in wrong.items()}
            done += len(rows) + len(wrong)
            if progress:
                progress("describing", done, len(images))
    if failed and failures is None:
        raise ImageError(failed[min(failed)])
    if failures is not None:
        failures.update(failed)
    return vectors


def _named(image: object, why: str) -> str:
    """Name the image in a reason that does not."""
    name = str(image) if isinstance(image, str | os.PathLike) else "an image given as bytes or pixels"
    return f"{name}: {why}" if why == NOT_FINITE else why


def described_batch(model: DescriptorModel, batch: Prepared) -> Vectors:
    """Descriptors of prepared images, checked to have the shape that the model promises."""
    vectors = np.asarray(model.describe(batch))
    if vectors.shape != (len(batch), model.dim):
        raise InputError(
            f"model {model.name!r} returned descriptors of shape {vectors.shape} for {len(batch)} images; "
            f"({len(batch)}, {model.dim}) is what its dim says"
        )
    return vectors


def _check_outcome(store: DescriptorStore, strict: bool) -> None:
    """Raise an error if nothing was described, or with `strict` if anything was skipped."""
    n, skipped = len(store.index.manifest), store.skipped
    if n and not len(store):
        raise _none_described(store.index.manifest, skipped)
    if strict and skipped:
        raise SkippedImagesError(
            "\n  ".join(
                [f"{len(skipped)} of {n} images skipped; all others are in {store.folder}", *skipped.values()]
            )
        )


def _none_described(manifest: Manifest, skipped: Mapping[str, str], kept: str = "") -> ImageError:
    return ImageError(
        f"none of the {len(manifest)} images could be described{kept}; paths in a manifest are relative to its own "
        f"folder. First problem: {next(iter(skipped.values()), '')}"
    )
