"""Building a map on a cluster: statistics of each shard, merged in a tree, one solution, rows in parallel.

Only statistics are sent: each shard yields its places' means and one D×D matrix, pairs are merged by the
parallel-variance formula (also for places whose references are in different shards), and the last one is solved. If a
worker dies, Dask computes its results again on the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, blocks
from displace.descriptors.shards import load_checked
from displace.descriptors.store import DescriptorStore
from displace.errors import DisplaceError, InputError
from displace.files.disk_rows import DiskRows
from displace.files.reading import PathLike
from displace.fusion.base import Fusion, Rows
from displace.fusion.solver.scatter import Scatter
from displace.maps.digests import Digests
from displace.maps.fitting import fusion_of, stored_rows
from displace.maps.place_map import PlaceMap
from displace.maps.streaming import Learned, finished
from displace.progress import Progress
from displace.references import ReferenceSet, ReferenceStream
from displace.truth import Tolerance

SLICE_BYTES = 32 * 2**20
"""Place means of one task that makes rows."""


@dataclass(frozen=True, eq=False)
class ShardPart:
    """References of one shard."""

    path: str
    """The shard's vectors, on a file system that all workers see."""
    rows: Indices
    """Shape (b,). Which of them."""
    places: NDArray[Any]
    traversals: NDArray[Any]
    """Both of shape (b,)."""

    def read(self) -> ReferenceSet:
        """Read the references; StoreError where the shard is damaged."""
        try:
            shard = load_checked(Path(self.path))
        except OSError as error:
            raise DisplaceError(
                f"a worker cannot read {self.path} ({error.strerror or error}): the store must be on a file system "
                "that all workers see under the same name"
            ) from None
        return ReferenceSet(shard[self.rows].astype(np.float32, copy=False), self.places, self.traversals)


@dataclass(frozen=True, eq=False)
class Partial:
    """Statistics of some references, and the digests of their traversals."""

    scatter: Scatter
    digests: Digests


def build_on_cluster(
    client: Any,
    store: DescriptorStore,
    fusion: str | Fusion = "displace",
    *,
    folder: PathLike,
    traversals: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    dtype: str = "float16",
    calibration: bool = True,
    tolerance: str | float | Tolerance | None = None,
    progress: Progress | None = None,
) -> PlaceMap:
    """Build the map that `displace.build` builds, with the workers of a Dask cluster.

    All workers must see the store on a file system. The empty `folder` is this process's, for means and rows as in
    `displace.maps.streaming.build_streamed`; `traversals` and `exclude` are as for `DescriptorStore.references`.
    """
    stream = store.stream(traversals, exclude)
    estimator = fusion_of(fusion).for_blocks(stream.places, stream.traversals)
    parts = shard_parts(store, stream)
    learned = _learned(client, estimator, stream, parts, Path(folder), progress)
    return finished(stream, learned, store.model, Path(folder), dtype, calibration, tolerance, progress)


def shard_parts(store: DescriptorStore, stream: ReferenceStream) -> list[ShardPart]:
    """References of each shard that has any."""
    if stream.rows is None:
        raise InputError("these references are not those of a store: build their map without a cluster")
    files, rows = store.located(stream.rows)
    parts = []
    for path in np.unique(files):
        own = np.flatnonzero(files == path)
        own = own[np.argsort(rows[own], kind="stable")]
        parts.append(ShardPart(str(path), rows[own], stream.places[own], stream.traversals[own]))
    return parts


def partial_of(part: ShardPart, estimator: Fusion) -> Partial:
    """Statistics of one shard; runs on a worker."""
    refs = part.read()
    statistics = estimator.statistics(refs)
    if not isinstance(statistics, Scatter):
        raise InputError(
            f"{estimator.title} has no statistics that can be added up: build its map without a cluster"
        )
    return Partial(statistics, Digests().add(refs))


def merged(a: Partial, b: Partial) -> Partial:
    """Statistics of both; runs on a worker. Neither is changed: a task may run again when a worker is lost."""
    digests = Digests().merge(a.digests).merge(b.digests)
    return Partial(a.scatter.copy().merge(b.scatter), digests)


def solved_on_worker(whole: Partial, estimator: Fusion, parts: list[ShardPart], n_traversals: int) -> Fusion:
    """Fit on the statistics, with the references if the fusion wants them; runs on a worker."""
    scatter, refs = whole.scatter, None
    n_places, dim = scatter.means.shape
    if estimator.wants_references(n_places, dim, n_traversals):
        every = [part.read() for part in parts]
        refs = ReferenceSet(
            np.concatenate([r.vectors for r in every]),
            np.concatenate([r.places for r in every]),
            np.concatenate([r.traversals for r in every]),
        )
    return estimator.from_statistics(scatter, refs)


