"""Figures of the studies for print, as matplotlib figures and files: they only draw what the studies computed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from displace.errors import ImageError, InputError
from displace.evaluation.studies.compression import Compression
from displace.evaluation.studies.cost import Cost
from displace.evaluation.studies.qualitative import Qualitative
from displace.evaluation.studies.space import Space
from displace.evaluation.studies.study_files import Study, about, kind_of, study_path, topic_of
from displace.evaluation.studies.tau import TauAblation, TauCurve
from displace.files.atomic import make_folder, replacing
from displace.files.reading import PathLike
from displace.images import read_image
from displace.progress import Progress, counted, part
from displace.report.colours import CONDITIONS, RIGHT, WRONG, Style, other_setting, styles_of

FORMATS = ("pdf", "png", "svg")
COLUMN, PAGE = 3.5, 7.2
"""Width in inches of one column, and of a page of two."""
INK, SOFT, LINE = "#1d2326", "#5d676c", "#dfddd5"
RECALL, TAU = "Recall@1 (%)   ↑ better", "τ, share of the eigenvalues that is kept"

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
ROLE_STYLES = {
    "other": {"color": "#b9bfc2", "marker": "o", "s": 9, "zorder": 1},
    "truth": {"color": "#0072b2", "marker": "s", "s": 34, "zorder": 3},
    "confounder": {"color": "#e69f00", "marker": "^", "s": 40, "zorder": 3},
    "query": {"color": "#c8420b", "marker": "*", "s": 130, "zorder": 4},
}
_POWER = re.compile(r"\$\\mathdefault\{([-−\d.^{}]|\\times)*\}\$")
"""A number beside an axis, as matplotlib writes it."""


def draw(study: Study) -> Any:
    """Return the matplotlib figure of a study, with its setting as the title."""
    with print_style():
        figure = _DRAWN[kind_of(study)](study)
        figure.suptitle(about(study), fontsize=5.5, color=SOFT, wrap=True)
        _show_dollars(figure)
    return figure


def _show_dollars(figure: Any) -> None:
    """Escape dollar signs in names, which matplotlib would read as formulas; its own formulas stay."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if "$" in text.get_text() and not _POWER.fullmatch(text.get_text()):
            text.set_text(text.get_text().replace("$", r"\$"))


def save_figure(figure: Any, path: PathLike) -> None:
    """Write a figure as PDF, PNG or SVG, by the file's ending; equal figures give equal files."""
    path = Path(path)
    ending = path.suffix.lower().lstrip(".")
    if ending not in FORMATS:
        raise InputError(f"path={str(path)!r} must end in one of {', '.join('.' + f for f in FORMATS)}")
    dated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    make_folder(path.parent)
    with print_style(), replacing(path) as temporary:
        figure.savefig(temporary, format=ending, metadata=dated.get(ending))


def save_figures(
    studies: Sequence[Study],
    folder: PathLike,
    formats: Sequence[str] = ("pdf", "png"),
    progress: Progress | None = None,
) -> list[Path]:
    """Draw studies and write each in all formats ("pdf", "png", "svg") into a folder; return the files."""
    written = []
    for study in counted(studies, part(progress, "figures")):
        name = study_path("", *topic_of(study)).stem
        figure = draw(study)
        for ending in formats:
            path = Path(folder) / f"{name}.{ending}"
            save_figure(figure, path)
            written.append(path)
    return written


@contextmanager
def print_style() -> Iterator[None]:
    """Use the style of these figures inside the block, and leave the user's alone."""
    from matplotlib import rc_context

    with rc_context(_PRINT):
        yield


