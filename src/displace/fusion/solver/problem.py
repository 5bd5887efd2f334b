"""Problem: what DisPlace's settings are decided about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from displace.arrays import Indices, Vectors
from displace.fusion.solver.scatter import Scatter


@dataclass(frozen=True)
class Problem:
    """References, their statistics and how the projection will be cut off."""

    vectors: Vectors
    """Shape (m, d). References, or their coordinates in their own span (then d < D)."""
    index: Indices
    """Shape (m,). View of each reference; with one view a place, its place."""
    traversals: NDArray[Any]
    """Shape (m,)."""
    scatter: Scatter
    """Statistics of `vectors` with `index` as place ids."""
    places: Indices
    """Shape (G,). Place of each view."""
    dim: int
    """D, the dimension of the descriptors."""
    tau: float
    n_components: int | None

    @property
    def sampling_ratio(self) -> float:
        """γ = D / Σ(K − 1), the sum over the views of all places."""
        return self.dim / self.scatter.freedom if self.scatter.freedom else float("inf")

    @property
    def several_views(self) -> bool:
        """Whether some place has more than one view."""
        return bool((self.places[1:] == self.places[:-1]).any())
