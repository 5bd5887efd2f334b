"""Interactive plots as plotly's records of data and layout; the page draws them, and adds what its theme decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from displace.bootstrap import bootstrap, resampled_text
from displace.evaluation.results import Result
from displace.evaluation.studies import Compression, Cost, Space, Study, TauAblation, kind_of
from displace.report.colours import other_setting, style_of
from displace.report.figures.curves import condition_styles
from displace.report.figures.panels import RECALL
from displace.report.html.blocks import Block
from displace.report.html.plot_parts import (
    SECOND,
    Plot,
    bars,
    line_and_markers,
    log_axis,
    markers,
    one_panel,
    side_by_side,
    upright,
)

SPREAD = 0.7
"""Width over which the methods of one query stand side by side."""
LOOKS = (("", 9), ("-dot", 9), ("", 6), ("-dot", 13))
"""What tells rows of one fusion apart that have other settings or take the queries otherwise: marks and sizes."""


def plot_overview(blocks: Sequence[Block]) -> Plot:
    """Recall@1 with its interval of every method on every query traversal of one model."""
    names = list(dict.fromkeys(name for block in blocks for name in map(_overview_name, block.results)))
    offsets = np.linspace(-SPREAD / 2, SPREAD / 2, len(names)) if len(names) > 1 else np.zeros(1)
    traces = [
        _overview_trace(name, float(offset), blocks) for name, offset in zip(names, offsets, strict=True)
    ]
    _tell_apart(traces)
    layout = one_panel("query traversal", RECALL)
    layout["xaxis"] |= {
        "tickvals": list(range(len(blocks))),
        "ticktext": [block.first.query for block in blocks],
        "range": [-0.55, len(blocks) - 0.45],
        "showgrid": False,
        "zeroline": False,
    }
    layout["shapes"] = [
        upright(at - 0.5, {"width": 1, "color": "#8884"}, yref="paper") for at in range(1, len(blocks))
    ]
    return {"data": traces, "layout": layout}


def _tell_apart(traces: Sequence[Plot]) -> None:
    """Mark the markers of traces that would look alike: open ones of one fusion."""
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
    trace = markers(name, style, size=9) | {
        "x": [round(x + offset, 4) for x, _, _ in points],
        "y": [estimate.value for estimate in estimates],
        "text": [f"{result.query}, {result.label}" for result in results],
        "customdata": [[e.low, e.high, resampled_text([e])] for e in estimates],
        "hovertemplate": "%{text}: <b>%{y:.1f} %</b> [%{customdata[0]:.1f}, %{customdata[1]:.1f}]"
        "<br>bootstrap of %{customdata[2]}<extra></extra>",
    }
    if results[0].group == "single":
        return trace  # side by side, their intervals would hide each other
    interval = bars([e.value for e in estimates], [(e.low, e.high) for e in estimates])
    return trace | {"error_y": interval}


def plot_compression(study: Compression) -> Plot:
    """Recall@1 against dimension, with the standard deviation over the projections."""
    traces: list[Plot] = []
    for curve in study.curves:
        style = style_of(curve.fusion, curve.plain)
        line = line_and_markers(curve.label, style) | {
            "x": study.dims,
            "y": curve.means,
            "error_y": {"type": "data", "array": curve.deviations, "thickness": 1.2, "width": 3},
            "hovertemplate": "%{x}-D: <b>%{y:.1f} %</b>",
        }
        full = {
            "type": "scatter",
            "mode": "lines",
            "name": f"{curve.label}, {study.setting.dim}-D",
            "legendgroup": curve.label,
            "showlegend": False,
            "x": [study.dims[0], study.dims[-1]],
            "y": [curve.full, curve.full],
            "line": {"color": style.colour, "dash": style.dash, "width": 1},
            "hovertemplate": "not projected: <b>%{y:.1f} %</b>",
        }
        traces += [line, full] if curve.full is not None else [line]
    layout = one_panel(f"dimension, randomly {study.where} (log)", RECALL)
    layout["xaxis"] |= {"type": "log", "tickvals": study.dims, "ticktext": [str(dim) for dim in study.dims]}
    return {"data": traces, "layout": layout}


def plot_tau(study: TauAblation) -> Plot:
    """Recall@1 and kept dimensions against τ, side by side."""
    traces: list[Plot] = []
    styles = condition_styles(study)
    for curve in (curve for curve in study.curves if not curve.error):
        style = styles[curve.query] if curve.plain else other_setting(styles[curve.query])
        label = curve.query if curve.plain else f"{curve.query}, paper's setting"
        line = line_and_markers(label, style) | {"x": study.taus}
        hover = f"{curve.settings}<br>HOPS {curve.baseline:.1f} %"
        traces += [
            line | {"y": curve.recalls, "hovertemplate": "τ %{x:g}: <b>%{y:.1f} %</b><br>" + hover},
            line | SECOND | {"y": curve.dims, "hovertemplate": "τ %{x:g}: <b>%{y} dimensions</b>"},
        ]
    layout = side_by_side(
        ("τ, share of the eigenvalues that is kept", RECALL),
        ("τ, share of the eigenvalues that is kept", f"dimensions, of {study.setting.dim}   ↓ better"),
    )
    layout["yaxis2"]["rangemode"] = "tozero"
    dotted = {"dash": "dot", "width": 1.2, "color": "#888"}
    layout["shapes"] = [
        upright(study.default, dotted, xref=f"x{panel}", yref=f"y{panel} domain") for panel in ("", "2")
    ]
    return {"data": traces, "layout": layout}


def plot_cost(study: Cost) -> Plot:
    """Recall@1 against query time and against storage, side by side."""
    traces: list[Plot] = []
    for row in study.rows:
        interval = bars([row.recall], [(row.recall_low, row.recall_high)])
        point = markers(row.label, style_of(row.fusion, row.plain), size=12) | {
            "y": [row.recall],
            "error_y": interval,
        }
        spent = bars([row.milliseconds], [(row.milliseconds_low, row.milliseconds_high)])
        hover = f"<b>%{{y:.1f}} %</b> [{row.recall_low:.1f}, {row.recall_high:.1f}]"
        traces += [
            point | {"x": [row.milliseconds], "error_x": spent, "hovertemplate": "%{x:.3g} ms: " + hover},
            point | SECOND | {"x": [row.n_bytes / 2**20], "hovertemplate": "%{x:.2f} MiB: " + hover},
        ]
    layout = side_by_side(
        ("time of one query (ms, log)   ← better", RECALL), ("stored (MiB, log)   ← better", "")
    )
    layout["xaxis"] |= log_axis(
        [value for row in study.rows for value in (row.milliseconds_low, row.milliseconds_high)]
    )
    layout["xaxis2"] |= log_axis([row.n_bytes / 2**20 for row in study.rows])
    layout["yaxis2"]["matches"] = "y"
    return {"data": traces, "layout": layout}


def plot_space(study: Space) -> Plot:
    """The references around one query in each space, side by side."""
    looks = {
        "other": ("other places", "#9aa3a7", "circle", 6),
        "truth": (f"its place, {study.truth}", "#0072b2", "square", 11),
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
                    "name": name,
                    "legendgroup": role,
                    "showlegend": not suffix,
                    "x": [view.points[row][0] for row in rows],
                    "y": [view.points[row][1] for row in rows],
                    "text": [f"place {study.places[row]}, {study.traversals[row]}" for row in rows],
                    "hovertemplate": "%{text}",
                    "xaxis": f"x{suffix}",
                    "yaxis": f"y{suffix}",
                    "marker": {"color": colour, "symbol": symbol, "size": size},
                }
            )
    titles = [
        f"{view.title}, {view.dim}-D<br>cosine: its place {view.truth:.3f},<br>confounding {view.confounder:.3f}"
        for view in study.views
    ]
    layout = side_by_side(*((title, "") for title in titles))
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
