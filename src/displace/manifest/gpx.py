"""GPX files: the tracks that phones, watches, dash cameras and websites write, as rows of time and position."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from xml.parsers import expat

from displace.errors import ManifestError, RouteWarning
from displace.files.reading import MAX_TEXT, check_size, open_regular

_CUT_OFF = frozenset(
    expat.errors.codes[text]
    for text in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
    )
)
"""What the parser says of a file that ends too early."""
_LONGEST_TIME = 64
"""Characters of a time; what is longer is none, and is not kept in memory."""


def read_gpx(path: Path, called: str) -> list[tuple[int, list[str]]]:
    """Line, and time, latitude and longitude as texts, of each point of the tracks; what a point lacks is blank.

    Namespaces do not matter, nor does the version. Documents with a DOCTYPE are refused: entities that stand for each
    other can fill any memory. ManifestError where it is no GPX file, or has no recorded track.
    """
    track = _Track()
    with open_regular(path) as file:
        check_size(file, path, MAX_TEXT)
        try:
            track.parser.ParseFile(file)
        except expat.ExpatError as error:
            if not (track.rows and error.code in _CUT_OFF):
                raise ManifestError(
                    f"cannot read positions from {called}: it is no well-formed GPX file ({error}); export it again"
                ) from None
            warnings.warn(
                f"{called} ends too early, in line {error.lineno}: the {len(track.rows):,} points before are used",
                RouteWarning,
                stacklevel=2,
            )
        except _DoctypeError:
            raise ManifestError(
                f"cannot read positions from {called}: it has a DOCTYPE, which GPX files do not have; export it again"
            ) from None
    _check_recorded(track, called)
    return track.rows


def _check_recorded(track: _Track, called: str) -> None:
    """Refuse routes that were planned, and lists of waypoints: they do not say when anybody was where."""
    if any(time for _, (time, *_) in track.rows):
        return
    counts = {
        f"{len(track.rows):,} track points without times": len(track.rows),
        f"{track.others['rtept']:,} points of a planned route": track.others["rtept"],
        f"{track.others['wpt']:,} waypoints": track.others["wpt"],
    }
    found = " and ".join(text for text, count in counts.items() if count) or "no points"
    raise ManifestError(
        f"{called} has no recorded track: {found}. Export the recording with its times (trkpt with time), or move the "
        "file elsewhere"
    )


class _DoctypeError(Exception):
    """A document that declares a type, and with it perhaps entities."""


class _Track:
    """Points of tracks, as the parser comes across them."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, list[str]]] = []
        self.others: Counter[str] = Counter()
        self.around: list[str] = []
        self.point = ["", "", ""]
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def _doctype(self, *_: object) -> None:
        raise _DoctypeError

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        self.around.append(name)
        if name == "trkpt":
            self.point = ["", attributes.get("lat", ""), attributes.get("lon", "")]
        elif name in ("rtept", "wpt"):
            self.others[name] += 1

    def _text(self, text: str) -> None:
        # Extensions inside a point may have times of their own.
        if self.around[-2:] == ["trkpt", "time"]:
            self.point[0] = (self.point[0] + text)[:_LONGEST_TIME]

    def _end(self, _: str) -> None:
        if self.around.pop() == "trkpt":
            self.point[0] = self.point[0].strip()
            self.rows.append((self.parser.CurrentLineNumber, self.point))
