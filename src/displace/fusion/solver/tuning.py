"""DisPlace's automatic settings: how large a ridge, and whether to centre.

S_W is estimated from Σ(K_p − 1) deviations in D dimensions; γ = D/Σ(K_p − 1) says how well. Near γ = 1 the smallest
eigenvalues of S_W are noise, and without a ridge the projection consists of it. The ridge is ε·tr(S_W)/D.

**By rule.** ε = min(3, γ³/(1+γ²)): vanishing where the sample is good, bounded where it is poor. Centre where the
common mean holds more than 0.45 of the descriptors' energy, as for HOG or ReLU features.

**By cross-validation**, with at least 3 traversals and a problem that is small enough (`affordable`, a rule on
sizes, so that equal data give equal settings on every machine): each of up to 5 traversals in turn is taken out of the
statistics and its references are the queries; the ε and the centring with the highest mean R@1 are taken. Candidates
below a tenth of the rule's ε are left out: with a traversal removed γ is larger, on the far side of 1 a vanishing ridge
does less harm than it will do at the γ of all traversals, and cross-validation cannot see that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError

from displace.arrays import Indices, Vectors, l2_normalize
from displace.fusion.solver.eigen import SMALL, solve
from displace.fusion.solver.scatter import Scatter
from displace.holdout import Fold, folds
from displace.threads import one_blas_thread

RIDGES = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Candidates for ε, beside the rule's."""
MAX_FOLDS = 5
MAX_QUERIES = 500
"""Queries of one fold; they are spread evenly over its places."""
MAX_OPERATIONS = 5e11
"""Largest cross-validation that is run, in floating-point operations: seconds to half a minute on one core."""
COMMON_MEAN_LIMIT = 0.45


@dataclass(frozen=True)
class Settings:
    """What was decided, and why.

    Parameters
    ----------
    ridge : float
        ε; the ridge is ε·tr(S_W)/D.
    center : bool
        Whether the mean of the place means is subtracted before projecting.
    reason : str
        One line for a person.
    recalls : dict
        Mean R@1 (%) of each (ε, centre) compared; empty where a rule decided.
    """

    ridge: float
    center: bool
    reason: str
    recalls: dict[tuple[float, bool], float]


@dataclass(frozen=True)
class Problem:
    """References, their statistics and how the projection will be cut off.

    Parameters
    ----------
    vectors : array of shape (m, d)
        References, or their coordinates in their own span (then d < D).
    index : array of shape (m,)
        Row of each reference's place.
    traversals : array of shape (m,)
    scatter : Scatter
        Statistics of `vectors` with `index` as place ids.
    dim : int
        D, the dimension of the descriptors.
    tau : float
    n_components : int or None
    """

    vectors: Vectors
    index: Indices
    traversals: NDArray[Any]
    scatter: Scatter
    dim: int
    tau: float
    n_components: int | None

    @property
    def sampling_ratio(self) -> float:
        """γ = D / Σ(K_p − 1)."""
        return self.dim / self.scatter.freedom if self.scatter.freedom else float("inf")


def rule_ridge(sampling_ratio: float) -> float:
    """ε for a given γ.

    >>> rule_ridge(1.0), rule_ridge(float("inf"))
    (0.5, 3.0)
    """
    if sampling_ratio > 10:
        return 3.0
    return min(3.0, sampling_ratio**3 / (1 + sampling_ratio**2))


def common_mean_share(scatter: Scatter) -> float:
    """Share of the descriptors' energy in their common mean: ‖μ‖² of unit-length references."""
    energy = scatter.within_trace() + scatter.mean_square()
    return float(scatter.mean @ scatter.mean) / energy if energy > 0 else 0.0


