"""The `displace` command, to which the verbs are added.

Exit codes: 0 done, 1 done but images were skipped (--strict) or problems found (--check), 2 bad input,
130 interrupted.
"""

from __future__ import annotations

from typing import Annotated

import typer

from displace import __version__
from displace.cli import console
from displace.cli.console import out

app = typer.Typer(
    cls=console.Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        out.print(__version__, highlight=False)
        raise typer.Exit


@app.callback()
def displace(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Visual place recognition from several recordings of one route.

    [bold]From recordings to a map, and from a photo to a place[/]

    displace manifest ROUTE -o route.csv           who is which place
    displace extract route.csv -o route.desc       images to descriptors
    displace build route.desc -o town.displace     one file to deploy
    displace locate town.displace photo.jpg        where was this taken?

    Exit codes: 0 done; 1 images skipped under --strict, or problems found by
    --check; 2 bad input; 130 interrupted.
    """
