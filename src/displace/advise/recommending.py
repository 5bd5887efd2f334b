"""Contenders: fusions measured on the same queries, the choice among them, and what adapting would add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from displace.advise.advice import Choice
from displace.bootstrap import Estimate, bootstrap, in_groups, paired_bootstrap
from displace.fusion.base import Fusion
from displace.geo import Numbers
from displace.recall import percent
from displace.references import ReferenceSet
from displace.sequence.adaptation import LEAST_QUERIES, MapRows, adapt
from displace.truth import Flags, Truth

SAME_SIZE = 1.1
"""Sizes that differ by less than this factor count as equal."""


@dataclass(frozen=True, eq=False)
class Contender:
    """A fusion, its size and what it found."""

    choice: Choice
    n_bytes: int
    """To store with all traversals as references, as float32."""
    storable: bool
    """Whether a map can hold it."""
    settings: str
    """The settings it chose with all traversals as references, in a line."""
    hits: dict[Any, Flags]
    order: dict[Any, Numbers]
    """By held-out traversal, shape (q,): whether each of its queries was found, and where it is along the route."""
    adapted: dict[Any, Flags | None] = field(default_factory=dict)
    """The same with matching that adapts to the queries; None where there are too few."""

    def recalls(self) -> dict[str, Estimate]:
        """R@1 of each condition."""
        return {str(name): bootstrap(flags, order=self.order[name]) for name, flags in self.hits.items()}

    def mean(self) -> Estimate:
        """Mean R@1 over the conditions."""
        hits, groups = in_groups(self.hits.values())
        return bootstrap(hits, groups=groups, order=in_groups(self.order.values())[0])

    def ahead_of(self, other: Contender) -> Estimate:
        """Points by which its mean exceeds another's, paired over queries."""
        hits, groups = in_groups(self.hits.values())
        order, _ = in_groups(self.order.values())
        return paired_bootstrap(hits, in_groups(other.hits.values())[0], groups=groups, order=order)


def recommend(contenders: Sequence[Contender]) -> Contender:
    """Return the smallest contender that is not significantly worse than the best.

    A difference is significant if its paired interval lies above 0. Sizes up to 10 % above the smallest count as equal
    to it, and then the higher mean decides. A fusion's defaults are preferred to its other settings if they are about
    as small and not significantly worse.
    """

    def mean(contender: Contender) -> float:
        return contender.mean().value

    best = max(contenders, key=mean)
    equal = [c for c in contenders if best.ahead_of(c).low <= 0]
    limit = SAME_SIZE * min(c.n_bytes for c in equal)
    chosen = max((c for c in equal if c.n_bytes <= limit), key=mean)
    for plain in contenders:
        if (
            plain.choice == Choice(chosen.choice.fusion)
            and plain.n_bytes <= limit
            and chosen.ahead_of(plain).low <= 0
        ):
            return plain
    return chosen


def adapted_hits(fusion: Fusion, queries: ReferenceSet, truth: Truth) -> Flags | None:
    """Whether queries of one traversal, spread over the route, are located correctly with ``adapt="batch"``.

    None if the fusion, fitted on other traversals, cannot adapt to them.
    """
    rows = fusion.rows()
    if rows is None or len(queries) < LEAST_QUERIES:
        return None
    projected = rows.project(np.asarray(queries.vectors, np.float32))
    scores = adapt(MapRows(np.asarray(rows.vectors, np.float32), rows.starts), projected).scores(projected)
    return truth.correct(fusion.place_ids_[scores.argmax(axis=1)], queries.places)


def adapting_note(best: Contender) -> str | None:
    """What adapting changes with the recommended fusion; None if no traversal had enough queries."""
    names = [name for name in best.hits if best.adapted.get(name) is not None]
    if not names:
        return None
    plain = [best.hits[name] for name in names]
    adapted, groups = in_groups(flags for name in names if (flags := best.adapted[name]) is not None)
    order, _ = in_groups(best.order[name] for name in names)
    gain = paired_bootstrap(adapted, np.concatenate(plain), groups=groups, order=order)
    before = float(np.mean([percent(flags) for flags in plain]))
    traversals = "traversal" if len(names) == 1 else "traversals"
    return (
        f"Adapting the matching to the drive (--adapt batch; displace locate does so for {LEAST_QUERIES} or more "
        f"images) changed the mean R@1 of {len(names)} held-out {traversals} by {gain.value:+z.1f} "
        f"[{gain.low:+z.1f}, {gain.high:+z.1f}] points, from {before:.1f}"
    )
