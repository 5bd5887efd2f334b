"""Draw any study, and write figures to files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from displace.errors import InputError
from displace.evaluation.studies import Study, kind_of, study_path, topic_of
from displace.files.atomic import make_folder, replacing
from displace.progress import Progress, counted, part
from displace.report.figures.curves import draw_compression, draw_cost, draw_space, draw_tau
from displace.report.figures.panels import SOFT, print_style
from displace.report.figures.picture_grid import draw_examples

FORMATS = ("pdf", "png", "svg")
_DRAWN: dict[str, Callable[[Any], Any]] = {
    "compression": draw_compression,
    "tau": draw_tau,
    "qualitative": draw_examples,
    "space": draw_space,
    "cost": draw_cost,
}

_POWER = re.compile(r"\$\\mathdefault\{([-−\d.^{}]|\\times)*\}\$")
"""A number beside an axis, as matplotlib writes it."""


def draw(study: Study) -> Any:
    """Return the matplotlib figure of a study, with its setting as the title."""
    with print_style():
        figure = _DRAWN[kind_of(study)](study)
        figure.suptitle(str(study.setting), fontsize=5.5, color=SOFT, wrap=True)
        _show_dollars(figure)
    return figure


def _show_dollars(figure: Any) -> None:
    """Escape dollar signs in names, which matplotlib would read as formulas; its own formulas stay."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if "$" in text.get_text() and not _POWER.fullmatch(text.get_text()):
            text.set_text(text.get_text().replace("$", r"\$"))


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
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
    folder: str | os.PathLike[str],
    formats: Sequence[str] = ("pdf", "png"),
    progress: Progress | None = None,
) -> list[Path]:
    """Draw studies and write each in all formats; return the files.

    Parameters
    ----------
    studies : sequence of Study
    folder : path-like
        Created where absent.
    formats : sequence of {"pdf", "png", "svg"}
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    written = []
    for study in counted(studies, part(progress, "figures")):
        name = study_path("", *topic_of(study)).stem
        figure = draw(study)
        for ending in formats:
            path = Path(folder) / f"{name}.{ending}"
            save_figure(figure, path)
            written.append(path)
    return written
