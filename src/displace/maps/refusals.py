"""Advice where most images are refused, or seem to be a drive: a test whether their places advance along the route.

If they do, the images are of the route, in a condition that the map lacks; if not, they are from elsewhere.
"""

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
from displace.sequence.stride import way_along
from displace.sequence.together import HARDLY

LOWEST = 0.1
"""Lowest limit that is suggested: below it hardly anything is refused."""


def of_refusals(located: Located) -> str:
    """Why most images are refused, and what to do; empty where they are not, or where the user chose the limit."""
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
    # The refused ones alone: foreign photos among accepted ones of the route are in no order.
    if not _way(located, refused):
        return ""
    others = "" if located.followed or located.adapted else TOGETHER
    median = float(np.floor(100 * np.median(confidence[refused])) / 100)
    return UNSEEN_CONDITION + others + (ACCEPT_LESS.format(median=median) if median >= LOWEST else "")


def of_a_drive(located: Located) -> str:
    """Advice to follow images that were located one by one and seem to be a drive; else empty."""
    readable = np.isfinite(located.matches.scores[:, 0])
    if located.followed or located.vectors is None or _way(located, readable) <= 0:
        return ""
    vectors = located.vectors[readable]
    # Places of webcams, in the order of their names, advance by number alone: their neighbours do not look alike.
    return FOLLOW if neighbours_are_alike([l2_normalize(vectors - vectors.mean(axis=0))]) else ""


def _way(located: Located, some: NDArray[np.bool_]) -> int:
    """Whether the places of some of the images advance along the map's route: 1, against it −1, or 0."""
    place_map = located.place_map
    if not isinstance(place_map, PlaceMap) or (order := place_map.places.order) is None:
        return 0
    along = np.argsort(order)[place_map.places.rows_of(located.matches.places[some, 0])]
    return way_along(along, len(order))
