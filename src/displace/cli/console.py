"""Output of the command line: progress, tables, errors."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shlex
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import asdict
from typing import Any

import typer
from rich import box
from rich.console import Console, RenderHook
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
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from displace.errors import DisplaceError, DisplaceWarning, InputError, SkippedImagesError

SECONDS_BETWEEN_LINES = 30.0
SHOWN = 10
"""Skipped images that are listed; the store has all of them."""
RESUME = "interrupted: nothing lost, run the same command again to resume"
AGAIN = "interrupted: no file is left half-written; run the same command to start again"

SAVING = ("--workers", "--threads", "--batch-size")
"""Options that reduce memory use when they are smaller."""


class Visible(RenderHook):
    """Prints control characters in names as text, so that they cannot control the terminal."""

    def process_renderables(self, renderables: list[Any]) -> list[Any]:
        """Wrap what is about to be printed."""
        return [_Visible(renderable) for renderable in renderables]


class _Visible:
    def __init__(self, renderable: Any) -> None:
        self.renderable = renderable

    def __rich_console__(self, console: Console, options: Any) -> Iterator[Segment]:
        for segment in console.render(self.renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Text with its control characters escaped, except for line ends and tabs."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


out = Console(highlight=False)
err = Console(stderr=True, highlight=False)
for _console in (out, err):
    _console.push_render_hook(Visible())


def say(text: str, style: str = "", to: Console = out) -> None:
    """Print a text as it is: not wrapped, and without interpreting markup."""
    to.print(Text(text, style=style), soft_wrap=True)


def bare_table(title: str | None = None, left: Iterable[str] = (), right: Iterable[str] = ()) -> Table:
    """Make a table with no line but the one below its head: columns of text, then of numbers."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for names, justify in ((left, "left"), (right, "right")):
        for name in names:
            table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    return table


def take_any_text() -> None:
    """Escape characters that the encoding of stdout or stderr lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class Messages(logging.Handler):
    """Prints the package's log messages."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        say(record.getMessage(), to=err)


def format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning; the package's own are shown without the place in the code."""
    if issubclass(category, DisplaceWarning):
        return f"warning: {visible(str(message))}\n"
    return f"{filename}:{lineno}: {category.__name__}: {visible(str(message))}\n{line or ''}"


class OnceEach(TyperCommand):
    """Refuses an option given twice that takes one value: all values but the last would be lost without a word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of a verb."""
        try:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        except Exception as error:
            files = [arg for arg in args if arg.startswith("-") and os.path.lexists(arg)]
            if hasattr(error, "option_name") and files:
                raise InputError(
                    f"{files[0]} begins like an option: write {shlex.quote(f'./{files[0]}')}"
                ) from None
            raise
        for option, count in Counter(order).items():
            single = option.param_type_name == "option" and not option.multiple and not option.is_flag  # type: ignore[attr-defined]
            if single and count > 1:
                raise InputError(f"{option.opts[0]} is given {count} times, but takes one value")
        return super().parse_args(ctx, args)


class Verbs(TyperGroup):
    """Turns the package's exceptions into messages and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        messages, formatted = Messages(), warnings.formatwarning
        take_any_text()
        try:
            logging.getLogger("displace").addHandler(messages)
            warnings.formatwarning = format_warning
            return super().invoke(ctx)
        except SkippedImagesError as error:
            show_error(str(error))
            raise typer.Exit(1) from error
        except DisplaceError as error:
            show_error(str(error))
            raise typer.Exit(2) from error
        except OSError as error:
            if error.filename is None:
                raise
            show_error(f"cannot use {error.filename}: {error.strerror}")
            raise typer.Exit(2) from error
        except MemoryError as error:
            verb = self.commands.get(ctx.invoked_subcommand)
            show_error(no_memory({o for p in verb.params for o in p.opts} if verb else set()))
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            err.print(str(error) or AGAIN, style="yellow")
            raise typer.Exit(130) from error
        finally:
            logging.getLogger("displace").removeHandler(messages)
            warnings.formatwarning = formatted


def no_memory(options: Set[str]) -> str:
    """Message for a lack of memory, with the options of a verb that help."""
    smaller = " or ".join(name for name in SAVING if name in options)
    return (
        f"there is not enough memory for this; close other programs, {f'give a smaller {smaller}, ' * bool(smaller)}"
        "or work on fewer images, places or dimensions at a time"
    )


class Rate(ProgressColumn):
    """Images per second."""

    def render(self, task: Task) -> Text:
        """Show the task's speed."""
        return Text(f"{task.speed:,.1f}/s" if task.speed else "", style="progress.data.speed")


class Bars:
    """Progress of the stages of a run; `stage` and `download` are the callbacks.

    On a terminal these are bars with count, rate and time left. In a log file they are lines: the first and the last of
    each stage, and some in between.
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
        """Show that `done` of `total` images of a stage are done; a total of 0 is unknown."""
        if not done and not total:
            return
        first, last = name not in self.tasks, done == total
        if first:
            # Started with the first stage, so that an error before it is shown without bars.
            self.progress.start()
            self.tasks[name] = self.progress.add_task(name, total=total or None)
        # The total may have grown; None leaves it as it is.
        self.progress.update(self.tasks[name], completed=done, total=total or None)
        if self.progress.disable and (first or last or time.monotonic() >= self.line_due):
            self.line_due = time.monotonic() + SECONDS_BETWEEN_LINES
            self.console.print(f"{name} {done:,} of {total:,}" if total else f"{name} {done:,}")

    def download(self, done: int, total: int | None) -> None:
        """Show how much of the weights has been downloaded, in megabytes."""
        self.stage("weights, MB", done // 10**6, (total or 0) // 10**6)

    def close(self) -> None:
        """Stop updating the bars."""
        if self.tasks:
            self.progress.stop()


def show_skipped(skipped: Mapping[str, str], to: Console = out) -> None:
    """List the first skipped images, with reasons."""
    for reason in list(skipped.values())[:SHOWN]:
        say(f"  skipped: {reason}", "yellow", to)
    if len(skipped) > SHOWN:
        say(f"  … and {len(skipped) - SHOWN:,} more; displace inspect --json lists all", "yellow", to)


def show_text(result: Any, _: Mapping[str, Any]) -> None:
    """Print a result without a view of its own as text; None prints nothing."""
    if result is not None:
        say(str(result))


def record(result: Any, given: Mapping[str, Any]) -> Any:
    """Make a JSON-able record of a result or a list of results."""
    if isinstance(result, list | tuple):
        return [record(part, given) for part in result]
    return result.to_json() if hasattr(result, "to_json") else asdict(result)


def show_json(record: Any, to: Console = out) -> None:
    """Print JSON for other programs: no colours, no wrapping."""
    text = json.dumps(record, indent=1, ensure_ascii=False, default=str)
    to.out(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def show_error(message: str, to: Console = err) -> None:
    """Print an error in red, not wrapped."""
    to.print(Text.assemble(("error: ", "bold red"), (message, "red")), soft_wrap=True)
