"""DisPlace's automatic settings: ridge, centring, rows a place, and whether to project at all.

S_W is estimated from Σ(K_p − 1) deviations in D dimensions; γ = D/Σ(K_p − 1) says how well. Near γ = 1 the smallest
eigenvalues of S_W are noise, and without a ridge the projection consists of it. The ridge is ε·tr(S_W)/D.

**By rule.** ε = min(3, γ³/(1+γ²)): vanishing where the sample is good, bounded where it is poor. Centre where the
common mean holds more than 0.45 of the descriptors' energy, as for HOG or ReLU features. Every view is a row.

**By held-out traversals**, where there are at least 3 and the problem is small enough (`plan`, a rule on sizes, so that
equal data give equal settings on every machine): each of up to 5 traversals in turn is taken out of the statistics and
its references are the queries. The ε and the centring with the highest mean R@1 are taken. Candidates below a tenth of
the rule's ε are left out: with a traversal removed γ is larger, on the far side of 1 a vanishing ridge does less harm
than it will do at the γ of all traversals, and cross-validation cannot see that. Places with several views: S_B between
the views or the places, whichever finds more, and the fewest rows that find nearly as much as all. Larger problems
hold out 2 traversals at the rule's ε, which costs about as much as the fit.

**The safer choice.** HOPS and pooling answer the same queries. Where one of them is ahead by more than a point, and by
more than the standard error of the difference, it is taken instead: P = I.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from displace.fusion.solver.contest import HOPS, MAX_PLACES, POOLING, Contestant, Hits, Problem, Round
from displace.fusion.solver.eigen import SMALL
from displace.fusion.solver.scatter import Scatter
from displace.holdout import Fold, folds, spread
from displace.threads import one_blas_thread

RIDGES = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Candidates for ε, beside the rule's."""
ROWS = (1, 2, 4, 6, 8, 12)
"""Candidates for the rows of a place, beside all its views."""
MAX_FOLDS = 5
MAX_QUERIES = 500
"""Queries of one fold; they are spread evenly over its places."""
WHOLE = 1e11
"""Largest cross-validation over all candidates, in floating-point operations: seconds on one core."""
MAX_OPERATIONS = 5e11
"""Largest one of any kind."""
FEW_FOLDS, FEW_QUERIES = 2, 200
"""Folds and queries of each, where not all candidates are tried."""
COMMON_MEAN_LIMIT = 0.45
LEAD = 1.0
"""Points of R@1 by which HOPS or pooling must be ahead."""
FEWER_ROWS = 0.5
"""Points of R@1 that fewer rows may cost."""


@dataclass(frozen=True)
class Settings:
    """What was decided, and why."""

    ridge: float
    """ε; the ridge is ε·tr(S_W)/D."""
    center: bool
    """Whether the mean of the place means is subtracted before projecting."""
    reason: str
    """One line for a person."""
    recalls: dict[tuple[float, bool], float] = field(default_factory=dict)
    """Mean R@1 (%) of each (ε, centre) compared; empty if a rule decided."""
    rows: int | None = None
    """Most rows per place; None for one per view, or per reference if nothing is projected."""
    between_places: bool = False
    """S_B between places instead of views."""
    projects: bool = True
    """False: P = I."""


@dataclass(frozen=True)
class Plan:
    """Which folds are held out, and whether all candidates are tried on them."""

    folds: list[Fold]
    whole: bool


def rule_ridge(sampling_ratio: float) -> float:
    """ε for a given γ.

    >>> rule_ridge(1.0), rule_ridge(float("inf"))
    (0.5, 3.0)
    """
    if np.isinf(sampling_ratio):
        return 3.0
    return min(3.0, sampling_ratio**3 / (1 + sampling_ratio**2))


def common_mean_share(scatter: Scatter) -> float:
    """Share of the descriptors' energy in their common mean: ‖μ‖² of unit-length references."""
    energy = scatter.within_trace() + scatter.mean_square()
    mean = scatter.mean  # goes through all means each time
    return float(mean @ mean) / energy if energy > 0 else 0.0


