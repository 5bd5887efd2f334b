"""Advice as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from displace.advise import Advice, Condition
from displace.bootstrap import resampled_text
from displace.cli.console import bare_table, out


def show_advise(advice: Advice, _: Mapping[str, Any]) -> None:
    """Print an advice."""
    out.print(advice_table(advice))


def advice_table(advice: Advice) -> Group:
    """Show an advice: the recommendation, then fusions, conditions and traversals, warnings and notes."""
    best = advice.best
    head = Text.assemble(
        "use ",
        (str(advice.recommended), "bold green"),
        "" if best is None else f": R@1 {best.mean} on conditions held out ({advice.protocol})",
    )
    parts: list[RenderableType] = [head, Text(advice.settings, style="dim"), Text()]
    if advice.scores:
        parts += [fusions_table(advice), Text(), conditions_table(advice)]
    if advice.worth:
        parts.append(worth_table(advice))
    parts += [Text(f"warning: {line}", style="yellow") for line in advice.warnings]
    parts += [Text(f"note: {line}", style="dim") for line in advice.notes]
    if advice.impossible:
        left_out = ", ".join(advice.impossible)
        parts.append(Text(f"not possible with these references: {left_out}; --json says why", style="dim"))
    return Group(*parts)


def fusions_table(advice: Advice) -> Table:
    """Mean R@1, distance to the recommended one, size and worst condition of each fusion."""
    table = bare_table("fusions, each traversal held out in turn")
    table.add_column("fusion", overflow="fold", max_width=18)
    for name in ("mean R@1", "behind", "bytes", "worst"):
        table.add_column(name, justify="right", overflow="fold")
    for score in advice.scores:
        style = "bold green" if score.choice == advice.recommended else ""
        label = Text(f"{score.choice}{'' if score.storable else '*'}", style=style)
        behind = "" if score.choice == advice.recommended else str(score.behind)
        worst, recall = min(score.recalls.items(), key=lambda item: item[1].value)
        cells = (str(score.mean), behind, decimal(score.n_bytes), Text(f"{worst} {recall.value:.1f}"))
        table.add_row(label, *cells)
    storable = all(score.storable for score in advice.scores)
    note = "" if storable else "* for evaluation only: a map cannot hold it. "
    over = resampled_text(estimate for score in advice.scores for estimate in (score.mean, score.behind))
    meaning = f"R@1: percent of queries whose first place is right; brackets: 95 % bootstrap of {over}"
    table.caption, table.caption_justify = f"{note}{meaning}", "left"
    return table


def conditions_table(advice: Advice) -> Table:
    """R@1 of the recommended and the best other fusion in each condition, and its coverage by the others."""
    numbers = ("queries", "R@1", "best other fusion", "covered (usual)")
    table = bare_table("conditions, as queries to all others", ["held out"], numbers)
    best = advice.best
    for condition in advice.conditions:
        table.add_row(
            Text(condition.traversal, style="yellow" if condition.outside else ""),
            f"{condition.n_queries:,}",
            "" if best is None else str(best.recalls.get(condition.traversal, "")),
            Text(_best_other(advice, condition)),
            _covered(condition),
        )
    left_out = ", ".join(f"{c.traversal} {c.n_left_out:,}" for c in advice.conditions if c.n_left_out)
    if left_out:
        table.caption = Text(f"left out, as no other traversal has the place: {left_out}")
        table.caption_justify = "left"
    return table


def worth_table(advice: Advice) -> Table:
    """Gain and loss of each traversal."""
    title = "what each traversal is worth, points of the others' mean R@1"
    numbers = ("gain, added to one other", "loss, removed from all")
    table = bare_table(title, ["traversal"], numbers)
    for row in advice.worth:
        table.add_row(Text(row.traversal), str(row.gain), str(row.loss))
    return table


def _best_other(advice: Advice, condition: Condition) -> str:
    others = [
        score
        for score in advice.scores
        if score.choice.fusion != advice.recommended.fusion and condition.traversal in score.recalls
    ]
    if not others:
        return ""
    best = max(others, key=lambda score: score.recalls[condition.traversal].value)
    return f"{best.choice} {best.recalls[condition.traversal].value:.1f}"


def _covered(condition: Condition) -> str:
    if condition.coverage is None or condition.usual_coverage is None:
        return ""
    return (
        f"{condition.coverage:.0%} ({condition.usual_coverage:.0%}){' outside' if condition.outside else ''}"
    )
