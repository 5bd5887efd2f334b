"""`displace list`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import getdoc
from typing import TYPE_CHECKING, Annotated, Any, Literal

from displace.errors import UnknownNameError
from displace.registry import Registry, unknown
from displace.verbs.base import Argument

if TYPE_CHECKING:
    from displace.models import ModelRow

COMMAND = "list"


@dataclass(frozen=True)
class Entry:
    """One name that can be used, and what it stands for."""

    name: str
    about: str
    paper: str = ""
    obtain: str = ""
    """How to get it, where it is not part of the package."""


def listing(
    what: Annotated[Literal["models", "datasets", "fusions"], Argument("WHAT")],
) -> Sequence[Entry] | Sequence[ModelRow]:
    """List the models, data sets or fusions that there are.

    Parameters
    ----------
    what : {"models", "datasets", "fusions"}
        What to list; of models also whether they can be used on this machine.

    Examples
    --------
    ::

        displace list models
        displace list datasets
        displace list fusions --json
    """
    if what == "models":
        from displace.models import list_models

        return list_models()
    if what == "datasets":
        from displace.datasets import DATASETS

        return _entries(DATASETS)
    if what == "fusions":
        from displace.fusion import FUSIONS

        return _entries(FUSIONS)
    raise UnknownNameError(unknown("listing", what, ("models", "datasets", "fusions")))


def _entries(registry: Registry[Any]) -> list[Entry]:
    """Each name with the first line of its class's documentation."""
    found = ((name, registry.get(name)) for name in registry.names())
    return [
        Entry(
            name,
            (getdoc(entry) or "").partition("\n")[0],
            getattr(entry, "paper", ""),
            getattr(entry, "obtain", ""),
        )
        for name, entry in found
    ]
