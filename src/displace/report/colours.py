"""One colour, marker and dash for each method, the same in every figure.

The colours are distinct under the common kinds of colour blindness; marker and dash are distinct without colour.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

RIGHT, WRONG = "#00805f", "#c8420b"
"""Colours of right and wrong matches; a mark ✓ or ✗ is always beside them."""


@dataclass(frozen=True)
class Style:
    """How a method is drawn."""

    colour: str
    """Hexadecimal."""
    marker: str
    """matplotlib's name of the marker."""
    symbol: str
    """plotly's name of the same marker."""
    dash: str
    """One of "solid", "dash", "dot", "dashdot". plotly's name of the dash."""
    filled: bool = True
    """Whether the marker is filled; that of another setting of a method is not."""

    @property
    def linestyle(self) -> str:
        """Name of the dash in matplotlib."""
        return {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}[self.dash]


_STYLES = {
    "displace": Style("#d55e00", "o", "circle", "solid"),
    "hops": Style("#0072b2", "s", "square", "solid"),
    "pooling": Style("#009e73", "D", "diamond", "solid"),
    "single": Style("#5f6b76", "h", "hexagon", "dot"),
    "dmat_avg": Style("#cc79a7", "^", "triangle-up", "dash"),
    "dmat_min": Style("#3ba3dc", "v", "triangle-down", "dash"),
    "dmat_med": Style("#e69f00", "P", "cross", "dash"),
    "std_dmat_min": Style("#6a4c93", "X", "x", "dashdot"),
    "bsf": Style("#7a4a21", "p", "pentagon", "dashdot"),
    "subspace": Style("#332288", "*", "star", "solid"),
}
_COLOURS = ("#117733", "#882255", "#997700", "#004488", "#aa4499")
_MARKERS = ((">", "triangle-right"), ("<", "triangle-left"), ("8", "octagon"), ("d", "diamond-tall"))
_DASHES = ("solid", "dash", "dashdot")
"""For fusions of other packages: 5 colours, 4 markers and 3 dashes, without a common divisor, make 60 styles."""

CONDITIONS = (
    Style("#332288", "o", "circle", "solid"),
    Style("#e69f00", "s", "square", "solid"),
    Style("#117733", "D", "diamond", "dash"),
    Style("#88ccee", "^", "triangle-up", "dash"),
    Style("#aa4499", "v", "triangle-down", "dashdot"),
    Style("#999933", "X", "x", "dot"),
)
"""For curves of query conditions rather than methods."""


def style_of(fusion: str, plain: bool = True) -> Style:
    """Return the style of a fusion, also of one that is not known, the same each time.

    Another setting than the default (`plain`) has its colour, an open marker and another dash.

    >>> style_of("hops").colour, style_of("hops", plain=False).filled
    ('#0072b2', False)
    """
    style = _STYLES.get(fusion)
    if style is None:
        at = zlib.crc32(fusion.encode())
        style = Style(_COLOURS[at % 5], *_MARKERS[at % 4], _DASHES[at % 3])
    return style if plain else other_setting(style)


def other_setting(style: Style) -> Style:
    """Return the style of another setting of the same method: an open marker and another dash."""
    return replace(style, dash="dot" if style.dash == "dash" else "dash", filled=False)
