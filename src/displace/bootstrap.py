"""Bootstrap intervals of recalls and of their differences.

Neighbouring frames of a drive are found or missed together, so that a drive says less than as many single photos do.
Where queries have an order, what is resampled are blocks of neighbours (the circular block bootstrap); how long they
are follows from the hits (`block_length`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from displace.arrays import Indices, as_labels, blocks, check_count
from displace.errors import InputError


@dataclass(frozen=True)
class Estimate:
    """A mean in percent with its bootstrap interval."""

    value: float
    low: float
    high: float
    """Ends of the interval."""
    block: int = 1
    """Neighbouring queries that were resampled together, of several conditions the most; 1 where each was by itself."""

    def __str__(self) -> str:
        return f"{self.value:z.1f} [{self.low:z.1f}, {self.high:z.1f}]"  # z: no -0.0


def bootstrap(
    hits: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    order: ArrayLike | None = None,
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
    order : array of shape (q,), optional
        Frame number or time of each query along its drive, by which neighbours are known. Where they are found or
        missed together, blocks of `block_length` neighbours are resampled. By default, and in conditions where all are
        NaN, queries are independent.
    level : float
        Share of the bootstrap's means inside the interval.
    n_samples, seed : int
        Bootstrap samples, and what they are drawn from; equal seeds give equal intervals.

    Notes
    -----
    Where every query is found, or none, resampling finds nothing else: the interval has no width then.

    A drive has few blocks. Their means vary less than those of further drives would, and by how much less is known
    roughly: intervals of blocks are widened for both (`_widening`).

    Examples
    --------
    >>> hits = [True] * 300 + [False] * 100
    >>> print(bootstrap(hits))  # doctest: +ELLIPSIS
    75.0 [70..., 79...]
    >>> bootstrap(hits, order=range(400)).block  # one long stretch was missed
    57
    """
    values = np.asarray(hits, np.float64)
    if values.ndim != 1 or not len(values):
        raise InputError(f"hits must have shape (q,), at least one; got shape {values.shape}")
    if not np.isfinite(values).all():
        raise InputError("hits has NaN or infinity, of which there is no mean: leave those queries out")
    if not 0 < level < 1:
        raise InputError(f"level={level} must be above 0 and below 1")
    check_count(n_samples, "n_samples")
    labels = np.zeros(len(values)) if groups is None else as_labels(groups, len(values), "groups")
    along = np.full(len(values), np.nan) if order is None else _as_order(order, len(values))
    rng = np.random.default_rng(seed)
    parts, lengths = [], []
    names, condition = np.unique(labels, return_inverse=True)
    for number in range(len(names)):
        rows = np.flatnonzero(condition == number)
        parts.append(values[rows[np.argsort(along[rows], kind="stable")]])
        lengths.append(block_length(parts[-1]) if np.isfinite(along[rows]).any() else 1)
    drawn = [
        _widened(part, length, level, n_samples, rng) for part, length in zip(parts, lengths, strict=True)
    ]
    low, high = np.quantile(100 * np.mean(drawn, axis=0), [(1 - level) / 2, (1 + level) / 2])
    value = float(np.mean([100 * part.sum() / len(part) for part in parts]))
    return Estimate(value, float(low), float(high), max(lengths))


