"""Bootstrap intervals of recalls and of their differences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from displace.arrays import Indices, as_labels, blocks
from displace.errors import InputError


@dataclass(frozen=True)
class Estimate:
    """A mean in percent with its bootstrap interval."""

    value: float
    low: float
    high: float
    """Ends of the interval."""

    def __str__(self) -> str:
        return f"{self.value:z.1f} [{self.low:z.1f}, {self.high:z.1f}]"  # z: no -0.0


def bootstrap(
    hits: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    level: float = 0.95,
    n_samples: int = 10_000,
    seed: int = 0,
) -> Estimate:
    """Mean (%) of the queries' hits with a percentile bootstrap interval; queries are what is resampled.

    Parameters
    ----------
    hits : array of shape (q,)
        Whether each query was found, or a number such as a share or a difference.
    groups : array of shape (q,), optional
        Condition of each query: the mean of the conditions' means is taken, each resampled on its own.
    level : float
        Share of the bootstrap's means inside the interval.
    n_samples, seed : int
        Bootstrap samples, and what they are drawn from; equal seeds give equal intervals.

    Notes
    -----
    Where every query is found, or none, resampling finds nothing else: the interval has no width then.

    Examples
    --------
    >>> print(bootstrap([True] * 300 + [False] * 100))  # doctest: +ELLIPSIS
    75.0 [70..., 79...]
    """
    values = np.asarray(hits, np.float64)
    if values.ndim != 1 or not len(values):
        raise InputError(f"hits must have shape (q,), at least one; got shape {values.shape}")
    if not 0 < level < 1:
        raise InputError(f"level={level} must be above 0 and below 1")
    if n_samples < 1:
        raise InputError(f"n_samples={n_samples} must be at least 1")
    labels = np.zeros(len(values)) if groups is None else as_labels(groups, len(values), "groups")
    rng = np.random.default_rng(seed)
    parts = [values[labels == label] for label in np.unique(labels)]
    means = 100 * np.mean([_resampled_means(part, n_samples, rng) for part in parts], axis=0)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(np.mean([100 * part.sum() / len(part) for part in parts])), float(low), float(high))


def paired_bootstrap(
    hits: ArrayLike, other_hits: ArrayLike, *, groups: ArrayLike | None = None, **options: Any
) -> Estimate:
    """Difference (percentage points) of two methods on the same queries, with its bootstrap interval.

    Both are resampled together, so that what makes a query hard for both cancels.

    Parameters
    ----------
    hits, other_hits : arrays of shape (q,)
        Hits of either method on each query; the first minus the second is estimated.
    groups : array of shape (q,), optional
        Condition of each query, as in `bootstrap`.
    **options
        `level`, `n_samples` and `seed` of `bootstrap`.

    Examples
    --------
    >>> print(paired_bootstrap([True] * 300 + [False] * 100, [True] * 290 + [False] * 110))
    2.5 [1.0, 4.2]
    """
    first, second = np.asarray(hits, np.float64), np.asarray(other_hits, np.float64)
    if first.shape != second.shape:
        raise InputError(f"hits must be of the same queries; got shapes {first.shape} and {second.shape}")
    return bootstrap(first - second, groups=groups, **options)


def in_groups(parts: Iterable[NDArray[Any]]) -> tuple[NDArray[Any], Indices]:
    """Hits of several conditions in one array, and which condition each is of: `hits` and `groups` of `bootstrap`.

    >>> in_groups([np.array([True, False]), np.array([True])])
    (array([ True, False,  True]), array([0, 0, 1]))
    """
    listed = list(parts)
    return np.concatenate(listed), np.repeat(np.arange(len(listed)), [len(part) for part in listed])


def _resampled_means(values: NDArray[np.float64], n_samples: int, rng: np.random.Generator) -> NDArray[Any]:
    """Means of samples drawn with replacement, shape (n_samples,)."""
    # Hits take few values: how often each is drawn is multinomial, which spares drawing every query.
    kinds, counts = np.unique(values, return_counts=True)
    n = len(values)
    means = np.empty(n_samples)
    for rows in blocks(n_samples, row_bytes=8 * len(kinds)):
        drawn = rng.multinomial(n, counts / n, size=rows.stop - rows.start)
        means[rows] = drawn @ kinds / n
    return means