def decide(
    problem: Problem, ridge: float | str, center: bool | str, rows: int | str = "auto", safer: bool = True
) -> Settings:
    """Decide the settings that are "auto" in `DisPlace`; given ones are kept.

    Where neither `ridge` nor `center` is given, `safer` compares with HOPS and pooling too.
    """
    auto = [name for name, value in (("ridge", ridge), ("center", center)) if isinstance(value, str)]
    most = None if isinstance(rows, str) else int(rows)
    if not auto:
        return Settings(float(ridge), bool(center), "as given", rows=most)
    by_rule = rule_ridge(problem.sampling_ratio)
    planned = (
        plan(problem)
        if len(problem.vectors)
        else "references too many to hold some out, or of too few traversals"
    )
    if isinstance(planned, str):
        return replace(_by_rule(problem, ridge, center, planned), rows=most)
    ridges = [by_rule] if "ridge" in auto else [float(ridge)]
    if planned.whole and "ridge" in auto:
        others = [e for e in RIDGES if e >= by_rule / 10]
        ridges = list(dict.fromkeys([by_rule, *others]))  # the rule's may be among them
    centers = [False, True] if "center" in auto else [bool(center)]
    contest = Contest(problem, planned)
    contest.run([Contestant(e, c, most) for e in ridges for c in centers])
    recalls = {(one.ridge, one.center): contest.recall(one) for one in contest.hits}
    if not recalls:
        return replace(_by_rule(problem, ridge, center, "no fold could be solved"), rows=most)

    def merit(setting: tuple[float, bool]) -> tuple[float, float, bool]:
        distance = abs(np.log(setting[0] / by_rule)) if setting[0] > 0 else 0.0
        return recalls[setting], -distance, not setting[1]  # among equals: nearest to the rule, not centred

    best = Contestant(*max(recalls, key=merit), most)
    if problem.several_views:
        best = contest.shaped(best, rows)
    n = len(planned.folds)
    how = f"{' and '.join(auto)} by " if planned.whole else "compared by "
    reason = f"{how}leave-one-traversal-out over {n} traversals (R@1 of the exact place {contest.recall(best):.1f})"
    if not planned.whole and "ridge" in auto:
        reason = f"ridge by rule from γ = {problem.sampling_ratio:.3g}, {reason}"
    if safer and len(auto) == 2:
        return contest.safest(best, reason, recalls)
    return _settings(best, reason, recalls)


class Contest:
    """Hits of contestants over all folds."""

    def __init__(self, problem: Problem, planned: Plan) -> None:
        self.problem, self.rounds = problem, [Round(problem, fold) for fold in planned.folds]
        self.hits: dict[Contestant, list[Hits]] = {}

    def run(self, contestants: Sequence[Contestant]) -> None:
        """Run contestants on all folds; those without a solution in every fold are left out."""
        found: dict[Contestant, list[Hits]] = {}
        with one_blas_thread(self.problem.scatter.means.shape[1] <= SMALL):
            for one_round in self.rounds:
                for one, hits in one_round.hits(contestants):
                    found.setdefault(one, []).append(hits)
        self.hits |= {one: hits for one, hits in found.items() if len(hits) == len(self.rounds)}

    def recall(self, one: Contestant) -> float:
        """Mean R@1 (%) over the folds."""
        return 100 * float(np.mean([hits.mean() for hits in self.hits[one]]))

    def shaped(self, best: Contestant, rows: int | str) -> Contestant:
        """Choose S_B, and the rows per place unless given."""
        other = replace(best, between_places=True)
        self.run([other])
        if other in self.hits and self.recall(other) > self.recall(best) + LEAD:
            best = other
        if not isinstance(rows, str):
            return best
        most = int(np.bincount(self.problem.places).max())
        self.run([replace(best, rows=n) for n in ROWS if n < most])
        same_space = [one for one in self.hits if replace(one, rows=best.rows) == best]
        enough = max(map(self.recall, same_space)) - FEWER_ROWS
        for n in (n for n in ROWS if n < most):
            if self.recall(replace(best, rows=n)) >= enough:
                return replace(best, rows=n)
        return best

    def safest(self, best: Contestant, reason: str, recalls: dict[tuple[float, bool], float]) -> Settings:
        """Return the settings of `best`, or of HOPS or pooling if they are ahead."""
        self.run([HOPS, POOLING])
        rivals = {"HOPS": HOPS, "pooling": POOLING}
        recall_of = ", ".join(f"{name} {self.recall(one):.1f}" for name, one in rivals.items())
        name, rival = max(rivals.items(), key=lambda item: self.recall(item[1]))
        ahead = np.concatenate(self.hits[rival]).astype(float) - np.concatenate(self.hits[best])
        error = 100 * float(ahead.std()) / np.sqrt(len(ahead))
        if 100 * float(ahead.mean()) <= max(LEAD, error):
            return _settings(best, f"{reason[:-1]}; {recall_of})", recalls)
        n = len(self.rounds)
        reason = (
            f"{name}, because it is ahead with leave-one-traversal-out over {n} traversals (R@1 of the exact place "
            f"{recall_of}, with a projection {self.recall(best):.1f})"
        )
        return _settings(rival, reason, recalls)


