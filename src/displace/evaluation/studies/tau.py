"""Study: how much of the eigenvalues' sum to keep (τ), and how many dimensions that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from displace.errors import InputError, SingularScatterError, StudyError
from displace.evaluation.methods import Method
from displace.evaluation.studies.task import DISPLACE, HOPS, PAPER, Setting, Task, run
from displace.fusion.displace import DisPlace
from displace.fusion.solver.eigen import choose_n
from displace.progress import Progress, counted, part

TAUS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99, 1.0)


@dataclass(frozen=True)
class TauCurve:
    """One query condition over τ, under one setting of DisPlace."""

    query: str
    recalls: list[float]
    """R@1 (%) at each τ; empty where the setting is not possible."""
    dims: list[int]
    """n(τ)."""
    baseline: float
    """R@1 (%) of HOPS: no projection at all."""
    settings: str
    """Ridge and centring, the same at each τ."""
    label: str = DISPLACE.label
    """"DisPlace", with the ridge and centring that its default τ decides on, or "DisPlace (paper)" with neither."""
    error: str = ""
    """Why the setting is not possible, such as a singular scatter."""

    @property
    def plain(self) -> bool:
        """Whether it is of DisPlace's default ridge and centring."""
        return self.label == DISPLACE.label


@dataclass(frozen=True)
class TauAblation:
    """Recall@1 and kept dimensions against τ, for each query condition in our setting and in the paper's."""

    setting: Setting
    """Of the first condition."""
    taus: list[float]
    default: float
    """DisPlace's default."""
    curves: list[TauCurve]

    @property
    def about(self) -> str:
        """What the curves are of: the setting, or all query conditions where there are several."""
        queries, named = dict.fromkeys(curve.query for curve in self.curves), self.setting
        if len(queries) == 1:
            return str(named)
        return (
            f"{named.dataset}, {', '.join(queries)}, each against its own references; {named.model}, {named.dim}-D; "
            f"protocol {named.protocol}"
        )

    @property
    def notes(self) -> list[str]:
        """Which settings were not possible, and why."""
        why = {
            curve.error: [other.query for other in self.curves if other.error == curve.error]
            for curve in self.curves
        }
        return [
            f"{PAPER.label} was not possible on {', '.join(on)}: {error}"
            for error, on in why.items()
            if error
        ]


def study_tau(
    tasks: Sequence[Task], taus: Sequence[float] = TAUS, progress: Progress | None = None
) -> TauAblation:
    """Keep all eigenvectors once for each condition and setting, then cut them at each τ, above 0 and at most 1.

    The settings are the ridge and centring that DisPlace decides on by default, and the paper's: none of either.
    """
    if isinstance(tasks, Task):
        raise InputError("tasks must be a sequence, one for each query condition: give [task]")
    if not tasks:
        raise InputError("tasks is empty; give one for each query condition")
    if len(taus) == 0:
        raise InputError("taus is empty; give at least one, such as taus=(0.8, 0.95, 1.0)")
    for tau in taus:
        if not 0 < tau <= 1:
            raise InputError(f"taus has {tau}; it must be above 0 and at most 1")
    wanted = sorted(set(taus))
    curves = []
    for task in counted(tasks, part(progress, "τ ablation")):
        curves += _curves(task, wanted)
    return TauAblation(tasks[0].setting, wanted, DisPlace().tau, curves)


def _curves(task: Task, taus: Sequence[float]) -> list[TauCurve]:
    """Return the curves of our setting and of the paper's."""
    usual = run(Method("displace", {"project": True}), task).fusion
    assert isinstance(usual, DisPlace)
    if not len(usual.eigenvalues_):
        raise StudyError(f"query {task.query}: {usual.settings_.reason}; there is no projection to cut")
    baseline = run(HOPS, task).recall
    ours = _curve(_whole(task, usual.settings()), task, taus, baseline)
    try:
        paper = _curve(_whole(task, PAPER.parameters), task, taus, baseline)
    except SingularScatterError as error:
        return [ours, TauCurve(task.query, [], [], baseline, "", PAPER.label, str(error))]
    return [ours, replace(paper, label=PAPER.label)]


def _curve(fusion: DisPlace, task: Task, taus: Sequence[float], baseline: float) -> TauCurve:
    """Cut the whole projection at each τ."""
    centred = task.queries - fusion.mean_ if fusion.center_ else task.queries
    queries = centred @ fusion.projection_
    dims = [min(choose_n(fusion.eigenvalues_, tau), queries.shape[1]) for tau in taus]
    places = fusion.place_ids_[fusion.row_places_]
    # Cut unit vectors, scaled anew, are the vectors of the smaller fit.
    recalls = {n: task.recall(queries[:, :n], fusion.place_vectors_[:, :n], places) for n in set(dims)}
    settings = f"ridge {fusion.ridge_:.3g}, {'centred' if fusion.center_ else 'not centred'}"
    return TauCurve(task.query, [recalls[n] for n in dims], dims, baseline, settings)


def _whole(task: Task, settings: dict[str, Any]) -> DisPlace:
    """Fit with all eigenvectors."""
    whole = Method("displace", {**settings, "tau": 1.0})
    fusion = run(whole, task).fusion
    assert isinstance(fusion, DisPlace)
    return fusion
