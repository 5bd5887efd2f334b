"""Places: who they are, where they lie, what they look like, and in which order a route passes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from displace.errors import InputError
from displace.geo import Numbers, Positions

Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Places:
    """The places of references or of a map, in the order of their sorted ids.

    Parameters
    ----------
    ids : array of shape (N,)
        Sorted, each once.
    positions : Positions, optional
        Where each place is.
    images : sequence of N str, optional
        One reference image of each place; blank where none is known.
    frames : array of shape (N,), optional
        Number of each place along the route, NaN where unknown. None where the places have no order.

    Examples
    --------
    >>> places = Places(np.array(["barn", "gate", "mill"]), frames=[2, 0, 1])
    >>> places.ids[places.order].tolist()
    ['gate', 'mill', 'barn']
    """

    ids: NDArray[Any]
    positions: Positions | None = None
    images: list[str] | None = None
    frames: Numbers | None = None

    def __init__(
        self,
        ids: NDArray[Any],
        positions: Positions | None = None,
        images: Sequence[str] | None = None,
        frames: ArrayLike | None = None,
    ) -> None:
        ids = np.asarray(ids)
        _check_sorted(ids)
        numbers = None if frames is None else _numbers(frames)
        for name, values in (("positions", positions), ("images", images), ("frames", numbers)):
            if values is not None and len(values) != len(ids):
                raise InputError(f"{name} has {len(values)} entries; the references have {len(ids)} places")
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "images", None if images is None else list(images))
        object.__setattr__(self, "frames", numbers)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def order(self) -> Rows | None:
        """Rows of the places along the route, those without a number last; None where there is no order."""
        if self.frames is None or not np.isfinite(self.frames).any():
            return None
        return np.argsort(self.frames, kind="stable")

    def rows_of(self, ids: NDArray[Any]) -> Rows:
        """Row of each id; −1 where it is not there."""
        if not len(self.ids):
            return np.full(len(ids), -1)
        rows = np.searchsorted(self.ids, ids).clip(max=len(self.ids) - 1)
        return np.where(self.ids[rows] == ids, rows, -1)

    def take(self, rows: Rows | NDArray[np.bool_]) -> Places:
        """Return some of the places; rows must keep the ids sorted."""
        chosen = np.arange(len(self))[rows]
        return Places(
            self.ids[chosen],
            None if self.positions is None else self.positions.take(chosen),
            None if self.images is None else [self.images[row] for row in chosen],
            None if self.frames is None else self.frames[chosen],
        )

    def updated(self, ids: NDArray[Any], new: Places) -> Places:
        """Return the places `ids`: what is known of them here stays, the rest is taken from `new`.

        Positions, images and route numbers are kept where these places have them; new places without get NaN or a
        blank.
        """
        old_rows = self.rows_of(ids)
        new_rows = np.where(old_rows < 0, new.rows_of(ids), -1)
        positions = self.positions
        if positions is not None:
            positions = _joined_positions(positions, new.positions, old_rows, new_rows)
        images = None
        if self.images is not None:
            images = _joined_images(self.images, new.images, old_rows, new_rows)
        frames = None
        if self.frames is not None:
            frames = _joined(self.frames, new.frames, old_rows, new_rows)
        return Places(ids, positions, images, frames)


def _check_sorted(ids: NDArray[Any]) -> None:
    wrong = np.flatnonzero(ids[1:] <= ids[:-1])
    if len(wrong):
        before, after = ids[wrong[0] : wrong[0] + 2].tolist()
        raise InputError(
            f"ids must be sorted, each once; got {after!r} after {before!r}: sort them with np.unique(ids, "
            "return_index=True), and positions, images and frames by the index"
        )


def _numbers(frames: ArrayLike) -> Numbers:
    try:
        return np.asarray(frames, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"frames must be numbers, NaN where unknown: {error}") from None


def _joined(old: Numbers, new: Numbers | None, old_rows: Rows, new_rows: Rows) -> Numbers:
    """Numbers with `old` at `old_rows` and `new` at `new_rows`; −1 is none, and neither is NaN."""
    joined = np.full((len(old_rows), *old.shape[1:]), np.nan)
    for source, rows in ((old, old_rows), (new, new_rows)):
        if source is not None:
            joined[rows >= 0] = source[rows[rows >= 0]]
    return joined


def _joined_positions(old: Positions, new: Positions | None, old_rows: Rows, new_rows: Rows) -> Positions:
    headings = [None if source is None else source.heading for source in (old, new)]
    heading = None
    if any(values is not None for values in headings):
        blank = np.full(len(old), np.nan)
        heading = _joined(blank if headings[0] is None else headings[0], headings[1], old_rows, new_rows)
    points = _joined(old.points, None if new is None else new.points, old_rows, new_rows)
    return Positions(points, old.degrees, heading)


def _joined_images(old: list[str], new: list[str] | None, old_rows: Rows, new_rows: Rows) -> list[str]:
    fresh = [""] * len(new_rows) if new is None else ["" if row < 0 else new[row] for row in new_rows]
    return [fresh[at] if row < 0 else old[row] for at, row in enumerate(old_rows)]
