"""Checks of references by neighbours along the route: whether they are a sequence, and whether traversals line up.

Whether equal places of two traversals show the same is judged by their surroundings: around a place, the similarity of
the two traversals is compared with that when one is shifted along the route. One image may resemble many places, but
some twenty in a row resemble only their own, even at night and in snow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, l2_normalize
from displace.holdout import spread
from displace.places import Places
from displace.references import ReferenceSet, ReferenceStream

ENOUGH, FEW = 20, 10
"""Least number of places of a route, and of images of a traversal, for these checks."""
LENGTH, STRETCHES = 300, 4
"""Places per stretch of the route, and stretches that are checked."""
NUMBERS = 2**26
"""Numbers in the sample of references that are not all in memory; it takes four times as many bytes."""
ALIKE = 1.5
"""Standard deviations by which neighbours must be more alike than places far apart."""
AROUND = 10
"""Places either side of one that are compared with it."""
NEAR = 2
"""Places by which a traversal may be shifted and still line up."""
HOLDS = 0.9
"""Share of the places that line up with another traversal where equal numbers are equal places: 0.97 and more of 30
places and more that were recorded in step, winter against summer or night against dusk."""
OFTEN = 0.5
"""Share of the places that must line up for nothing to be said of references as they are given. Of two different routes
0.58 and less did with 60 places, 0.35 with 100."""
SAME = 1e-4
"""Distance, of a descriptor's length, below which two show the same."""


def is_sequence(refs: ReferenceSet) -> bool:
    """Whether places that follow each other look alike, as frames of one drive do and webcams do not.

    The order is that of the route; references without an order are not a sequence.
    """
    for name in refs.traversal_ids:
        parts = [_along(refs, name, places) for places in _shared(refs, [name])]
        if sum(map(len, parts)) >= ENOUGH:
            return neighbours_are_alike(parts)
    return False


