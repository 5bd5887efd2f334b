"""The figure of single queries: query, truth, and what each method found."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from displace.errors import ImageError
from displace.evaluation.studies import Qualitative
from displace.images import read_image
from displace.report.colours import RIGHT, WRONG
from displace.report.figures.panels import PAGE, SOFT


def draw_examples(study: Qualitative) -> Any:
    """Draw a column for each query; frames are solid and ✓ where right, dashed and ✗ where wrong."""
    from matplotlib.figure import Figure

    if not study.columns:
        return _nothing()
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
        panels[down][0].set_ylabel(label, fontsize=7.5)
    return figure


def _tile(axes: Any, image: str | None, text: str, right: bool | None = None) -> None:
    """One picture with its frame, or its name where the picture is not there."""
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
        place = {"transform": axes.transAxes, "ha": "left", "va": "top"}
        axes.text(0.02, 0.97, mark, color="white", fontsize=8, bbox=box, **place)


def _nothing() -> Any:
    """Return a figure that says why there is none."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PAGE, 1))
    figure.text(0.5, 0.5, "The methods are right and wrong on the same queries.", ha="center", color=SOFT)
    return figure
