"""Builds a map from more references than fit in memory.

References are read in blocks of whole places. The statistics of disjoint places add up: a block adds its share to the
D×D scatter in memory and its place means to a file. The solution then projects these means to rows, block by block. So
memory is a few D×D matrices and one block, whatever the number of references.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from displace.arrays import Indices, blocks, check_one_of
from displace.errors import InputError
from displace.files.disk_rows import DiskRows
from displace.fusion.base import Fusion, Rows
from displace.fusion.solver.scatter import Scatter
from displace.maps.building import NONE, calibration_rows, fitted_state
from displace.maps.calibrating import anchored, calibrated
from displace.maps.digests import Digests
from displace.maps.fitting import fusion_of, spectrum_note, stored_rows
from displace.maps.place_map import PlaceMap
from displace.maps.rounding import DTYPES, RecallLoss, agreement, in_stable_basis, quantize, stable_rotation
from displace.maps.statistics import MapStatistics
from displace.progress import Progress, part
from displace.references import ReferenceSet, ReferenceStream
from displace.truth import Tolerance, Truth

BLOCK_BYTES = 128 * 2**20
"""Size of a block of references, in bytes of float32."""
SMALL_ROWS = 2**26
"""Numbers (rows × dimensions) up to which the cost of rounding is measured on the rows where nothing is held out."""


@dataclass(frozen=True)
class Learned:
    """A fusion fitted without all references at hand."""

    estimator: Fusion
    """Fitted; its rows may lie on disk."""
    rows: Rows
    """Rows of the map, before they are rotated and rounded."""
    arrays: dict[str, NDArray[Any]]
    """Statistics for updates."""
    digests: Digests


def build_streamed(
    stream: ReferenceStream,
    fusion: str | Fusion = "displace",
    model: Mapping[str, Any] | None = None,
    *,
    folder: str | os.PathLike[str],
    dtype: str = "float16",
    calibration: bool = True,
    tolerance: str | float | Tolerance | None = None,
    block_bytes: int = BLOCK_BYTES,
    progress: Progress | None = None,
) -> PlaceMap:
    """Build the map that `displace.build` builds, from references that are read in blocks of `block_bytes`.

    Place means and rows are in files of the empty `folder` as long as the map is used; a saved map does not need it.
    """
    check_one_of(dtype, DTYPES, "dtype")
    if not len(stream):
        raise InputError(NONE)
    estimator = fusion_of(fusion).for_blocks(stream.places, stream.traversals)
    parts = place_blocks(stream.places, 4 * stream.dim, block_bytes)
    learn = _learned_place_by_place if estimator.place_by_place else _learned
    learned = learn(estimator, stream, parts, Path(folder), progress)
    return finished(stream, learned, model, Path(folder), dtype, calibration, tolerance, progress)


def place_blocks(places: NDArray[Any], row_bytes: int, block_bytes: int) -> list[Indices]:
    """Indices of the references in blocks of whole places, in order of place; ascending within a block."""
    order = np.argsort(places, kind="stable")
    starts = np.flatnonzero(np.r_[True, places[order][1:] != places[order][:-1]]) if len(order) else order
    ends = np.r_[starts[1:], len(order)]
    parts, first = [], 0
    while first < len(starts):
        wanted = starts[first] + max(1, block_bytes // row_bytes)
        last = max(first + 1, int(np.searchsorted(ends, wanted, side="right")))
        parts.append(np.sort(order[starts[first] : ends[last - 1]]))
        first = last
    return parts


def read_blocks(
    stream: ReferenceStream, parts: list[Indices], progress: Progress | None
) -> Iterator[ReferenceSet]:
    """References of each block in turn."""
    done, total = 0, sum(map(len, parts))
    for rows in parts:
        yield stream.take(rows)
        done += len(rows)
        if progress:
            progress("reading", done, total)


def _learned(
    estimator: Fusion,
    stream: ReferenceStream,
    parts: list[Indices],
    folder: Path,
    progress: Progress | None,
) -> Learned:
    """Statistics of all blocks, then one solution."""
    digests, counts, within = Digests(), [], None
    means = DiskRows(folder / "means", stream.dim, np.float32)
    for refs in read_blocks(stream, parts, progress):
        statistics = estimator.statistics(refs)
        if not isinstance(statistics, Scatter):
            raise InputError(
                f"{estimator.title} cannot be fitted without all references in memory; choose another fusion, or "
                "a machine with more memory"
            )
        within = statistics.within if within is None else np.add(within, statistics.within, out=within)
        counts.append(statistics.counts)
        means.append(statistics.means)
        digests.add(refs)
    assert within is not None
    scatter = Scatter(stream.info.ids, np.concatenate(counts), means, within)  # type: ignore[arg-type]
    return solved(estimator, scatter, stream, digests)


def solved(estimator: Fusion, scatter: Scatter, stream: ReferenceStream, digests: Digests) -> Learned:
    """Fit to the statistics; with all references at hand where settings are chosen by holding some of them out."""
    n_places, n_traversals = len(scatter.place_ids), len(np.unique(stream.traversals))
    refs = None
    if estimator.wants_references(n_places, stream.dim, n_traversals):
        refs = stream.take(np.arange(len(stream.places)))
    if refs is not None or n_places <= stream.dim:  # then the means are few, and the solver takes all at once
        scatter.means = scatter.means[:]
    estimator.from_statistics(scatter, refs)
    return Learned(estimator, stored_rows(estimator), scatter.to_arrays(), digests)


def _learned_place_by_place(
    estimator: Fusion,
    stream: ReferenceStream,
    parts: list[Indices],
    folder: Path,
    progress: Progress | None,
) -> Learned:
    """Rows block by block, for fusions whose rows of a place depend on its own references alone."""
    digests, index, counts, n = Digests(), [], [], 0
    rows_on_disk = DiskRows(folder / "rows", stream.dim, np.float32)
    means = DiskRows(folder / "means", stream.dim, np.float32)
    fitted = estimator
    for refs in read_blocks(stream, parts, progress):
        statistics = estimator.statistics(refs)
        fitted = clone(estimator).from_statistics(statistics)
        rows = stored_rows(fitted)
        rows_on_disk.append(rows.vectors)
        index.append(rows.place_index + n)
        n += len(refs.place_ids)
        if isinstance(statistics, Scatter):
            means.append(statistics.means)
            counts.append(statistics.counts)
        digests.add(refs)
    fitted.place_ids_ = stream.info.ids
    arrays: dict[str, NDArray[Any]] = {}
    if counts:
        none = np.zeros((0, 0), np.float32, order="F")
        arrays = Scatter(stream.info.ids, np.concatenate(counts), means, none).to_arrays()  # type: ignore[arg-type]
    return Learned(fitted, Rows(rows_on_disk, np.concatenate(index)), arrays, digests)  # type: ignore[arg-type]


def finished(
    stream: ReferenceStream,
    learned: Learned,
    model: Mapping[str, Any] | None,
    folder: Path,
    dtype: str,
    calibration: bool,
    tolerance: str | float | Tolerance | None,
    progress: Progress | None,
) -> PlaceMap:
    """Round the rows, put the map together, and calibrate it on a sample."""
    estimator, truth = learned.estimator, Truth.of(stream.info, tolerance)
    vectors, scales, rows = _rounded(learned.rows, dtype, folder, progress)
    state = fitted_state(
        stream,
        estimator,
        replace(rows, vectors=vectors),
        scales,
        model,
        truth.tolerance,
        MapStatistics(learned.arrays, None, learned.digests.result()),
    )
    loss = None if dtype == "float32" else RecallLoss(dtype, truth)
    if calibration:
        sample = stream.take(calibration_rows(stream.places, stream.info, stream.dim))
        state = calibrated(anchored(state), sample, truth, part(progress, "calibrating"), loss)
    notes = {} if loss is None else loss.notes()
    if loss is not None and not notes and learned.rows.vectors.shape[0] * vectors.shape[1] <= SMALL_ROWS:
        notes = agreement(np.asarray(learned.rows.vectors[:], np.float32), rows.place_index, dtype)
    return PlaceMap(replace(state, notes={**notes, **spectrum_note(estimator)}))


def _rounded(
    rows: Rows, dtype: str, folder: Path, progress: Progress | None
) -> tuple[NDArray[Any], NDArray[Any] | None, Rows]:
    """Rows as stored, in a file; the scales of int8 rows; and projection and mean, rotated with the rows."""
    rotation = stable_rotation(rows.projection)
    n_rows, dim = rows.vectors.shape
    stored, scales = DiskRows(folder / "stored", dim, dtype), []
    for block in blocks(n_rows, 4 * dim):
        part = np.asarray(rows.vectors[block], np.float32)
        codes, scale = quantize(part if rotation is None else part @ rotation, dtype)
        stored.append(codes)
        scales.append(scale)
        if progress:
            progress("rows", block.stop, n_rows)
    kept = [scale for scale in scales if scale is not None]
    empty = Rows(np.empty((0, dim), np.float32), rows.place_index, rows.projection, rows.mean)
    return stored.mapped(), np.concatenate(kept) if kept else None, in_stable_basis(empty)
