"""Subspace: a place is the span of its references; the part of a query outside it counts against the place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, l2_normalize
from displace.errors import InputError
from displace.fusion.base import Fusion, is_whole
from displace.references import rows_of_each

ROUNDING = 1e-5
"""Singular values below this share of the largest are rounding."""


class Subspace(Fusion):
    """Residual matching against an orthonormal basis of each place (Ismagilov et al. 2025, arXiv 2510.17739).

    Written from the paper's description. The unit references of a place are decomposed into an orthonormal basis B; a
    query q of unit length leaves the residual ‖q − BBᵀq‖, and the place with the smallest one is the match. The score
    is the length of the part inside, ‖Bᵀq‖, which ranks alike; it is negative where q points away from the references'
    sum, which a residual alone cannot see.

    Parameters
    ----------
    n_components : int, optional
        Most basis vectors of a place, the leading ones; by default as many as it has different references. Never more
        than half the dimensions: a basis of all of them would hold every query.

    Attributes
    ----------
    basis_ : array of shape (R, D)
        Orthonormal vectors, those of a place side by side; the first points along the sum of its references.
    starts_ : array of shape (N,)
        Row at which each place's vectors start.

    Examples
    --------
    >>> import numpy as np
    >>> fusion = Subspace().fit(np.eye(4)[[0, 1, 2]], ["gate", "gate", "tower"])
    >>> fusion.rank([[0.5, 0.5, 0.6, 0.0]], k=2).places.tolist()     # 0.71 of it lies in the gate's plane
    [['gate', 'tower']]
    """

    title = "Subspace"

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def _fit(self, X: Vectors, index: Indices, traversals: NDArray[Any] | None) -> None:  # noqa: ARG002
        if not (self.n_components is None or (is_whole(self.n_components) and self.n_components >= 1)):
            raise InputError(
                f"n_components={self.n_components!r} must be None or a whole number of at least 1"
            )
        limit = max(1, X.shape[1] // 2)
        most = limit if self.n_components is None else min(limit, self.n_components)
        bases = [basis_of(l2_normalize(X[rows]), most) for rows in rows_of_each(index)]
        self.basis_ = np.concatenate(bases)
        self.starts_ = np.cumsum([0, *(len(basis) for basis in bases[:-1])])

    @property
    def nbytes_(self) -> int:
        """Bytes of all bases, as float32."""
        return 4 * self.basis_.size

    def _scores(self, Q: Vectors) -> Vectors:
        inside = l2_normalize(Q) @ self.basis_.T
        along = inside[:, self.starts_]
        lengths = np.sqrt(np.add.reduceat(np.square(inside, out=inside), self.starts_, axis=1))
        return np.copysign(lengths, along)

    def _layers(self) -> int:
        return 3 + -(-len(self.basis_) // len(self.place_ids_))


def basis_of(references: Vectors, most: int) -> Vectors:
    """Orthonormal rows (r, D), at most so many, of the references' leading part; the first along the references' sum.

    One row of zeros where all references are zero.
    """
    _, values, V = np.linalg.svd(references, full_matrices=False)
    if values[0] == 0:
        return np.zeros_like(references[:1])
    r = min(most, int(np.sum(values > ROUNDING * values[0])))
    total = V[:r] @ references.sum(axis=0)
    turn = np.linalg.qr(np.column_stack([total, np.eye(r, dtype=V.dtype)]))[0].T
    basis = turn @ V[:r]
    basis[0] *= 1.0 if float(turn[0] @ total) >= 0 else -1.0
    kept: Vectors = basis.astype(references.dtype, copy=False)
    return kept
