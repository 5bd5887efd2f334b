"""File names that carry positions: the convention of VPR-methods-evaluation and VPR-datasets-downloader.

Fields between ``@`` signs, in this order (most may be empty)::

    @ east @ north @ zone number @ zone letter @ latitude @ longitude @ panorama @ tile @ heading @ pitch
    @ roll @ height @ timestamp @ note @ .jpg

Easting and northing (metres) are required; panorama and heading are used where they are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from displace.errors import ManifestError
from displace.geo import Positions

EAST, NORTH, PANORAMA, TILE, HEADING, NOTE = 1, 2, 7, 8, 9, 14
"""Where a field is in ``name.split("@")``."""


def is_utm_name(name: str) -> bool:
    """Whether a file name has the form ``@east@north@….jpg``.

    >>> is_utm_name("@0585001.5@4476504.1@17@T@.jpg"), is_utm_name("me@home.jpg")
    (True, False)
    """
    return name.startswith("@") and name.count("@") >= 3


def field(name: str, number: int) -> str:
    """Return one field of a name, empty where the name is shorter.

    >>> field("@0585001.5@4476504.1@17@T@.jpg", NORTH)
    '4476504.1'
    """
    fields = name.split("@")[:-1]  # what follows the last @ is the file's ending
    return fields[number].strip() if number < len(fields) else ""


def utm_positions(images: Sequence[Path]) -> Positions:
    """Positions and headings in the names of images."""
    problems = []
    points, heading = np.full((len(images), 2), np.nan), np.full(len(images), np.nan)
    for row, image in enumerate(images):
        try:
            points[row] = float(field(image.name, EAST)), float(field(image.name, NORTH))
            heading[row] = float(field(image.name, HEADING) or "nan")
        except ValueError as error:
            problems.append(f"{image}: {error}")
    if problems:
        raise ManifestError(
            f"{len(problems)} names do not have the form @east@north@zone@letter@latitude@longitude@panorama@"
            "tile@heading@…@.jpg:",
            problems,
        )
    return Positions(points, heading=heading if np.isfinite(heading).any() else None)


def panoramas(images: Sequence[Path]) -> list[str]:
    """Place of each image: its panorama where every name has one, otherwise its position, numbered."""
    ids = [field(image.name, PANORAMA) for image in images]
    if all(ids):
        return ids
    spots = [(field(image.name, EAST), field(image.name, NORTH)) for image in images]
    number = {spot: i for i, spot in enumerate(dict.fromkeys(spots))}
    width = max(4, len(str(len(number))))
    return [f"{number[spot]:0{width}d}" for spot in spots]
