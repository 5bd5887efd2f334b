"""Multi-reference visual place recognition.

Several reference traversals of the same places are fused into one compact descriptor for each place.
"""

from displace._version import __version__
from displace.fusion import get_fusion
from displace.fusion.displace import DisPlace
from displace.matches import Matches
from displace.metrics import recall_at
from displace.references import ReferenceSet

__all__ = ["DisPlace", "Matches", "ReferenceSet", "__version__", "get_fusion", "recall_at"]
