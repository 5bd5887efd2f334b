"""Run the studies of a results folder on the descriptors that its results were made from."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from displace.descriptors.store import DescriptorStore, is_store
from displace.errors import DisplaceError, InputError, StudyError, UnknownNameError
from displace.evaluation.methods import Method
from displace.evaluation.record import Result, of_last_runs
from displace.evaluation.results import Results
from displace.evaluation.studies.compression import study_compression
from displace.evaluation.studies.cost import ROUNDS, study_cost
from displace.evaluation.studies.qualitative import study_examples
from displace.evaluation.studies.space import study_space
from displace.evaluation.studies.study_files import KINDS, Study, replace_study, study_path, topic
from displace.evaluation.studies.task import DISPLACE, HOPS, METHODS, PAPER, Task, all_methods, budgets
from displace.evaluation.studies.tau import study_tau
from displace.files.reading import PathLike
from displace.progress import Progress
from displace.registry import check_known, unknown

_STUDIES: dict[str, tuple[Callable[..., Study], Callable[[], Sequence[Method]]]] = {
    "compression": (study_compression, all_methods),
    "tau": (study_tau, lambda: (DISPLACE, PAPER)),
    "qualitative": (study_examples, lambda: (*METHODS, PAPER)),
    "space": (study_space, lambda: (HOPS, DISPLACE, PAPER)),
    "cost": (study_cost, all_methods),
}
"""What runs a study, and the methods that it compares; those of other packages among all of them."""
OF_ALL = ("compression", "cost")
"""Studies of all methods: they use the names and settings that the tables have for them."""

REVISED = {"space": ["all right places are marked"]}
"""Changes to what a study shows since earlier versions. Part of the hash in its file name: older files are replaced."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StudyOptions:
    """What can be asked of studies; each uses what concerns it."""

    after_fusion: bool = False
    """Study `compression`: project what was fused, rather than the descriptors."""
    numbers: tuple[int, ...] = ()
    """Numbers of queries, from 0: the first is that of the study `space`, all are those of `qualitative`."""
    cases: bool = False
    """Study `qualitative`: the four cases of the paper, rather than the queries of `numbers`."""
    rounds: int = ROUNDS
    """Study `cost`: rounds in which the methods take turns; the paper takes 100."""

    def of(self, kind: str) -> dict[str, Any]:
        """Return the arguments of one study's function that differ from its defaults."""
        asked: dict[str, dict[str, Any]] = {
            "compression": {"after_fusion": self.after_fusion},
            "qualitative": {"cases": True} if self.cases else {"rows": self.numbers},
            "space": {"row": self.numbers[0] if self.numbers else None},
            "cost": {} if self.rounds == ROUNDS else {"repeats": self.rounds},
        }
        return {name: value for name, value in asked.get(kind, {}).items() if value not in (False, None, ())}


