"""The clock of a recording's images, and how it relates to that of positions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from shlex import quote

import numpy as np

from displace.errors import InputError, ManifestError
from displace.geo import Numbers
from displace.manifest.taken_at import SINCE_1970, seconds_of, since_1970, span_of

_UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}
_AMOUNT = re.compile(r"([+-]?\d{1,11}(?:\.\d+)?)\s*(s|min|h|)")
_ZONE = 900
"""Seconds of which the difference between two time zones is a multiple."""
_ZONES = sorted(
    (_ZONE * step for step in range(-56, 57) if step), key=lambda zone: (zone % 3600 != 0, abs(zone))
)
"""Differences between time zones in seconds, the likeliest first."""


@dataclass(frozen=True)
class Clock:
    """What is known of the clock of a recording's images."""

    name: str
    """The traversal."""
    offset: float = 0.0
    """Seconds to add to the times of images for the clock of the positions."""
    began: float | None = None
    """Seconds since 1970 at which a recording began whose times count from then."""
    by: str = ""
    """What says when it began; blank where the user does."""

    @classmethod
    def of(
        cls, name: str, offsets: Mapping[str, float] | None, start: tuple[float, str] | None = None
    ) -> Clock:
        """Clock of a traversal; an offset since 1970 is when it began, one of no name ("") is for all."""
        value = (offsets or {}).get(name, (offsets or {}).get("", 0.0))
        if value >= SINCE_1970:
            return cls(name, began=value)
        return cls(name, value, *(start or ()))

    @property
    def told(self) -> bool:
        """Whether the user has said when the recording began."""
        return self.began is not None and not self.by

    def times(self, images: Numbers, fixes: Numbers, called: str) -> Numbers:
        """Times of images on the clock of the fixes in a file."""
        dated = since_1970(images)
        if dated and self.told:
            raise ManifestError(
                f"images of {self.name!r} have dates ({span_of(images)}): clock_offset must say by how much these are "
                f"wrong, such as {quote(self.name)}=-1h, and not when the recording began"
            )
        if dated or not since_1970(fixes):
            return images + self.offset
        if self.began is None:
            began = self._option(instant(float(np.nanmin(fixes))))
            raise ManifestError(
                f"nothing says when {self.name!r} began: its times count from its start, positions in {called} are "
                f"from {span_of(fixes)}. If both began together: {began}. If they do not belong together, move the "
                "file elsewhere"
            )
        return images + self.began + self.offset

    def advice(self, images: Numbers, fixes: Numbers) -> str:
        """How to say that clocks differ, for images that were taken at other times than all positions."""
        first, last = float(np.nanmin(images)), float(np.nanmax(images))
        begins, ends = float(np.nanmin(fixes)), float(np.nanmax(fixes))
        least = 0.5 * min(last - first, ends - begins)
        for zone in _ZONES:
            if since_1970(images) and min(last + zone, ends) - max(first + zone, begins) >= least:
                return f"If the camera's clock has another time zone: {self.shifted(zone)} (without the name: for all)"
        return f"If both began together: {self.shifted(begins - first)}"

    def shifted(self, seconds: float) -> str:
        """Command that moves the images by so many seconds more."""
        if self.began is not None and self.told:
            return self._option(instant(self.began + seconds))
        amount = round(self.offset + seconds, 1)
        hours = amount and amount % _ZONE == 0
        return self._option(f"{amount / 3600:+g}h" if hours else f"{amount:+.1f}".removesuffix(".0"))

    def _option(self, value: str) -> str:
        return f"displace manifest … --clock-offset {quote(self.name)}={value}"


def read_offsets(texts: Sequence[str]) -> dict[str, float]:
    """Seconds by traversal from ``NAME=VALUE``, or ``VALUE`` for all, whose name is "" then.

    >>> read_offsets(["-1h", "sun=2.5", "snow=1970-02-01T00:00:00Z"])
    {'': -3600.0, 'sun': 2.5, 'snow': 2678400.0}
    """
    offsets = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        if match := _AMOUNT.fullmatch(value.strip()):
            offsets[name] = float(match[1]) * _UNITS[match[2]]
            continue
        try:
            offsets[name] = seconds_of(value.strip())
        except ValueError:
            raise InputError(
                f"clock_offset={text!r} must be seconds (-12.5), hours (-1h) or the time at which a recording began "
                "(2027-01-04T12:30:00Z), after a traversal's name and '=' where it is not for all"
            ) from None
    return offsets


def instant(seconds: float) -> str:
    """A time in ISO 8601, to the tenth of a second.

    >>> instant(1_799_065_800.25)
    '2027-01-04T12:30:00.2Z'
    """
    time = datetime.fromtimestamp(round(seconds, 1), UTC)
    tenth = f".{time.microsecond // 100_000}" if time.microsecond else ""
    return f"{time:%Y-%m-%dT%H:%M:%S}{tenth}Z"
