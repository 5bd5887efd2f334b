"""The command line as a function, for its tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from displace import cli
from displace.cli import console


def set_columns(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the width that commands print to; a console heeds COLUMNS only when it is made, as it is on import."""
    for shown in (console.out, console.err):
        monkeypatch.setattr(shown, "_width", columns)


def commands_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command in a folder; wide, so that messages are not broken."""
    monkeypatch.chdir(folder)
    set_columns(200, monkeypatch)
    return lambda *args: CliRunner().invoke(cli.app, [str(arg) for arg in args])
