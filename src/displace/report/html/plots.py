"""Interactive plots as plotly's data and layout; the page draws them and adds the colours of its theme."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np

from displace.bootstrap import bootstrap, resampled_text
from displace.evaluation.record import Result
from displace.evaluation.studies.compression import Compression
from displace.evaluation.studies.cost import Cost
from displace.evaluation.studies.space import Space
from displace.evaluation.studies.study_files import Study, kind_of
from displace.evaluation.studies.tau import TauAblation
from displace.report.colours import Style, style_of, styles_of
from displace.report.figures import RECALL, TAU, tau_curves
from displace.report.html.blocks import Block

Plot = dict[str, Any]
SECOND: Plot = {"xaxis": "x2", "yaxis": "y2", "showlegend": False}
"""Puts a trace into the second panel; its legend entry is that of the first."""
SPREAD = 0.7
"""Width over which the methods of one query are spread."""
LOOKS = (("", 9), ("-dot", 9), ("", 6), ("-dot", 13))
"""Marks and sizes that distinguish the rows of one fusion with other settings, sequences or adaptation."""


def plot_overview(blocks: Sequence[Block]) -> Plot:
    """Recall@1 with its interval of every method on every query traversal of one model."""
    names = list(dict.fromkeys(name for block in blocks for name in map(_overview_name, block.results)))
    offsets = np.linspace(-SPREAD / 2, SPREAD / 2, len(names)) if len(names) > 1 else np.zeros(1)
    traces = [
        _overview_trace(name, float(offset), blocks) for name, offset in zip(names, offsets, strict=True)
    ]
    _tell_apart(traces)
    layout = _one_panel("query traversal", RECALL)
    layout["xaxis"] |= {
        "tickvals": list(range(len(blocks))),
        "ticktext": [_shown(block.first.query) for block in blocks],
        "ticklabeloverflow": "allow",  # plotly leaves out long names at the right end otherwise
        "range": [-0.55, len(blocks) - 0.45],
        "showgrid": False,
        "zeroline": False,
    }
    layout["shapes"] = [
        _upright(at - 0.5, {"width": 1, "color": "#8884"}, yref="paper") for at in range(1, len(blocks))
    ]
    return {"data": traces, "layout": layout}


def _tell_apart(traces: Sequence[Plot]) -> None:
    """Change the markers of traces of one fusion that would look alike."""
    seen: Counter[tuple[str, str]] = Counter()
    for marker in (trace["marker"] for trace in traces):
        look = marker["color"], marker["symbol"]
        mark, size = LOOKS[seen[look] % len(LOOKS)]
        seen[look] += 1
        marker |= {"symbol": marker["symbol"] + mark, "size": size}


def _overview_name(result: Result) -> str:
    """Single references make one entry together."""
    return "single references" if result.group == "single" else result.label


def _overview_trace(name: str, offset: float, blocks: Sequence[Block]) -> Plot:
    points = [
        (x, block, at)
        for x, block in enumerate(blocks)
        for at, result in enumerate(block.results)
        if _overview_name(result) == name
    ]
    estimates = [bootstrap(block.rankings[at].hits(), order=block.questions.order) for _, block, at in points]
    results = [block.results[at] for _, block, at in points]
    style = style_of(results[0].fusion, not results[0].parameters and not any(results[0].along))
    trace = _markers(name, style, size=9) | {
        "x": [round(x + offset, 4) for x, _, _ in points],
        "y": [estimate.value for estimate in estimates],
        "text": [_shown(f"{result.query}, {result.label}") for result in results],
        "customdata": [[e.low, e.high, resampled_text([e])] for e in estimates],
        "hovertemplate": "%{text}: <b>%{y:.1f} %</b> [%{customdata[0]:.1f}, %{customdata[1]:.1f}]"
        "<br>bootstrap of %{customdata[2]}<extra></extra>",
    }
    if results[0].group == "single":
        return trace  # side by side, their intervals would hide each other
    interval = _bars([e.value for e in estimates], [(e.low, e.high) for e in estimates])
    return trace | {"error_y": interval}


def plot_compression(study: Compression) -> Plot:
    """Recall@1 against dimension, with the standard deviation over the projections."""
    traces: list[Plot] = []
    styles = styles_of((curve.fusion, curve.plain) for curve in study.curves)
    ends = [study.dims[0] / 1.1, study.dims[-1] * 1.1]
    for curve, style in zip(study.curves, styles, strict=True):
        if curve.empty:
            continue
        line = _line_and_markers(curve.label, style) | {
            "x": study.dims,
            "y": curve.means,
            "error_y": {"type": "data", "array": curve.deviations, "thickness": 1.2, "width": 3},
            "hovertemplate": "%{x}-D: <b>%{y:.1f} %</b>",
        }
        full = _level(f"{curve.label}, {study.setting.dim}-D", curve.label, style) | {
            "x": ends,
            "y": [curve.full, curve.full],
            "hovertemplate": "not projected: <b>%{y:.1f} %</b>",
        }
        traces += [line, full] if curve.full is not None else [line]
    layout = _one_panel(f"dimension, randomly {study.where} (log)", RECALL)
    layout["xaxis"] |= {
        "type": "log",
        "range": [math.log10(end) for end in ends],
        "tickvals": study.dims,
        "ticktext": [str(dim) for dim in study.dims],
    }
    return {"data": traces, "layout": layout}


def plot_tau(study: TauAblation) -> Plot:
    """Recall@1 and kept dimensions against τ, side by side."""
    traces: list[Plot] = []
    for curve, label, style in tau_curves(study):
        if curve.plain:
            level = _level(f"{curve.query}, HOPS", label, style)
            ends = [study.taus[0], study.taus[-1]]
            traces.append(
                level | {"x": ends, "y": [curve.baseline] * 2, "hovertemplate": "<b>%{y:.1f} %</b>"}
            )
        if curve.error:
            continue
        line = _line_and_markers(label, style) | {"x": study.taus}
        hover = f"{curve.settings}<br>HOPS {curve.baseline:.1f} %"
        traces += [
            line | {"y": curve.recalls, "hovertemplate": "τ %{x:g}: <b>%{y:.1f} %</b><br>" + hover},
            line | SECOND | {"y": curve.dims, "hovertemplate": "τ %{x:g}: <b>%{y} dimensions</b>"},
        ]
    layout = _side_by_side(
        (TAU, RECALL),
        (TAU, f"dimensions, of {study.setting.dim}   ↓ better"),
    )
    layout["yaxis2"]["rangemode"] = "tozero"
    dotted = {"dash": "dot", "width": 1.2, "color": "#888"}
    layout["shapes"] = [
        _upright(study.default, dotted, xref=f"x{panel}", yref=f"y{panel} domain") for panel in ("", "2")
    ]
    return {"data": traces, "layout": layout}


def plot_cost(study: Cost) -> Plot:
    """Recall@1 against query time and against storage, side by side."""
    traces: list[Plot] = []
    styles = styles_of((row.fusion, row.plain) for row in study.rows)
    for row, style in zip(study.rows, styles, strict=True):
        interval = _bars([row.recall], [(row.recall_low, row.recall_high)])
        point = _markers(row.label, style, size=12) | {
            "y": [row.recall],
            "error_y": interval,
        }
        spent = _bars([row.milliseconds], [(row.milliseconds_low, row.milliseconds_high)])
        hover = f"<b>%{{y:.1f}} %</b> [{row.recall_low:.1f}, {row.recall_high:.1f}]"
        traces += [
            point | {"x": [row.milliseconds], "error_x": spent, "hovertemplate": "%{x:.3g} ms: " + hover},
            point | SECOND | {"x": [row.n_bytes / 2**20], "hovertemplate": "%{x:.2f} MiB: " + hover},
        ]
    layout = _side_by_side(
        ("time of one query (ms, log)   ← better", RECALL), ("stored (MiB, log)   ← better", "")
    )
    layout["xaxis"] |= _log_axis(
        [value for row in study.rows for value in (row.milliseconds_low, row.milliseconds_high)]
    )
    layout["xaxis2"] |= _log_axis([row.n_bytes / 2**20 for row in study.rows])
    layout["yaxis2"]["matches"] = "y"
    return {"data": traces, "layout": layout}


def plot_space(study: Space) -> Plot:
    """The references around one query in each space, side by side."""
    looks = {
        "other": ("other places", "#9aa3a7", "circle", 6),
        "truth": (study.right_text, "#0072b2", "square", 11),
        "confounder": (f"confounding place, {study.confounder}", "#e69f00", "triangle-up", 12),
        "query": (f"query {study.row}", "#c8420b", "star", 16),
    }
    traces: list[Plot] = []
    for view, suffix in zip(study.views, ("", "2", "3"), strict=False):
        for role, (name, colour, symbol, size) in looks.items():
            rows = [row for row, found in enumerate(study.roles) if found == role]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": _shown(name),
                    "legendgroup": role,
                    "showlegend": not suffix,
                    "x": [view.points[row][0] for row in rows],
                    "y": [view.points[row][1] for row in rows],
                    "text": [_shown(f"place {study.places[row]}, {study.traversals[row]}") for row in rows],
                    "hovertemplate": "%{text}",
                    "xaxis": f"x{suffix}",
                    "yaxis": f"y{suffix}",
                    "marker": {"color": colour, "symbol": symbol, "size": size},
                }
            )
    titles = [
        f"{view.title}, {view.dim}-D<br>"
        f"cosine: {study.right_name} {view.truth:.3f},<br>confounding {view.confounder:.3f}"
        for view in study.views
    ]
    layout = _side_by_side(*((title, "") for title in titles))
    for name in (name for name in layout if name[1:5] == "axis"):
        layout[name] |= {"showticklabels": False, "showgrid": False, "zeroline": False}
    return {"data": traces, "layout": layout}


_PLOTS: dict[str, Callable[[Any], Plot]] = {
    "compression": plot_compression,
    "tau": plot_tau,
    "space": plot_space,
    "cost": plot_cost,
}


def plot_study(study: Study) -> Plot | None:
    """Return the plot of a study; None for those that are pictures."""
    drawn = _PLOTS.get(kind_of(study))
    return None if drawn is None else drawn(study)


def _shown(text: str) -> str:
    """Text that plotly shows as it is: it reads names as HTML, and leaves out what it takes for tags."""
    return escape(text, quote=False)


def _markers(label: str, style: Style, size: int) -> Plot:
    """A trace of markers, not all filled for another setting of a method."""
    marker = {
        "color": style.colour,
        "symbol": style.filled_symbol,
        "size": size,
        "line": {"width": 1.5, "color": style.colour},
    }
    return {
        "type": "scatter",
        "mode": "markers",
        "name": _shown(label),
        "legendgroup": label,
        "marker": marker,
    }


def _line_and_markers(label: str, style: Style) -> Plot:
    """A trace of a curve with markers."""
    return _markers(label, style, size=8) | {
        "mode": "lines+markers",
        "line": {"color": style.colour, "dash": style.dash, "width": 2},
    }


def _level(name: str, of: str, style: Style) -> Plot:
    """A trace of a thin horizontal line, which is hidden with the curve that it belongs to."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _shown(name),
        "legendgroup": of,
        "showlegend": False,
        "line": {"color": style.colour, "dash": style.dash, "width": 1},
    }


def _bars(values: Sequence[float], intervals: Sequence[tuple[float, float]]) -> Plot:
    """Error bars from each value to the ends of its interval."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for value, (_, high) in zip(values, intervals, strict=True)],
        "arrayminus": [value - low for value, (low, _) in zip(values, intervals, strict=True)],
        "thickness": 1.2,
        "width": 2,
    }


def _log_axis(values: Sequence[float]) -> Plot:
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


def _one_panel(x: str, y: str) -> Plot:
    """Layout of one panel: what the axes are, the legend below."""
    return {
        "xaxis": {"title": {"text": x}},
        "yaxis": {"title": {"text": y}},
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0,
            "maxheight": 9999,
        },
        "margin": {"l": 60, "r": 12, "t": 16, "b": 48},
        "hoverlabel": {"namelength": -1},
    }


def _upright(x: float, line: Plot, **axes: str) -> Plot:
    """A vertical line through a panel; `axes` are its axis references."""
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": line, **axes}


def _side_by_side(*panels: tuple[str, str]) -> Plot:
    """Layout of panels with the names of their axes; narrow pages stack them."""
    layout = _one_panel(*panels[0])
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
