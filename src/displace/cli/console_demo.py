"""What the command line shows of the demonstration, for a terminal of 80 columns."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from displace.demo import Comparison, Demo
from displace.demo.markdown import meaning, worst_sentence


def show_demo(console: Console, demo: Demo) -> None:
    """Show what the map located, all fusions, the conditions and where the page is."""
    right, comparison = demo.right, demo.comparison
    console.print(
        f"protocol {comparison.protocol.name}: {meaning(comparison)}\n"
        f"{demo.map_file} ({decimal(demo.map_file.stat().st_size)}) locates {right.sum()} of {len(right)} "
        f"{comparison.query} pictures\n",
        highlight=False,
        markup=False,
    )
    console.print(fusions_table(comparison))
    console.print(conditions_table(comparison))
    console.print(singles_table(comparison))
    console.print(worst_sentence(comparison), highlight=False)
    console.print(Text(f"\nOpen {demo.page} in a browser to see it.", style="bold"), soft_wrap=True)


def fusions_table(comparison: Comparison) -> Table:
    """Recalls, times and bytes of every fusion."""
    table = _table("every fusion, R@1 and R@5 in percent", "fusion")
    for name in (f"{comparison.query} R@1", "R@5", "mean R@1", "fit, s", "query, ms", "stored"):
        table.add_column(name, justify="right")
    for score in comparison.scores:
        recall = score.recalls[comparison.query]
        table.add_row(
            score.title + ("" if score.storable else "*"),
            f"{recall[1]:.1f}",
            f"{recall[5]:.1f}",
            f"{score.mean:.1f}",
            f"{score.seconds:.2f}",
            f"{score.milliseconds:.3f}",
            decimal(score.n_bytes),
            style="bold green" if score.name == "displace" else "",
        )
    table.caption = (
        f"mean: each of the {len(comparison.conditions)} conditions as the query in turn. "
        "* no map can hold it"
    )
    return table


def conditions_table(comparison: Comparison) -> Table:
    """DisPlace against the best other fusion in each condition."""
    table = _table("each condition as the query, R@1", "query")
    for name in ("DisPlace", "best other fusion", "lead, points [95 %]"):
        table.add_column(name, justify="right")
    for c in comparison.conditions:
        table.add_row(
            c.name,
            f"{c.recall:.1f}",
            f"{c.other_recall:.1f} {c.other}",
            f"{c.lead.value:+.1f} [{c.lead.low:+.1f}, {c.lead.high:+.1f}]",
        )
    return table


def singles_table(comparison: Comparison) -> Table:
    """R@1 of plain matching in one traversal."""
    names = list(comparison.singles)
    table = _table("plain matching in a single recording, R@1", "query, searched in")
    for name in names:
        table.add_column(name, justify="right")
    for query, found in comparison.singles.items():
        table.add_row(query, *(f"{found[name]:.1f}" if name in found else "–" for name in names))
    return table


def _table(title: str, first: str) -> Table:
    return Table(
        first, title=title, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
