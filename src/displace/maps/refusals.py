"""Most images refused: is it the map? Places that follow each other say that the images are of its route."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from displace.arrays import l2_normalize
from displace.maps.located import Located
from displace.maps.place_map import PlaceMap
from displace.maps.remarks import (
    ACCEPT_LESS,
    BACKWARDS,
    ELSEWHERE,
    FOLLOW,
    ONE_CONDITION,
    TOGETHER,
    UNSEEN_CONDITION,
)
from displace.neighbours import neighbours_are_alike
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
    if located.followed and _way(located, refused) < 0:
        return BACKWARDS
    if refused.sum() >= LEAST_QUERIES and float(np.mean(confidence[readable])) < HARDLY:
        return ELSEWHERE
    if len(place_map.traversals) == 1:
        return ONE_CONDITION
    # Photos from elsewhere among accepted ones of the route follow nothing.
    if not _way(located, refused):
        return ""
    others = "" if located.followed or located.adapted else TOGETHER
    median = float(np.floor(100 * np.median(confidence[refused])) / 100)
    return UNSEEN_CONDITION + others + (ACCEPT_LESS.format(median=median) if median >= LOWEST else "")


def of_a_drive(located: Located) -> str:
    """Say that images which were located one by one seem to be frames of a drive; blank where they do not."""
    readable = np.isfinite(located.matches.scores[:, 0])
    if located.followed or located.vectors is None or _way(located, readable) <= 0:
        return ""
    vectors = located.vectors[readable]
    # Webcams in the order of their names follow each other by number alone.
    return FOLLOW if neighbours_are_alike([l2_normalize(vectors - vectors.mean(axis=0))]) else ""


def _way(located: Located, some: NDArray[np.bool_]) -> int:
    """Whether the places of some of the images follow each other along the map's route: 1, against it −1, or 0."""
    place_map = located.place_map
    if not isinstance(place_map, PlaceMap) or (order := place_map.places.order) is None:
        return 0
    along = np.argsort(order)[place_map.places.rows_of(located.matches.places[some, 0])]
    return way_along(along, len(order))


def way_along(along: NDArray[np.intp], n_places: int) -> int:
    """Whether places, numbered along the route, follow each other: 1 along it, −1 against it, 0 in no direction.

    Foreign images and those of another stretch find a place nearby now and then, but ahead as often as behind.

    >>> way_along(np.arange(40), 500), way_along(np.arange(40)[::-1], 500), way_along(np.arange(40) * 97 % 500, 500)
    (1, -1, 0)
    """
    changes = np.diff(along)
    # Slow drives stay at a place, and foreign images that resemble each other find one, too.
    changes = changes[changes != 0]
    reach = max(2, int(NEAR * n_places))
    ahead, behind = ((changes * way > 0) & (np.abs(changes) <= reach) for way in (1, -1))
    more = int(ahead.sum()) - int(behind.sum())
    enough = max(AHEAD * len(changes), SURE * np.sqrt((ahead | behind).sum()))
    return int(np.sign(more)) if len(changes) >= FEWEST and abs(more) >= enough else 0
