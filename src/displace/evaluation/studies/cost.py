"""Study: Recall@1 against query time and against storage."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from displace.arrays import check_count
from displace.bootstrap import Estimate, bootstrap, resampled_text
from displace.errors import why_not
from displace.evaluation.methods import Method
from displace.evaluation.studies.task import Run, Setting, Task, all_methods, budgets, run
from displace.holdout import spread
from displace.progress import Progress, counted, part
from displace.threads import one_blas_thread

K = 5
"""Places that are ranked for each timed query."""


@dataclass(frozen=True)
class CostRow:
    """One method."""

    label: str
    fusion: str
    plain: bool
    """Whether the fusion has its default parameters."""
    recall: float
    recall_low: float
    recall_high: float
    """R@1 (%) with its 95 % bootstrap interval."""
    milliseconds: float
    milliseconds_low: float
    milliseconds_high: float
    """To rank one query: median and quartiles over the rounds."""
    n_bytes: int
    """Stored for locating, as float32, the projection included."""
    block: int = 1
    """Neighbouring queries that were resampled together for the interval."""


@dataclass(frozen=True)
class Cost:
    """Recall, time and storage of every method."""

    setting: Setting
    repeats: int
    n_timed: int
    """Rounds, and queries asked one by one in each."""
    rows: list[CostRow]
    notes: list[str] = field(default_factory=list)
    """Methods that could not be fitted, and why."""
    device: str = ""
    """What the times were measured on; empty in studies that did not record it."""

    @property
    def measured(self) -> str:
        """How the times came about."""
        on = f" of {self.device}" if self.device else ""
        return f"one thread{on}; median and quartiles of {self.repeats} interleaved rounds of {self.n_timed} queries"

    @property
    def resampled(self) -> str:
        """What was resampled for the intervals of the recalls."""
        return resampled_text(
            Estimate(row.recall, row.recall_low, row.recall_high, row.block) for row in self.rows
        )


ROUNDS = 15


def study_cost(
    task: Task,
    methods: Sequence[Method] | None = None,
    repeats: int = ROUNDS,
    n_timed: int = 50,
    progress: Progress | None = None,
) -> Cost:
    """Fit every method, then time them in turn, one query at a time on one thread, round after round.

    Rounds (`repeats`; the paper takes 100, on a graphics card) are interleaved, each beginning with another method, so
    that what the machine does meanwhile is shared. Each asks `n_timed` queries, spread evenly. By default methods are
    all, and DisPlace with budgets of rows where places have several views.
    """
    check_count(repeats, "repeats")
    check_count(n_timed, "n_timed")
    wanted = [*all_methods(), *budgets(task.references)] if methods is None else methods
    runs, notes = _fitted(wanted, task, progress)
    n_timed = min(n_timed, len(task.queries))
    sample = task.queries[spread(len(task.queries), n_timed)]
    times = np.empty((len(runs), repeats))
    with one_blas_thread():
        for done in runs:  # what is loaded or allocated once is not a query's time
            done.fusion.rank(sample[:1], k=K)
        for turn in counted(range(repeats), part(progress, "timing")):
            for number in np.roll(np.arange(len(runs)), -turn).tolist():
                times[number, turn] = _milliseconds(runs[number], sample)
    rows = [_row(done, spent, task.query_order) for done, spent in zip(runs, times, strict=True)]
    return Cost(task.setting, repeats, n_timed, rows, notes, device_name())


def device_name() -> str:
    """Name of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        told = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        told = platform.processor()
    return told or platform.machine() or "a processor"


def _fitted(methods: Sequence[Method], task: Task, progress: Progress | None) -> tuple[list[Run], list[str]]:
    """Fit what can be fitted."""
    runs, notes = [], []
    for method in counted(methods, part(progress, "fitting")):
        try:
            runs.append(run(method, task))
        except Exception as error:  # one method's fault must not end a long study
            notes.append(f"{method.label}: {why_not(error)}")
    return runs, notes


def _milliseconds(done: Run, sample: Any) -> float:
    """Mean time of a query in one round."""
    start = time.perf_counter()
    for row in range(len(sample)):
        done.fusion.rank(sample[row : row + 1], k=K)
    return 1000 * (time.perf_counter() - start) / len(sample)


def _row(done: Run, spent: Any, order: Any) -> CostRow:
    recall = bootstrap(done.hits, order=order)
    low, middle, high = np.quantile(spent, [0.25, 0.5, 0.75]).tolist()
    method = done.method
    return CostRow(
        method.label,
        method.fusion,
        not method.parameters,
        recall.value,
        recall.low,
        recall.high,
        middle,
        low,
        high,
        done.fusion.nbytes_,
        recall.block,
    )
