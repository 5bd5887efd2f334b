"""Advice to users whose images are mostly refused, or look like a drive that was located image by image.

Both are judged by whether the places of the images advance along the route: refused images that do show the route in a
condition that the map lacks, those that do not were taken elsewhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from displace.arrays import l2_normalize
from displace.maps.located import Located
from displace.maps.place_map import PlaceMap
from displace.neighbours import neighbours_are_alike
from displace.sequence.adaptation import LEAST_QUERIES
from displace.sequence.stride import way_along
from displace.sequence.together import HARDLY

ELSEWHERE = (
    "together these images look foreign: hardly any match stands out. If they do show the map's route, its recordings "
    "lack their season or light: add one that has it (displace update MAP --add STORE)"
)
ONE_CONDITION = (
    "most images are refused: the map has seen the route only once, and another season or light looks foreign to it. "
    "Add a second recording (displace update MAP --add STORE), or accept more, including foreign images: "
    "--min-confidence 0.3"
)
UNSEEN_CONDITION = (
    "most images are refused, although their places follow each other along the route: none of the map's recordings "
    "seems to show this season or light. Add one that does (displace update MAP --add STORE)"
)
BACKWARDS = (
    "most frames are refused: their places follow each other against the route, and drives are followed along it, as "
    "the map's recordings went; --no-follow locates each frame by itself"
)
FOLLOW = "the places of the images follow each other along the route, as those of a drive do: --follow locates them so"
TOGETHER = "; 100 or more images in one condition, located together, adapt the matching to it"
ACCEPT_LESS = (
    "; half of these images reach --min-confidence {median:.2f}, but that also accepts more foreign images"
)
FOREIGN = 0.07
"""Mean confidence of photos that were compared with pictures, below which they look foreign, as others do below
`HARDLY`: what descriptors hold against them counts only in part. Of foreign ones it is 0.02 to 0.07, of nights and
winters that a map has not seen 0.13 to 0.45."""
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
    foreign = FOREIGN if located.matches.compared else HARDLY
    if refused.sum() >= LEAST_QUERIES and float(np.mean(confidence[readable])) < foreign:
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
