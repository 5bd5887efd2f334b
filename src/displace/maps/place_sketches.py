"""Sketches of a map's places, with which a photo is compared once it is located: which place it shows, and how surely.

Of the best places by descriptors, the photo's is that with the largest

    (score − last) / (first − last) + PULL · fit

where first and last are the best and the worst of their scores, and the fit is clipped to FITS. Then

    log-odds = CERTAIN · tanh(SURE · (HEED · max(those of `calibration`, AGAINST) + WEIGHT · (fit − level)) / CERTAIN)
    level = OF_MAP · level of the map + (1 − OF_MAP) · usual + APART

where fit − level is clipped to SPAN, and usual is the median fit of the photo with the other
best places. The fit of two sketches is in deviations of what chance gives, so one weight does for all maps. How well
wrong places fit differs from map to map (streets of one town share their perspective, webcams share nothing:
`sketching`) and from photo to photo (in another season nothing fits).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, log_odds, sigmoid
from displace.sketches import Sketches, fit, fit_to_each, unpacked

AMONG = 8
"""Best places by descriptors that are compared with a photo."""
PULL, FITS = 2.5, (1.8, 3.5)
"""Weight of the fit among these places, and its bounds: worse fits are chance, and better ones no more certain."""
SECOND = 0.25
"""Highest confidence, before its fit counts, of a place that is not the first by descriptors."""
HEED, AGAINST = (0.85, 0.65), -2.0
"""Factors of the log-odds that the descriptors give, below and above 0, as in part they tell what sketches tell; and
their lower bound: in a light that the map has not seen, right matches look as wrong to them as any."""
WEIGHT = 4.0
"""Log-odds of a fit that is better by one deviation."""
OF_MAP, APART = 0.6, 0.33
"""Share of the map's level in that of a photo, and what is added."""
USUALLY = 0.45
"""By how much the other places of a photo fit worse than the map's level, where there are none."""
SPAN = -0.9, 2.0
"""Bounds of fit − level: a picture from another lane may fit no better than chance, and a sketch is no proof."""
SURE = 0.85, 4.0
"""Factors of the log-odds below and above 0: what fits no other place as well is hardly ever wrong; what fits no better
than others may be right for all that."""
CERTAIN = 6.0
"""Log-odds that are approached, but not reached, either way."""
_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class PlaceSketches:
    """A sketch of each place, fused from its references, and how well wrong places of the map fit."""

    packed: NDArray[np.uint8]
    """Shape (N, PACKED); zeros where none of a place's images could be read."""
    level: float
    """About the fit above which a place that is not a photo's is rare: see the module."""

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
        places, scores = places[:, :AMONG], scores[:, :AMONG]
        fits = np.stack(
            [fit_to_each(one, unpacked(self.packed[at])) for one, at in zip(sketches, places, strict=True)]
        )
        fits = np.where(places >= 0, fits, np.nan)
        columns = np.where(confidence > 0, _columns(scores, fits), 0)
        chosen = np.take_along_axis(places, columns[:, None], axis=1)[:, 0]
        confidence = np.where(columns > 0, np.minimum(confidence, SECOND), confidence)
        np.put_along_axis(fits, columns[:, None], np.nan, axis=1)
        above = np.clip(fit(sketches, unpacked(self.packed[chosen])) - self._levels(fits), *SPAN)
        known = np.isfinite(above) & (confidence > 0) & (chosen >= 0)
        told: Vectors = sigmoid(_log_odds(confidence, np.where(known, above, 0.0)))
        return columns, np.where(known, told, confidence)

    def _levels(self, others: Vectors) -> Vectors:
        """Level of each photo, from its fits with its other places (q, k); NaN where there is none."""
        usual = np.full(len(others), self.level - USUALLY)
        known = np.isfinite(others).any(axis=1)
        usual[known] = np.nanmedian(others[known], axis=1)
        levels: Vectors = OF_MAP * self.level + (1 - OF_MAP) * usual + APART
        return levels

    def of_places(self, rows: Indices) -> PlaceSketches:
        """The same of other places, given by their former index; −1 for new ones, which have no sketch yet."""
        known = rows >= 0
        return replace(self, packed=np.where(known[:, None], self.packed[rows], np.uint8(0)))


def _columns(scores: Vectors, fits: Vectors) -> Indices:
    """Column of the place that each photo shows; the first where it is not known how that one fits."""
    last = np.fmin.reduce(scores, axis=1, keepdims=True)  # blank places (`joined`) have no score
    among = (scores - last) / np.maximum(scores[:, :1] - last, _TINY)
    known = np.isfinite(fits)
    among = np.where(known, among + PULL * np.clip(fits, *FITS), -np.inf)
    return np.where(known[:, 0], among.argmax(axis=1), 0)


def _log_odds(confidence: Vectors, above: Vectors) -> Vectors:
    """Log-odds of matches with these confidences by descriptors, that fit so much better than their level."""
    told = np.maximum(log_odds(confidence, _TINY), AGAINST)
    both = np.where(told < 0, HEED[0], HEED[1]) * told + WEIGHT * above
    result: Vectors = CERTAIN * np.tanh(np.where(both < 0, SURE[0], SURE[1]) * both / CERTAIN)
    return result
