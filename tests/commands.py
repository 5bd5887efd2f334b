"""The command line as a function, for its tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from displace import cli
from displace.cli import console


def commands_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command in a folder; wide, so that messages are not broken."""
    monkeypatch.chdir(folder)
    for name in ("out", "err"):
        monkeypatch.setattr(console, name, console.Console(stderr=name == "err", width=200))
    return lambda *args: CliRunner().invoke(cli.app, [str(arg) for arg in args])
