"""Study: Recall@1 against dimension under Gaussian random projection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from displace.compression import random_projection
from displace.errors import InputError, SingularScatterError
from displace.evaluation.methods import Method
from displace.evaluation.studies.task import METHODS, Progress, Setting, Task, run


@dataclass(frozen=True)
class Curve:
    """One method over the dimensions.

    Parameters
    ----------
    label, fusion : str
    plain : bool
        Whether the fusion has its default parameters.
    means, deviations : list of float or None
        Mean and standard deviation of R@1 (%) over the seeds; None where the method could not be fitted.
    full : float or None
        R@1 (%) of the descriptors as they are.
    """

    label: str
    fusion: str
    plain: bool
    means: list[float | None]
    deviations: list[float | None]
    full: float | None


@dataclass(frozen=True)
class Compression:
    """Recall@1 of each method after random projection to fewer dimensions, before any fusion.

    Parameters
    ----------
    setting : Setting
    dims, seeds : list of int
    curves : list of Curve
    notes : list of str
        What could not be computed, and why.
    """

    setting: Setting
    dims: list[int]
    seeds: list[int]
    curves: list[Curve]
    notes: list[str] = field(default_factory=list)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Compression:
        """Make one of its JSON."""
        curves = [Curve(**curve) for curve in record["curves"]]
        return cls(
            Setting(**record["setting"]), record["dims"], record["seeds"], curves, record.get("notes", [])
        )


def study_compression(
    task: Task,
    dims: Sequence[int] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    methods: Sequence[Method] = METHODS,
    progress: Progress | None = None,
) -> Compression:
    """Project references and queries with one Gaussian matrix for each dimension and seed, and run every method.

    Parameters
    ----------
    task : Task
    dims : sequence of int, optional
        Dimensions to project to; by default powers of two from 32 on, below the descriptors' own.
    seeds : sequence of int
        One random matrix each.
    methods : sequence of Method
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    own = task.references.vectors.shape[1]
    wanted = _checked(dims, own, seeds)
    found = np.full((len(methods), len(wanted), len(seeds)), np.nan)
    full = np.full(len(methods), np.nan)
    notes: dict[str, None] = {}  # ordered, each once
    total, done = (len(wanted) * len(seeds) + 1) * len(methods), 0

    def recalls(data: Task, where: str) -> list[float]:
        nonlocal done
        values = []
        for method in methods:
            values.append(_recall(method, data, where, notes))
            done += 1
            if progress is not None:
                progress("random projections", done, total)
        return values

    full[:] = recalls(task, f"D={own}")
    for row, dim in enumerate(wanted):
        for column, seed in enumerate(seeds):
            projected = task.projected(random_projection(own, dim, seed))
            found[:, row, column] = recalls(projected, f"D={dim}")
    curves = [
        Curve(
            m.label,
            m.fusion,
            not m.parameters,
            numbers(values.mean(1)),
            numbers(_spread(values)),
            numbers([at])[0],
        )
        for m, values, at in zip(methods, found, full, strict=True)
    ]
    return Compression(task.setting, wanted, list(seeds), curves, list(notes))


def _checked(dims: Sequence[int] | None, own: int, seeds: Sequence[int]) -> list[int]:
    if not seeds:
        raise InputError("seeds is empty; give at least one, such as seeds=(0, 1, 2)")
    if dims is None:
        dims = [2**power for power in range(5, 20) if 2**power < own] or [max(1, own // 2)]
    for dim in dims:
        if not 1 <= dim < own:
            raise InputError(f"dims has {dim}; it must be at least 1 and below the descriptors' own {own}")
    return sorted(set(dims))


def _recall(method: Method, task: Task, where: str, notes: dict[str, None]) -> float:
    """R@1 (%), or NaN where the scatter is singular."""
    try:
        return run(method, task).recall
    except SingularScatterError as error:
        notes[f"{method.label} at {where}: {error}"] = None
        return float("nan")


def _spread(values: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    """Sample standard deviation over the seeds; 0 for a single one."""
    return values.std(axis=1, ddof=1) if values.shape[1] > 1 else np.zeros(len(values))


def numbers(values: Any) -> list[float | None]:
    """Plain numbers, None for NaN, which JSON does not have."""
    return [None if np.isnan(value) else round(float(value), 4) for value in values]
