"""Multi-reference visual place recognition.

Several reference traversals of the same places are fused into one compact descriptor for each place.
"""

from displace._version import __version__
from displace.fusion import get_fusion
from displace.fusion.displace import DisPlace
from displace.matches import Matches
from displace.metrics import recall_at
from displace.place_map import PlaceMap, build
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
