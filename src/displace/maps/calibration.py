"""Is the top match right, or is the query not in the map at all? A calibrated probability.

A logistic regression on three numbers of a query's ranking: the top score, its margin over the second place, and how
many standard deviations it lies above the next nineteen. It is fitted at build time: each traversal in turn is taken as
queries to a map of the others, from which a contiguous stretch of places (in the natural order of their ids) is removed
as well, so that some queries have no right answer. A query inside the stretch but within its margin is left out, since
what it sees may be in the map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from displace.arrays import Vectors
from displace.fusion.base import Fusion
from displace.holdout import Fold, folds_with_a_gap
from displace.places import Places
from displace.references import ReferenceSet
from displace.truth import Flags, Truth

TOP = 20
"""Places whose scores the confidence is computed from."""
MAX_FOLDS = 5
MAX_QUERIES = 2000
BINS = 10


@dataclass(frozen=True)
class Calibration:
    """How rankings become probabilities, and how well that worked on held-out traversals.

    Parameters
    ----------
    weights, offsets, scales : list of float
        Of the three features: probability = sigmoid(bias + Σ weight·(feature − offset)/scale).
    bias : float
    n_queries, n_correct : int
        Held-out queries it was fitted on, and how many of their top matches were right.
    auc : float
        Area under the ROC curve for right against wrong top matches; each fold judged by the others' fit.
    error : float
        Expected calibration error over ten bins, judged likewise.
    curve : list of [float, float, int]
        Mean probability, share of right matches and number of queries in each bin that has any.
    traversals : list of str
        Traversals that were held out.
    """

    weights: list[float]
    offsets: list[float]
    scales: list[float]
    bias: float
    n_queries: int
    n_correct: int
    auc: float
    error: float
    curve: list[list[float]]
    traversals: list[str]

    def probability(self, scores: Vectors) -> Vectors:
        """Return the probability (q,) that the first place is right, from the best scores (q, up to 20)."""
        x = (features(scores) - self.offsets) / self.scales
        return _sigmoid(x @ np.asarray(self.weights) + self.bias)

    def to_json(self) -> dict[str, Any]:
        """Return a record for the map's header."""
        return asdict(self)


def features(scores: Vectors) -> Vectors:
    """Top score, margin over the second, and standard score against the next ones; shape (q, 3)."""
    scores = np.asarray(scores[:, :TOP], np.float64)
    top, rest = scores[:, 0], scores[:, 1:]
    if rest.shape[1] == 0:
        return np.stack([top, np.zeros_like(top), np.zeros_like(top)], axis=1)
    spread = np.maximum(rest.std(axis=1), 1e-6)
    return np.stack([top, top - rest[:, 0], (top - rest.mean(axis=1)) / spread], axis=1)


def calibrate(
    refs: ReferenceSet,
    fusion: Fusion,
    truth: Truth,
    progress: Callable[[int, int], None] | None = None,
    watch: Callable[[Fusion, ReferenceSet], None] | None = None,
) -> Calibration | None:
    """Fit on held-out traversals; None with fewer than three, or where all top matches are right or all wrong.

    Parameters
    ----------
    refs : ReferenceSet
    fusion : Fusion
        With the map's settings; it is cloned, not fitted.
    truth : Truth
        Which places count as the same.
    progress : callable, optional
        Called with (done, total) folds.
    watch : callable, optional
        Called with the fusion that a fold has fitted and the fold's queries, for what else they can tell.
    """
    if len(refs.traversal_ids) < 3:
        return None
    route = in_route_order(refs.info)
    held_out = list(
        folds_with_a_gap(refs.places, refs.traversals, route, max_folds=MAX_FOLDS, max_queries=MAX_QUERIES)
    )
    judged = []
    for number, fold in enumerate(held_out):
        seen = _judged(refs, fold, fusion, truth, watch)
        if seen is not None:
            judged.append(seen)
        if progress:
            progress(number + 1, len(held_out))
    if not judged:
        return None
    x, right = np.concatenate([f for f, _ in judged]), np.concatenate([r for _, r in judged])
    if right.all() or not right.any():
        return None
    probability = np.concatenate([_judge(judged, number) for number in range(len(judged))])
    fit = _fit(x, right)
    return Calibration(
        **fit,
        n_queries=len(right),
        n_correct=int(right.sum()),
        auc=area_under_curve(probability, right),
        error=calibration_error(probability, right),
        curve=reliability(probability, right),
        traversals=[str(fold.traversal) for fold in held_out],
    )


