"""The command line: verbs as commands, and their output."""

from displace.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Entry point of the `displace` command."""
    app()
