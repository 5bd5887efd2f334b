"""`displace evaluate`."""

from __future__ import annotations

import inspect
import logging
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from displace.errors import InputError
from displace.progress import Progress
from displace.verbs.base import (
    Option,
    Output,
    PathLike,
    StorePath,
    check_threads,
    look_at_neighbours,
    look_at_order,
    whole_store,
)

if TYPE_CHECKING:
    from displace.datasets.base import Protocol
    from displace.descriptors.store import DescriptorStore
    from displace.evaluation.record import Result

logger = logging.getLogger(__name__)


def evaluate(
    store: StorePath,
    *,
    queries: Annotated[Sequence[str] | None, Option("--query")] = None,
    fusion: str = "all",
    sequence: str = "single_frame",
    adapt: str = "none",
    tolerance: str | None = None,
    protocol: str | None = None,
    output: Output = None,
    threads: int | None = None,
    partial: bool = False,
    progress: Progress | None = None,
) -> list[Result]:
    """Compare fusions on your own data: Recall@1, 5, 10, time and bytes.

    A traversal is located in a map of all other traversals. Fusions of other packages take part through their entry
    points.

    Parameters
    ----------
    store : path-like
        A folder made by `extract`.
    queries : sequence of str, optional
        Traversals to locate, each in a map of all others; by default every one in turn.
    fusion : str
        Names separated by commas, or all.
    sequence : str
        How frames of a drive are ranked: names separated by commas (`displace list sequences`), or all. The places
        need an order along the route.
    adapt : str
        Whether the queries adapt the scores to their condition: none, batch or both, separated by a comma.
    tolerance : str, optional
        What counts as correct: exact, '5 frames' or 25m; by default exact, or '2 frames' if places were found by sight.
    protocol : str, optional
        Protocol of a known data set instead, such as robotcar-5.
    output : path-like, optional
        Results folder for the rankings, for `table` and `report`.
    threads : int, optional
        Cores to use; by default one for small stores, else all. Compare times only for equal numbers of cores.
    partial : bool
        Accept a store whose extraction is unfinished.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    ::

        displace evaluate route.desc --query night
        displace evaluate route.desc --query night --fusion displace,hops --tolerance 25m
        displace evaluate route.desc --query night --fusion displace --sequence all --adapt none,batch
        displace evaluate robotcar.desc --protocol robotcar-5 -o results
        displace evaluate route.desc --json
    """
    from displace.evaluation.benchmark import run_suite
    from displace.evaluation.methods import ALONE, methods_named
    from displace.evaluation.suites import Suite
    from displace.sequence import SEQUENCES
    from displace.threads import limit_threads, threads_for

    check_threads(threads)
    queries = tuple(dict.fromkeys(queries or ()))
    described = whole_store(store, partial)
    dataset, rule = _rule(described, tolerance, protocol)
    alone_first = sorted(SEQUENCES.names(), key=lambda name: name != ALONE)
    suite = Suite(
        dataset,
        Path(store).name,
        dataset,
        rule,
        tuple(
            methods_named(
                "all" if fusion == "all" else _named(fusion),
                alone_first if sequence == "all" else _named(sequence),
                _named(adapt),
            )
        ),
        {str(described.model.get("model", "descriptors")): Path(store)},
        queries,
        command=_command(store, queries, output, fusion, sequence, adapt, tolerance, protocol),
    )
    if any(method.sequence != ALONE for method in suite.methods):
        look_at_order(described.references())
    if protocol is None:
        given = str(rule.tolerance) if rule.on_route else tolerance
        look_at_neighbours(described.references(), given, exact=True)
        _log_left_out(described, rule, queries)
    folder: AbstractContextManager[PathLike] = (
        tempfile.TemporaryDirectory(prefix="displace-") if output is None else nullcontext(output)
    )
    with folder as results, limit_threads(threads_for(threads, len(described), described.dim)):
        outcome = run_suite(suite, results, progress)
    reused = len(outcome.cells) - outcome.n_computed
    if reused:
        logger.warning("%s: %s cells computed, %s reused", output, f"{outcome.n_computed:,}", f"{reused:,}")
    return outcome.cells


def _named(names: str) -> list[str]:
    """Split comma-separated names."""
    return [name.strip() for name in names.split(",")]


def _command(store: PathLike, queries: Sequence[str], output: PathLike | None, *given: str | None) -> str:
    """Return the equivalent command, for the report of the results."""
    usual = inspect.signature(evaluate).parameters
    located = [part for query in queries for part in ("--query", query)]
    chosen = [
        part
        for name, value in zip(("fusion", "sequence", "adapt", "tolerance", "protocol"), given, strict=True)
        if value is not None and value != usual[name].default
        for part in (f"--{name}", value)
    ]
    kept = [] if output is None else ["-o", str(output)]
    return shlex.join(["displace", "evaluate", str(store), *located, *chosen, *kept])


def _rule(store: DescriptorStore, tolerance: str | None, protocol: str | None) -> tuple[str, Protocol]:
    """Return the name of the data set and its protocol."""
    from displace.datasets.base import Protocol
    from displace.descriptors.store_summary import SIGHT_TOLERANCE, by_sight
    from displace.evaluation.suites import find_protocol
    from displace.truth import Tolerance

    if tolerance is not None and protocol is not None:
        raise InputError(f"give either tolerance={tolerance!r} or protocol={protocol!r}, not both")
    if protocol is not None:
        return find_protocol(protocol)
    sighted = tolerance is None and by_sight(store)
    usual = SIGHT_TOLERANCE if sighted else "exact"
    own = Tolerance.parse(usual if tolerance is None else tolerance)
    name = f"{own}, each against all others" + ", frames off the route left out" * sighted
    return store.folder.resolve().stem, Protocol(name, own, on_route=sighted)


def _log_left_out(store: DescriptorStore, rule: Protocol, queries: Sequence[str] | None) -> None:
    """Report how many frames are not queries because they were not found along the route."""
    manifest = store.manifest
    for name in queries or manifest.traversal_names():
        n, used = int((manifest.traversals == name).sum()), int(rule.asked(manifest, name).sum())
        if used < n:
            logger.warning(
                "%s: %s of %s frames are left out, because they were not found along the route",
                name,
                f"{n - used:,}",
                f"{n:,}",
            )
