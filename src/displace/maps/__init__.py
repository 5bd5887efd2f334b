"""The place map: one file to deploy, to locate with and to update."""

import importlib
from typing import TYPE_CHECKING, Any

from displace.maps.place_map import PlaceMap

if TYPE_CHECKING:
    from displace.maps.building import build
    from displace.maps.updating import Update

__all__ = ["PlaceMap", "Update", "build"]

_WHERE = {"Update": "displace.maps.updating", "build": "displace.maps.building"}


def __getattr__(name: str) -> Any:
    """Import what builds and updates maps when it is first used: locating does without scikit-learn and scipy."""
    if name not in _WHERE:
        raise AttributeError(f"module 'displace.maps' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_WHERE[name]), name)
    return value
