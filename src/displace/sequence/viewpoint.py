"""Shifts of the picture between drives (another lane, another camera mount), for descriptors that are a grid over it.

Such descriptors (HOG) compare cell with cell, so a picture that is shifted sideways resembles nothing. Pictures are
therefore compared at all offsets of a few cells. Of two recordings the offset with the highest gain (`gain_of`) is
taken, of queries against a map the one with the clearest peak of the mean best score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from math import sqrt

import numpy as np

from displace.arrays import Vectors, blocks, l2_normalize
from displace.errors import InputError
from displace.holdout import spread
from displace.sequence.adaptation import MapRows, advance, tell_condition
from displace.sequence.pairing import gain_of, standardised_recording

Grid = tuple[int, int, int]
"""Rows and columns of a descriptor that is a grid over the picture, and the numbers of each cell."""
Cells = tuple[int, int]
"""Offset of pictures in rows and columns of cells; positive where the scene stands further down, or right."""
FARTHEST = (2, 4)
"""Largest offset that is tried, in rows and columns."""
_APART = (4, 6)
"""Largest offset between any two of several recordings: more leaves too small a part that all of them see."""
_ADJACENT = 9
"""Offsets of at most one cell either way, zero included."""
VIEW_FRAMES = 150
"""Most frames of each recording, or queries, that an offset is estimated from."""
_BETTER, _SURELY = 1.1, 1.5
"""An offset is used if its gain exceeds that of none by the first factor, and the least gain of one route by the
second: with pieces of different routes the best of many offsets reached 1.03 times the latter."""
_PEAK = 4.0
"""Standard deviations by which the best offset of queries must exceed those not next to it. Drives of another route
reached 3.4 at an offset other than zero; shifted drives of the map's own route at least 4.9."""
LEAST_VIEW_FRAMES, _MANY = 25, 100
"""Frames that an offset can be told from; with fewer than the second it must also be surely better than none."""
_PAIRED = 4.0
"""Standard errors, over the frames, by which an offset is then better than none: of 326 clips of 25 and 50 frames in
the map's own lane none reached 3.1, and those shifted by a sixth of their width at least 5.1."""


def common_view(
    recordings: Mapping[str, Vectors], grid: Grid, least_gain: Callable[[int], float]
) -> tuple[dict[str, Vectors], dict[str, Cells]]:
    """Crop recordings, frames (n, D) in the order in which they were taken, to the part of the picture that all see.

    Also returns the offset of each against the recording that the others fit best. `least_gain` is that of one route,
    by the number of frames: a lesser gain shows no offset.
    """
    few = {name: vectors[spread(len(vectors), VIEW_FRAMES)] for name, vectors in recordings.items()}
    found = _offsets(few, grid, least_gain)
    # Offsets too large for a common part are clipped.
    offsets = np.maximum(found, np.max(found, axis=0) - _APART)
    (rows, columns), seen = grid[:2] - np.ptp(offsets, axis=0), {}
    for (name, vectors), (row, column) in zip(recordings.items(), offsets - offsets.min(axis=0), strict=True):
        seen[name] = _cut(vectors, grid, (slice(row, row + rows), slice(column, column + columns)))
    return seen, {
        name: (int(row), int(column)) for name, (row, column) in zip(recordings, offsets, strict=True)
    }


def view_of(
    queries: Vectors, grid: Grid, usual: Vectors, project: Callable[[Vectors], Vectors], rows: MapRows
) -> Cells | None:
    """Offset of a drive's pictures against those of a map; None where the best one is no clear peak.

    Pictures of one spot tell none: less their mean they are noise, and some offset fits it best.

    `usual`, the mean of the map's descriptors, fills cells that shifted pictures do not show; `project` brings
    descriptors into the space of the map's rows.
    """
    few = queries[spread(len(queries), VIEW_FRAMES)]
    centred = rows.centred()

    def fit(cells: Cells) -> Vectors:
        """Score of the best row, of each frame."""
        projected = project(moved_by(few, grid, cells, usual))
        away = l2_normalize(projected - projected.mean(axis=0)).astype(np.float32, copy=False)
        best = [(away[part] @ centred.T).max(axis=1) for part in blocks(len(away), 4 * len(centred))]
        return np.concatenate(best)

    best = _clear_peak({cells: fit(cells) for cells in _tried(grid)})
    if best is None:
        return None
    moves = tell_condition(rows, project(few)) or advance(rows, project(moved_by(few, grid, best, usual)))
    return best if moves else None


def _clear_peak(each: dict[Cells, Vectors]) -> Cells | None:
    """Offset with the highest mean score, from those of each frame (m,) by offset; None where it does not stand out."""
    fits = {cells: float(scores.mean()) for cells, scores in each.items()}
    row, column = best = max(fits, key=lambda cells: fits[cells])
    away = np.array(
        [at for cells, at in fits.items() if abs(cells[0] - row) > 1 or abs(cells[1] - column) > 2]
    )
    clear = fits[best] > away.mean() + _PEAK * away.std()
    n_frames = len(each[best])
    if any(best) and n_frames < _MANY:
        gained = each[best] - each[0, 0]
        clear = clear and gained.mean() > _PAIRED * gained.std() / sqrt(n_frames)
    return best if clear else None