def summary_of(whole: Partial) -> tuple[NDArray[Any], Indices, Vectors, Digests]:
    """Everything of the statistics but the means."""
    return whole.scatter.place_ids, whole.scatter.counts, whole.scatter.within, whole.digests


def part_of(whole: Partial, start: int, stop: int) -> Scatter:
    """Statistics of some of the places, without the scatter."""
    some, scatter = slice(start, stop), whole.scatter
    none = np.zeros((0, 0), scatter.within.dtype, order="F")
    return Scatter(scatter.place_ids[some], scatter.counts[some], scatter.means[some].copy(), none)


def rows_of(scatter: Scatter, estimator: Fusion) -> tuple[Vectors, Vectors]:
    """Means of some places, and their rows; runs on a worker."""
    return scatter.means, estimator.rows_of(scatter)


def without_rows(estimator: Fusion) -> Fusion:
    """Return the fitted fusion without its rows, which every worker would receive."""
    if hasattr(estimator, "place_vectors_"):
        estimator.place_vectors_ = estimator.place_vectors_[:0]
    return estimator


def _learned(
    client: Any,
    estimator: Fusion,
    stream: ReferenceStream,
    parts: list[ShardPart],
    folder: Path,
    progress: Progress | None,
) -> Learned:
    """Statistics in a tree, one solution, rows in slices."""
    whole = _reduced(client, estimator, parts, progress)
    ids, counts, within, digests = client.submit(summary_of, whole, pure=False).result()
    fitted = estimator
    if not estimator.place_by_place:
        n_traversals = len(np.unique(stream.traversals))
        solution = client.submit(solved_on_worker, whole, estimator, parts, n_traversals, pure=False)
        fitted = client.submit(without_rows, solution, pure=False).result()
        del solution
    means, rows = _rows(client, whole, fitted, len(ids), stream.dim, folder, progress)
    fitted.place_ids_ = ids
    on_disk: Any = means
    arrays = Scatter(ids, counts, on_disk, within).to_arrays()
    stored: Any = rows
    own = None if fitted.place_by_place else stored_rows(fitted)
    projection, mean = (None, None) if own is None else (own.projection, own.mean)
    return Learned(fitted, Rows(stored, np.arange(len(ids)), projection, mean), arrays, digests)


def _reduced(client: Any, estimator: Fusion, parts: list[ShardPart], progress: Progress | None) -> Any:
    """Future of the statistics of all shards.

    No other future is kept, so that workers free statistics once they are merged; if one dies before, Dask computes
    them again. The statistics stay on the workers: the means of very many places would fill this process.
    """
    from distributed import as_completed

    level = [client.submit(partial_of, part, estimator, pure=False) for part in parts]
    sizes = {future.key: len(part.rows) for future, part in zip(level, parts, strict=True)}
    reading = as_completed(level)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [client.submit(merged, a, b, pure=False) for a, b in pairs] + level[len(level) // 2 * 2 :]
    done, total = 0, sum(sizes.values())
    for future in reading:
        if future.status != "finished":
            future.result()  # raises what went wrong
        done += sizes[future.key]
        if progress:
            progress("reading", done, total)
    return level[0]


def _rows(
    client: Any,
    whole: Any,
    fitted: Fusion,
    n_places: int,
    dim: int,
    folder: Path,
    progress: Progress | None,
) -> tuple[DiskRows, DiskRows]:
    """Write means and rows to this process's disk, with few slices in flight at a time."""
    means, rows = DiskRows(folder / "means", dim, np.float32), None
    waiting: deque[Any] = deque()
    slices = deque(blocks(n_places, 4 * dim, SLICE_BYTES))
    ahead = 2 * max(1, len(client.scheduler_info()["workers"]))
    shared = client.scatter(fitted, broadcast=False)
    while slices or waiting:
        while slices and len(waiting) < ahead:
            some = slices.popleft()
            piece = client.submit(part_of, whole, some.start, some.stop, pure=False)
            waiting.append(client.submit(rows_of, piece, shared, pure=False))
        mean_part, row_part = waiting.popleft().result()
        means.append(mean_part)
        if rows is None:
            rows = DiskRows(folder / "rows", row_part.shape[1], np.float32)
        rows.append(row_part)
        if progress:
            progress("rows", len(rows), n_places)
    if rows is None:
        raise InputError("there are no references to build a map of")
    return means, rows
