"""Writes the part of docs/cli.md that comes from the verbs: ``python docs/cli_page.py``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Literal, get_args, get_origin

from displace.cli.app import JSON
from displace.cli.commands import Parameter, Verb, all_verbs

PAGE = Path(__file__).with_name("cli.md")
MARK = "<!-- What follows is written by docs/cli_page.py from the verbs. -->\n"


def page() -> str:
    """The page as it should be: what stands above the mark, then the verbs."""
    head = PAGE.read_text("utf-8").partition(MARK)[0]
    rows = [f"| [`{verb.name}`](#displace-{verb.name}) | {summary(verb)} |" for verb in all_verbs()]
    overview = "\n".join(["| verb | does |", "|---|---|", *rows])
    return f"{head}{MARK}\n{overview}\n\n" + "\n".join(map(section, all_verbs()))


def summary(verb: Verb) -> str:
    """Its first sentence."""
    return cell(verb.plain(verb.documentation.paragraphs[0]))


def section(verb: Verb) -> str:
    """Usage, text, options and examples of a verb."""
    arguments = " ".join(
        f"{p.metavar}{'…' if get_origin(p.kind) is list else ''}" for p in verb.parameters if not p.flags
    )
    rows = [row(parameter) for parameter in verb.parameters]
    if verb.name in JSON:
        rows.append("| `--json` | | Print JSON, for other programs. |")
    return "\n".join(
        [
            f"## displace {verb.name}\n",
            "\n\n".join(verb.plain(text) for text in verb.documentation.paragraphs) + "\n",
            f"```\ndisplace {verb.name} {arguments} [OPTIONS]\n```\n".replace("  ", " "),
            "\n".join(["| option | default | meaning |", "|---|---|---|", *rows]) + "\n",
            "\n".join(["```", *verb.documentation.examples, "```\n"]),
        ]
    )


def row(parameter: Parameter) -> str:
    """One line of the table of options."""
    name = ", ".join(f"`{flag}`" for flag in parameter.flags) or f"`{parameter.metavar}`"
    default = parameter.typed().default
    shown = "" if default in (inspect.Parameter.empty, None, "", False) else f"`{default}`"
    if isinstance(default, bool):
        shown = "on" if default else ""
    if parameter.flags and default is inspect.Parameter.empty:
        shown = "must be given"
    text = parameter.help
    if get_origin(parameter.kind) is Literal:
        text += f" One of {', '.join(f'`{choice}`' for choice in get_args(parameter.kind))}."
    return f"| {cell(name)} | {shown} | {cell(text)} |"


def cell(text: str) -> str:
    """Text that ends no cell of a table."""
    return text.replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
