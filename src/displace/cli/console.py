"""What the command line shows: progress, tables, errors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import typer
from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from displace.descriptors.extraction import Extraction, SkippedImagesError
from displace.descriptors.store_summary import StoreSummary
from displace.errors import DisplaceError
from displace.manifest.summary import Traversal
from displace.models import ModelRow
from displace.pipeline import Entry

SECONDS_BETWEEN_LINES = 30.0
SHOWN = 10
"""Skipped images that are listed by name; the store has all of them."""


out = Console()
err = Console(stderr=True)


class Verbs(TyperGroup):
    """Turns the package's exceptions into messages and exit codes, for every verb."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except SkippedImagesError as error:
            show_error(err, str(error))
            raise typer.Exit(1) from error
        except DisplaceError as error:
            show_error(err, str(error))
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            err.print("interrupted: nothing lost, run the same command again to resume", style="yellow")
            raise typer.Exit(130) from error


class Rate(ProgressColumn):
    """Images a second."""

    def render(self, task: Task) -> Text:
        """Show the task's speed."""
        return Text(f"{task.speed:,.1f}/s" if task.speed else "", style="progress.data.speed")


class Bars:
    """Progress of a run's stages, each shown from its beginning; `stage` and `download` are the callbacks.

    On a terminal these are bars with count, rate and time left; in a log file lines: the first and the last of each
    stage, and one now and then between them.
    """

    def __init__(self, console: Console) -> None:
        columns = (MofNCompleteColumn(), Rate(), TimeElapsedColumn(), TimeRemainingColumn())
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            *columns,
            console=console,
            expand=True,
            speed_estimate_period=60,
            disable=not console.is_terminal,
        )
        self.console = console
        self.tasks: dict[str, TaskID] = {}
        self.line_due = 0.0

    def stage(self, name: str, done: int, total: int) -> None:
        """Show that `done` of `total` images of a stage are done; 0 in all is a total not known."""
        if not done and not total:
            return
        first, last = name not in self.tasks, done == total
        if first:
            # Started with the first stage, so that an error before it stands alone.
            self.progress.start()
            self.tasks[name] = self.progress.add_task(name, total=total or None)
        self.progress.update(self.tasks[name], completed=done)
        if self.progress.disable and (first or last or time.monotonic() >= self.line_due):
            self.line_due = time.monotonic() + SECONDS_BETWEEN_LINES
            self.console.print(
                f"{name} {done:,} of {total:,}" if total else f"{name} {done:,}", highlight=False
            )

    def download(self, done: int, total: int | None) -> None:
        """Show how much of the weights is there, in megabytes."""
        self.stage("weights, MB", done // 10**6, (total or 0) // 10**6)


@contextmanager
def bars(console: Console) -> Iterator[Bars]:
    """Progress bars, which are closed in the end."""
    shown = Bars(console)
    try:
        yield shown
    finally:
        if shown.tasks:
            shown.progress.stop()


def show_extraction(console: Console, done: Extraction) -> None:
    """Say what was described, reused and skipped."""
    store = done.store
    rate = f", {done.n_described / done.seconds:,.1f}/s" if done.n_described and done.seconds else ""
    console.print(
        f"{done.n_described:,} images described, {done.n_reused:,} reused, {len(done.skipped):,} skipped "
        f"in {done.seconds:,.1f} s{rate}",
        highlight=False,
    )
    if done.n_unlisted:
        console.print(
            f"{done.n_unlisted:,} images of the earlier manifest are no longer listed; their descriptors are kept",
            highlight=False,
        )
    show_skipped(console, done.skipped)
    console.print(Text(f"{store.folder}: {len(store):,} × {store.dim} {store.dtype}"), soft_wrap=True)


def show_skipped(console: Console, skipped: Mapping[str, str]) -> None:
    """List the first skipped images with the reasons."""
    for reason in list(skipped.values())[:SHOWN]:
        console.print(f"  skipped: {reason}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    if len(skipped) > SHOWN:
        console.print(
            f"  … and {len(skipped) - SHOWN:,} more; displace inspect --json lists all", style="yellow"
        )


def show_store(console: Console, summary: StoreSummary) -> None:
    """Print what a store holds."""
    name = summary.model.get("model", "?")
    variant = summary.model.get("variant")
    facts = {
        "model": f"{name}:{variant}" if variant else name,
        "descriptors": f"{summary.n_described:,} of {summary.n_listed:,} images, {summary.dim} × {summary.dtype}",
        "places": f"{summary.n_places:,}",
        "size": f"{decimal(summary.n_bytes)} in {summary.n_shards} shard{'s' * (summary.n_shards != 1)}",
    }
    if summary.n_pending:
        facts["pending"] = f"{summary.n_pending:,} images not described yet: run displace extract again"
    if summary.n_unused:
        facts["unused"] = f"{summary.n_unused:,} descriptors of images that are no longer listed"
    if summary.damaged:
        facts["damaged"] = (
            f"{', '.join(summary.damaged)}: run displace extract again to describe their images anew"
        )
    if summary.skipped:
        facts["skipped"] = f"{len(summary.skipped):,} images"
    grid = Table.grid(padding=(0, 2))
    for key, value in facts.items():
        grid.add_row(key, Text(value))
    console.print(Text(summary.folder, style="bold"), grid, sep="\n")
    show_skipped(console, summary.skipped)
    console.print(traversals_table(summary.traversals))


def traversals_table(traversals: list[Traversal]) -> Table:
    """Images, places and coverage of each traversal."""
    table = Table("traversal")
    for name in ("images", "places", "coverage", "without place"):
        table.add_column(name, justify="right")
    for row in traversals:
        table.add_row(
            Text(row.name), f"{row.images:,}", f"{row.places:,}", f"{row.coverage:.1%}", f"{row.blank:,}"
        )
    return table


def models_table(rows: Sequence[ModelRow]) -> Group:
    """Every model with its licences and paper, and its variants; the bold one is what the name stands for."""
    parts: list[RenderableType] = []
    for family, variants in groupby(rows, key=lambda row: row.name.partition(":")[0]):
        listed = list(variants)
        model = listed[0]
        parts.append(Text.assemble((family, "bold cyan"), "  ", model.paper))
        parts.append(Text(f"  code: {model.licence}; weights: {model.weights_licence}", style="dim"))
        grid = Table.grid(padding=(0, 2))
        for row in listed:
            name = Text("  " + row.name, style="bold" if row.is_default else "", no_wrap=True)
            grid.add_row(name, Text(f"{row.dim}-D"), _weights_state(row))
        parts += [grid, Text()]
    return Group(*parts)


def _weights_state(row: ModelRow) -> Text:
    if not row.installed:
        return Text(f"needs pip install 'displace[{row.extra}]'", style="yellow")
    if row.weights_address is None:
        return Text("no weights needed", style="green")
    return (
        Text("weights here", style="green") if row.weights_here else Text("weights not here yet", style="dim")
    )


def entries_table(rows: Sequence[Entry]) -> Table:
    """Names with one line about each."""
    grid = Table.grid(padding=(0, 2))
    for row in rows:
        about = Text.assemble(row.about, *[("\n" + line, "dim") for line in (row.paper, row.obtain) if line])
        grid.add_row(Text(row.name, style="bold"), about)
    return grid


def show_json(console: Console, record: Any) -> None:
    """Print JSON for other programs: no colours, no wrapping."""
    console.out(json.dumps(record, indent=1, ensure_ascii=False, default=str), highlight=False)


def show_error(console: Console, message: str) -> None:
    """Print an error, red, whole."""
    console.print(Text.assemble(("error: ", "bold red"), (message, "red")), soft_wrap=True)
