"""Study: single queries on which the methods differ, with the pictures that each of them found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from displace.errors import InputError
from displace.evaluation.methods import Method
from displace.evaluation.studies.task import METHODS, Progress, Run, Setting, Task, run_all
from displace.truth import Flags


@dataclass(frozen=True)
class Pick:
    """What one method found for one query.

    Parameters
    ----------
    label, fusion : str
    place : str
    image : str or None
        Picture of that place; None where there is none.
    right : bool
    """

    label: str
    fusion: str
    place: str
    image: str | None
    right: bool


@dataclass(frozen=True)
class Column:
    """One query with its true place and what each method found.

    Parameters
    ----------
    row : int
        Number of the query.
    query_image, truth_image : str or None
    truth_place : str or None
        None where no place of the map is right.
    picks : list of Pick
    """

    row: int
    query_image: str | None
    truth_place: str | None
    truth_image: str | None
    picks: list[Pick]


@dataclass(frozen=True)
class Qualitative:
    """Queries on which the methods differ.

    Parameters
    ----------
    setting : Setting
    columns : list of Column
    n_differing : int
        Queries on which not all methods are right or all wrong.
    rule : str
        How the columns were chosen.
    """

    setting: Setting
    columns: list[Column]
    n_differing: int
    rule: str

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Qualitative:
        """Make one of its JSON."""
        columns = [
            Column(**{**column, "picks": [Pick(**pick) for pick in column["picks"]]})
            for column in record["columns"]
        ]
        return cls(Setting(**record["setting"]), columns, record["n_differing"], record["rule"])


RULE = (
    "one column for each pattern of right and wrong, the most frequent pattern first and its middle query; "
    "at least one in which the last method is wrong, where there is one"
)


def study_examples(
    task: Task,
    methods: Sequence[Method] = METHODS,
    n_columns: int = 4,
    progress: Progress | None = None,
) -> Qualitative:
    """Choose queries on which the methods differ, by a fixed rule, and look up their pictures.

    Parameters
    ----------
    task : Task
        With the paths of pictures, where they are wanted.
    methods : sequence of Method
        Two at least; the last one is what the others are compared with.
    n_columns : int
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    if len(methods) < 2:
        raise InputError(f"methods has {len(methods)}; at least 2 are needed to differ")
    if n_columns < 1:
        raise InputError(f"n_columns={n_columns} must be at least 1")
    runs = run_all(methods, task, progress, "examples")
    hits = np.stack([done.hits for done in runs])
    columns = [_column(row, runs, task) for row in choose_columns(hits, n_columns)]
    return Qualitative(task.setting, columns, int(_differing(hits).sum()), RULE)


def choose_columns(hits: Flags, n_columns: int) -> list[int]:
    """Choose queries by `RULE`.

    Parameters
    ----------
    hits : array of shape (methods, q)
        Whether each method is right on each query.
    n_columns : int

    Examples
    --------
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


def _column(row: int, runs: Sequence[Run], task: Task) -> Column:
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
    return Column(
        row,
        task.query_images[row] if task.query_images else None,
        None if truth is None else str(truth),
        None if truth is None else _picture(task, truth),
        picks,
    )


def _picture(task: Task, place: Any) -> str | None:
    """Path of a place's picture."""
    if not task.place_images:
        return None
    return task.place_images[int(np.searchsorted(task.references.place_ids, place))]