def paired_bootstrap(
    hits: ArrayLike, other_hits: ArrayLike, *, groups: ArrayLike | None = None, **options: Any
) -> Estimate:
    """Difference (percentage points) of two methods on the same queries, first minus second, with its interval.

    Both are resampled together, so that what makes a query hard for both cancels. The rest is as for `bootstrap`.

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


def block_length(hits: ArrayLike) -> int:
    """Neighbours to resample together, so that the variance of the mean comes out best: 1 where they are unrelated.

    The rule of Politis and White (Econometric Reviews 23, 2004; 28, 2009) for circular blocks, of hits in the order of
    the drive. Correlations count up to the lag m behind which `LAGS` in a row are within ``2 √(log₁₀ n / n)`` of 0.
    With the autocovariances R(k) weighted by 1 up to m and by less up to 2m, ``G = Σ |k| R(k)`` and ``g = Σ R(k)``, the
    length is ``(3/2 n (G/g)²)^⅓``. It is at most 3√n and a third of the values, and 1 where neighbours take turns
    instead of going together.

    >>> rng = np.random.default_rng(0)
    >>> block_length(rng.random(400) < 0.7), block_length(np.repeat(rng.random(40) < 0.7, 10))
    (1, 22)
    """
    values = np.asarray(hits, np.float64)
    n = len(values)
    longest = int(min(3 * math.sqrt(n), n / 3))
    if longest < 2 or np.ptp(values) == 0:
        return 1
    away = values - values.mean()
    R = np.fft.irfft(np.abs(np.fft.rfft(away, 2 * n)) ** 2)[:n] / n
    related = np.abs(R[1:]) >= 2 * math.sqrt(math.log10(n) / n) * R[0]
    m = next(m for m in range(n) if not related[m : m + LAGS].any())
    m = min(m, math.isqrt(n) + LAGS, (n - 1) // 2)
    k = np.arange(1, 2 * m + 1)
    weighted = 2 * np.minimum(1, 2 - k / max(1, m)) * R[k]
    if weighted.sum() <= 0:
        return 1
    ratio = (k * weighted).sum() / (R[0] + weighted.sum())
    return max(1, min(longest, math.ceil(math.cbrt(1.5 * n * ratio**2))))


LAGS = 5
"""Correlations in a row that must be small before those of longer lags are taken for chance."""


def resampled_text(estimates: Iterable[Estimate | None]) -> str:
    """Say what was resampled for these intervals.

    >>> resampled_text([Estimate(50, 40, 60), None]), resampled_text([Estimate(50, 40, 60, 3), Estimate(5, 4, 6, 12)])
    ('queries', 'blocks of 3 to 12 neighbouring queries')
    """
    lengths = [estimate.block for estimate in estimates if estimate is not None]
    if max(lengths, default=1) == 1:
        return "queries"
    least, most = min(lengths), max(lengths)
    return f"blocks of {most if least == most else f'{least} to {most}'} neighbouring queries"


def _as_order(order: ArrayLike, n: int) -> NDArray[np.float64]:
    numbers = np.asarray(order, np.float64)
    if numbers.shape != (n,):
        raise InputError(f"order must have shape ({n},), a number for each query; got shape {numbers.shape}")
    return numbers


def _widened(
    values: NDArray[np.float64], length: int, level: float, n_samples: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Means of samples, shape (n_samples,), about the mean of the values as far as `_widening` says."""
    means = _resampled_means(values, length, n_samples, rng)
    if length == 1:
        return means
    mean = values.mean()
    wide = mean + _widening(length / len(values), level) * (means - mean)
    return np.asarray(wide.clip(values.min(), values.max()))  # no mean can be beyond


def _widening(share: float, level: float) -> float:
    """Factor by which an interval of blocks is too narrow; `share` is that of one block in all queries.

    Of the variance, blocks of the best length miss a share of ``G/(g b) = √(2b/3n)`` by what they cut apart, and b/n by
    the mean that is taken of the same queries. What is left of it is known from n/b blocks: Student's quantile, not the
    normal one.
    """
    found = 1 - math.sqrt(2 / 3 * share) - share
    upper = (1 + level) / 2
    return float(stdtrit(1 / share - 1, upper) / ndtri(upper) / math.sqrt(found))


def _resampled_means(
    values: NDArray[np.float64], length: int, n_samples: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Means of samples of blocks drawn with replacement, the last one cut off; shape (n_samples,)."""
    n, n_blocks = len(values), len(values) // length
    total = _drawn_sums(_circular_sums(values, length), n_blocks, n_samples, rng)
    rest = n - n_blocks * length
    if rest:
        total += _drawn_sums(_circular_sums(values, rest), 1, n_samples, rng)
    return total / n


def _circular_sums(values: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Sum of the block that begins at each value; the first value follows the last."""
    if length == 1:
        return values
    ends = np.cumsum(np.concatenate([[0.0], values, values[: length - 1]]))
    sums: NDArray[np.float64] = np.round(ends[length:] - ends[:-length], 9)  # equal blocks stay equal
    return sums


def _drawn_sums(
    sums: NDArray[np.float64], n_drawn: int, n_samples: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Total of `n_drawn` of the sums, drawn with replacement, of each sample."""
    # Blocks of hits have few sums: how often each is drawn is multinomial, which spares drawing every block.
    kinds, counts = np.unique(sums, return_counts=True)
    n, few = len(sums), len(kinds) <= n_drawn
    total = np.empty(n_samples)
    for rows in blocks(n_samples, row_bytes=8 * min(len(kinds), n_drawn)):
        size = rows.stop - rows.start
        if few:
            total[rows] = rng.multinomial(n_drawn, counts / n, size=size) @ kinds
        else:
            total[rows] = sums[rng.integers(n, size=(size, n_drawn))].sum(axis=1)
    return total