def run_studies(
    results: Results,
    kinds: Sequence[str] = tuple(KINDS),
    *,
    query: str | None = None,
    root: PathLike = ".",
    options: StudyOptions | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Run studies for each data set, protocol and model of a results folder, keep them there, and return their files.

    An existing study is kept if its descriptors, references, queries, options and methods (for plug-ins: their source
    code) are unchanged, and run again otherwise. A study that is not possible with some data (`StudyError`) is left
    out with a log message; if none is left, the error is raised.

    The query traversal is by default the first of each data set; the study of τ takes all. Recorded paths of descriptor
    stores are relative to `root`.
    """
    options = options or StudyOptions()
    check_known("study", kinds, KINDS)
    written: list[Path] = []
    left_out: dict[str, StudyError] = {}
    for queries in _groups(results):
        names = [result.query for result in queries]
        if query is not None and query not in names:
            continue
        chosen = queries[0 if query is None else names.index(query)]
        about = f"{chosen.dataset} {chosen.model}"
        for kind in kinds:
            covered = queries if kind == "tau" else [chosen]
            methods = _methods(kind, results, chosen, options)
            path = _path(results.folder, kind, covered, methods, options)
            if not path.exists():
                shown = progress and partial(_named, progress, about)
                tasks = [
                    Task.of_result(results, result, open_store(result, Path(root))) for result in covered
                ]
                try:
                    replace_study(_run(kind, tasks, methods, options, shown), path)
                except StudyError as error:
                    left_out[f"study {kind} of {about}"] = error
                    continue
            written.append(path)
    if left_out and not written:
        raise next(iter(left_out.values()))
    for study, why in left_out.items():
        logger.warning("left out: %s: %s", study, why)
    if query is not None and not written:
        raise UnknownNameError(unknown("query", query, sorted({result.query for result in results})))
    return written


def open_store(result: Result, root: Path) -> DescriptorStore:
    """Open the store that a result was made from, at its recorded path or under its name in `root`."""
    recorded = Path(str(result.store.get("path", "")))
    for path in (root / recorded, root / recorded.name):
        if is_store(path):
            return DescriptorStore(path)
    raise InputError(
        f"the descriptors of {result.dataset} {result.model} are not at {root / recorded}; studies need them: "
        "say in which folder they are with --root FOLDER"
    )


def _groups(results: Results) -> list[list[Result]]:
    """One result for each query traversal, for each data set, protocol and model."""
    groups: dict[tuple[str, str, str], dict[str, Result]] = {}
    # That of the last run, as in tables: descriptors may have been extracted again since the first.
    for result in sorted(results.select(ok=True, projection=None), key=lambda result: result.recency):
        groups.setdefault((result.dataset, result.protocol, result.model), {})[result.query] = result
    return [sorted(queries.values(), key=lambda result: result.order) for queries in groups.values()]


def _methods(kind: str, results: Results, chosen: Result, options: StudyOptions) -> list[Method]:
    """Methods that a study compares; those of `OF_ALL` as named and set in the tables, further rows of these last."""
    methods = list(_STUDIES[kind][1]())
    if kind == "qualitative" and not options.cases:
        own = [method for method in _rows(results, chosen, ok=True) if method.source]
        return [*METHODS[:-1], *own, METHODS[-1], PAPER]
    if kind not in OF_ALL:
        return methods
    rows = _rows(results, chosen)
    taken, set_so = {row.label for row in rows}, {(row.fusion, repr(row.parameters)) for row in rows}
    # Not a default beside a row that has its name and other parameters: one could not tell the two apart.
    methods = [m for m in methods if m.label not in taken or (m.fusion, repr(m.parameters)) in set_so]
    known = {(m.fusion, repr(m.parameters)): at for at, m in enumerate(methods)}
    for method in rows:
        at = known.setdefault((method.fusion, repr(method.parameters)), len(methods))
        methods[at : at + 1] = [method]
    return methods


def _rows(results: Results, chosen: Result, **only: bool) -> list[Method]:
    """Return the multi-reference methods of the tables without sequences or adaptation."""
    same = {name: getattr(chosen, name) for name in ("dataset", "protocol", "model", "query")}
    rows = of_last_runs(results.select(projection=None, **same, **only))
    methods = []
    for row in sorted(rows, key=lambda row: (row.order, row.label)):
        if row.group == "single" or any(row.along):
            continue
        try:
            methods.append(Method(row.fusion, row.parameters, row.label))
        except DisplaceError:  # not installed any more, or without such a parameter
            continue
    return methods


def _path(
    folder: Path, kind: str, covered: Sequence[Result], compared: Sequence[Method], options: StudyOptions
) -> Path:
    """File of a study; its name ends in a hash of all that it covers, so that another one is another file."""
    first = covered[0]
    # The code of fusions from elsewhere counts, as for cells: an edited one is another method.
    methods = [(m.label, m.fusion, m.parameters, *filter(None, [m.source])) for m in compared]
    asked = [(r.query, r.references, r.tolerance, r.questions, r.store.get("content")) for r in covered]
    what = json.dumps([methods, asked, options.of(kind), *REVISED.get(kind, [])], sort_keys=True)
    names = first.dataset, first.protocol, first.model, first.query
    about = topic(kind, *names, after_fusion=options.after_fusion)
    return study_path(folder, *about, hashlib.sha256(what.encode()).hexdigest()[:8])


def _run(
    kind: str, tasks: list[Task], methods: list[Method], options: StudyOptions, progress: Progress | None
) -> Study:
    asked = options.of(kind)
    if kind in OF_ALL:
        asked["methods"] = methods
    if kind == "qualitative":
        asked["methods"] = tuple(methods[:-1])  # the study itself adds the paper's setting
    if kind == "cost":
        asked["methods"] = [*methods, *budgets(tasks[0].references)]
    return _STUDIES[kind][0](tasks if kind == "tau" else tasks[0], progress=progress, **asked)


def _named(progress: Progress, about: str, stage: str, *counts: Any) -> None:
    progress(f"{about}: {stage}", *counts)
