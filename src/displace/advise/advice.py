"""What `advise` finds, as records that can be written to JSON and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from displace.arrays import plain
from displace.bootstrap import Estimate
from displace.errors import InputError
from displace.files import schema
from displace.fusion import get_fusion
from displace.fusion.base import Fusion

FORMAT = 1
OUTSIDE_BELOW = 0.85
"""Share of the usual coverage below which a condition counts as outside (see `displace.advise.variation`)."""


@dataclass(frozen=True)
class Choice:
    """A fusion with the parameters that differ from its defaults.

    >>> print(Choice("displace", {"tau": 1.0}))
    displace tau=1
    >>> Choice("displace", {"tau": 1.0}).make()
    DisPlace(tau=1.0)
    """

    fusion: str
    """Registry name."""
    params: dict[str, Any] = field(default_factory=dict)
    """For ``get_fusion(fusion)(**params)``."""

    def make(self) -> Fusion:
        """Return the unfitted fusion, as `displace.build` takes it."""
        return get_fusion(self.fusion)(**self.params)

    def __str__(self) -> str:
        shown = {
            key: f"{value:g}" if isinstance(value, float) else value for key, value in self.params.items()
        }
        return " ".join([self.fusion, *(f"{key}={value}" for key, value in shown.items())])


@dataclass(frozen=True)
class Condition:
    """A traversal as queries against all others."""

    traversal: str
    n_queries: int
    """Queries; 0 if the others have none of its places."""
    n_left_out: int
    """Its references whose place the others do not have: no fusion could find them."""
    coverage: float | None = None
    usual_coverage: float | None = None
    """Share of its deviation from the others that lies in directions in which the others vary, and the same share of
    the others themselves; None with too few traversals or places."""

    @property
    def outside(self) -> bool:
        """Whether the condition lies outside the variation of the others."""
        if self.coverage is None or self.usual_coverage is None:
            return False
        return self.coverage < OUTSIDE_BELOW * self.usual_coverage


@dataclass(frozen=True)
class Score:
    """Result of one fusion."""

    choice: Choice
    n_bytes: int
    """To store with all traversals as references, as float32, projection included."""
    storable: bool
    """Whether a map can hold it; the others need whole score matrices."""
    recalls: dict[str, Estimate]
    """R@1 (%) of each held-out condition."""
    mean: Estimate
    """Mean over the conditions."""
    behind: Estimate
    """The recommended fusion's mean minus this one's, paired over queries."""


@dataclass(frozen=True)
class Worth:
    """What one traversal is worth as a reference, in points of the other conditions' mean R@1."""

    traversal: str
    gain: Estimate
    """When it is added to one other traversal; mean over which other one."""
    loss: Estimate
    """When it is removed from all that there are."""


@dataclass(frozen=True)
class Advice:
    """Which fusion to use, and what each traversal is worth."""

    n_references: int
    n_places: int
    dim: int
    """Of the references."""
    protocol: str
    """What counted as correct."""
    recommended: Choice
    """The best that a map can hold: ``displace.build(refs, advice.recommended.make())``."""
    settings: str
    """The settings it takes when fitted on all traversals, and why."""
    conditions: list[Condition] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    """Best mean first."""
    worth: list[Worth] = field(default_factory=list)
    """For the recommended fusion; empty with fewer than three traversals, or as explained in `notes`."""
    impossible: dict[str, str] = field(default_factory=dict)
    """Fusions that could not be fitted, with the reason."""
    notes: list[str] = field(default_factory=list)
    """What was left out or is not known."""

    def __repr__(self) -> str:
        mean = f", mean R@1 {self.best.mean} ({self.protocol})" if self.best is not None else ""
        return f"<Advice: {self.recommended}{mean}; {len(self.scores)} compared over {len(self.conditions)} traversals>"

    @property
    def best(self) -> Score | None:
        """Score of the recommended fusion; None if nothing could be held out."""
        return next((score for score in self.scores if score.choice == self.recommended), None)

    @property
    def warnings(self) -> list[str]:
        """One line for each condition that lies outside the variation of the others and is found less often."""
        return [
            f"{c.traversal} lies outside the variation of the others: {c.coverage:.0%} of its deviation is in "
            f"directions in which they vary, against {c.usual_coverage:.0%} of theirs. Expect lower recall in such "
            "conditions until a traversal like it is among the references"
            for c in self.conditions
            if c.outside and self._behind_others(c.traversal)
        ]

    def _behind_others(self, name: str) -> bool:
        """Whether R@1 of a held-out condition is below the others' mean, or could not be measured."""
        recalls = {} if self.best is None else dict(self.best.recalls)
        own = recalls.pop(name, None)
        others = [estimate.value for estimate in recalls.values()]
        return own is None or not others or own.value < sum(others) / len(others)

    def to_json(self) -> dict[str, Any]:
        """Return a record of plain types, which `from_json` reads."""
        record: dict[str, Any] = plain({"format": FORMAT, **asdict(self), "warnings": self.warnings})
        for condition, row in zip(self.conditions, record["conditions"], strict=True):
            row["outside"] = condition.outside
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Advice:
        """Return the advice of a record."""
        version = record.get("format")
        if version != FORMAT:
            raise InputError(f"format={version!r} of the advice is not {FORMAT}, which this version reads")
        return schema.made(cls, record)
