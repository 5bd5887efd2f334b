"""Findings: how methods compare, in words and as differences with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from displace.bootstrap import Estimate, bootstrap, in_groups, paired_bootstrap
from displace.evaluation.results import Results
from displace.evaluation.tables import Table
from displace.evaluation.wins import Duel, Wins, count_wins
from displace.report.html.blocks import Block, own_of


@dataclass(frozen=True)
class Finding:
    """One method against the other multi-reference methods, with one model."""

    table: Table
    """Of the data set, with the columns of the model only."""
    model: str
    label: str
    """The method that the others are compared with."""
    wins: Wins
    """A duel for each query traversal."""
    mean: Estimate
    """R@1 (%) of `label`, the mean over the query traversals."""
    other: str
    """The best other method, by that mean."""
    other_mean: Estimate
    difference: Estimate

    @property
    def worst(self) -> Duel:
        """The query traversal on which `label` does worst compared with the best other method."""
        return min(self.wins.duels, key=lambda duel: duel.value - duel.rival_value)


def find(tables: Sequence[Table], blocks: Sequence[Block], results: Results) -> list[Finding]:
    """Compare DisPlace with the other multi-reference methods, for each data set and model."""
    findings = []
    for table in tables:
        for model in table.models if table.projection is None else ():
            part = replace(table, columns=[column for column in table.columns if column.model == model])
            own = (table.dataset, table.rule, model)
            mine = [b for b in blocks if (b.first.dataset, b.first.rule, b.first.model) == own]
            if (finding := _finding(part, model, mine, results)) is not None:
                findings.append(finding)
    return findings


def _finding(table: Table, model: str, blocks: list[Block], results: Results) -> Finding | None:
    """Compare on the query traversals that all methods have; None if there is no other method."""
    cells = [cell for block in blocks for cell in block.results if cell.group != "single"]
    if len({cell.fusion for cell in cells}) < 2:
        return None
    own = cells[own_of(cells)]
    asked = [block for block in blocks if own.label in block.labels]
    rivals = [
        label
        for label in dict.fromkeys(
            cell.label for cell in cells if cell.fusion != own.fusion and cell.along == own.along
        )
        if all(label in block.labels for block in asked)
    ]
    if not rivals:
        return None
    hits = {label: [block.ranking(label).hits() for block in asked] for label in [own.label, *rivals]}
    # The mean of the query traversals' means is what `bootstrap` estimates.
    other = max(rivals, key=lambda label: fmean(float(part.mean()) for part in hits[label]))
    mine, groups = in_groups(hits[own.label])
    theirs, _ = in_groups(hits[other])
    order, _ = in_groups(block.questions.order for block in asked)
    return Finding(
        table,
        model,
        own.label,
        count_wins(table, own.label, results),
        bootstrap(mine, groups=groups, order=order),
        other,
        bootstrap(theirs, groups=groups, order=order),
        paired_bootstrap(mine, theirs, groups=groups, order=order),
    )


def verdict(difference: Estimate | None) -> str:
    """Describe a difference; it is not significant if its interval contains 0.

    >>> verdict(Estimate(3.0, -1.5, 7.5))
    'ahead, not significantly'
    """
    if difference is None:
        return "not run on the same queries"
    if difference.value == 0:
        return "level"
    side = "ahead" if difference.value > 0 else "behind"
    significant = difference.low > 0 or difference.high < 0
    return side if significant else f"{side}, not significantly"


def sentences(finding: Finding) -> list[str]:
    """Describe in words how a method compares, including where it loses."""
    n, worst = len(finding.wins.duels), finding.worst
    all_of_them = "both" if n == 2 else f"all {n}"
    over = f"Over {all_of_them} query traversals" if n > 1 else f"On {worst.column.query}"
    lines = [
        f"{over}, {finding.label} has a Recall@1 of {finding.mean} %; the best other multi-reference method, "
        f"{finding.other}, reaches {finding.other_mean.value:.1f} %. The difference is {signed(finding.difference)} "
        f"points: {verdict(finding.difference)}."
    ]
    if n > 1:
        lines.append(
            f"{finding.wins}. Compared with the best of the others it does worst on {worst.column.query}: "
            f"{worst.value:.1f} against "
            f"{worst.rival_value:.1f} % by {worst.rival}, {signed(worst.difference)} points "
            f"({verdict(worst.difference)})."
        )
    return lines


def signed(estimate: Estimate | None) -> str:
    """A difference with its interval.

    >>> signed(Estimate(-2.0, -4.25, -0.01))
    '−2.0 [−4.2, +0.0]'
    """
    if estimate is None:
        return "–"
    return f"{_sign(estimate.value)} [{_sign(estimate.low)}, {_sign(estimate.high)}]"


def _sign(value: float) -> str:
    return f"{value:+z.1f}".replace("-", "−")
