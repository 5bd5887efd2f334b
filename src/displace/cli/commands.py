"""Turns verbs into commands: options and defaults from the signature, help from the docstring.

A parameter is an option ``--its-name`` unless it is annotated otherwise (`displace.verbs.base`). A sequence is given by
repeating the option, a mapping as ``KEY=VALUE``. The callbacks `progress` and `download` update progress bars.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from displace import verbs
from displace.verbs.base import Argument, Option

CALLBACKS = ("progress", "download")
ORDER = (
    *("demo", "manifest", "extract", "import", "align", "build", "locate", "update", "advise"),
    *("evaluate", "bench", "table", "report", "inspect", "list", "export", "serve"),
)
"""Order of the verbs in the help."""
_HEADING = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)
_PARAMETER = re.compile(r"^(\w[\w, ]*?) : .*$", re.MULTILINE)


def path(text: str | Path) -> str | Path:
    """Parse a path; addresses, such as those of maps in databases, stay strings: a Path has no double slash."""
    return text if "://" in str(text) else Path(text)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a verb on the command line."""

    name: str
    """Its name in the verb's signature."""
    kind: Any
    """Its type without None: Path, str, int, float, bool, a Literal, `list` of one of them, or `dict`."""
    default: Any
    """Its default; `inspect.Parameter.empty` if it is required."""
    spelling: Argument | Option
    """How the command line spells it."""
    help: str
    """Its description in the verb's docstring."""

    @property
    def flags(self) -> list[str]:
        """The option's names, the long one first; empty for an argument."""
        if isinstance(self.spelling, Argument):
            return []
        given = self.spelling.flag.split()
        long = [flag for flag in given if flag.startswith("--")] or [f"--{self.name.replace('_', '-')}"]
        if len(self.name) == 1:
            long = []
        if self.kind is bool and self.default is not False:  # None: neither flag was given
            long = [f"{flag}/--no-{flag[2:]}" for flag in long]
        return [*long, *(flag for flag in given if not flag.startswith("--"))]

    @property
    def metavar(self) -> str | None:
        """Name of the value in usage lines, if it is not the type's."""
        return self.spelling.metavar

    @property
    def shown(self) -> str:
        """Its name in help texts."""
        return self.flags[0].partition("/")[0] if self.flags else str(self.metavar)

    @property
    def repeats(self) -> bool:
        """Whether an option may be given several times."""
        return bool(self.flags) and not self._commas and (self.kind is dict or get_origin(self.kind) is list)

    def typed(self) -> inspect.Parameter:
        """The parameter as typer takes it."""
        kind, default = self.kind, self.default
        if self._commas:
            kind, default = str, ",".join(default)
        elif kind is dict:
            kind = list[str]
        elif kind is Path and isinstance(default, str):
            default = Path(default)
        spelt = typer.Option if self.flags else typer.Argument
        parser = path if kind in (Path, list[Path]) else None
        about = spelt(*self.flags, metavar=self.metavar, help=escaped(self.help), parser=parser)
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[kind | None if default is None else kind, about],
        )

    def value(self, given: Any) -> Any:
        """The verb's argument for a value of the command line."""
        if self._commas:
            return tuple(part.strip() for part in given.split(","))
        if self.kind is dict and given is not None:
            return dict(self._pair(text) for text in given)
        return given

    def _pair(self, text: str) -> tuple[str, Path]:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise typer.BadParameter(f"{self.shown} {text!r} must be {self.metavar}")
        return key, Path(value)

    @property
    def _commas(self) -> bool:
        return isinstance(self.spelling, Option) and self.spelling.commas


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


