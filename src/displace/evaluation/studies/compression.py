"""Study: Recall@1 against dimension under Gaussian random projection, of the descriptors or of the fused vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.errors import InputError, why_not
from displace.evaluation.methods import Method
from displace.evaluation.random_projection import random_projection
from displace.evaluation.record import Result, grouped, of_last_runs
from displace.evaluation.studies.task import BEST_SINGLE, Setting, Task, all_methods, run
from displace.files import schema
from displace.fusion.base import VectorFusion
from displace.progress import Progress

Values = NDArray[np.float64]
Failures = dict[str, dict[int, str]]
"""Why a method, by its label, could not be fitted at some dimensions."""


@dataclass(frozen=True)
class Curve:
    """One method over the dimensions."""

    label: str
    fusion: str
    plain: bool
    """Whether the fusion has its default parameters."""
    means: list[float | None]
    deviations: list[float | None]
    """Mean and standard deviation of R@1 (%) over the seeds; None where the method could not be fitted."""
    full: float | None
    """R@1 (%) of the descriptors as they are."""

    @classmethod
    def of(cls, label: str, fusion: str, plain: bool, recalls: Iterable[Values], full: float) -> Curve:
        """Take mean and deviation of the recalls over the seeds, at each dimension; there may be none."""
        known = list(recalls)
        means = [row.mean() if len(row) else np.nan for row in known]
        # Of a sample; 0 for a single seed.
        spread = [row.std(ddof=min(1, len(row) - 1)) if len(row) else np.nan for row in known]
        return cls(label, fusion, plain, _numbers(means), _numbers(spread), _numbers([full])[0])

    @property
    def empty(self) -> bool:
        """Whether the method could be fitted at no dimension: there is nothing to draw."""
        return all(mean is None for mean in self.means)


@dataclass(frozen=True)
class Compression:
    """Recall@1 of each method after random projection to fewer dimensions."""

    setting: Setting
    dims: list[int]
    seeds: list[int]
    curves: list[Curve]
    notes: list[str] = field(default_factory=list)
    """What could not be computed, and why."""
    after_fusion: bool = False
    """Whether the fused vectors of places and queries were projected, rather than the descriptors before any fusion."""

    @property
    def where(self) -> str:
        """What was projected, in words: it goes beside the numbers."""
        return "projected after fusion" if self.after_fusion else "projected before fusion"


def study_compression(
    task: Task,
    dims: Sequence[int] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    methods: Sequence[Method] | None = None,
    progress: Progress | None = None,
    *,
    after_fusion: bool = False,
) -> Compression:
    """Project references and queries with one Gaussian matrix for each dimension and seed, and run every method.

    By default dimensions are powers of two below the descriptors' own: from 32 on, or from 4 on with `after_fusion`.
    That fuses the descriptors as they are, and projects the vectors of the places and of the transformed queries: only
    possible for fusions that hold one vector for each place.
    """
    methods = all_methods() if methods is None else methods
    wanted = _checked(dims, task.references.dim, seeds, after_fusion)
    notes: dict[str, list[str]] = {}
    failed: Failures = {}
    total, done = (len(wanted) * len(seeds) + 1) * len(methods), 0

    def tell(n: int = 1) -> None:
        nonlocal done
        done += n
        if progress is not None:
            progress("random projections", done, total)

    def recalls(data: Task) -> list[float]:
        values = []
        for method in methods:
            values.append(_recall(method, data, failed))
            tell()
        return values

    full = recalls(task)
    found = np.full((len(methods), len(wanted), len(seeds)), np.nan)
    if after_fusion:
        for number, method in enumerate(methods):
            found[number] = _after_fusion(method, task, wanted, seeds, notes)
            tell(len(wanted) * len(seeds))
    else:
        for row, column in np.ndindex(found.shape[1:]):
            R = random_projection(task.references.dim, wanted[row], seeds[column])
            found[:, row, column] = recalls(task.projected(R))
    curves = [
        Curve.of(
            m.label,
            m.fusion,
            not m.parameters,
            (row[:0] if np.isnan(row).any() else row for row in values),
            at,
        )
        for m, values, at in zip(methods, found, full, strict=True)
    ]
    further = [f"{', '.join(labels)}: {why}" for why, labels in notes.items()]
    return Compression(
        task.setting, wanted, list(seeds), curves, [*_failure_notes(failed), *further], after_fusion
    )


def _checked(dims: Sequence[int] | None, own: int, seeds: Sequence[int], after_fusion: bool) -> list[int]:
    if len(seeds) == 0:
        raise InputError("seeds is empty; give at least one, such as seeds=(0, 1, 2)")
    if dims is None:
        first = 2 if after_fusion else 5
        dims = [2**power for power in range(first, 20) if 2**power < own] or [max(1, own // 2)]
    for dim in dims:
        if not 1 <= dim < own:
            raise InputError(f"dims has {dim}; it must be at least 1 and below the descriptors' own {own}")
    return sorted(set(dims))


def _recall(method: Method, task: Task, failed: Failures) -> float:
    """R@1 (%), or NaN where the method cannot be fitted, as where the scatter is singular."""
    try:
        return run(method, task).recall
    except Exception as error:  # one method's fault must not end a long study
        failed.setdefault(method.label, {}).setdefault(task.references.vectors.shape[1], why_not(error))
        return float("nan")


def _failure_notes(failed: Failures) -> list[str]:
    """Note the methods that could not be fitted, and at which dimensions; the reason at the largest stands for all.

    >>> _failure_notes({"Mine": {64: "singular at 64", 128: "singular at 128"}})
    ['Mine was not possible at D=64, 128; at D=128: singular at 128']
    >>> _failure_notes({"Mine": {64: "singular"}})
    ['Mine was not possible at D=64: singular']
    """
    notes = []
    for label, why in failed.items():
        dims = sorted(why)
        of_one = f"; at D={dims[-1]}" if len(set(why.values())) > 1 else ""
        notes.append(f"{label} was not possible at D={', '.join(map(str, dims))}{of_one}: {why[dims[-1]]}")
    return notes


def _after_fusion(
    method: Method, task: Task, dims: Sequence[int], seeds: Sequence[int], notes: dict[str, list[str]]
) -> Values:
    """R@1 (%) by dimension and seed of a method's fused vectors, NaN where there are none to project; `notes` say why.

    Of a method with a row for each reference traversal, the best row of each projection counts.
    """
    found: Values = np.full((len(dims), len(seeds)), np.nan)
    for single in method.rows(task.references.traversal_ids.tolist()):
        try:
            fusion = run(single, task).fusion
        except Exception:
            return found  # told with the descriptors as they are
        if not isinstance(fusion, VectorFusion):
            _note(notes, "not applicable after fusion, without one vector for each place", method)
            return found
        try:
            stored = fusion.rows()
        except Exception as error:  # as of a fusion from elsewhere that projects in a way of its own
            _note(notes, why_not(error), method)
            return found
        assert stored is not None
        n = stored.vectors.shape[1]
        queries, places = np.asarray(fusion.transform(task.queries)), fusion.place_ids_[stored.place_index]
        if n <= dims[-1]:
            _note(notes, f"fused vectors of {n} dimensions, to be projected to fewer only", method)
        for row, dim in enumerate(dim for dim in dims if dim < n):
            for column, seed in enumerate(seeds):
                R = random_projection(n, dim, seed)
                recall = task.recall(queries @ R, stored.vectors @ R, places)
                found[row, column] = np.fmax(found[row, column], recall)
    return found


def _note(notes: dict[str, list[str]], why: str, method: Method) -> None:
    """Add a method to those of the same note, once."""
    labels = notes.setdefault(why, [])
    if method.label not in labels:
        labels.append(method.label)


def _numbers(values: Any) -> list[float | None]:
    """Plain numbers, None for NaN, which JSON does not have."""
    return [None if np.isnan(value) else round(float(value), 4) for value in values]


def compressions_of(results: Iterable[Result]) -> list[Compression]:
    """Return the study of each data set, protocol, model and query that has randomly projected cells, made of these."""
    groups = grouped(results, lambda cell: (cell.dataset, cell.protocol, cell.model, cell.query))
    return [_study(groups[key]) for key in sorted(groups) if any(cell.projection for cell in groups[key])]


def _study(found: Sequence[Result]) -> Compression:
    cells = of_last_runs(found)
    dims = sorted({cell.projection for cell in cells if cell.projection is not None})
    seeds = sorted({cell.seed for cell in cells if cell.projection is not None})
    named = grouped(
        sorted(cells, key=lambda cell: (cell.group != "single", cell.order[2])),
        lambda cell: BEST_SINGLE.label if cell.group == "single" else cell.label,
    )
    whole = max(cells, key=lambda cell: cell.dim)
    setting = schema.made(Setting, asdict(whole))  # its fields are some of a result's
    curves = [_curve(label, own, dims, seeds) for label, own in named.items()]
    failed: Failures = {}
    for cell in cells:
        if not cell.ok:
            failed.setdefault(cell.label, {}).setdefault(cell.dim, cell.error)
    return Compression(setting, dims, seeds, curves, _failure_notes(failed))


def _curve(label: str, cells: Sequence[Result], dims: Sequence[int], seeds: Sequence[int]) -> Curve:
    """Mean and deviation over the seeds; of single references the best one of each projection counts."""
    found = np.full((len(dims), len(seeds)), np.nan)
    full = np.nan
    for cell in cells:
        if cell.ok and cell.projection is None:
            full = np.fmax(full, cell.recalls[1])
        elif cell.ok and cell.projection is not None:
            at = dims.index(cell.projection), seeds.index(cell.seed)
            found[at] = np.fmax(found[at], cell.recalls[1])
    plain = label == BEST_SINGLE.label or not cells[0].parameters
    return Curve.of(label, cells[0].fusion, plain, (row[~np.isnan(row)] for row in found), full)
