"""BSF: a replication of Bayesian Selective Fusion (Molloy et al. 2021)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from displace.arrays import Indices, Vectors, check_one_of
from displace.errors import InputError
from displace.fusion.base import ScoreFusion, is_number

LIKELIHOODS = ("exponential", "gaussian")


class Bsf(ScoreFusion):
    """Bayesian Selective Fusion, replicated: the original likelihood is not public to us.

    For each query the traversals are kept whose smallest distance d_k is at most (1 + `selection`)·min d_k. With a
    uniform prior over places, the likelihoods of the kept traversals are multiplied; as a place may be missing from
    some, their *mean* log-likelihood is taken, since a product would favour places with fewer references. Scores are
    log-posteriors; a place in none of the kept traversals has −∞.

    With the exponential likelihood, `selection` = 0 has the top match of `dmat_min` and `selection` = ∞ ranks as
    `dmat_avg`.

    Parameters
    ----------
    selection : float
        How much worse than the best traversal another may be and still be kept; ``math.inf`` keeps all of them.
    likelihood : {"exponential", "gaussian"}
        p(d | place) ∝ exp(−d/scale) or ∝ exp(−d²/2·scale²), shared by all traversals.
    scale : float
        Width of the likelihood. It sharpens the posterior and leaves the ranking alone.
    """

    title = "BSF"

    def __init__(self, selection: float = 0.1, likelihood: str = "exponential", scale: float = 0.05) -> None:
        self.selection = selection
        self.likelihood = likelihood
        self.scale = scale

    def _fit(self, X: Vectors, index: Indices, traversals: NDArray[Any] | None) -> None:
        check_one_of(self.likelihood, LIKELIHOODS, "likelihood")
        if not (is_number(self.selection) and self.selection >= 0):
            raise InputError(f"selection={self.selection!r} must be a number of at least 0")
        if not (is_number(self.scale) and 0 < self.scale < np.inf):
            raise InputError(f"scale={self.scale!r} must be a finite number above 0")
        super()._fit(X, index, traversals)

    def _fuse(self, similarities: Vectors) -> Vectors:
        distances = np.subtract(1, similarities, out=similarities).clip(min=0)
        kept = self._kept(distances)
        used = (kept[:, :, None] & self.present_).astype(distances.dtype)
        energy = (
            distances / self.scale if self.likelihood == "exponential" else (distances / self.scale) ** 2 / 2
        )
        count = used.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_likelihood = -np.einsum("bkn,bkn->bn", energy, used) / count
        log_likelihood[count == 0] = -np.inf
        posterior: Vectors = log_likelihood - logsumexp(log_likelihood, axis=1, keepdims=True)
        return posterior

    def _kept(self, distances: Vectors) -> NDArray[np.bool_]:
        """Which traversals each query keeps, shape (b, K)."""
        if np.isinf(self.selection):  # no multiple of a distance of 0 would do
            return np.ones(distances.shape[:2], bool)
        nearest = np.where(self.present_, distances, np.inf).min(axis=2)
        # Copies of the query differ by rounding, and no multiple of a distance of 0 reaches another.
        limit = (1 + self.selection) * nearest.min(axis=1, keepdims=True) + 1e-6
        kept: NDArray[np.bool_] = nearest <= limit
        return kept

    def _layers(self) -> int:
        return 5 * len(self.present_)
