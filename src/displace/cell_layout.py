"""Descriptors that are a grid over the picture: which numbers describe which part of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from displace.arrays import Vectors


@dataclass(frozen=True)
class CellLayout:
    """Which numbers of a descriptor describe which part of the picture."""

    rows: int
    columns: int
    """Of the grid over the picture."""
    numbers: int
    """Of each cell."""
    numbers_first: bool = False
    """Whether a descriptor is the whole grid of one number after the other, and not cell after cell."""

    @property
    def dim(self) -> int:
        """Numbers of a descriptor."""
        return self.rows * self.columns * self.numbers

    def of(self, vectors: Vectors) -> Vectors:
        """Descriptors (n, D) as cells, (n, rows, columns, numbers)."""
        grid = self.rows, self.columns
        if self.numbers_first:
            return np.moveaxis(vectors.reshape(-1, self.numbers, *grid), 1, 3)
        return vectors.reshape(-1, *grid, self.numbers)

    def registration(self, one: Vectors, other: Vectors) -> Vectors:
        """How much more the cells of two pictures resemble those at the same spot than those next to it, (n,).

        Mean cosine of all cells with the other picture's at the same spot, minus that with the cells around it; both
        are descriptors (n, D) minus the mean at each spot. Pictures of one place match only if they are not shifted.
        What two pictures share by chance, such as sky, or edges in all directions, matches as well when shifted.

        >>> row = np.array([[1.0, 0, 0, 1]])
        >>> CellLayout(1, 2, 2).registration(row, row).tolist()
        [1.0]
        """
        a, b = (_unit(self.of(vectors)) for vectors in (one, other))
        around = np.pad(b, ((0, 0), (1, 1), (1, 1), (0, 0)))
        around = around[:, :-2] + around[:, 1:-1] + around[:, 2:]
        around = around[:, :, :-2] + around[:, :, 1:-1] + around[:, :, 2:]
        here, near = (np.einsum("nrck,nrck->n", a, cells) for cells in (b, around))
        n = self.rows * self.columns
        pairs = (3 * self.rows - 2) * (3 * self.columns - 2) - n
        result: Vectors = here / n - (near - here) / max(pairs, 1)
        return result


def _unit(cells: Vectors) -> Vectors:
    lengths = np.sqrt(np.einsum("nrck,nrck->nrc", cells, cells))[..., None]
    unit: Vectors = np.divide(cells, lengths, out=np.zeros_like(cells), where=lengths > 0)
    return unit
