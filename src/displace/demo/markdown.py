"""The comparison as Markdown, for documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from displace.demo.comparison import Comparison


def comparison_markdown(comparison: Comparison) -> str:
    """Return the tables of a comparison: fusions, conditions, single traversals.

    Recalls come from the pictures and are the same everywhere; times are those of the machine.
    """
    return "\n".join(
        [
            f"Protocol `{comparison.protocol.name}` ({meaning(comparison)}), {comparison.n_places} places; "
            "R@1 and R@5 in percent.",
            "",
            *_fusions(comparison),
            "",
            worst_sentence(comparison),
            "",
            *_conditions(comparison),
            "",
            "R@1 of plain matching in one single recording:",
            "",
            *_singles(comparison),
            "",
        ]
    )


def meaning(comparison: Comparison) -> str:
    """Say what counts as right."""
    return comparison.protocol.note or str(comparison.protocol.tolerance)


def worst_sentence(comparison: Comparison) -> str:
    """Say where DisPlace does worst, also where it loses."""
    worst = comparison.worst
    return (
        f"DisPlace does worst, compared with the best other fusion, on {worst.name}: {worst.recall:.1f} against "
        f"{worst.other_recall:.1f} by {worst.other}, {worst.lead.value:+.1f} points "
        f"[{worst.lead.low:+.1f}, {worst.lead.high:+.1f}] ({worst.verdict})."
    )


def _fusions(comparison: Comparison) -> list[str]:
    head = [
        "fusion",
        f"{comparison.query} R@1",
        f"{comparison.query} R@5",
        f"mean R@1 of {len(comparison.conditions)} conditions",
        "fit, s",
        "query, ms",
        "MB",
    ]
    rows = []
    for score in comparison.scores:
        recall = score.recalls[comparison.query]
        title = f"**{score.title}**" if score.name == "displace" else score.title
        rows.append(
            [
                title,
                f"{recall[1]:.1f}",
                f"{recall[5]:.1f}",
                f"{score.mean:.1f}",
                f"{score.seconds:.2f}",
                f"{score.milliseconds:.3f}",
                f"{score.n_bytes / 1e6:.1f}",
            ]
        )
    return _table(head, rows)


def _conditions(comparison: Comparison) -> list[str]:
    rows = [
        [
            c.name,
            f"{c.recall:.1f}",
            f"{c.other_recall:.1f} ({c.other})",
            f"{c.lead.value:+.1f} [{c.lead.low:+.1f}, {c.lead.high:+.1f}]",
        ]
        for c in comparison.conditions
    ]
    return _table(["query", "DisPlace R@1", "best other fusion", "lead, points [95 %]"], rows)


def _singles(comparison: Comparison) -> list[str]:
    names = list(comparison.singles)
    rows = [
        [query, *(f"{found[name]:.1f}" if name in found else "–" for name in names)]
        for query, found in comparison.singles.items()
    ]
    return _table(["query ↓, searched →", *names], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows of a Markdown table: the first column to the left, numbers to the right."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]
