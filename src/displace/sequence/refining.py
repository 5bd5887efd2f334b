"""Second round of an alignment: each recording is paired with a DisPlace map of all the others.

The first alignment labels the other recordings' frames with places; the discriminant space learned from them separates
places and suppresses conditions. The recording itself is left out of it, so its gain there can be compared with the
gain before, and the better pairing is kept.
"""

from __future__ import annotations

import warnings

import numpy as np

from displace.arrays import Vectors
from displace.errors import ConditioningWarning, DisplaceError
from displace.fusion.displace import DisPlace
from displace.references import ReferenceSet
from displace.sequence.pairing import Pairing, pair, standardised_recording

LEAST_RECORDINGS = 3
"""Fewest recordings: beside the one at hand, two show what conditions change."""
_LEAST_CONFIDENCE = 0.5
"""Least confidence of a frame that becomes a reference."""
_MOST_NUMBERS = 1e8
"""Most numbers (frames × dimensions) of all recordings; with more there is no second round, to bound its time."""


def can_refine(ready: dict[str, Vectors]) -> bool:
    """Whether there are enough recordings, of a size that can be fitted."""
    return len(ready) >= LEAST_RECORDINGS and sum(v.size for v in ready.values()) <= _MOST_NUMBERS


def paired_again(name: str, anchor: str, ready: dict[str, Vectors], pairings: dict[str, Pairing]) -> Pairing:
    """Pair a recording with a map of all others; returns its earlier pairing where that has the higher gain.

    `ready` is from `standardised_recording`, `pairings` are of every recording but the anchor.
    """
    before = pairings[name]
    vectors, places, traversals = (
        [ready[anchor]],
        [np.arange(len(ready[anchor]))],
        [anchor] * len(ready[anchor]),
    )
    for other, found in pairings.items():
        if other != name:
            frames = found.surest(_LEAST_CONFIDENCE)
            vectors.append(ready[other][frames])
            places.append(found.frames[frames])
            traversals += [other] * len(frames)
    refs = ReferenceSet(np.concatenate(vectors), np.concatenate(places), np.array(traversals))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConditioningWarning)
        try:
            rows = DisPlace(views=False, project=True).fit_references(refs).rows()
        except DisplaceError:  # too few references for a space
            return before
    assert rows is not None
    after = pair(standardised_recording(rows.project(ready[name])), standardised_recording(rows.vectors))
    return after if after.gain > before.gain else before