def decide(problem: Problem, ridge: float | str, center: bool | str) -> Settings:
    """Decide what is "auto" in `ridge` and `center`; what is given is taken."""
    auto = [name for name, value in (("ridge", ridge), ("center", center)) if isinstance(value, str)]
    if not auto:
        return Settings(float(ridge), bool(center), "as given", {})
    by_rule = rule_ridge(problem.sampling_ratio)
    if not len(problem.vectors):
        return _decide_by_rule(
            problem, ridge, center, "too large to cross-validate, or references not at hand"
        )
    usable = usable_folds(problem)
    if len(usable) < 3:
        n = len(np.unique(problem.traversals))
        why = f"{n} traversals" if n < 3 else f"only {len(usable)} of {n} traversals can be left out"
        return _decide_by_rule(problem, ridge, center, f"{why}, and cross-validation needs 3")
    if not affordable(len(problem.scatter.means), problem.scatter.means.shape[1], len(usable)):
        return _decide_by_rule(problem, ridge, center, "too large to cross-validate")
    candidates = dict.fromkeys(
        [by_rule, *(e for e in RIDGES if e >= by_rule / 10)]
    )  # the rule's may be among them
    ridges = list(candidates) if "ridge" in auto else [float(ridge)]
    centers = [False, True] if "center" in auto else [bool(center)]
    recalls = cross_validate(problem, usable, ridges, centers)
    if not recalls:
        return _decide_by_rule(problem, ridge, center, "no fold could be solved")

    def merit(setting: tuple[float, bool]) -> tuple[float, float, bool]:
        distance = abs(np.log(setting[0] / by_rule)) if setting[0] > 0 else 0.0
        return recalls[setting], -distance, not setting[1]  # among equals: nearest to the rule, not centred

    best = max(recalls, key=merit)
    reason = f"{' and '.join(auto)} by leave-one-traversal-out over {len(usable)} traversals"
    return Settings(*best, f"{reason} (R@1 {recalls[best]:.1f})", recalls)


def _decide_by_rule(problem: Problem, ridge: float | str, center: bool | str, why: str) -> Settings:
    share = common_mean_share(problem.scatter)
    parts = []
    if isinstance(ridge, str):
        parts.append(f"ridge by rule from γ = {problem.sampling_ratio:.3g}")
        ridge = rule_ridge(problem.sampling_ratio)
    if isinstance(center, str):
        parts.append(f"center by rule from a common mean of {share:.2f} (limit {COMMON_MEAN_LIMIT})")
        center = share > COMMON_MEAN_LIMIT
    return Settings(ridge, center, f"{' and '.join(parts)}: {why}", {})


def usable_folds(problem: Problem) -> list[Fold]:
    """Up to 5 traversals that can be left out: their places stay, and so does some variation within places."""
    usable = []
    for fold in folds(problem.index, problem.traversals, max_folds=MAX_FOLDS, max_queries=MAX_QUERIES):
        left = np.bincount(problem.index[fold.references], minlength=len(problem.scatter.counts))
        if (left > 0).sum() >= 2 and (left > 1).any() and len(fold.queries):
            usable.append(fold)
    return usable


def affordable(n: int, d: int, n_folds: int) -> bool:
    """Whether cross-validation of n places in d dimensions stays below `MAX_OPERATIONS`, from the sizes alone."""
    small = min(n, d)
    each = d**3 / 3 + 2 * d**2 * small + 9 * small**3 + 2 * n * d * small + 2 * MAX_QUERIES * n * small
    return bool(n_folds * (len(RIDGES) + 1) * each <= MAX_OPERATIONS)


def cross_validate(
    problem: Problem, usable: list[Fold], ridges: list[float], centers: list[bool]
) -> dict[tuple[float, bool], float]:
    """Mean R@1 (%) over the folds of each (ε, centre); settings that cannot be solved are left out."""
    recalls: dict[tuple[float, bool], list[float]] = {}
    with one_blas_thread(problem.scatter.means.shape[1] <= SMALL):
        for fold in usable:
            out = ~fold.references
            scatter = problem.scatter.copy().remove(problem.vectors[out], problem.index[out])
            queries, truth = problem.vectors[fold.queries], problem.index[fold.queries]
            unit = scatter.within_trace() / problem.dim
            for ridge in ridges:
                try:
                    P = solve(scatter, ridge * unit, problem.tau, problem.n_components).projection
                except LinAlgError:
                    continue
                projected = scatter.means @ P, queries @ P
                for center in centers:
                    shift = scatter.mean.astype(P.dtype) @ P if center else 0
                    places, q = (l2_normalize(vectors - shift) for vectors in projected)
                    hits = scatter.place_ids[(q @ places.T).argmax(axis=1)] == truth
                    recalls.setdefault((ridge, center), []).append(100 * float(hits.mean()))
    return {key: float(np.mean(values)) for key, values in recalls.items() if len(values) == len(usable)}
