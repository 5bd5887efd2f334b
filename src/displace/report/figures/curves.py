"""Figures with axes: compression, τ, cost, descriptor space."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from displace.evaluation.studies import Compression, Cost, Space, TauAblation
from displace.report.colours import CONDITIONS, Style, other_setting, style_of
from displace.report.figures.panels import (
    COLUMN,
    INK,
    PAGE,
    RECALL,
    SOFT,
    legend_below,
    line_format,
    marker_format,
    new_figure,
    plain_log,
)

ROLE_STYLES = {
    "other": {"color": "#b9bfc2", "marker": "o", "s": 9, "zorder": 1},
    "truth": {"color": "#0072b2", "marker": "s", "s": 34, "zorder": 3},
    "confounder": {"color": "#e69f00", "marker": "^", "s": 40, "zorder": 3},
    "query": {"color": "#c8420b", "marker": "*", "s": 130, "zorder": 4},
}


def draw_compression(study: Compression) -> Any:
    """Draw Recall@1 against dimension: mean and standard deviation; thin lines at the full dimension."""
    figure, (axes,) = new_figure(COLUMN, 2.9)
    for curve in study.curves:
        style = style_of(curve.fusion, curve.plain)
        means = np.array(curve.means, np.float64)
        spread = np.array(curve.deviations, np.float64)
        axes.fill_between(
            study.dims, means - spread, means + spread, color=style.colour, alpha=0.18, linewidth=0
        )
        axes.plot(study.dims, means, label=curve.label, **line_format(style))
        if curve.full is not None:
            axes.axhline(curve.full, color=style.colour, linestyle=style.linestyle, linewidth=0.7, alpha=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xticks(study.dims, [str(dim) for dim in study.dims])
    axes.minorticks_off()
    axes.set_xlabel(f"dimension, randomly {study.where}   ← smaller")
    axes.set_ylabel(RECALL)
    how = f"band: ± 1 sd of {len(study.seeds)} projections; thin lines: not projected, {study.setting.dim}-D"
    axes.set_title("\n".join([how, *_gaps(study)]), color=SOFT, fontsize=6.5)
    legend_below(figure, axes, 3)
    return figure


def _gaps(study: Compression) -> list[str]:
    """Say at which dimensions a method could not be fitted."""
    return [
        f"{curve.label}: not possible at {', '.join(str(dim) for dim in missing)}"
        for curve in study.curves
        if (missing := [dim for dim, mean in zip(study.dims, curve.means, strict=True) if mean is None])
    ]


def draw_tau(study: TauAblation) -> Any:
    """Draw Recall@1 and the kept dimensions against τ, for each query condition our setting and the paper's."""
    figure, (left, right) = new_figure(PAGE, 2.9, columns=2)
    styles = condition_styles(study)
    for curve in study.curves:
        style = styles[curve.query] if curve.plain else other_setting(styles[curve.query])
        if curve.plain:
            left.axhline(
                curve.baseline, color=style.colour, linestyle=style.linestyle, linewidth=0.5, alpha=0.6
            )
        if curve.error:
            continue
        label = curve.query if curve.plain else f"{curve.query}, paper's setting"
        left.plot(study.taus, curve.recalls, label=label, **line_format(style))
        right.plot(study.taus, curve.dims, label=label, **line_format(style))
    for axes, height in ((left, 0.02), (right, 0.93)):  # where no curve is
        axes.axvline(study.default, color=SOFT, linewidth=0.8, linestyle=":")
        axes.set_xlabel("τ, share of the eigenvalues that is kept")
        axes.annotate(
            f"default {study.default:g}",
            (study.default, height),
            xycoords=("data", "axes fraction"),
            xytext=(-3, 0),
            textcoords="offset points",
            ha="right",
            color=SOFT,
            fontsize=6.5,
        )
    left.set_title("thin lines: HOPS, no projection", color=SOFT, fontsize=6.5)
    right.set_title(_paper_setting(study), color=SOFT, fontsize=6.5)
    left.set_ylabel(RECALL)
    right.set_ylabel(f"dimensions n(τ), of {study.setting.dim}   ↓ better")
    right.set_ylim(bottom=0)
    legend_below(figure, left, 5)
    return figure


def condition_styles(study: TauAblation) -> dict[str, Style]:
    """Return the style of each query condition."""
    return dict(zip(dict.fromkeys(curve.query for curve in study.curves), cycle(CONDITIONS), strict=False))


def _paper_setting(study: TauAblation) -> str:
    """Say which curves are of the paper's setting, or that it is not possible."""
    impossible = [curve.query for curve in study.curves if curve.error]
    if impossible and not any(curve.recalls for curve in study.curves if not curve.plain):
        return "paper's setting: not possible, the scatter is singular"
    drawn = "open markers: paper's setting, no ridge, not centred"
    return f"{drawn}; singular on {', '.join(impossible)}" if impossible else drawn


def draw_cost(study: Cost) -> Any:
    """Draw Recall@1 against query time and against storage, with intervals and quartiles."""
    figure, (left, right) = new_figure(PAGE, 3.1, columns=2)
    for row in study.rows:
        look = marker_format(style_of(row.fusion, row.plain))
        up = [[row.recall - row.recall_low], [row.recall_high - row.recall]]
        across = [[row.milliseconds - row.milliseconds_low], [row.milliseconds_high - row.milliseconds]]
        common = {"linestyle": "none", "elinewidth": 0.7, "markersize": 6, "label": row.label, **look}
        left.errorbar([row.milliseconds], [row.recall], yerr=up, xerr=across, **common)
        right.errorbar([row.n_bytes / 2**20], [row.recall], yerr=up, **common)
    left.set_xlabel("time of one query (ms, log)   ← better")
    right.set_xlabel("stored (MiB of float32, log)   ← better")
    for axes in (left, right):
        plain_log(axes)
        axes.set_ylabel(RECALL)
    left.set_title(
        f"median and quartiles of {study.repeats} interleaved rounds, one thread", color=SOFT, fontsize=6.5
    )
    if study.device:
        left.annotate(
            study.device, (0.98, 0.02), xycoords="axes fraction", ha="right", color=SOFT, fontsize=5.5
        )
    right.set_title(f"bars: 95 % bootstrap of {study.resampled}", color=SOFT, fontsize=6.5)
    legend_below(figure, left, 5)
    return figure


def draw_space(study: Space) -> Any:
    """Draw the references around one query before and after the projection."""
    figure, panels = new_figure(PAGE, 2.8 if len(study.views) > 2 else 3.4, columns=len(study.views))
    roles = np.array(study.roles)
    names = {
        "query": f"query {study.row} ({study.setting.query})",
        "truth": f"its place, {study.truth}",
        "confounder": f"confounding place, {study.confounder}",
        "other": "other places",
    }
    for axes, view in zip(panels, study.views, strict=True):
        points = np.array(view.points)
        for role, label in names.items():
            at = points[roles == role]
            axes.scatter(at[:, 0], at[:, 1], label=label, linewidth=0, **ROLE_STYLES[role])
        axes.set_xticks([])
        axes.set_yticks([])
        axes.grid(False)
        nearer = "its place" if view.truth > view.confounder else "the confounding place"
        axes.set_title(f"{view.title}, {view.dim}-D\nnearer is {nearer}", color=INK)
        axes.set_xlabel(
            f"cosine with its place {view.truth:.3f},\nwith the confounding one {view.confounder:.3f}"
        )
    legend_below(figure, panels[0], 4)
    return figure
