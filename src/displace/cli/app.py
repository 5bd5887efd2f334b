"""The `displace` command: its verbs are the files of `displace.verbs`; the console files print their results.

Exit codes: 0 done, 1 done but images were skipped (--strict, locate) or problems found (--check), 2 bad input,
130 interrupted.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from contextlib import closing
from typing import Annotated, Any

import typer

from displace import __version__
from displace.cli import console
from displace.cli.commands import Verb, all_verbs

JSON = {"evaluate", "locate", "advise", "inspect", "list"}
"""Verbs with an option --json."""
SHOWS = {
    "console_advice": ("advise",),
    "console_evaluation": ("bench", "demo", "evaluate", "report", "table"),
    "console_maps": ("build", "export", "locate", "update"),
    "console_store": ("extract", "import", "inspect", "list", "manifest"),
}
"""Files with the functions ``show_VERB(result, given)`` that print results, and their verbs; others print as text. A
file may also have ``record_VERB``, which makes the record for JSON, and ``exit_VERB``, which returns the exit code."""

app = typer.Typer(
    cls=console.Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        console.out.print(__version__)
        raise typer.Exit


@app.callback()
def displace(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Visual place recognition from several recordings of one route.

    [bold]From drives to a map, and from a photo or a drive to places[/]

    displace build drives/ -o town.displace        videos or folders of frames
    displace locate town.displace photo.jpg        where was this taken?
    displace locate town.displace tonight.mp4      follow a drive
    displace serve town.displace                   in a browser, and for robots

    [bold]Step by step, with GPS or names that identify the places[/]

    displace manifest ROUTE -o route.csv           which image is which place
    displace extract route.csv -o route.desc       images to descriptors
    displace build route.desc -o town.displace     one file to deploy

    Exit codes: 0 done; 1 images skipped under --strict, problems found by
    --check, or locate could not read some images or, with --min-confidence,
    found none in the map; 2 bad input; 130 interrupted.
    """


def command(verb: Verb) -> Callable[..., None]:
    """Make the function that typer calls: it calls the verb and prints its result."""

    def run(**given: Any) -> None:
        as_json = given.pop("as_json", False)
        given = {p.name: p.value(given[p.name]) for p in verb.parameters}
        with closing(console.Bars(console.err)) as bars:
            shown = {"progress": bars.stage, "download": bars.download}
            try:
                result = verb.function(**given, **{name: shown[name] for name in verb.callbacks})
            except KeyboardInterrupt:
                raise KeyboardInterrupt(console.RESUME if verb.resumes(given) else console.AGAIN) from None
        code = _show(verb, result, given, as_json)
        if code:
            raise typer.Exit(code)

    parameters = [parameter.typed() for parameter in verb.parameters]
    if verb.name in JSON:
        flag = typer.Option("--json", help="Print JSON, for other programs.")
        parameters.append(
            inspect.Parameter(
                "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, flag]
            )
        )
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _show(verb: Verb, result: Any, given: dict[str, Any], as_json: bool) -> int | None:
    """Print the result of a verb; return its exit code, or None for 0."""
    file = next((file for file, verbs in SHOWS.items() if verb.name in verbs), "console")
    shows = importlib.import_module(f"displace.cli.{file}")
    if as_json:
        record = getattr(shows, f"record_{verb.name}", console.record)
        console.show_json(record(result, given))
    else:
        getattr(shows, f"show_{verb.name}", console.show_text)(result, given)
    return getattr(shows, f"exit_{verb.name}", lambda *_: None)(result, given)


for _verb in all_verbs():
    app.command(_verb.name, cls=console.OnceEach, help=_verb.help())(command(_verb))
