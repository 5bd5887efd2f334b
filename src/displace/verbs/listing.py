"""`displace list`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import getdoc
from typing import TYPE_CHECKING, Annotated, Any, Literal

from displace.registry import check_known
from displace.verbs.base import Argument

if TYPE_CHECKING:
    from displace.models import ModelRow
    from displace.registry import Registry

COMMAND = "list"
REGISTRIES = {
    "datasets": "displace.datasets:DATASETS",
    "fusions": "displace.fusion:FUSIONS",
    "searches": "displace.search:INDEXES",
    "sequences": "displace.sequence:SEQUENCES",
    "exports": "displace.interop:EXPORTERS",
}
"""What can be listed besides the models, and where its registry is."""


@dataclass(frozen=True)
class Listed:
    """A registered name and its description."""

    name: str
    about: str
    paper: str = ""
    obtain: str = ""
    """How to get it, if it is not part of the package."""


def listing(
    what: Annotated[
        Literal["models", "datasets", "fusions", "searches", "sequences", "exports"], Argument("WHAT")
    ],
) -> Sequence[Listed] | Sequence[ModelRow]:
    """List the available models, data sets, fusions and other parts.

    Parameters
    ----------
    what : {"models", "datasets", "fusions", "searches", "sequences", "exports"}
        What to list: descriptor models, and whether they are usable on this machine; data sets; fusions; search
        backends; methods to follow a drive; export formats.

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
    check_known("listing", [what], ("models", *REGISTRIES))
    module, name = REGISTRIES[what].split(":")
    return _entries(getattr(importlib.import_module(module), name))


def _entries(registry: Registry[Any]) -> list[Listed]:
    """Each name with the first line of its class's documentation."""
    return [
        Listed(
            name,
            (getdoc(entry) or "").partition("\n")[0],
            getattr(entry, "paper", ""),
            getattr(entry, "obtain", ""),
        )
        for name, entry in registry.usable().items()
    ]
