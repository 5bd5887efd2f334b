"""What an alignment by sight says of frames that have equal names: whether they show equal places."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from displace.sequence.alignment import Alignment
from displace.sequence.pairing import AROUND

SURE = 0.9
"""Probability from which on a frame's place by sight counts against its name."""
CONTRADICTED = 0.2
"""Share of the frames that sight must find elsewhere to contradict their names: 0.12 and less of recordings in step,
spoilt until one image in six was recognised, and 0.24 and more where speeds differed by a quarter."""


def elsewhere(found: Alignment, names: Mapping[str, NDArray[np.str_]]) -> dict[str, float]:
    """Share of each recording's frames that sight surely finds elsewhere than the anchor's frame of the same name.

    `AROUND` places either side are no other place. Names are in the order in which the frames were lined up.
    """
    there = dict(zip(names[found.anchor].tolist(), found.tracks[found.anchor].places.tolist(), strict=True))
    shares = {}
    for recording, track in found.tracks.items():
        named = np.array([there.get(name, -1) for name in names[recording].tolist()])
        both = (track.places >= 0) & (named >= 0)
        away = (np.abs(track.places - named) > AROUND) & (track.confidence >= SURE)
        shares[recording] = float(away[both].mean()) if both.any() else 0.0
    return shares
