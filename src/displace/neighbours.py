"""What neighbours along a route tell about references: whether they are a sequence, and whether traversals line up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors, l2_normalize
from displace.holdout import spread
from displace.references import ReferenceSet

ENOUGH, FEW = 20, 10
"""Places that a route must have to be judged, and images of a traversal."""
MOST = 1000
"""Places of a route that are looked at."""
ALIKE = 1.5
"""Standard deviations by which neighbours must be more alike than places far apart."""
WINDOWS = 6
REACH = 0.25
"""Share of a route by which a traversal is shifted against another at most."""
OFF = 3
"""Places by which a window must be shifted to count as off."""
SAME = 1e-4
"""Distance, of a descriptor's length, below which two show the same."""


def is_sequence(refs: ReferenceSet) -> bool:
    """Whether places that follow each other look alike, as frames of one drive do and webcams do not.

    Their order is that of the route; references without one are no sequence.
    """
    for name in refs.traversal_ids:
        vectors = _along(refs, name, _shared(refs, [name]))
        if len(vectors) >= ENOUGH:
            near = np.einsum("ij,ij->i", vectors[1:], vectors[:-1])
            far = np.einsum("ij,ij->i", vectors, np.roll(vectors, len(vectors) // 2, axis=0))
            return bool(near.mean() - far.mean() > ALIKE * max(float(far.std()), 1e-6))
    return False


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


def misaligned(refs: ReferenceSet) -> list[str]:
    """Traversals of a sequence that line up better with the first one when they are shifted along the route.

    The route is looked at in six windows: recordings of which one lacks frames are off by more and more. Returns
    sentences, none where all is well or nothing can be told.
    """
    names = refs.traversal_ids
    if len(names) < 2 or not is_sequence(refs):
        return []
    found = []
    for name in names[1:]:
        places = _shared(refs, [names[0], name])
        if len(places) < ENOUGH:
            continue
        shifts = _shifts(_along(refs, names[0], places), _along(refs, name, places))
        off = [shift for shift in shifts if abs(shift) >= OFF]
        if 2 * len(off) >= len(shifts):
            found.append(
                f"{name} lines up with {names[0]} better when it is shifted by up to "
                f"{max(map(abs, off))} places along the route: equal numbers may not be equal places"
            )
    return found


def _shared(refs: ReferenceSet, names: list[Any]) -> NDArray[Any]:
    """Places that all of some traversals have, in route order; none where there is no order."""
    info = refs.info
    if info.order is None:
        return info.ids[:0]
    shared = info.ids[info.order]
    for name in names:
        shared = shared[np.isin(shared, refs.places[refs.traversals == name])]
    return shared[spread(len(shared), MOST)] if len(shared) > MOST else shared


def _along(refs: ReferenceSet, name: Any, places: NDArray[Any]) -> Vectors:
    """One centred unit vector of a traversal for each place."""
    rows = np.flatnonzero(refs.traversals == name)
    order = rows[np.argsort(refs.places[rows], kind="stable")]
    at = order[np.searchsorted(refs.places[order], places)] if len(places) else order[:0]
    vectors = refs.vectors[at].astype(np.float32)
    return l2_normalize(vectors - vectors.mean(axis=0)) if len(vectors) else vectors


def _shifts(a: Vectors, b: Vectors) -> list[int]:
    """By how many places b lies behind a in each window of the route, as far as that is clear; 0 where it is not."""
    similarity = a @ b.T
    n, reach = len(a), int(REACH * len(a))
    found = []
    for window in np.array_split(np.arange(n), WINDOWS):
        means = {
            shift: float(similarity[inside, inside + shift].mean())
            for shift in range(-reach, reach + 1)
            for inside in [window[(window + shift >= 0) & (window + shift < n)]]
            if 2 * len(inside) > len(window)
        }
        spread_of_means = float(np.std(list(means.values())))
        best = max(means, key=means.__getitem__)
        clear = means[best] > means[0] + spread_of_means
        found.append(best if clear else 0)
    return found
