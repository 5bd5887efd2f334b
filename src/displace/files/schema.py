"""Checks of the type, size and range of values in files; each raises a ValueError that names the value.

Messages that show a value are formatted only to be raised, because a value may be as large as the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Record = TypeVar("Record")

MAX_TEXT = 100_000
"""Characters of one text in a file."""
MAX_DIM = 1 << 22
"""Length of a vector."""


def require(holds: bool, message: str) -> None:
    """Raise ValueError with `message` unless it holds."""
    if not holds:
        raise ValueError(message)


def shown(value: Any) -> str:
    """Give the beginning of a value, for messages.

    >>> shown("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx …"
    """
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else text[:59] + " …"


def text(value: Any, name: str, longest: int = MAX_TEXT) -> str:
    """Check a text that can be written as UTF-8."""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {shown(value)}, not a text")
    if len(value) > longest:
        raise ValueError(f"{name} has {len(value)} characters; at most {longest} are allowed")
    require(value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value), f"{name} is no valid text")
    return str(value)


def whole(value: Any, name: str, low: int = 0, high: int = 2**63 - 1) -> int:
    """Check a whole number from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is {shown(value)}, not a whole number")
    if not low <= value <= high:
        raise ValueError(f"{name} is {shown(value)}; {low} to {high} is possible")
    return int(value)


def number(value: Any, name: str, low: float = -math.inf, high: float = math.inf) -> float:
    """Check a finite number from `low` to `high`."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{name} is {shown(value)}, not a number")
    if not abs(value) <= 1.7e308:
        raise ValueError(f"{name} is {shown(value)}, which is not finite")
    if not low <= value <= high:
        raise ValueError(f"{name} is {shown(value)}; {low:g} to {high:g} is possible")
    return float(value)


def listed(value: Any, name: str, check: Callable[[Any, str], Any], n: int | None = None) -> list[Any]:
    """Check a list of `n` entries that all pass `check`."""
    if not isinstance(value, list):
        raise ValueError(f"{name} is {shown(value)}, not a list")
    require(n is None or len(value) == n, f"{name} has {len(value)} entries, not {n}")
    entry_of = f"an entry of {name}"
    return [check(entry, entry_of) for entry in value]


def mapping(
    value: Any, name: str, check: Callable[[Any, str], Any] | None = None, has: Sequence[str] = ()
) -> dict[str, Any]:
    """Check an object that has the keys `has`, each of whose values passes `check`."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {shown(value)}, not an object")
    for key in has:
        require(key in value, f"{name} has no {key!r}")
    if check is None:
        return dict(value)
    return {
        text(key, f"a key of {name}"): check(entry, f"{name} {shown(key)}") for key, entry in value.items()
    }


def made(kind: type[Record], record: Mapping[str, Any]) -> Record:
    """Make a dataclass from the output of `dataclasses.asdict`; unknown keys are ignored."""
    hints = get_type_hints(kind)
    return kind(**{name: _made_field(hints[name], value) for name, value in record.items() if name in hints})


def _made_field(hint: Any, value: Any) -> Any:
    """Value of a field of some type, with dataclasses in it, in lists and in dicts."""
    if get_origin(hint) is list:
        return [_made_field(get_args(hint)[0], entry) for entry in value]
    if get_origin(hint) is dict:
        return {key: _made_field(get_args(hint)[1], entry) for key, entry in value.items()}
    return made(hint, value) if isinstance(hint, type) and is_dataclass(hint) else value
