"""The verb that reports, as a function. Defaults live here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from displace.descriptors.extraction import Progress
from displace.errors import InputError
from displace.evaluation.results import Results
from displace.evaluation.studies import KINDS, load_studies, run_studies
from displace.report.figures import save_figures
from displace.report.html import Report, write_report

PathLike = str | os.PathLike[str]


def report(
    results: PathLike,
    output: PathLike = "report.html",
    *,
    studies: str = "",
    query: str | None = None,
    root: PathLike = ".",
    after_fusion: bool = False,
    figures: PathLike | None = None,
    formats: Sequence[str] = ("pdf", "png"),
    title: str | None = None,
    megabytes: float = 15.0,
    progress: Progress | None = None,
) -> Report:
    """Write one HTML file from a results folder: summary, tables, studies, every query, how to repeat it.

    Parameters
    ----------
    results : path-like
        A folder made by `bench` or `evaluate`.
    output : path-like
        The file; replaced where it exists.
    studies : str
        Studies to run first, names with commas between, or "all"; those that were run before are shown anyway.
    query : str, optional
        Query traversal of the studies; by default the first of each data set.
    root : path-like
        Folder that the recorded paths of the descriptor stores start from; studies read them.
    after_fusion : bool
        Whether the study `compression` projects what was fused, rather than the descriptors before any fusion.
    figures : path-like, optional
        Folder to write the studies' figures to, for print.
    formats : sequence of {"pdf", "png", "svg"}
        Of the figures.
    title : str, optional
        By default the names of the data sets.
    megabytes : float
        Budget of the pictures in the file.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    if not megabytes >= 0:
        raise InputError(f"megabytes={megabytes} must be at least 0")
    if not Path(output).resolve().parent.is_dir():
        raise InputError(f"output={str(output)!r}: there is no folder {Path(output).resolve().parent}")
    folder = Results.open(results)
    kinds = (
        tuple(KINDS) if studies == "all" else [name.strip() for name in studies.split(",") if name.strip()]
    )
    if kinds:
        run_studies(folder, kinds, query=query, root=root, after_fusion=after_fusion, progress=progress)
    if figures is not None:
        save_figures(load_studies(folder.folder), figures, formats, progress)
    return write_report(folder, output, title=title, picture_bytes=round(megabytes * 1e6), progress=progress)
