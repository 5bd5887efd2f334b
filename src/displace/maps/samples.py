"""Held-out queries (features, label, fold) that a confidence was fitted to; kept in the map for refits by updates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors
from displace.holdout import spread
from displace.truth import Flags

KEPT = 400
"""Most queries of each fold that a map keeps: enough for a refit, in some kilobytes."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Features of held-out queries, and whether their matches are right."""

    evidence: Vectors
    """Shape (m, 4 or 5). Features of `witness`."""
    labels: NDArray[np.int8]
    """Shape (m,). 1 for a right match, 0 for a wrong one, −1 for a query without a right answer."""
    folds: NDArray[np.int32]
    """Shape (m,). Fold of each query."""
    names: list[str]
    """Traversal of each fold."""
    centred: bool = False
    """Whether similarity and standing are computed about the mean of the references."""

    @classmethod
    def of_fold(cls, evidence: Vectors, labels: NDArray[np.int8], traversal: str, centred: bool) -> Samples:
        """The queries of one fold, all of one traversal."""
        return cls(evidence, labels, np.zeros(len(labels), np.int32), [traversal], centred)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def right(self) -> Flags:
        """Whether each match is right."""
        right: Flags = self.labels == 1
        return right

    @property
    def traversals(self) -> list[str]:
        """Traversals that the queries are of."""
        return list(dict.fromkeys(self.names[fold] for fold in self.folds.tolist()))

    def take(self, rows: NDArray[Any]) -> Samples:
        """Return some of the queries."""
        return replace(self, evidence=self.evidence[rows], labels=self.labels[rows], folds=self.folds[rows])

    def joined(self, other: Samples) -> Samples:
        """Return these queries and others, which keep folds of their own, with the features that both have."""
        width = min(self.evidence.shape[1], other.evidence.shape[1])
        return Samples(
            np.concatenate([self.evidence[:, :width], other.evidence[:, :width]]),
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.folds, other.folds + np.int32(len(self.names))]),
            self.names + other.names,
            self.centred,
        )

    def without(self, traversals: list[str]) -> Samples:
        """Return the queries of all other traversals, their folds renumbered."""
        stays = ~np.isin(self.names, traversals)
        rest = self.take(stays[self.folds])
        folds = (np.cumsum(stays, dtype=np.int32) - 1)[rest.folds]
        return replace(rest, folds=folds, names=[name for name in self.names if name not in traversals])

    def latest(self, n: int) -> Samples:
        """Return the queries of the `n` traversals that came last."""
        return self.without(self.traversals[:-n])

    def thinned(self) -> Samples:
        """Return at most `KEPT` queries of each fold."""
        rows = [np.flatnonzero(self.folds == fold) for fold in range(len(self.names))]
        kept = [part[spread(len(part), KEPT)] for part in rows if len(part)]
        return self.take(np.concatenate(kept)) if kept else self


def joined(parts: Iterable[Samples | None]) -> Samples | None:
    """All queries of some samples; None if there are none."""
    found = [part for part in parts if part is not None]
    return reduce(Samples.joined, found) if found else None
