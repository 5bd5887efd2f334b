"""One colour, marker and dash for each method, the same in every figure.

The colours are distinct under the common kinds of colour blindness; marker and dash are distinct without colour.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
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
    fill: str = "full"
    """One of `FILLS`. How much of the marker is filled: all, unless it is of another setting of a method."""

    @property
    def linestyle(self) -> str:
        """Name of the dash in matplotlib."""
        return {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}[self.dash]

    @property
    def filled_symbol(self) -> str:
        """Name of the marker in plotly, as it is filled."""
        return self.symbol + FILLS[self.fill]


FILLS = {"full": "", "none": "-open", "left": "-open-dot", "top": "-open-dot", "right": "-open-dot"}
"""What plotly, which has fewer, adds to the name of a marker for each of matplotlib's fills."""


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

    >>> style_of("hops").colour, style_of("hops", plain=False).fill
    ('#0072b2', 'none')
    """
    style = _STYLES.get(fusion)
    if style is None:
        at = zlib.crc32(fusion.encode())
        style = Style(_COLOURS[at % 5], *_MARKERS[at % 4], _DASHES[at % 3])
    return style if plain else other_setting(style)


def styles_of(rows: Iterable[tuple[str, bool]]) -> list[Style]:
    """Return the styles of rows of a figure, each a fusion and whether it has its default setting.

    Several other settings of a fusion differ in the fill of their markers, and in their dashes.

    >>> [style.fill for style in styles_of([("displace", False), ("hops", True), ("displace", False)])]
    ['none', 'full', 'left']
    """
    seen: Counter[tuple[str, bool]] = Counter()
    styles = []
    for row in rows:
        fusion, plain = row
        styles.append(style_of(fusion) if plain else other_setting(style_of(fusion), seen[row]))
        seen[row] += 1
    return styles


def other_setting(style: Style, number: int = 0) -> Style:
    """Return the style of another setting of the same method, the first or a further one."""
    fills = [fill for fill in FILLS if fill != "full"]
    dashes = [dash for dash in ("dash", "dot", "dashdot") if dash != style.dash]
    return replace(style, dash=dashes[number % len(dashes)], fill=fills[number % len(fills)])
