"""`displace report`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from displace.errors import InputError
from displace.progress import Progress
from displace.verbs.base import Argument, Option, PathLike, check_own_output

if TYPE_CHECKING:
    from displace.report.html import Report

RESUMES = True


def report(
    results: Annotated[PathLike, Argument("RESULTS")],
    output: Annotated[PathLike, Option("-o")] = "report.html",
    *,
    studies: str = "",
    query: str | None = None,
    root: PathLike = ".",
    after_fusion: bool = False,
    numbers: Annotated[Sequence[int], Option("--number")] = (),
    cases: bool = False,
    rounds: int = 15,
    figures: PathLike | None = None,
    formats: Annotated[Sequence[str], Option(commas=True)] = ("pdf", "png"),
    title: str | None = None,
    megabytes: float = 15.0,
    progress: Progress | None = None,
) -> Report:
    """Write one HTML file: summary, tables, studies, every query with its pictures.

    The file needs nothing else, no network either. Studies are kept in the results folder: run again, only missing
    ones are computed.

    Parameters
    ----------
    results : path-like
        A folder made by `bench`, or by `evaluate` with an output.
    output : path-like
        HTML file; an existing one is replaced.
    studies : str
        Studies to run first: all, or some of compression, tau, qualitative, space, cost, separated by commas. Earlier
        studies are shown in any case.
    query : str, optional
        Query traversal of the studies; by default each data set's first.
    root : path-like
        Folder to which the recorded paths of the descriptor stores are relative; studies read them.
    after_fusion : bool
        Study compression: project after fusion, not before.
    numbers : sequence of int
        Numbers of queries, from 0: study space uses the first, study qualitative shows all of them.
    cases : bool
        Study qualitative: the four cases of the paper's figure, rather than queries by number.
    rounds : int
        Study cost: rounds in which the methods take turns; the paper uses 100.
    figures : path-like, optional
        Folder for the studies' figures, for printing.
    formats : sequence of {"pdf", "png", "svg"}
        Formats of the figures: pdf, png, svg.
    title : str, optional
        Heading; by default the names of the data sets.
    megabytes : float
        Size budget for the pictures; 0 for none.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    ::

        displace report results -o report.html
        displace report results --studies all --query night
        displace report results --studies tau,cost --rounds 100 --figures figures --formats pdf
        displace report results --studies qualitative,space --query dusk --cases --number 1746
        displace report results --megabytes 5 --title "Our campus, winter"
    """
    from displace.arrays import check_one_of
    from displace.evaluation.results import Results
    from displace.evaluation.studies.running import StudyOptions, run_studies
    from displace.evaluation.studies.study_files import KINDS
    from displace.files.atomic import make_folder
    from displace.report.figures import FORMATS, save_figures
    from displace.report.html import shown_studies, write_report

    if not 0 <= megabytes <= 1e6:
        raise InputError(f"megabytes={megabytes} must be at least 0 and at most 1,000,000")
    for ending in formats:
        check_one_of(ending, FORMATS, "formats")
    check_own_output(output, ("<title>displace report",), "report")
    if figures is not None:
        make_folder(figures)
    folder = Results.open(results)
    kinds = (
        tuple(KINDS) if studies == "all" else [name.strip() for name in studies.split(",") if name.strip()]
    )
    if kinds:
        options = StudyOptions(after_fusion, tuple(numbers), cases, rounds)
        run_studies(folder, kinds, query=query, root=root, options=options, progress=progress)
    shown = shown_studies(folder)
    if figures is not None:
        save_figures(shown, figures, formats, progress)
    return write_report(
        folder, output, title=title, picture_bytes=round(megabytes * 1e6), studies=shown, progress=progress
    )