def _judged(
    refs: ReferenceSet,
    fold: Fold,
    fusion: Fusion,
    truth: Truth,
    watch: Callable[[Fusion, ReferenceSet], None] | None,
) -> tuple[Vectors, Flags] | None:
    """Features and correctness of one traversal's references against a map of the others with a stretch removed."""
    rest, queries = refs.select(fold.references), refs.select(fold.queries)
    if len(rest.place_ids) < 2 or len(queries) == 0:
        return None
    fitted = clone(fusion).fit_references(rest)
    if watch:
        watch(fitted, queries)
    matches = fitted.rank(queries.vectors, k=TOP)
    return features(matches.scores), truth.correct(matches.places[:, 0], queries.places)


def in_route_order(places: Places) -> NDArray[Any]:
    """Place ids as they follow each other: by their numbers along the route, else in natural order."""
    return in_natural_order(places.ids) if places.order is None else places.ids[places.order]


def in_natural_order(ids: NDArray[Any]) -> NDArray[Any]:
    """Place ids as they follow each other along a route: numbers by value, also those inside names.

    >>> in_natural_order(np.array(["p1", "p10", "p9"])).tolist()
    ['p1', 'p9', 'p10']
    """
    if ids.dtype.kind != "U":
        return np.sort(ids)
    from displace.images import natural_key  # brings Pillow, which locating does without

    return np.array(sorted(ids.tolist(), key=natural_key))


def _fit(x: Vectors, right: Flags) -> dict[str, Any]:
    """Coefficients of a logistic regression on standardised features."""
    from sklearn.linear_model import LogisticRegression

    offsets, scales = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
    model = LogisticRegression(C=10.0).fit((x - offsets) / scales, right)
    return {
        "weights": model.coef_[0].tolist(),
        "offsets": offsets.tolist(),
        "scales": scales.tolist(),
        "bias": float(model.intercept_[0]),
    }


def _judge(folds: list[tuple[Vectors, Flags]], number: int) -> Vectors:
    """Probabilities of one fold by a fit on the others; by their base rate where they cannot be fitted."""
    x = np.concatenate([f for i, (f, _) in enumerate(folds) if i != number] or [np.empty((0, 3))])
    right = np.concatenate([r for i, (_, r) in enumerate(folds) if i != number] or [np.empty(0, bool)])
    own = folds[number][0]
    if len(right) == 0 or right.all() or not right.any():
        return np.full(len(own), right.mean() if len(right) else 0.5)
    fit = _fit(x, right)
    return _sigmoid((own - fit["offsets"]) / fit["scales"] @ np.asarray(fit["weights"]) + fit["bias"])


def area_under_curve(probability: Vectors, right: Flags) -> float:
    """Chance that a right match has the higher probability than a wrong one.

    >>> area_under_curve(np.array([0.9, 0.2, 0.6]), np.array([True, False, False]))
    1.0
    """
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(right, probability))


def reliability(probability: Vectors, right: Flags) -> list[list[float]]:
    """Mean probability, share of right matches and count, in ten equal bins that are not empty."""
    at = np.clip((probability * BINS).astype(int), 0, BINS - 1)
    return [
        [float(probability[at == b].mean()), float(right[at == b].mean()), int((at == b).sum())]
        for b in range(BINS)
        if (at == b).any()
    ]


def calibration_error(probability: Vectors, right: Flags) -> float:
    """Expected calibration error: mean gap between probability and share of right matches, by bin."""
    curve = reliability(probability, right)
    return sum(abs(p - share) * n for p, share, n in curve) / len(right)


def _sigmoid(x: Vectors) -> Vectors:
    result: Vectors = 1 / (1 + np.exp(-np.clip(x, -50, 50)))
    return result
