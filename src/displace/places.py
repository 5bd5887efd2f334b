"""Places: ids, positions, images and their order along the route."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.errors import InputError
from displace.geo import Numbers, Positions, as_numbers

Rows = NDArray[np.intp]
_IN_STEP = 2.0
"""Median difference, in frames, up to which two numberings of a route count as consistent."""


@dataclass(frozen=True, eq=False)
class Places:
    """The places of references or of a map, in the order of their sorted ids.

    >>> places = Places(np.array(["barn", "gate", "mill"]), frames=[2, 0, 1])
    >>> places.ids[places.order].tolist()
    ['gate', 'mill', 'barn']
    """

    ids: NDArray[Any]
    """Shape (N,). Sorted, each once."""
    positions: Positions | None = None
    """Where each place is."""
    images: list[str] | None = None
    """One reference image of each place; blank if unknown."""
    frames: Numbers | None = None
    """Shape (N,). Number of each place along the route, NaN if unknown; None if the places have no order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", np.asarray(self.ids))
        _check_sorted(self.ids)
        if self.frames is not None:
            object.__setattr__(self, "frames", as_numbers(self.frames, "frames"))
        for name in ("positions", "images", "frames"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.ids):
                raise InputError(
                    f"{name} has {len(values)} entries; the references have {len(self.ids)} places"
                )
        if self.images is not None:
            object.__setattr__(self, "images", list(self.images))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def order(self) -> Rows | None:
        """Rows of the places in route order, those without a number last; None without an order."""
        if self.frames is None or not np.isfinite(self.frames).any():
            return None
        return np.argsort(self.frames, kind="stable")

    @property
    def route(self) -> NDArray[Any]:
        """Ids in route order; without one in natural order, numbers in names counting by their value.

        >>> Places(np.array(["p1", "p10", "p9"])).route.tolist()
        ['p1', 'p9', 'p10']
        """
        if (order := self.order) is not None:
            return self.ids[order]
        if self.ids.dtype.kind != "U":
            return self.ids
        from displace.images import natural_key  # brings Pillow, which maps do without

        return np.array(sorted(self.ids.tolist(), key=natural_key))

    def rows_of(self, ids: NDArray[Any]) -> Rows:
        """Row of each id; −1 if unknown."""
        if not len(self.ids):
            return np.full(len(ids), -1)
        rows = np.searchsorted(self.ids, ids).clip(max=len(self.ids) - 1)
        return np.where(self.ids[rows] == ids, rows, -1)

    def positions_of(self, ids: NDArray[Any]) -> Positions | None:
        """Where places are, by their ids, NaN for unknown ones; None without positions."""
        if self.positions is None:
            return None
        rows = self.rows_of(ids)
        found = self.positions.take(rows)
        for values in (found.points, found.heading):
            if values is not None:
                values[rows < 0] = np.nan
        return found

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
        """Return the places `ids` with what is known here, else in `new`; the rest is NaN or blank.

        Route numbers of `new` are converted to those of these places.
        """
        new = new.numbered_as(self)
        old_rows, new_rows = self.rows_of(ids), new.rows_of(ids)
        return Places(
            ids,
            _joined_positions(self.positions, new.positions, old_rows, new_rows),
            _joined_images(self.images, new.images, old_rows, new_rows),
            _joined(self.frames, new.frames, old_rows, new_rows),
        )

    def numbered_as(self, known: Places) -> Places:
        """Return these places with route numbers that count from where those of `known` do.

        A recording of part of the route may count from its own start; the common places show the offset. If it is not
        constant, it is unknown where on the route the other places are.
        """
        if self.frames is None or known.frames is None:
            return self
        rows = known.rows_of(self.ids)
        away = np.where(rows >= 0, known.frames[rows], np.nan) - self.frames
        told = away[np.isfinite(away)]
        others = np.isfinite(self.frames) & ~np.isfinite(away)
        if not others.any():
            return self
        if not len(told) and np.isin(self.frames[others], known.frames).mean() > 0.5:
            raise InputError(
                f"none of the {len(self)} new places is one of the map's, and their frames have the numbers of the "
                "map's along the route. If they are of the map's route, give them its places: displace manifest NEW "
                "--against MAP. If they are of another one, number their frames beyond the map's, or build a map of it"
            )
        if not len(told):
            return self
        shift = float(np.median(told))
        if np.median(np.abs(told - shift)) > _IN_STEP:
            raise InputError(
                f"frames of {int(others.sum())} new places are not numbered along the route as the map's are: at the "
                f"{len(told)} places that both have, they differ by {told.min():g} to {told.max():g}. Number them as "
                "the map does, leave the new places out (displace manifest NEW --against MAP), or build the map anew"
            )
        return Places(self.ids, self.positions, self.images, self.frames + shift)


def _check_sorted(ids: NDArray[Any]) -> None:
    wrong = np.flatnonzero(ids[1:] <= ids[:-1])
    if len(wrong):
        before, after = ids[wrong[0] : wrong[0] + 2].tolist()
        raise InputError(
            f"ids must be sorted, each once; got {after!r} after {before!r}: sort them with np.unique(ids, "
            "return_index=True), and positions, images and frames by the index"
        )


def _joined(old: Numbers | None, new: Numbers | None, old_rows: Rows, new_rows: Rows) -> Numbers | None:
    """Numbers of `old` at `old_rows`, else of `new` at `new_rows`; NaN where neither has one (row −1)."""
    sources = [(part, rows) for part, rows in ((new, new_rows), (old, old_rows)) if part is not None]
    if not sources:
        return None
    joined = np.full((len(old_rows), *sources[0][0].shape[1:]), np.nan)
    for source, rows in sources:
        at = np.flatnonzero(rows >= 0)
        known = np.isfinite(source[rows[at]].sum(axis=tuple(range(1, source.ndim))))
        joined[at[known]] = source[rows[at[known]]]
    return joined


def _joined_positions(
    old: Positions | None, new: Positions | None, old_rows: Rows, new_rows: Rows
) -> Positions | None:
    """Positions of `old`, else of `new`; a heading comes with its position."""
    if old is not None:
        new_rows = np.where((old_rows >= 0) & old.known[old_rows], -1, new_rows)
    points, heading = (
        _joined(getattr(old, part, None), getattr(new, part, None), old_rows, new_rows)
        for part in ("points", "heading")
    )
    degrees = next((part.degrees for part in (old, new) if part is not None), False)
    return None if points is None else Positions(points, degrees, heading)


def _joined_images(
    old: list[str] | None, new: list[str] | None, old_rows: Rows, new_rows: Rows
) -> list[str] | None:
    if old is None and new is None:
        return None
    sources = ((old, old_rows), (new, new_rows))
    named = ([source[row] if source and row >= 0 else "" for row in rows] for source, rows in sources)
    return [first or second for first, second in zip(*named, strict=True)]
