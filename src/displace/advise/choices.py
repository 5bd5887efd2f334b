"""The fusions and settings that are compared."""

from __future__ import annotations

from collections.abc import Sequence

from displace.advise.advice import Choice
from displace.errors import InputError
from displace.fusion import DEFAULT, FUSIONS


def choices_of(fusions: Sequence[str | Choice] | None) -> list[Choice]:
    """Return the fusions and settings to compare; names are checked.

    >>> [str(choice) for choice in choices_of(["displace", "hops"])]
    ['displace', 'displace tau=1', 'displace ridge=0 center=False', 'hops']
    """
    if isinstance(fusions, str):
        raise InputError(f"fusions={fusions!r} must be a sequence, such as ({fusions!r}, 'hops')")
    found: list[Choice] = []
    for entry in FUSIONS.usable() if fusions is None else fusions:
        named = (
            [entry] if isinstance(entry, Choice) else [Choice(entry, s) for s in FUSIONS.get(entry).compared]
        )
        for choice in named:
            choice.make()  # an unknown name or parameter fails here, not after minutes
            if choice not in found:
                found.append(choice)
    if not found:
        raise InputError(f"fusions is empty; known: {', '.join(FUSIONS.names())}")
    # The default first: with two traversals, and between equals, the first one counts.
    return sorted(found, key=lambda choice: choice.fusion != DEFAULT)
