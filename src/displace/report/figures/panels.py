"""Shared parts of the figures: sizes and fonts for print, axes, legends, markers of methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from displace.report.colours import Style

COLUMN, PAGE = 3.5, 7.2
"""Width in inches of one column, and of a page of two."""
INK, SOFT, LINE = "#1d2326", "#5d676c", "#dfddd5"
RECALL = "Recall@1 (%)   ↑ better"

_PRINT = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "axes.edgecolor": SOFT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
    "svg.hashsalt": "displace",  # equal figures are equal files
    "savefig.dpi": 300,
}


@contextmanager
def print_style() -> Iterator[None]:
    """Use the style of these figures inside the block, and leave the user's alone."""
    from matplotlib import rc_context

    with rc_context(_PRINT):
        yield


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Any, Sequence[Any]]:
    """Return a figure, apart from any window, and its axes side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def line_format(style: Style) -> dict[str, Any]:
    """Colour, dash and marker of a curve."""
    return {"linestyle": style.linestyle, **marker_format(style)}


def marker_format(style: Style) -> dict[str, Any]:
    """Colour and marker; an open one for another setting of a method."""
    return {
        "color": style.colour,
        "marker": style.marker,
        "markerfacecolor": style.colour if style.filled else "white",
        "markeredgecolor": style.colour,
    }


def legend_below(figure: Any, axes: Any, columns: int) -> None:
    """Put the legend under the panels, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=2.6)


def plain_log(axes: Any) -> None:
    """Make the horizontal axis logarithmic, with plain numbers at 1, 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.25, high * 1.25)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