def _settings(one: Contestant, reason: str, recalls: dict[tuple[float, bool], float]) -> Settings:
    return Settings(one.ridge, one.center, reason, recalls, one.rows, one.between_places, one.projects)


def _by_rule(problem: Problem, ridge: float | str, center: bool | str, why: str) -> Settings:
    share = common_mean_share(problem.scatter)
    parts = []
    if isinstance(ridge, str):
        parts.append(f"ridge by rule from γ = {problem.sampling_ratio:.3g}")
        ridge = rule_ridge(problem.sampling_ratio)
    if isinstance(center, str):
        parts.append(f"center by rule from a common mean of {share:.2f} (limit {COMMON_MEAN_LIMIT})")
        center = share > COMMON_MEAN_LIMIT
    return Settings(ridge, center, f"{' and '.join(parts)}: {why}")


def plan(problem: Problem) -> Plan | str:
    """The folds to hold out, or why there are none."""
    usable = usable_folds(problem, MAX_QUERIES)
    if len(usable) < 3:
        n = len(np.unique(problem.traversals))
        why = f"{n} traversals" if n < 3 else f"only {len(usable)} of {n} traversals can be left out"
        return f"{why}, and holding one out needs 3"
    n, d = problem.scatter.means.shape
    extent = affordable(n, d, len(usable))
    if extent == "whole":
        return Plan(usable, True)
    if extent == "none":
        return "too large to hold traversals out"
    some = usable_folds(problem, FEW_QUERIES)
    return Plan([some[at] for at in spread(len(some), FEW_FOLDS)], False)


def affordable(n: int, d: int, n_folds: int) -> str:
    """What can be tried, from the sizes alone: the "whole" set of candidates and folds, a "few", or "none"."""
    each = operations(n, d)
    if n_folds * (len(RIDGES) + 1) * each <= WHOLE:
        return "whole"
    return "few" if FEW_FOLDS * each <= MAX_OPERATIONS else "none"


def usable_folds(problem: Problem, max_queries: int) -> list[Fold]:
    """Up to 5 traversals that can be left out: their places stay, and so does some variation within views."""
    usable = []
    places: Any = problem.places[problem.index]
    for fold in folds(places, problem.traversals, max_folds=MAX_FOLDS, max_queries=max_queries):
        left = np.bincount(problem.index[fold.references], minlength=len(problem.scatter.counts))
        if (left > 0).sum() >= 2 and (left > 1).any() and len(fold.queries):
            usable.append(fold)
    return usable


def operations(n: int, d: int) -> float:
    """Floating-point operations of one candidate on one fold, of n views in d dimensions."""
    small, scored = min(n, d), min(n, MAX_PLACES)
    solving = d**3 / 3 + 2 * d**2 * small + 9 * small**3
    return float(solving + n * d**2 + 2 * scored * d * small + 2 * MAX_QUERIES * scored * small)
