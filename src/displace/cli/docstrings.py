"""Parses the numpydoc of a verb, for the command line's help and docs/cli.md."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_HEADING = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)
_PARAMETER = re.compile(r"^(\w[\w, ]*?) : .*$", re.MULTILINE)


@dataclass(frozen=True)
class Documentation:
    """A function's documentation."""

    paragraphs: list[str]
    """Paragraphs above the sections, a line each; the first is the summary."""
    parameters: dict[str, str]
    """Description of each parameter, in one line."""
    examples: list[str]
    """The lines of the section Examples."""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Documentation:
        """Parse the docstring of a function."""
        head, *sections = _HEADING.split(inspect.getdoc(function) or "")
        parts = dict(zip(sections[::2], sections[1::2], strict=True))
        _, *found = _PARAMETER.split(parts.get("Parameters", ""))
        parameters = {
            name.strip(): _one_line(text)
            for names, text in zip(found[::2], found[1::2], strict=True)
            for name in names.split(",")
        }
        examples = [line.strip() for line in parts.get("Examples", "").splitlines()]
        paragraphs = [_one_line(text) for text in head.strip().split("\n\n")]
        return cls(paragraphs, parameters, [line for line in examples if line not in ("", "::")])


def _one_line(text: str) -> str:
    return " ".join(text.split())
