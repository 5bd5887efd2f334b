"""The choice among fusions that were measured on the same queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from displace.advise.advice import Choice
from displace.bootstrap import Estimate, bootstrap, in_groups, paired_bootstrap
from displace.geo import Numbers
from displace.truth import Flags

SAME_SIZE = 1.1
"""Sizes that differ by less than this factor count as equal."""


@dataclass(frozen=True, eq=False)
class Contender:
    """A fusion with what it needs and what it found."""

    choice: Choice
    n_bytes: int
    """To store with all traversals as references, as float32."""
    storable: bool
    """Whether a map can hold it."""
    settings: str
    """Settings it takes with all traversals as references, in a line."""
    hits: dict[Any, Flags]
    order: dict[Any, Numbers]
    """By held-out traversal, shape (q,): whether each of its queries was found, and where it is along the route."""
    adapted: dict[Any, Flags | None] = field(default_factory=dict)
    """The same with matching that adapts to the queries; None where it cannot."""

    def recalls(self) -> dict[str, Estimate]:
        """R@1 of each condition."""
        return {str(name): bootstrap(flags, order=self.order[name]) for name, flags in self.hits.items()}

    def mean(self) -> Estimate:
        """Mean R@1 over the conditions."""
        hits, groups = in_groups(self.hits.values())
        return bootstrap(hits, groups=groups, order=in_groups(self.order.values())[0])

    def ahead_of(self, other: Contender) -> Estimate:
        """By how many points its mean is above another's, paired over queries."""
        hits, groups = in_groups(self.hits.values())
        order, _ = in_groups(self.order.values())
        return paired_bootstrap(hits, in_groups(other.hits.values())[0], groups=groups, order=order)


def recommend(contenders: Sequence[Contender]) -> Contender:
    """Return the smallest of those that are not shown to be worse than the best.

    Shown is a difference whose paired interval lies above 0. Sizes up to 10 % above the smallest count as equal to it,
    and then the higher mean decides. Settings other than a fusion's defaults must earn their place: they give way to
    the defaults where these are about as small and not shown to be worse.
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
