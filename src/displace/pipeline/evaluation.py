"""The verbs that evaluate, as functions. Defaults live here and nowhere else."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from displace.datasets.base import Protocol
from displace.descriptors.extraction import Progress
from displace.descriptors.store import DescriptorStore
from displace.errors import InputError
from displace.evaluation.benchmark import Outcome, run_suite
from displace.evaluation.methods import methods_named
from displace.evaluation.results import Result, Results
from displace.evaluation.suites import Suite, find_protocol, parse_tolerance
from displace.evaluation.tables import Table, build_tables
from displace.evaluation.wins import Wins, all_wins
from displace.threads import limit_threads

PathLike = str | os.PathLike[str]


def evaluate(
    store: PathLike,
    *,
    queries: Sequence[str] | None = None,
    fusion: str = "all",
    tolerance: str | None = None,
    protocol: str | None = None,
    output: PathLike | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Compare fusions on one's own data: a traversal is located in a map of all the others.

    Parameters
    ----------
    store : path-like
        A folder made by `extract`.
    queries : sequence of str, optional
        Traversals to be located, each against all others; by default every one in turn.
    fusion : str
        Names with commas between, or "all".
    tolerance : str, optional
        What counts as correct: "exact" (default), "5 frames" or "25m".
    protocol : str, optional
        A known data set's protocol instead, such as "robotcar-5".
    output : path-like, optional
        Results folder to keep rankings in, for `tables` and reports.
    threads : int, optional
        Cores to use; all by default. Times are comparable only between equal numbers; 1 is steadiest.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    described = DescriptorStore(store)
    dataset, rule = _rule(Path(store), tolerance, protocol)
    suite = Suite(
        dataset,
        Path(store).name,
        dataset,
        rule,
        tuple(methods_named("all" if fusion == "all" else [name.strip() for name in fusion.split(",")])),
        {str(described.model.get("model", "descriptors")): Path(store)},
        tuple(queries or ()),
    )
    folder: AbstractContextManager[PathLike] = (
        tempfile.TemporaryDirectory(prefix="displace-") if output is None else nullcontext(output)
    )
    with folder as results, limit_threads(threads):
        return run_suite(suite, results, progress).cells


def bench(
    suite: PathLike,
    output: PathLike = "results",
    *,
    stores: Mapping[str, PathLike] | None = None,
    root: PathLike | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Compute the cells of a suite that a results folder does not have.

    Parameters
    ----------
    suite : path-like
        A TOML file, or the name of a suite that comes with the package (`displace.evaluation.suites`).
    output : path-like
        The results folder.
    stores : mapping of model to path, optional
        Where descriptor stores are, instead of or beside those of the suite.
    root : path-like, optional
        Folder that the suite's own paths are relative to.
    threads : int, optional
        Cores to use; all by default.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    with limit_threads(threads):
        return run_suite(Suite.read(suite, root).with_stores(stores or {}), output, progress)


@dataclass(frozen=True)
class Tabulated:
    """A table, and who wins in it."""

    table: Table
    wins: list[Wins]


def tables(results: PathLike, *, k: int = 1) -> list[Tabulated]:
    """Make the tables of a results folder, one for each data set, protocol and random projection.

    Parameters
    ----------
    results : path-like
        A folder made by `bench` or `evaluate`.
    k : int
        The N of Recall@N: 1, 5 or 10.
    """
    folder = Results.open(results)
    return tabulate(folder, folder, k=k)


def tabulate(cells: Iterable[Result], results: Results, *, k: int = 1) -> list[Tabulated]:
    """Make the tables of some cells of a results folder, such as those of one run."""
    return [Tabulated(table, all_wins(table, results)) for table in build_tables(cells, k)]


def _rule(store: Path, tolerance: str | None, protocol: str | None) -> tuple[str, Protocol]:
    """Return the data set's name and what counts as correct on it."""
    if tolerance is not None and protocol is not None:
        raise InputError(f"give either tolerance={tolerance!r} or protocol={protocol!r}, not both")
    if protocol is not None:
        return find_protocol(protocol)
    own = parse_tolerance(tolerance or "exact")
    return store.resolve().stem, Protocol(f"{own}, each against all others", own)
