"""The command line: one function per verb, which parses, calls the pipeline and prints."""

from displace.cli import recordings, importing, maps, evaluation, report  # noqa: I001 (the order in which --help lists the verbs)
from displace.cli.app import app

__all__ = ["app", "evaluation", "importing", "main", "maps", "recordings", "report"]


def main() -> None:
    """Entry point of the `displace` command."""
    app()
