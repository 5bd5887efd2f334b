"""Positions in the images themselves: the GPS that phones and cameras write into EXIF."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from displace.geo import Positions
from displace.holdout import spread
from displace.images import exif_of
from displace.manifest.recording import Recording

logger = logging.getLogger(__name__)

LOOKED_AT = 50
"""Images of a recording, spread evenly, of which one must have GPS for all to be read: most recordings have none."""
_GPS = 0x8825
_LATITUDE, _LONGITUDE = (1, 2, {"N": 1, "S": -1}, 90.0), (3, 4, {"E": 1, "W": -1}, 180.0)
"""Tags of the hemisphere and of the angle, the hemispheres' signs, and the largest angle."""


def with_exif_positions(recordings: Sequence[Recording]) -> list[Recording]:
    """Take the positions of recordings that have none out of their images, where at least half of these have one.

    The others, from files, must be degrees as well. What was found is logged, unless it is nothing.
    """
    lacking = [r for r in recordings if r.positions is None]
    if not any(np.isfinite(_points(_some(r.images))).any() for r in lacking):
        return list(recordings)
    if metric := [r.name for r in recordings if r.positions is not None and not r.positions.degrees]:
        logger.warning(
            "GPS in EXIF is not used: it is degrees, and the positions of %s are metres", ", ".join(metric)
        )
        return list(recordings)
    found = {r.name: Positions(_points(r.images), degrees=True) for r in lacking}
    counts = {r.name: (int(found[r.name].known.sum()), len(r)) for r in lacking}
    enough = {name for name, (n, m) in counts.items() if 2 * n >= m}
    told = ", ".join(f"{n:,} of {m:,} images of {name}" for name, (n, m) in counts.items())
    if len(enough) < len(lacking):
        few = ", ".join(name for name in counts if name not in enough)
        kept = f"; those of {', '.join(sorted(enough))} are kept" if enough else ""
        logger.warning(
            "positions do not tell places, as fewer than half of the images of %s have GPS in EXIF (%s)%s",
            few,
            told,
            kept,
        )
    else:
        without = sum(m - n for n, m in counts.values())
        logger.warning(
            "positions are the GPS in EXIF: %s have it%s",
            told,
            "; the others get no place" if without else "",
        )
    return [replace(r, positions=found[r.name]) if r.name in enough else r for r in recordings]


def _some(images: Sequence[Path]) -> list[Path]:
    return [images[row] for row in spread(len(images), LOOKED_AT)]


def _points(images: Sequence[Path]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Latitude and longitude of each image, NaN where it has none."""
    return np.array([gps_of(image) or (np.nan, np.nan) for image in images], np.float64).reshape(-1, 2)


def gps_of(image: Path) -> tuple[float, float] | None:
    """Latitude and longitude in degrees from an image's EXIF, which is read without the picture.

    None where there are none, or none that can be: damaged, beyond the poles, or 0° 0′, which cameras without a fix
    write.
    """
    tags = exif_of(image, _GPS)
    try:
        latitude, longitude = _angle(tags, *_LATITUDE), _angle(tags, *_LONGITUDE)
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return None
    return (latitude, longitude) if np.isfinite(latitude + longitude) and (latitude or longitude) else None


def _angle(
    tags: Mapping[int, Any], hemisphere: int, angle: int, signs: Mapping[str, int], limit: float
) -> float:
    """Signed degrees from degrees, minutes and seconds; NaN where these are impossible."""
    parts = [float(part) for part in tags[angle]]
    degrees = sum(part / unit for part, unit in zip(parts, (1, 60, 3600), strict=True))
    sign = signs[str(tags[hemisphere]).strip("\0 ").upper()]
    return sign * degrees if min(parts) >= 0 and degrees <= limit else np.nan
