"""Output of the demonstration, for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.filesize import decimal
from rich.table import Table as Grid

from displace.cli import console
from displace.report.demonstration import Demo, TextTable


def show_demo(demo: Demo, _: Mapping[str, Any]) -> None:
    """Show what the map located, all fusions, the conditions and where the page is."""
    right = demo.right
    console.out.print(
        f"protocol {demo.protocol.name}: {demo.meaning}\n"
        f"{demo.map_file} ({decimal(demo.map_file.stat().st_size)}) locates {right.sum()} of {len(right)} "
        f"{demo.query} pictures\n",
        markup=False,
    )
    for table in demo.tables:
        console.out.print(text_grid(table))
    console.out.print(demo.worst_sentence)
    console.say(console.out, f"\nOpen {demo.page} in a browser to see it.", "bold")


def text_grid(table: TextTable) -> Grid:
    """Return a table for the terminal; a row whose name is in bold stands out."""
    grid = console.bare_table(table.title)
    for number, name in enumerate(table.head):
        longest = max(map(len, name.split()), default=0)  # so that no word is cut
        grid.add_column(
            name,
            justify="right" if number else "left",
            no_wrap=not number,
            min_width=longest if number else None,
        )
    for first, *rest in table.rows:
        plain = first.strip("*")
        grid.add_row(plain, *rest, style="" if plain == first else "bold green")
    return grid
