"""States for stretches of the route that the map lacks: positions without a place, read off gaps in the numbering.

Places numbered 0 to 95 and 144 to 239 lie on a route of M = 240 positions, of which the map lacks 48. A drive passes
these, too: after place 95 it is off the map for a while and comes back at place 144. So the hidden Markov model has all
M positions as states; on those without a place a frame has the likelihood of the off-map state.

A gap in the numbers may be empty, as where frames of a stop were dropped. So from each such position a drive may skip
to the end of the gap, with the probability of coming back to the map (`Motion.back`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from displace.arrays import Indices, Vectors

_LEAST = 4.0
"""Difference of neighbouring numbers, as a multiple of the median one, from which on it is a gap: the motion model
covers steps of up to three."""
_FEW = 12
"""Gaps up to which they are gone through one by one."""
_MOST = 2.0
"""Most missing positions for each place of the map; with more, the numbers are no positions."""


@dataclass(frozen=True, eq=False)
class Roadway:
    """A route of which a map lacks some stretches."""

    places: Indices
    """Shape (N,). Position of each place along the route, ascending; the first is 0, the last M − 1."""

    @classmethod
    def of(cls, numbers: Vectors) -> Roadway | None:
        """Return the roadway of places with these numbers (N,), ascending; None where there are no gaps.

        >>> Roadway.of(np.array([0.0, 2, 4, 14, 16])).places.tolist()
        [0, 1, 2, 7, 8]
        """
        steps = np.diff(numbers)
        if not np.isfinite(steps).all() or not (steps > 0).any():
            return None
        steps = steps / np.median(steps[steps > 0])
        # Clipped just beyond the limit, as differences may be too large for integers.
        most = _MOST * len(numbers) + 2
        between = np.where(steps >= _LEAST, np.rint(np.minimum(steps, most)) - 1, 0).astype(np.intp)
        if not 0 < between.sum() <= _MOST * len(numbers):
            return None
        return cls(np.concatenate([[0], np.cumsum(1 + between)]))

    @property
    def n_positions(self) -> int:
        """Positions along the route, M."""
        return int(self.places[-1]) + 1

    @cached_property
    def between(self) -> Indices:
        """Positions without a place, ascending."""
        return np.setdiff1d(np.arange(self.n_positions), self.places)

    @cached_property
    def _first(self) -> Indices:
        """Index into `between` at which each gap begins."""
        return np.concatenate([[0], np.flatnonzero(np.diff(self.between) > 1) + 1])

    @cached_property
    def _ends(self) -> Indices:
        """Position of the first place after each gap."""
        ends: Indices = self.between[np.append(self._first[1:], len(self.between)) - 1] + 1
        return ends

    @cached_property
    def _end_of(self) -> Indices:
        """Position of the first place after each position of `between`."""
        return np.repeat(self._ends, np.diff(np.append(self._first, len(self.between))))

    @cached_property
    def arrivals(self) -> Vectors:
        """Distribution over the positions (M,) of a drive that begins, jumps or comes back: uniform over the places."""
        return self.spread(np.full(len(self.places), 1 / len(self.places)), 0.0)

    @cached_property
    def open(self) -> Vectors:
        """1 for positions (M,) that have a place, else 0."""
        return self.spread(np.ones(len(self.places), np.float32), 0.0)

    @cached_property
    def missing(self) -> Vectors:
        """1 for positions (M,) that have no place, else 0."""
        return 1 - self.open

    @cached_property
    def _bounds(self) -> Indices:
        """First position of each gap and of what follows it, alternating: bounds for `np.add.reduceat`."""
        return np.stack([self.between[self._first], self._ends], axis=1).ravel()

    @cached_property
    def _runs(self) -> list[tuple[Indices | slice, slice]]:
        """Positions and places of the stretches between gaps: slices where gaps are few, as these are copied faster."""
        breaks = (np.flatnonzero(np.diff(self.places) > 1) + 1).tolist()
        if len(breaks) > _FEW:
            return [(self.places, slice(None))]
        bounds = [0, *breaks, len(self.places)]
        firsts = self.places[bounds[:-1]].tolist()
        return [
            (slice(first, first + stop - start), slice(start, stop))
            for first, start, stop in zip(firsts, bounds, bounds[1:], strict=False)
        ]

    @cached_property
    def _gaps(self) -> list[tuple[slice, int]]:
        """Positions of each gap, and the first place after it."""
        bounds = self._bounds.reshape(-1, 2).tolist()
        return [(slice(first, end), end) for first, end in bounds]

    def spread(self, values: Vectors, missing: float) -> Vectors:
        """Values of places (…, N) as values of positions (…, M), with `missing` in the gaps."""
        result: Vectors = np.full((*values.shape[:-1], self.n_positions), missing, values.dtype)
        for positions, places in self._runs:
            result[..., positions] = values[..., places]
        return result

    def gathered(self, values: Vectors) -> Vectors:
        """Values of positions (…, M) as values of places (…, N), without those in the gaps."""
        return np.concatenate([values[..., positions] for positions, _ in self._runs], axis=-1)

    def shortened(self, belief: Vectors, share: float) -> Vectors:
        """Move this share of the mass in each gap, of a belief (…, M), to the end of the gap."""
        result: Vectors = belief.copy()
        stays = belief.dtype.type(1 - share)
        if len(self._gaps) > _FEW:
            gone = share * np.add.reduceat(belief, self._bounds, axis=-1)[..., ::2]
            result[..., self.between] *= stays
            result[..., self._ends] += gone.astype(belief.dtype, copy=False)
            return result
        for gap, end in self._gaps:
            inside = result[..., gap]
            result[..., end] += share * np.add.reduce(inside, axis=-1)
            inside *= stays
        return result

    def shortened_back(self, ahead: Vectors, share: float) -> Vectors:
        """Transpose of `shortened`."""
        result = ahead.copy()
        result[..., self.between] += share * (ahead[..., self._end_of] - ahead[..., self.between])
        return result