def _draw_compression(study: Compression) -> Any:
    """Draw Recall@1 against dimension: mean and standard deviation; thin lines at the full dimension."""
    how = f"band: ± 1 sd of {len(study.seeds)} projections; thin lines: not projected, {study.setting.dim}-D"
    alike = [line for note in same_curves(study) for line in wrap(note, 62)]
    told = [how, *_gaps(study), *alike]
    styles = styles_of((curve.fusion, curve.plain) for curve in study.curves)
    drawn = [pair for pair in zip(study.curves, styles, strict=True) if not pair[0].empty]
    figure, (axes,) = _new_figure(COLUMN, 2.4 + 0.11 * len(told) + 0.15 * -(-len(drawn) // 3))
    for curve, style in drawn:
        means = np.array(curve.means, np.float64)
        spread = np.array(curve.deviations, np.float64)
        axes.fill_between(
            study.dims, means - spread, means + spread, color=style.colour, alpha=0.18, linewidth=0
        )
        axes.plot(study.dims, means, label=curve.label, **_line_format(style))
        if curve.full is not None:
            axes.axhline(curve.full, color=style.colour, linestyle=style.linestyle, linewidth=0.7, alpha=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xticks(study.dims, [str(dim) for dim in study.dims])
    axes.minorticks_off()
    axes.set_xlabel(f"dimension, randomly {study.where}   ← smaller")
    axes.set_ylabel(RECALL)
    axes.set_title("\n".join(told), color=SOFT, fontsize=6.5)
    _legend_below(figure, axes, 3)
    return figure


def _gaps(study: Compression) -> list[str]:
    """Lines that note at which dimensions methods could not be fitted, those of the same ones together."""
    labels: dict[str, list[str]] = {}
    for curve in study.curves:
        missing = [str(dim) for dim, mean in zip(study.dims, curve.means, strict=True) if mean is None]
        if missing:
            where = "" if curve.empty else f" at {', '.join(missing)}"
            labels.setdefault(where, []).append(curve.label)
    notes = [f"{'; '.join(names)}: not possible{where}" for where, names in labels.items()]
    return [line for note in notes for line in wrap(note, 62)]


def same_curves(study: Compression) -> list[str]:
    """Notes that name methods with the same numbers everywhere, of which only the curve drawn last can be seen."""
    labels: dict[tuple[Any, ...], list[str]] = {}
    for curve in study.curves:
        if not curve.empty:
            labels.setdefault((*curve.means, curve.full), []).append(curve.label)
    return [f"the same curve: {'; '.join(names)}" for names in labels.values() if len(names) > 1]


def _draw_tau(study: TauAblation) -> Any:
    """Draw Recall@1 and the kept dimensions against τ, for each query condition our setting and the paper's."""
    figure, (left, right) = _new_figure(PAGE, 2.75 + 0.15 * -(-len(study.curves) // 5), columns=2)
    for curve, label, style in tau_curves(study):
        if curve.plain:
            left.axhline(
                curve.baseline, color=style.colour, linestyle=style.linestyle, linewidth=0.5, alpha=0.6
            )
        if curve.error:
            continue
        left.plot(study.taus, curve.recalls, label=label, **_line_format(style))
        right.plot(study.taus, curve.dims, label=label, **_line_format(style))
    for axes, height in ((left, 0.02), (right, 0.93)):  # where no curve is
        axes.axvline(study.default, color=SOFT, linewidth=0.8, linestyle=":")
        axes.set_xlabel(TAU)
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
    _caption(left, "thin lines: HOPS, no projection")
    _caption(right, _paper_setting(study))
    left.set_ylabel(RECALL)
    right.set_ylabel(f"dimensions n(τ), of {study.setting.dim}   ↓ better")
    right.set_ylim(bottom=0)
    _legend_below(figure, left, 5)
    return figure


def tau_curves(study: TauAblation) -> list[tuple[TauCurve, str, Style]]:
    """Return each curve with its name and style, those of a query condition in one colour."""
    queries = dict.fromkeys(curve.query for curve in study.curves)
    styles = dict(zip(queries, cycle(CONDITIONS), strict=False))
    return [
        (curve, curve.query, styles[curve.query])
        if curve.plain
        else (curve, f"{curve.query}, paper's setting", other_setting(styles[curve.query]))
        for curve in study.curves
    ]


def _paper_setting(study: TauAblation) -> str:
    """Note which curves are of the paper's setting, or that it is not possible."""
    impossible = [curve.query for curve in study.curves if curve.error]
    if impossible and not any(curve.recalls for curve in study.curves if not curve.plain):
        return "paper's setting: not possible, the scatter is singular"
    drawn = "open markers: paper's setting, no ridge, not centred"
    return f"{drawn}; singular on {', '.join(impossible)}" if impossible else drawn


def _draw_cost(study: Cost) -> Any:
    """Draw Recall@1 against query time and against storage, with intervals and quartiles."""
    figure, (left, right) = _new_figure(PAGE, 3.1, columns=2)
    styles = styles_of((row.fusion, row.plain) for row in study.rows)
    for row, look in zip(study.rows, map(_marker_format, styles), strict=True):
        up = [[row.recall - row.recall_low], [row.recall_high - row.recall]]
        across = [[row.milliseconds - row.milliseconds_low], [row.milliseconds_high - row.milliseconds]]
        common = {"linestyle": "none", "elinewidth": 0.7, "markersize": 6, "label": row.label, **look}
        left.errorbar([row.milliseconds], [row.recall], yerr=up, xerr=across, **common)
        right.errorbar([row.n_bytes / 2**20], [row.recall], yerr=up, **common)
    left.set_xlabel("time of one query (ms, log)   ← better")
    right.set_xlabel("stored (MiB of float32, log)   ← better")
    for axes in (left, right):
        _plain_log(axes)
        axes.set_ylabel(RECALL)
    _caption(left, f"median and quartiles of {study.repeats} interleaved rounds, one thread")
    if study.device:
        left.annotate(
            study.device, (0.98, 0.02), xycoords="axes fraction", ha="right", color=SOFT, fontsize=5.5
        )
    _caption(right, f"bars: 95 % bootstrap of {study.resampled}")
    _legend_below(figure, left, 5)
    return figure


def _draw_space(study: Space) -> Any:
    """Draw the references around one query before and after the projection."""
    figure, panels = _new_figure(PAGE, 2.8 if len(study.views) > 2 else 3.4, columns=len(study.views))
    roles = np.array(study.roles)
    names = {
        "query": f"query {study.row} ({study.setting.query})",
        "truth": study.right_text,
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
        nearer = study.right_name if view.truth > view.confounder else "the confounding place"
        axes.set_title(f"{view.title}, {view.dim}-D\nnearer is {nearer}", color=INK)
        axes.set_xlabel(
            f"cosine with {study.right_name} {view.truth:.3f},\nwith the confounding one {view.confounder:.3f}"
        )
    _legend_below(figure, panels[0], 4)
    return figure


def _draw_examples(study: Qualitative) -> Any:
    """Draw a column for each query; frames are solid and ✓ where right, dashed and ✗ where wrong."""
    from matplotlib.figure import Figure

    if not study.columns:
        figure = Figure(figsize=(PAGE, 1))
        text = "The methods are right and wrong on the same queries."
        figure.text(0.5, 0.5, text, ha="center", color=SOFT)
        return figure
    labels = ["Query", "Truth", *(pick.label for pick in study.columns[0].picks)]
    width = min(PAGE, 1.7 * len(study.columns) + 0.6)
    tile = (width - 0.6) / len(study.columns)
    figure = Figure(figsize=(width, tile * 0.8 * len(labels)), layout="constrained")
    panels = figure.subplots(len(labels), len(study.columns), squeeze=False)
    for across, column in enumerate(study.columns):
        case = "\n".join(wrap(column.case, 26)) + "\n" if column.case else ""
        _tile(panels[0][across], column.query_image, f"{case}query {column.row}")
        _tile(panels[1][across], column.truth_image, f"place {column.truth_place or '–'}")
        for down, pick in enumerate(column.picks, 2):
            _tile(panels[down][across], pick.image, f"place {pick.place}", pick.right)
    for down, label in enumerate(labels):
        # Letters of 7.5 points are about 5 wide: as many as there is room for beside one row of pictures.
        panels[down][0].set_ylabel("\n".join(wrap(label, max(1, int(tile * 0.8 * 72 / 5)))), fontsize=7.5)
    return figure


def _tile(axes: Any, image: str | None, text: str, right: bool | None = None) -> None:
    """One picture with its frame, or its name if there is no picture."""
    axes.grid(False)
    axes.set_xticks([])
    axes.set_yticks([])
    try:
        if image is None:
            raise ImageError("no picture")
        axes.imshow(read_image(image))
    except ImageError:
        axes.set_facecolor("#f1efe8")
        axes.set_box_aspect(0.75)
        axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color=SOFT)
    axes.set_title(text, fontsize=6, pad=2, color=SOFT)
    colour = SOFT if right is None else RIGHT if right else WRONG
    for spine in axes.spines.values():
        spine.set(visible=True, color=colour, linewidth=0.6 if right is None else 2.4)
        spine.set_linestyle("--" if right is False else "-")
    if right is not None:
        box = {"boxstyle": "square,pad=0.2", "facecolor": colour, "edgecolor": "none"}
        mark = "✓" if right else "✗"
        corner = {"transform": axes.transAxes, "ha": "left", "va": "top"}
        axes.text(0.02, 0.97, mark, color="white", fontsize=8, bbox=box, **corner)


def _new_figure(width: float, height: float, columns: int = 1) -> tuple[Any, Sequence[Any]]:
    """Return a figure, apart from any window, and its axes side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def _caption(axes: Any, text: str) -> None:
    """Put a quiet note above a panel."""
    axes.set_title(text, color=SOFT, fontsize=6.5)


def _line_format(style: Style) -> dict[str, Any]:
    """Colour, dash and marker of a curve."""
    return {"linestyle": style.linestyle, **_marker_format(style)}


def _marker_format(style: Style) -> dict[str, Any]:
    """Colour and marker; one that is not all filled for another setting of a method, white where it is not."""
    empty = style.fill == "none"
    return {
        "color": style.colour,
        "marker": style.marker,
        "fillstyle": "full" if empty else style.fill,
        "markerfacecolor": "white" if empty else style.colour,
        "markerfacecoloralt": "white",
        "markeredgecolor": style.colour,
    }


def _legend_below(figure: Any, axes: Any, columns: int) -> None:
    """Put the legend under the panels, where it covers nothing: in fewer columns, and more rows, if names are long."""
    entries = axes.get_legend_handles_labels()
    n_entries = len(entries[0])
    for fewer in range(columns, 0, -1):
        even = -(-n_entries // -(-n_entries // fewer))  # as many rows, all about as long
        legend = figure.legend(*entries, loc="outside lower center", ncols=even, handlelength=2.6)
        if fewer == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()
    more_rows = -(-n_entries // fewer) - -(-n_entries // columns)
    figure.set_figheight(figure.get_figheight() + 0.15 * more_rows)


def _plain_log(axes: Any) -> None:
    """Make the horizontal axis logarithmic, with plain numbers at 1, 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.25, high * 1.25)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


_DRAWN: dict[str, Callable[[Any], Any]] = {
    "compression": _draw_compression,
    "tau": _draw_tau,
    "qualitative": _draw_examples,
    "space": _draw_space,
    "cost": _draw_cost,
}
