"""Multi-reference visual place recognition.

Several reference traversals of the same places are fused into one compact descriptor for each place.
"""

import importlib
from typing import TYPE_CHECKING, Any

from displace._version import __version__

if TYPE_CHECKING:
    from displace.fusion import get_fusion
    from displace.fusion.displace import DisPlace
    from displace.maps import PlaceMap
    from displace.maps.building import build
    from displace.matches import Matches
    from displace.recall import recall_at
    from displace.references import ReferenceSet

__all__ = [
    "DisPlace",
    "Matches",
    "PlaceMap",
    "ReferenceSet",
    "__version__",
    "build",
    "get_fusion",
    "recall_at",
]

_WHERE = {
    "DisPlace": "displace.fusion.displace",
    "Matches": "displace.matches",
    "PlaceMap": "displace.maps",
    "ReferenceSet": "displace.references",
    "build": "displace.maps.building",
    "get_fusion": "displace.fusion",
    "recall_at": "displace.recall",
}


if not TYPE_CHECKING:  # for a type checker, any name would be one of the package

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used: worker processes and the command line start without the rest."""
        if name not in _WHERE:
            raise AttributeError(f"module 'displace' has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(_WHERE[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
