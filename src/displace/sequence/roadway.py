"""Positions along a route: those of the map's places, and those that their numbers leave out.

Places numbered 0 to 95 and 144 to 239 lie on a route of 240 positions, of which the map lacks 48. A drive passes them,
too: after place 95 it is off the map for a while, and comes back at place 144. So the chain has the positions between
as states, where a frame is as likely as off the map.

A number may also be left out where nothing lies between, as the frames of a stop: from every such position a drive may
be at the end of the stretch at once, as likely as it comes back to the map from elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from displace.arrays import Indices, Vectors

_LEAST = 4.0
"""Steps between the numbers of neighbours, of the usual one, from which on places lie between them: a drive moves on by
up to three at once."""
_MOST = 2.0
"""Positions that the map may lack, to those that it has: beyond, its numbers do not count places."""


@dataclass(frozen=True, eq=False)
class Roadway:
    """A route of which a map lacks some stretches."""

    places: Indices
    """Shape (N,). Position of each place along the route, ascending; the first is 0, the last M − 1."""

    @classmethod
    def of(cls, numbers: Vectors) -> Roadway | None:
        """Return the roadway of places with these numbers (N,), ascending; None where they leave out nothing.

        >>> Roadway.of(np.array([0.0, 2, 4, 14, 16])).places.tolist()
        [0, 1, 2, 7, 8]
        """
        steps = np.diff(numbers)
        if not np.isfinite(steps).all() or not (steps > 0).any():
            return None
        steps = steps / np.median(steps[steps > 0])
        # No stretch counts for more than the limit of all: numbers may be as far apart as they like.
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
        """Positions that have no place."""
        return np.setdiff1d(np.arange(self.n_positions), self.places)

    @cached_property
    def _first(self) -> Indices:
        """Where in `between` each stretch begins."""
        return np.concatenate([[0], np.flatnonzero(np.diff(self.between) > 1) + 1])

    @cached_property
    def _ends(self) -> Indices:
        """Position of the first place after each stretch."""
        ends: Indices = self.between[np.append(self._first[1:], len(self.between)) - 1] + 1
        return ends

    @cached_property
    def _end_of(self) -> Indices:
        """Position of the first place after each of the positions between."""
        return np.repeat(self._ends, np.diff(np.append(self._first, len(self.between))))

    @cached_property
    def arrivals(self) -> Vectors:
        """Probability of each position (M,) for a drive that comes from elsewhere: it is at any of the places."""
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
        """First position of each stretch without places, and of what follows it, in turn."""
        return np.stack([self.between[self._first], self._ends], axis=1).ravel()

    def spread(self, values: Vectors, missing: float) -> Vectors:
        """Values of places (…, N) as values of positions (…, M)."""
        result: Vectors = np.full((*values.shape[:-1], self.n_positions), missing, values.dtype)
        result[..., self.places] = values
        return result

    def shortened(self, belief: Vectors, share: float) -> Vectors:
        """Let this share of what is on a stretch without places, of positions (…, M), be at its end at once."""
        # Passes over all positions: to look some of them up takes longer than to multiply all.
        some = belief * (self.missing * belief.dtype.type(share))
        result: Vectors = belief - some
        result[..., self._ends] += np.add.reduceat(some, self._bounds, axis=-1)[..., ::2]
        return result

    def shortened_back(self, ahead: Vectors, share: float) -> Vectors:
        """Transpose of `shortened`."""
        result = ahead.copy()
        result[..., self.between] += share * (ahead[..., self._end_of] - ahead[..., self.between])
        return result
