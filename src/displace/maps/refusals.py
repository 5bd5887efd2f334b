"""Most images refused: is it the map? Places that follow each other say that the images are of its route."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from displace.maps.located import Located
from displace.maps.place_map import PlaceMap
from displace.maps.remarks import A_VIDEO, ACCEPT_LESS, ELSEWHERE, ONE_CONDITION, TOGETHER, UNSEEN_CONDITION
from displace.sequence.adaptation import LEAST_QUERIES
from displace.sequence.together import HARDLY

FEWEST = 20
"""Changes of place, from one image to the next, that show whether these follow each other."""
NEAR = 0.02
"""Share of the map's places that the next one may be away; at least two places."""
AHEAD = 0.15
"""Share of the changes by which short steps one way must outnumber those the other way."""
SURE = 2.5
"""Standard deviations, likewise."""
LOWEST = 0.1
"""Limit that is worth to be named: below it hardly anything is refused."""


def of_refusals(located: Located) -> str:
    """Say why most images are refused, and what to do; blank where they are not, or where the limit was chosen."""
    place_map, confidence = located.place_map, located.matches.confidence
    if located.min_confidence is not None or confidence is None or not isinstance(place_map, PlaceMap):
        return ""
    readable = np.isfinite(located.matches.scores[:, 0])
    refused = readable & [found is False for found in located.in_map]
    if 2 * refused.sum() <= readable.sum():
        return ""
    if refused.sum() >= LEAST_QUERIES and float(np.mean(confidence[readable])) < HARDLY:
        return ELSEWHERE
    if len(place_map.traversals) == 1:
        return ONE_CONDITION
    order = place_map.places.order
    if order is None:
        return ""
    # Photos from elsewhere among accepted ones of the route follow nothing.
    along = np.argsort(order)[place_map.places.rows_of(located.matches.places[refused, 0])]
    if not follow_each_other(along, len(order)):
        return ""
    others = "" if located.followed else A_VIDEO if located.adapted else A_VIDEO + TOGETHER
    median = float(np.floor(100 * np.median(confidence[refused])) / 100)
    return UNSEEN_CONDITION + others + (ACCEPT_LESS.format(median=median) if median >= LOWEST else "")


def follow_each_other(along: NDArray[np.intp], n_places: int) -> bool:
    """Whether places, numbered along the route, follow each other in one direction.

    Foreign images and those of another stretch find a place nearby now and then, but ahead as often as behind.

    >>> follow_each_other(np.arange(40), 500), follow_each_other(np.arange(40) * 97 % 500, 500)
    (True, False)
    """
    changes = np.diff(along)
    # Slow drives stay at a place, and foreign images that resemble each other find one, too.
    changes = changes[changes != 0]
    reach = max(2, int(NEAR * n_places))
    ahead, behind = ((changes * way > 0) & (np.abs(changes) <= reach) for way in (1, -1))
    more = abs(int(ahead.sum()) - int(behind.sum()))
    enough = max(AHEAD * len(changes), SURE * np.sqrt((ahead | behind).sum()))
    return len(changes) >= FEWEST and bool(more >= enough)
