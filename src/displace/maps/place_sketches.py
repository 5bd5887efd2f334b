"""Sketches of a map's places, with which a photo is compared once it is located.

    log-odds = HEED · max(those of `calibration`, AGAINST) + WEIGHT · (fit − level), fit − level being clipped to SPAN

The fit of two sketches is in deviations of what chance gives, so one weight does for all maps. How well the wrong
places of a map fit differs: streets of one town share their perspective, webcams share nothing. So the level is the
map's own (`sketching`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, log_odds, sigmoid
from displace.sketches import Sketches, fit, unpacked

HEED, AGAINST = 0.8, -2.0
"""Factor of the log-odds that the descriptors give, as in part they tell what the sketches tell; and their lower bound:
in a light that the map has not seen, right matches look as wrong to them as any."""
WEIGHT = 4.0
"""Log-odds of a fit that is better by one deviation."""
SPAN = -0.5, 1.0
"""Bounds of fit − level: a picture from another lane may fit no better than chance, and a sketch is no proof."""
_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class PlaceSketches:
    """A sketch of each place, fused from its references, and the level above which a fit speaks for it."""

    packed: NDArray[np.uint8]
    """Shape (N, PACKED); zeros where none of a place's images could be read."""
    level: float

    def judged(self, confidence: Vectors, places: Indices, sketches: Sketches) -> Vectors:
        """Probabilities (q,) in view of the sketches (q, …) of photos found at some places, by index; −1 if unknown."""
        above = np.clip(fit(sketches, unpacked(self.packed[places])) - self.level, *SPAN)
        known = np.isfinite(above) & (confidence > 0) & (places >= 0)
        odds = np.maximum(log_odds(confidence, _TINY), AGAINST)
        told: Vectors = sigmoid(HEED * odds + WEIGHT * np.where(known, above, 0.0))
        return np.where(known, told, confidence)

    def of_places(self, rows: Indices) -> PlaceSketches:
        """The same of other places, given by their former index; −1 for new ones, which have no sketch yet."""
        known = rows >= 0
        return replace(self, packed=np.where(known[:, None], self.packed[rows], np.uint8(0)))
