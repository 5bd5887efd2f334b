"""Study: how much of the eigenvalues' sum to keep (τ), and how many dimensions that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from displace.arrays import Vectors, l2_normalize, ranked
from displace.errors import InputError
from displace.evaluation.methods import Method
from displace.evaluation.studies.task import DISPLACE, HOPS, Progress, Setting, Task, run
from displace.fusion.displace import DisPlace
from displace.fusion.solver.eigen import choose_n

TAUS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99, 1.0)


@dataclass(frozen=True)
class TauCurve:
    """One query condition over τ.

    Parameters
    ----------
    query : str
    recalls : list of float
        R@1 (%) at each τ.
    dims : list of int
        n(τ).
    baseline : float
        R@1 (%) of HOPS: no projection at all.
    settings : str
        Ridge and centring, the same at each τ.
    """

    query: str
    recalls: list[float]
    dims: list[int]
    baseline: float
    settings: str


@dataclass(frozen=True)
class TauAblation:
    """Recall@1 and kept dimensions against τ, a curve for each query condition.

    Parameters
    ----------
    setting : Setting
        Of the first condition.
    taus : list of float
    default : float
        DisPlace's default.
    curves : list of TauCurve
    """

    setting: Setting
    taus: list[float]
    default: float
    curves: list[TauCurve]

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> TauAblation:
        """Make one of its JSON."""
        curves = [TauCurve(**curve) for curve in record["curves"]]
        return cls(Setting(**record["setting"]), record["taus"], record["default"], curves)


def study_tau(
    tasks: Sequence[Task], taus: Sequence[float] = TAUS, progress: Progress | None = None
) -> TauAblation:
    """Keep all eigenvectors once for each condition, then cut them at each τ.

    Parameters
    ----------
    tasks : sequence of Task
        One for each query condition.
    taus : sequence of float
        Above 0, at most 1.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.
    """
    if not tasks:
        raise InputError("tasks is empty; give one for each query condition")
    if not taus:
        raise InputError("taus is empty; give at least one, such as taus=(0.8, 0.95, 1.0)")
    for tau in taus:
        if not 0 < tau <= 1:
            raise InputError(f"taus has {tau}; it must be above 0 and at most 1")
    wanted = sorted(set(taus))
    curves = []
    for number, task in enumerate(tasks, 1):
        curves.append(_curve(task, wanted))
        if progress is not None:
            progress("τ ablation", number, len(tasks))
    return TauAblation(tasks[0].setting, wanted, DisPlace().tau, curves)


def _curve(task: Task, taus: Sequence[float]) -> TauCurve:
    """Cut the whole projection at each τ."""
    fusion = _whole(task)
    if not len(fusion.eigenvalues_):
        raise InputError(f"query {task.query}: {fusion.settings_.reason}; there is no projection to cut")
    centred = task.queries - fusion.mean_ if fusion.center_ else task.queries
    queries = centred @ fusion.projection_
    dims = [min(choose_n(fusion.eigenvalues_, tau), queries.shape[1]) for tau in taus]
    recalls = {n: _recall(queries[:, :n], fusion, task, n) for n in set(dims)}
    settings = f"ridge {fusion.ridge_:.3g}, {'centred' if fusion.center_ else 'not centred'}"
    baseline = run(HOPS, task).recall
    return TauCurve(task.query, [recalls[n] for n in dims], dims, baseline, settings)


def _whole(task: Task) -> DisPlace:
    """Fit with all eigenvectors, under the ridge and centring that the default τ decides on."""
    usual = run(DISPLACE, task).fusion
    assert isinstance(usual, DisPlace)
    whole = Method("displace", {"tau": 1.0, "ridge": usual.ridge_, "center": usual.center_})
    fusion = run(whole, task).fusion
    assert isinstance(fusion, DisPlace)
    return fusion


def _recall(queries: Vectors, fusion: DisPlace, task: Task, n: int) -> float:
    """R@1 (%) with the first n dimensions; cut unit vectors, scaled anew, are the vectors of the smaller fit."""
    places = l2_normalize(fusion.place_vectors_[:, :n])
    unit = l2_normalize(queries)
    best, _ = ranked(len(unit), len(places), 1, lambda rows: unit[rows] @ places.T)
    return 100 * float(np.mean(task.hits(fusion.place_ids_[best[:, 0]])))
