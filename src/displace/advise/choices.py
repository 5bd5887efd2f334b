"""The fusions and settings that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from displace.advise.advice import Choice
from displace.errors import InputError
from displace.fusion import FUSIONS

SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "displace": ({}, {"tau": 1.0}, {"ridge": 0.0, "center": False}),
}
"""Settings that are compared, beside the defaults of every other fusion: DisPlace's default, all of its directions, and
the paper's."""


def choices_of(fusions: Sequence[str | Choice] | None) -> list[Choice]:
    """Return the fusions and settings to compare; names are checked.

    >>> [str(choice) for choice in choices_of(["displace", "hops"])]
    ['displace', 'displace tau=1', 'displace ridge=0 center=False', 'hops']
    """
    if isinstance(fusions, str):
        raise InputError(f"fusions={fusions!r} must be a sequence, such as ({fusions!r}, 'hops')")
    found: list[Choice] = []
    for entry in FUSIONS.names() if fusions is None else fusions:
        named = (
            [entry] if isinstance(entry, Choice) else [Choice(entry, s) for s in SETTINGS.get(entry, ({},))]
        )
        for choice in named:
            choice.make()  # an unknown name or parameter fails here, not after minutes
            if choice not in found:
                found.append(choice)
    if not found:
        raise InputError(f"fusions is empty; known: {', '.join(FUSIONS.names())}")
    # DisPlace first: with two traversals, and between equals, the first one counts.
    return sorted(found, key=lambda choice: choice.fusion != "displace")
