"""The command line: verbs as commands, and what they print."""

from displace.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Entry point of the `displace` command."""
    app()
