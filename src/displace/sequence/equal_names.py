"""Checks equal file names against an alignment: whether frames of equal names show equal places."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from displace.sequence.alignment import Alignment
from displace.sequence.pairing import AROUND

SURE = 0.9
"""Confidence of an aligned frame from which on its place counts against its name."""
CONTRADICTED = 0.2
"""Share of frames aligned elsewhere that contradicts the names. Recordings in step stayed at 0.12 or less, even when
degraded until one image in six was recognised; with speeds that differ by a quarter it was 0.24 or more."""


def elsewhere(found: Alignment, names: Mapping[str, NDArray[np.str_]]) -> dict[str, float]:
    """Share of each recording's frames that are confidently aligned elsewhere than the anchor's frame of equal name.

    Elsewhere is more than `AROUND` places away. Names are in the order in which the frames were lined up.
    """
    there = dict(zip(names[found.anchor].tolist(), found.tracks[found.anchor].places.tolist(), strict=True))
    shares = {}
    for recording, track in found.tracks.items():
        named = np.array([there.get(name, -1) for name in names[recording].tolist()])
        both = (track.places >= 0) & (named >= 0)
        away = (np.abs(track.places - named) > AROUND) & (track.confidence >= SURE)
        shares[recording] = float(away[both].mean()) if both.any() else 0.0
    return shares
