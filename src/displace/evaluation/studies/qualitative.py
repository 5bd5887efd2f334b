"""Study: single queries on which the methods differ, with the pictures that each of them found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from displace.arrays import check_count
from displace.errors import InputError
from displace.evaluation.methods import Method
from displace.evaluation.studies.task import METHODS, Run, Setting, Task, run, run_paper
from displace.progress import Progress, counted, part
from displace.truth import Flags


@dataclass(frozen=True)
class Pick:
    """What one method found for one query."""

    label: str
    fusion: str
    place: str
    image: str | None
    """Picture of that place; None where there is none."""
    right: bool


@dataclass(frozen=True)
class Example:
    """One query with its true place and what each method found."""

    row: int
    """Number of the query."""
    query_image: str | None
    truth_place: str | None
    """None where no place of the map is right."""
    truth_image: str | None
    picks: list[Pick]
    case: str = ""
    """Why it is shown, where that has a name."""


@dataclass(frozen=True)
class Qualitative:
    """Queries on which the methods differ."""

    setting: Setting
    columns: list[Example]
    n_differing: int
    """Queries on which not all methods are right or all wrong."""
    rule: str
    """How the columns were chosen."""
    notes: list[str] = field(default_factory=list)
    """Which setting was not possible, and why; cases of which there is no query."""


RULE = (
    "one column for each pattern of right and wrong, the most frequent pattern first and its middle query; "
    "at least one in which the last method is wrong, where there is one"
)


CASES = (
    "DisPlace alone is right",
    "fused descriptors are right, fused scores wrong",
    "DisPlace and fused scores are right, HOPS is wrong",
    "DisPlace is wrong",
)
"""The four cases of the paper's figure; fused scores are dMat Avg or Pooling."""
CASES_RULE = (
    "the four cases of the paper; of each its middle query, and of failures one on which another method is right, "
    "where there is one"
)
ROWS_RULE = "as asked for"


def study_examples(
    task: Task,
    methods: Sequence[Method] = METHODS,
    n_columns: int = 4,
    progress: Progress | None = None,
    *,
    cases: bool = False,
    rows: Sequence[int] = (),
) -> Qualitative:
    """Choose queries on which the methods differ, by a fixed rule, and look up their pictures.

    The last method is what the others are compared with. DisPlace in the paper's setting is shown below the methods
    where it is possible; it decides nothing. With `cases` the four of the paper's figure are shown instead (`CASES`),
    of the default methods; with `rows` these queries, by number from 0.
    """
    if len(methods) < 2:
        raise InputError(f"methods has {len(methods)}; at least 2 are needed to differ")
    check_count(n_columns, "n_columns")
    for row in rows:
        if not 0 <= row < len(task.queries):
            raise InputError(
                f"rows has {row}; it must be at least 0 and below {len(task.queries)}, the queries"
            )
    runs = [run(method, task) for method in counted(methods, part(progress, "examples"))]
    hits = np.stack([done.hits for done in runs])
    notes: list[str] = []
    if len(rows):
        chosen, rule = [(row, "") for row in rows], ROWS_RULE
    elif cases:
        chosen, rule = _cases(hits, methods, notes), CASES_RULE
    else:
        chosen, rule = [(row, "") for row in choose_columns(hits, n_columns)], RULE
    runs += run_paper(task, notes)
    columns = [_column(row, case, runs, task) for row, case in chosen]
    return Qualitative(task.setting, columns, int(_differing(hits).sum()), rule, notes)


def _cases(hits: Flags, methods: Sequence[Method], notes: list[str]) -> list[tuple[int, str]]:
    """Return a query of each of the paper's cases; cases without any are noted."""
    if tuple(methods) != METHODS:
        raise InputError("cases=True needs the default methods, which the paper's four cases are about")
    single, average, pooling, hops, own = hits
    scores = average | pooling
    flags = (own & ~single & ~scores & ~hops, own & hops & ~scores, own & scores & ~hops, ~own)
    chosen = []
    for case, found in zip(CASES, flags, strict=True):
        telling = found & hits[:-1].any(axis=0) if case == CASES[-1] else found
        rows = np.flatnonzero(telling if telling.any() else found)
        if len(rows):
            chosen.append((int(rows[len(rows) // 2]), case))
        else:
            notes.append(f"no query is of the case: {case}")
    return chosen


def choose_columns(hits: Flags, n_columns: int) -> list[int]:
    """Choose queries by `RULE`, given whether each method is right on each query, (methods, q).

    >>> hits = np.array([[1, 0, 0, 0, 1], [1, 1, 1, 1, 0]], bool)
    >>> choose_columns(hits, 2)                # queries 1 to 3 have one pattern, query 4 the other
    [2, 4]
    """
    rows = np.flatnonzero(_differing(hits)).tolist()

    def pattern(row: int) -> tuple[bool, ...]:
        return tuple(hits[:, row].tolist())

    groups = [list(group) for _, group in groupby(sorted(rows, key=pattern), key=pattern)]
    groups.sort(key=lambda group: (-len(group), group[0]))
    chosen = groups[:n_columns]
    losses = [group for group in groups if not hits[-1, group[0]]]
    if losses and losses[0] not in chosen:
        chosen[-1] = losses[0]
    # Wins of the last method first, its losses last.
    chosen.sort(key=lambda group: (not hits[-1, group[0]], -len(group), group[0]))
    return [group[len(group) // 2] for group in chosen]


def _differing(hits: Flags) -> Flags:
    count = hits.sum(axis=0)
    differing: Flags = (count > 0) & (count < len(hits))
    return differing


def _column(row: int, case: str, runs: Sequence[Run], task: Task) -> Example:
    ids = task.references.place_ids
    at = task.truth_of(row)
    truth = None if at < 0 else ids[at]
    picks = [
        Pick(
            done.method.label,
            done.method.fusion,
            str(done.places[row]),
            _picture(task, done.places[row]),
            bool(done.hits[row]),
        )
        for done in runs
    ]
    return Example(
        row,
        task.query_images[row] if task.query_images else None,
        None if truth is None else str(truth),
        None if truth is None else _picture(task, truth),
        picks,
        case,
    )


def _picture(task: Task, place: Any) -> str | None:
    """Path of a place's picture."""
    if not task.place_images:
        return None
    return task.place_images[int(np.searchsorted(task.references.place_ids, place))]