def check_view(view: Cells, grid: Grid | None) -> None:
    """Refuse an offset that pictures cannot have."""
    whole = isinstance(view, tuple) and len(view) == 2 and all(isinstance(cells, int) for cells in view)
    if not whole:
        raise InputError(f"view={view!r} must be two whole numbers, rows and columns, as view_of tells them")
    if any(view) and grid is None:
        raise InputError(f"view={view!r}: descriptors of this map are no grid over the picture; leave it out")
    if grid is not None and any(abs(by) >= size for by, size in zip(view, grid, strict=False)):
        raise InputError(
            f"view={view!r} moves pictures out of sight: they have {grid[0]} rows and {grid[1]} columns"
        )


def moved_by(vectors: Vectors, grid: Grid, cells: Cells, usual: Vectors) -> Vectors:
    """Descriptors (n, D) of pictures shifted back by an offset; cells that they do not show are filled with `usual`.

    >>> moved_by(np.array([[1, 2, 3]]), (1, 3, 1), (0, 1), np.zeros(3)).tolist()
    [[2.0, 3.0, 0.0]]
    """
    moved = np.tile(np.asarray(usual, np.float32), (len(vectors), 1)).reshape(-1, *grid)
    shown, stands = _parts(grid, cells)
    moved[:, *stands] = vectors.reshape(-1, *grid)[:, *shown]
    return moved.reshape(len(vectors), -1)


def _parts(grid: Grid, cells: Cells) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """The part of a shifted picture that the other shows, too, and the same part in the other."""
    shown, stands = zip(
        *(
            (slice(max(by, 0), size + min(by, 0)), slice(max(-by, 0), size - max(by, 0)))
            for by, size in zip(cells, grid, strict=False)
        ),
        strict=True,
    )
    return shown, stands


def in_words(cells: Cells, grid: Grid) -> str:
    """An offset as shares of the picture's sides; empty for none.

    >>> in_words((0, -3), (8, 11, 36)), in_words((1, 1), (8, 11, 36)), in_words((0, 0), (8, 11, 36))
    ('27% of their width', '12% of their height and 9% of their width', '')
    """
    sides = zip(cells, grid, ("height", "width"), strict=False)
    return " and ".join(f"{abs(by) / size:.0%} of their {side}" for by, size, side in sides if by)


def _best_fitting(few: Mapping[str, Vectors]) -> str:
    """The recording with the highest summed gain of the others, without offsets."""
    ready = {name: standardised_recording(vectors) for name, vectors in few.items()}
    if len(ready) == 2:
        return next(iter(ready))
    return max(
        ready, key=lambda name: sum(gain_of(ready[other], ready[name]) for other in ready if other != name)
    )


def _offsets(few: Mapping[str, Vectors], grid: Grid, least_gain: Callable[[int], float]) -> list[Cells]:
    """Offset of each recording, added up along a tree of pairs that show one route; (0, 0) where none reaches it."""
    reached = [_best_fitting(few)]
    offsets = {reached[0]: (0, 0)}
    for known in reached:  # which grows meanwhile
        for name in [name for name in few if name not in offsets]:
            by = _offset(few[name], few[known], grid, least_gain)
            if by is not None:
                offsets[name] = offsets[known][0] + by[0], offsets[known][1] + by[1]
                reached.append(name)
    return [offsets.get(name, (0, 0)) for name in few]


def _offset(
    vectors: Vectors, others: Vectors, grid: Grid, least_gain: Callable[[int], float]
) -> Cells | None:
    """Offset with the highest gain of one recording against another; None where they do not show one route."""
    least, gains = least_gain(min(len(vectors), len(others))), {}
    for cells in sorted(_tried(grid), key=lambda cells: max(map(abs, cells))):  # the nearest first
        gains[cells] = _gain(vectors, others, grid, cells)
        # A good fit that is a local maximum at zero needs no further search.
        if len(gains) == _ADJACENT and gains[0, 0] == max(gains.values()) > _SURELY * least:
            return 0, 0
    best = max(gains, key=lambda cells: gains[cells])
    if gains[best] > max(_SURELY * least, _BETTER * gains[0, 0]):
        return best
    return (0, 0) if gains[0, 0] >= least else None


def _tried(grid: Grid) -> Iterable[Cells]:
    """Offsets that are tried: up to `FARTHEST`, and half the grid."""
    rows, columns = (min(far, size // 2) for far, size in zip(FARTHEST, grid[:2], strict=True))
    return product(range(-rows, rows + 1), range(-columns, columns + 1))


def _gain(vectors: Vectors, others: Vectors, grid: Grid, cells: Cells) -> float:
    """Gain of two recordings at an offset of the first, by the part of the picture that both show."""
    shown, stands = _parts(grid, cells)
    return gain_of(
        *(standardised_recording(_cut(v, grid, at)) for v, at in ((vectors, shown), (others, stands)))
    )


def _cut(vectors: Vectors, grid: Grid, part: tuple[slice, slice]) -> Vectors:
    """Crop descriptors (n, D) to a part of the grid."""
    return vectors.reshape(-1, *grid)[:, *part].reshape(len(vectors), -1)
