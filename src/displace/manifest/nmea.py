"""NMEA logs: what GPS receivers say, line by line, as rows of time and position."""

from __future__ import annotations

import logging
import re
from collections import Counter
from functools import reduce
from operator import xor
from pathlib import Path

from displace.errors import ManifestError
from displace.files.reading import MAX_TEXT, check_size, open_regular
from displace.manifest.taken_at import seconds_of

logger = logging.getLogger(__name__)

_RMC = re.compile(rb"\$(([A-Z]{2})RMC,([^*$\r\n]*))(?:\*([0-9A-Fa-f]{2}))?")
"""Sentence, talker, fields and checksum of the recommended minimum: date, time and position in one line."""
_SENTENCE = re.compile(rb"\$[A-Z]{2}(RMC|GGA|GLL|GSA|GSV|VTG|ZDA),")
_BEGINNING = 4096
"""Bytes in which a log has a first sentence."""
_FIELDS = re.compile(
    rb"(\d\d)(\d\d)(\d\d(?:\.\d+)?),A,(\d+)(\d\d\.?\d*),([NS]),(\d+)(\d\d\.?\d*),([EW]),[^,]*,[^,]*,"
    rb"(\d\d)(\d\d)(\d\d)(?:,.*)?"
)
"""Time, degrees and minutes of latitude and longitude, and date (day, month, year) of a valid fix."""


def is_nmea(path: Path) -> bool:
    """Whether a file begins as a log of a receiver does."""
    try:
        with open_regular(path) as file:
            return _SENTENCE.search(file.read(_BEGINNING)) is not None
    except OSError:
        return False


def read_nmea(path: Path, called: str) -> list[tuple[int, list[str]]]:
    """Line, and time, latitude and longitude as texts, of each RMC sentence that has a fix.

    Sentences with a wrong checksum are left out, and so are those of other talkers than the most frequent: several
    satellite systems of one receiver tell the same position. ManifestError where no sentence has a date and a position.
    """
    rows: dict[bytes, list[tuple[int, list[str]]]] = {}
    counts: Counter[str] = Counter()
    with open_regular(path) as file:
        check_size(file, path, MAX_TEXT)
        for number, line in enumerate(file, start=1):
            for match in _RMC.finditer(line):
                sentence, talker, fields, checksum = match.groups()
                row = _fix(fields)
                if checksum is not None and reduce(xor, sentence) != int(checksum, 16):
                    counts["damaged"] += 1
                elif row is None:
                    counts["void"] += 1
                else:
                    rows.setdefault(talker, []).append((number, row))
    if not rows:
        found = ", ".join(f"{count:,} {what}" for what, count in counts.items()) or "none"
        raise ManifestError(
            f"{called} has no position with a date: of its RMC sentences ($GPRMC, $GNRMC), which alone have both, "
            f"{found}. Let the receiver write them"
        )
    if counts["damaged"]:
        logger.warning(
            "%s: %s sentences with a wrong checksum are left out", called, f"{counts['damaged']:,}"
        )
    return max(rows.values(), key=len)


def _fix(fields: bytes) -> list[str] | None:
    """Time, latitude and longitude as texts; None where there is no valid fix.

    >>> _fix(b"123519.50,A,4807.038,S,01131.000,E,022.4,084.4,230394,003.1,W")
    ['1994-03-23T12:35:19.50Z', '-48.1173', '11.516666666666667']
    >>> _fix(b"123519,V,,,,,,,230394,,")
    """
    match = _FIELDS.fullmatch(fields.strip())
    if match is None:
        return None
    hours, minutes, seconds, north, n_minutes, south, east, e_minutes, west, day, month, year = (
        text.decode() for text in match.groups()
    )
    latitude = (float(north) + float(n_minutes) / 60) * (-1 if south == "S" else 1)
    longitude = (float(east) + float(e_minutes) / 60) * (-1 if west == "W" else 1)
    century = "19" if year >= "80" else "20"  # GPS began in 1980
    time = f"{century}{year}-{month}-{day}T{hours}:{minutes}:{seconds}Z"
    try:
        seconds_of(time)
    except ValueError:  # a sentence without checksum may be damaged, too
        return None
    return [time, repr(latitude), repr(longitude)] if abs(latitude) <= 90 and abs(longitude) <= 180 else None
