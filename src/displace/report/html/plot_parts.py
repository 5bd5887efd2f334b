"""Traces and layouts that the plots share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from displace.report.colours import Style

Plot = dict[str, Any]
SECOND: Plot = {"xaxis": "x2", "yaxis": "y2", "showlegend": False}
"""What makes a trace one of the second panel; the legend has it from the first."""


def markers(label: str, style: Style, size: int) -> Plot:
    """A trace of markers, open ones for another setting of a method."""
    symbol = style.symbol if style.filled else f"{style.symbol}-open"
    marker = {
        "color": style.colour,
        "symbol": symbol,
        "size": size,
        "line": {"width": 1.5, "color": style.colour},
    }
    return {"type": "scatter", "mode": "markers", "name": label, "legendgroup": label, "marker": marker}


def line_and_markers(label: str, style: Style) -> Plot:
    """A trace of a curve with markers."""
    return markers(label, style, size=8) | {
        "mode": "lines+markers",
        "line": {"color": style.colour, "dash": style.dash, "width": 2},
    }


def bars(values: Sequence[float], intervals: Sequence[tuple[float, float]]) -> Plot:
    """Error bars from each value to the ends of its interval."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for value, (_, high) in zip(values, intervals, strict=True)],
        "arrayminus": [value - low for value, (low, _) in zip(values, intervals, strict=True)],
        "thickness": 1.2,
        "width": 2,
    }


def log_axis(values: Sequence[float]) -> Plot:
    """Logarithmic axis around the values, with plain numbers on it."""
    low, high = 0.7 * min(values), 1.4 * max(values)
    steps = (1, 2, 5) if high > 20 * low else (1, 1.5, 2, 3, 4, 5, 7)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [value for power in powers for step in steps if low <= (value := step * 10.0**power) <= high]
    return {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": ticks,
        "ticktext": [f"{tick:g}" for tick in ticks],
    }


def one_panel(x: str, y: str) -> Plot:
    """Layout of one panel: what the axes are, the legend below."""
    return {
        "xaxis": {"title": {"text": x}},
        "yaxis": {"title": {"text": y}},
        "legend": {"orientation": "h", "y": -0.24, "yanchor": "top", "x": 0},
        "margin": {"l": 60, "r": 12, "t": 16, "b": 48},
        "hoverlabel": {"namelength": -1},
    }


def upright(x: float, line: Plot, **axes: str) -> Plot:
    """A line from the bottom of a panel to its top; `axes` say in what it is measured."""
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": line, **axes}


def side_by_side(*panels: tuple[str, str]) -> Plot:
    """Layout of panels with the names of their axes; narrow pages stack them."""
    layout = one_panel(*panels[0])
    width, gap = 1 / len(panels), 0.04
    for number, (x, y) in enumerate(panels, 1):
        suffix = "" if number == 1 else str(number)
        ends = [
            (number - 1) * width + (gap if number > 1 else 0),
            number * width - (gap if number < len(panels) else 0),
        ]
        layout[f"xaxis{suffix}"] = {"title": {"text": x}, "domain": ends, "anchor": f"y{suffix}"}
        layout[f"yaxis{suffix}"] = {"title": {"text": y}, "anchor": f"x{suffix}"}
    return layout