def neighbours_are_alike(parts: Sequence[Vectors]) -> bool:
    """Whether images that follow each other look more alike than others, by centred unit vectors of each stretch."""
    near = np.concatenate([np.einsum("ij,ij->i", part[1:], part[:-1]) for part in parts])
    vectors = np.concatenate(parts)
    far = np.einsum("ij,ij->i", vectors, np.roll(vectors, len(vectors) // 2, axis=0))
    return bool(near.mean() - far.mean() > ALIKE * max(float(far.std()), 1e-6))


def featureless(refs: ReferenceSet) -> list[Any]:
    """Traversals of ten images and more that all look the same: black, covered or of one colour."""
    found = []
    for name in refs.traversal_ids:
        rows = np.flatnonzero(refs.traversals == name)
        first = refs.vectors[rows[0]].astype(np.float32)
        limit = SAME * float(np.linalg.norm(first))
        if len(rows) >= FEW and all(np.linalg.norm(refs.vectors[row] - first) <= limit for row in rows):
            found.append(name)
    return found


def copies(refs: ReferenceSet) -> dict[Any, Any]:
    """Traversals of ten images and more of which at least half are those of another one, and that other one."""
    seen: dict[Any, set[int]] = {}
    found: dict[Any, Any] = {}
    for name in refs.traversal_ids:
        own = {hash(row.tobytes()) for row in refs.vectors[refs.traversals == name]}
        for other, theirs in seen.items():
            if len(own) >= FEW and 2 * len(own & theirs) >= len(own):
                found.setdefault(name, other)
        seen[name] = own
    return found


def misaligned(refs: ReferenceSet) -> list[str]:
    """Traversals of a sequence that line up better with the first one when they are shifted along the route.

    Returns a sentence for each; empty if all line up or there is too little to judge.
    """
    names = refs.traversal_ids
    if len(names) < 2 or not is_sequence(refs):
        return []
    why = "equal numbers may not be equal places"
    if refs.info.positions is not None:
        why += ", or positions are off, as where the clocks of camera and receiver differ"
    found = []
    for name in names[1:]:
        shifts = shifts_between(refs, names[0], name)
        off = np.abs(shifts[np.abs(shifts) > NEAR])
        if len(shifts) >= ENOUGH and len(off) > (1 - OFTEN) * len(shifts):
            found.append(
                f"{name} fits {names[0]} better when shifted along the route, in the median by {np.median(off):.0f} "
                f"places: {why}"
            )
    return found


def shifts_between(refs: ReferenceSet, one: Any, other: Any) -> Indices:
    """By how many places one traversal is behind another, at each common place of the stretches."""
    found = [
        _shifts(_along(refs, one, places), _along(refs, other, places))
        for places in _shared(refs, [one, other])
    ]
    return np.concatenate(found) if found else np.empty(0, np.intp)


def unconfirmed(refs: ReferenceSet) -> dict[Any, float]:
    """Traversals whose images do not confirm that equal places are the same, with the share of places that line up.

    A traversal that lines up with the first one confirms others in turn; featureless ones are left out. Empty if all
    line up, or have too little in common.
    """
    blank = featureless(refs)
    names = [name for name in refs.traversal_ids if name not in blank]
    confirmed, waiting = names[:1], names[1:]
    shares: dict[Any, float] = {}
    for one in confirmed:  # grows during the loop
        for other in list(waiting):
            shifts = shifts_between(refs, one, other)
            share = float((np.abs(shifts) <= NEAR).mean()) if len(shifts) else 1.0
            shares[other] = max(share, shares.get(other, 0.0))
            if share >= HOLDS:
                waiting.remove(other)
                confirmed.append(other)
    return {name: shares[name] for name in waiting}


def sample(stream: ReferenceStream) -> ReferenceSet:
    """References of the stretches that are checked; without an order, some of each traversal."""
    names = np.unique(stream.traversals)
    n_most = max(ENOUGH, NUMBERS // max(1, stream.dim * len(names)))
    places = _stretches(stream.info, n_most)
    if places:
        return stream.take(np.flatnonzero(np.isin(stream.places, np.concatenate(places))))
    rows = [np.flatnonzero(stream.traversals == name) for name in names]
    return stream.take(np.sort(np.concatenate([own[spread(len(own), n_most)] for own in rows])))


def _stretches(info: Places, n_most: int = LENGTH * STRETCHES) -> list[NDArray[Any]]:
    """Places of the route in order: all of them in pieces, or if they are many, pieces spread over the route."""
    if info.order is None:
        return []
    route = info.ids[info.order]
    n_most = min(n_most, LENGTH * STRETCHES, len(route))
    n_pieces = -(-n_most // LENGTH)
    if n_most == len(route):
        return np.array_split(route, n_pieces)
    starts = np.linspace(0, len(route) - n_most // n_pieces, n_pieces).astype(np.intp)
    return [route[start : start + n_most // n_pieces] for start in starts]


def _shared(refs: ReferenceSet, names: list[Any]) -> list[NDArray[Any]]:
    """Places common to some traversals, stretch by stretch; empty without an order or with too few places."""
    found = []
    for places in _stretches(refs.info):
        for name in names:
            places = places[np.isin(places, refs.places[refs.traversals == name])]
        if len(places) >= FEW:
            found.append(places)
    return found


def _along(refs: ReferenceSet, name: Any, places: NDArray[Any]) -> Vectors:
    """One centred unit vector of a traversal for each place."""
    rows = np.flatnonzero(refs.traversals == name)
    order = rows[np.argsort(refs.places[rows], kind="stable")]
    vectors = refs.vectors[order[np.searchsorted(refs.places[order], places)]].astype(np.float32)
    return l2_normalize(vectors - vectors.mean(axis=0))


def _shifts(a: Vectors, b: Vectors) -> Indices:
    """By how many places b is behind a at each place of a stretch, judged by its surroundings."""
    similarity = _standardised(_standardised(a @ b.T).T).T
    n, reach = len(a), len(a) // 2
    means = np.full((2 * reach + 1, n), -np.inf)
    for shift in range(-reach, reach + 1):
        along = similarity.diagonal(shift)
        at = np.arange(len(along))
        first, last = np.maximum(at - AROUND, 0), np.minimum(at + AROUND + 1, len(along))
        sums = np.concatenate([[0.0], np.cumsum(along, dtype=np.float64)])
        means[shift + reach, max(0, -shift) + at] = (sums[last] - sums[first]) / (last - first)
    found: Indices = means.argmax(axis=0) - reach
    return found


def _standardised(similarity: Vectors) -> Vectors:
    """Rows of zero mean and unit deviation: what an image shares with all others does not identify its place."""
    centred = similarity - similarity.mean(axis=1, keepdims=True)
    result: Vectors = centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-6)
    return result
