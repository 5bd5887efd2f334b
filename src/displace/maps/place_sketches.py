"""Sketches of a map's places, with which a photo is compared once it is located: which place it shows, and how surely.

Of the best places by descriptors, the photo's is that with the largest

    (score − last) / (first − last) + PULL · fit

where first and last are the best and the worst of their scores, and the fit is clipped to FITS. Then

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

AMONG = 8
"""Best places by descriptors that are compared with a photo."""
PULL, FITS = 2.5, (1.8, 3.5)
"""Weight of the fit among these places, and its bounds: worse fits are chance, and better ones no more certain."""
SECOND = 0.3
"""Highest confidence, before its fit counts, of a place that is not the first by descriptors."""
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

    def judged(
        self, places: Indices, scores: Vectors, confidence: Vectors, sketches: Sketches
    ) -> tuple[Indices, Vectors]:
        """Which of their places photos show, as its column (q,), and the probability of that (q,).

        Parameters
        ----------
        places : array of shape (q, k)
            Indices of the best places by descriptors, the first `AMONG` of which are compared; −1 if unknown.
        scores : array of shape (q, k)
        confidence : array of shape (q,)
            By descriptors, of the first place; 0 where there is nothing to compare.
        sketches : array of shape (q, ROWS, COLUMNS)
        """
        columns = self._columns(places[:, :AMONG], scores[:, :AMONG], sketches)
        columns = np.where(confidence > 0, columns, 0)
        chosen = np.take_along_axis(places, columns[:, None], axis=1)[:, 0]
        confidence = np.where(columns > 0, np.minimum(confidence, SECOND), confidence)
        above = np.clip(fit(sketches, unpacked(self.packed[chosen])) - self.level, *SPAN)
        known = np.isfinite(above) & (confidence > 0) & (chosen >= 0)
        odds = np.maximum(log_odds(confidence, _TINY), AGAINST)
        told: Vectors = sigmoid(HEED * odds + WEIGHT * np.where(known, above, 0.0))
        return columns, np.where(known, told, confidence)

    def _columns(self, places: Indices, scores: Vectors, sketches: Sketches) -> Indices:
        """Column of the place that each photo shows; the first where it is not known how that one fits."""
        n, k = places.shape
        if k == 1:
            return np.zeros(n, np.intp)
        fits = np.stack([fit(sketches, unpacked(self.packed[at]), zooms=(1.0,)) for at in places.T], axis=1)
        known = np.isfinite(fits) & (places >= 0)
        last = scores[:, -1:]
        among = (scores - last) / np.maximum(scores[:, :1] - last, _TINY)
        among = np.where(known, among + PULL * np.clip(fits, *FITS), -np.inf)
        return np.where(known[:, 0], among.argmax(axis=1), 0)

    def of_places(self, rows: Indices) -> PlaceSketches:
        """The same of other places, given by their former index; −1 for new ones, which have no sketch yet."""
        known = rows >= 0
        return replace(self, packed=np.where(known[:, None], self.packed[rows], np.uint8(0)))
