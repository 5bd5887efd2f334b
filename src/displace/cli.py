"""The command line: one function per verb, which parses, calls the pipeline and prints."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, help=__doc__)


def main() -> None:
    """Entry point of the `displace` command."""
    app()