@dataclass(frozen=True)
class Verb:
    """A verb: a module of `displace.verbs`."""

    module: types.ModuleType
    """It has a function of its own name. It may define the command's name (``COMMAND``) and whether an interrupted run
    can be resumed (``RESUMES``, or a function ``resumes`` of the arguments)."""

    @property
    def function(self) -> Callable[..., Any]:
        """The verb itself."""
        function: Callable[..., Any] = getattr(self.module, self.module.__name__.rpartition(".")[2])
        return function

    @property
    def name(self) -> str:
        """Name of the command."""
        return str(getattr(self.module, "COMMAND", self.function.__name__))

    def resumes(self, given: Mapping[str, Any]) -> bool:
        """Whether an interrupted run with these arguments can be resumed."""
        if hasattr(self.module, "resumes"):
            return bool(self.module.resumes(given))
        return bool(getattr(self.module, "RESUMES", False))

    @cached_property
    def documentation(self) -> Documentation:
        """Its docstring, parsed."""
        return Documentation.of(self.function)

    @cached_property
    def callbacks(self) -> list[str]:
        """Its parameters that are progress callbacks."""
        return [name for name in CALLBACKS if name in inspect.signature(self.function).parameters]

    @cached_property
    def parameters(self) -> list[Parameter]:
        """Its parameters in their order, arguments first."""
        signature = inspect.signature(self.function)
        # Without the return type, which is imported for type checkers only.
        annotations = {name: p.annotation for name, p in signature.parameters.items()}
        hints = get_type_hints(
            types.SimpleNamespace(__annotations__=annotations),
            globalns=vars(self.module),
            include_extras=True,
        )
        documented = self.documentation.parameters
        found = []
        for name, parameter in signature.parameters.items():
            if name not in CALLBACKS:
                kind, spelling = _kind_and_spelling(hints[name])
                found.append(Parameter(name, kind, parameter.default, spelling, documented.get(name, "")))
        names = {option.name: option.shown for option in found}
        for row, option in enumerate(found):
            several = " Repeat the option for several." if option.repeats else ""
            found[row] = replace(option, help=plain(option.help, names) + several)
        return sorted(found, key=lambda parameter: bool(parameter.flags))

    def plain(self, text: str) -> str:
        """Text of the docstring with the command line's names for verbs and parameters."""
        return plain(text, {parameter.name: parameter.shown for parameter in self.parameters})

    def help(self) -> str:
        """The command's help: text, then examples."""
        text = "\n\n".join(escaped(self.plain(paragraph)) for paragraph in self.documentation.paragraphs)
        examples = "\n".join(escaped(line) for line in self.documentation.examples)
        return f"{text}\n\n[bold]Examples[/]\n\n{examples}"


@cache
def all_verbs() -> tuple[Verb, ...]:
    """Every public file of `displace.verbs` except the base, in the order of `ORDER`; others come last."""
    modules = [found.name for found in pkgutil.iter_modules(verbs.__path__)]
    names = [name for name in modules if name != "base" and not name.startswith("_")]
    found = (Verb(importlib.import_module(f"displace.verbs.{name}")) for name in names)
    return tuple(sorted(found, key=lambda verb: ORDER.index(verb.name) if verb.name in ORDER else len(ORDER)))


@cache
def _commands() -> dict[str, str]:
    """Name of the command, by that of the verb or its function."""
    return {word: verb.name for verb in all_verbs() for word in (verb.function.__name__, verb.name)}


def plain(text: str, names: Mapping[str, str]) -> str:
    """Text without markup; `` `build` `` and other verbs become commands, parameters their flags."""
    text, commands = re.sub(r"``([^`]*)``", r"\1", text), _commands()

    def shown(match: re.Match[str]) -> str:
        word = match[1]
        return names.get(word) or (f"displace {commands[word]}" if word in commands else word)

    return re.sub(r"`([^`]*)`", shown, text)


def escaped(text: str) -> str:
    """Text with square brackets escaped, which would be markup."""
    return text.replace("[", r"\[")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _kind_and_spelling(hint: Any) -> tuple[Any, Argument | Option]:
    spelling: Argument | Option = Option()
    if get_origin(hint) is Annotated:
        hint, spelling = get_args(hint)
    return _kind(hint), spelling


def _kind(hint: Any) -> Any:
    """The command line's type for a verb's annotation."""
    if get_origin(hint) in (Union, types.UnionType):
        members = [member for member in get_args(hint) if member is not types.NoneType]
        several = [member for member in members if get_origin(member) is Sequence]
        if os.PathLike[str] in members and not several:
            return Path
        (hint,) = several or members
    if get_origin(hint) is Sequence:
        return list[_kind(get_args(hint)[0])]  # type: ignore[misc]
    if get_origin(hint) is Mapping:
        return dict
    if hint in (str, int, float, bool) or get_origin(hint) is Literal:
        return hint
    raise TypeError(
        f"no option for a parameter of type {hint}; known are paths, texts, numbers, flags, lists of them"
    )
