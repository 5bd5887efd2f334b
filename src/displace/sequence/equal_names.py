"""What an alignment by sight says of frames that have equal names: whether they show equal places."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from displace.sequence.alignment import Alignment
from displace.sequence.pairing import AROUND

SURE = 0.5
"""Probability from which on a frame's place by sight counts against its name."""


def elsewhere(found: Alignment, names: Mapping[str, NDArray[np.str_]]) -> dict[str, float]:
    """Share of each recording's frames that sight finds elsewhere than the anchor's frame of the same name.

    Of the frames whose place is likelier right than wrong; `AROUND` places either side are no other place.

    Parameters
    ----------
    found : Alignment
    names : mapping of str to array of shape (n,)
        Of the frames of each recording, in the order in which they were lined up.
    """
    there = dict(zip(names[found.anchor].tolist(), found.tracks[found.anchor].places.tolist(), strict=True))
    shares = {}
    for recording, track in found.tracks.items():
        named = np.array([there.get(name, -1) for name in names[recording].tolist()])
        sure = (track.places >= 0) & (named >= 0) & (track.confidence >= SURE)
        away = np.abs(track.places - named)[sure] > AROUND
        shares[recording] = float(away.mean()) if len(away) else 0.0
    return shares
