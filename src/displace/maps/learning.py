"""Fits the confidence of a map (`calibration`) to its own references, leaving one traversal out at a time.

Folds: each traversal is located in a map of the others, from which a stretch of the route is removed as well, so that
matches are right, wrong, or have no right answer (negatives). With two traversals a quarter of one is held out at a
time. With one there are only negatives, and fixed weights are used on centred features.

Fit: strength s = Σ WEIGHTS·(feature − offset)/scale, where offset and scale are mean and deviation of the negatives.
P(right) = sigmoid(slope·s + bias)·sigmoid(steepness·lead) is fitted by penalised maximum likelihood, then the bias is
bounded (`_bounded`, `_refusing_half`). The relative weights are fixed: fitted to the few matches of each small map,
they did worse on data sets that they were not chosen on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import clone

from displace.arrays import Vectors, sigmoid
from displace.cell_layout import CellLayout
from displace.fusion.base import Fusion, fit_unwarned
from displace.holdout import Fold, folds_of_quarters, folds_with_a_gap
from displace.maps.calibration import (
    BASES,
    Calibration,
    area_under_curve,
    calibration_error,
    reliability,
)
from displace.maps.samples import Samples, joined
from displace.maps.witness import TOP, Anchors, RowSpace, Witness
from displace.progress import Stage, counted
from displace.references import ReferenceSet
from displace.truth import Flags, Truth

MAX_FOLDS = 5
"""Traversals that are held out at most: bounds the time of a build."""
MAX_QUERIES = 2000
"""Queries of a fold at most, likewise."""
FEW_PLACES = 100
"""Places up to which each traversal is held out three times, with another stretch removed each time."""
WEIGHTS = {4: (1.0, 0.5, 0.0, -0.6), 5: (0.8, 0.4, 0.0, -0.5, 0.8)}
"""Relative weights of similarity, standing, lead, distance (and registration); the lead has a factor of its own."""
SHARE = 1 / 7
"""Prior share of queries without an answer: the negatives are weighted to it in the fit."""
QUANTILE = 0.98
"""Quantile of the distances of a fold's right matches beyond which `novelty` begins."""
FEW = 5
"""Queries from which mean and deviation are not estimated: more are taken in."""
APART = 0.5
"""Least scale of novelty, as a share of the difference in median distance of negatives and right matches: recordings of
one day are so near to each other that any other day would count as new."""
STRONG = 2.5
"""Strength (deviations of the negatives) at which P is at least one half, unless one wrong match in twenty is stronger.
Where nothing lies between wrong and right matches, as with recordings of one day, the fit would put one half midway,
and right matches of another day are not that strong."""
MOST = 1.0
"""Highest log-odds at strength 0, the mean of the negatives. Where right matches of one traversal look like negatives,
the fit would accept most of these, and foreign pictures with them."""
TELLING = 8
"""Negatives of a traversal from which on half of them must be refused."""
ENOUGH = 10
"""Right matches that a fit needs."""
SLOPE, STEEPNESS = (1.0, 75.0), (8.0, 1.0)
"""Gaussian priors of the slope and of the steepness: mean, and precision (1/variance)."""
FIXED = {4: ((0.2, 0.3, 0.4, -0.6), -2.5), 5: ((0.2, 0.25, 0.35, -0.5, 0.4), -2.5)}
"""Weights and bias with fewer than `ENOUGH` right matches."""
CENTRED = {4: ((0.4, 0.8, 0.5, -0.4), -3.3), 5: ((0.35, 0.7, 0.45, -0.35, 0.5), -3.3)}
"""The same for centred features, those of maps of one traversal."""
USUAL = {1: (1.2, 2.2), 2: (0.35, 0.4)}
"""Mean and deviation of standing and lead then, by index of the feature: both are dimensionless, and these of all maps
are better than an estimate from the few matches of one."""
WIDER = 3.0
"""Factor of the scale of novelty then: queries come in conditions that one traversal does not show."""
REACH = 8
"""Deviations to which features are clipped with fewer than `ENOUGH` right matches."""
CEILING = 0.75
"""Highest confidence with fewer than `ENOUGH` right matches."""
DOUBT = dict(zip(BASES, (0.6, 0.4, 0.3), strict=True))
"""Factor of negative log-odds (`tempered`): a right match in a condition new to the map looks as wrong ones do, and the
fewer conditions a map has, the more are new to it."""

Watch = Callable[[Fusion, ReferenceSet], None]
"""Gets the fusion that a fold has fitted, and the fold's queries."""


def learn(
    refs: ReferenceSet,
    fusion: Fusion,
    truth: Truth,
    progress: Stage | None = None,
    watch: Watch | None = None,
    cells: CellLayout | None = None,
) -> tuple[Calibration | None, Samples | None]:
    """Learn the confidence of a map; returns also the samples it was learned from. None where nothing can be held out.

    The fusion has the map's settings; it is cloned, not fitted. With two or more traversals, `watch` gets the first
    fold of each, for what else is learned from them. `cells` is given for descriptors that are a grid over the picture.
    """
    n = len(refs.traversal_ids)
    watch = watch if n > 1 else None
    plan, parts, seen = list(_plan(refs)), [], set()
    for fold in counted(plan, progress):
        watch_fold = None if fold.traversal in seen else watch
        parts.append(_fold_samples(refs, fold, fusion, truth, watch_fold, n == 1, cells))
        seen.add(fold.traversal)
    samples = joined(parts)
    return (None, None) if samples is None else (calibration_of(samples, basis_of(n)), samples)


def basis_of(n_traversals: int) -> str:
    """Entry of `BASES` for a map of so many traversals."""
    return BASES[max(0, 3 - n_traversals)]


def _plan(refs: ReferenceSet) -> Iterator[Fold]:
    route, few = refs.info.route, len(refs.place_ids) <= FEW_PLACES
    if len(refs.traversal_ids) < 3:
        most = 8 if few else 4
        return folds_of_quarters(refs.places, refs.traversals, route, max_folds=most, max_queries=MAX_QUERIES)
    return folds_with_a_gap(
        refs.places,
        refs.traversals,
        route,
        max_folds=MAX_FOLDS,
        max_queries=MAX_QUERIES,
        gaps=3 if few else 1,
    )


def _fold_samples(
    refs: ReferenceSet,
    fold: Fold,
    fusion: Fusion,
    truth: Truth,
    watch: Watch | None,
    centred: bool,
    cells: CellLayout | None = None,
) -> Samples | None:
    """Features and labels of a fold's queries, located in a map of its references; None where it has too few."""
    rest, queries = refs.select(fold.references), refs.select(fold.queries)
    if len(queries) == 0 or len(rest.place_ids) < 3:
        return None
    fitted = fit_unwarned(clone(fusion), rest)
    if watch:
        watch(fitted, queries)
    rows, ids = fitted.rows(), fitted.place_ids_
    assert rows is not None
    space = RowSpace.of(rows)
    anchors = Anchors.of_references(space, rest, ids)
    matches = fitted.rank(queries.vectors, k=TOP)
    best = np.searchsorted(ids, matches.places)
    witness = Witness(space, anchors, truth, ids, cells)
    evidence = witness.evidence(queries.vectors, best, matches.scores, centred)
    labels = labelled(matches.places[:, 0], queries.places, ids, truth)
    return Samples.of_fold(evidence, labels, str(fold.traversal), centred)


def labelled(found: NDArray[Any], places: NDArray[Any], ids: NDArray[Any], truth: Truth) -> NDArray[np.int8]:
    """1 where the place found is right, 0 where it is wrong, −1 where the map `ids` has no right one."""
    labels = truth.correct(found, places).astype(np.int8)
    labels[(labels == 0) & ~truth.answerable(places, ids)] = -1
    return labels


def calibration_of(samples: Samples, basis: str) -> Calibration | None:
    """Fit and cross-validate the confidence; None with several traversals if all matches are right, or all wrong."""
    right = samples.right
    if basis != BASES[2] and (right.all() or not right.any()):
        return None
    fitted = _fit(samples, basis)
    held_out, importance = _cross_validated(samples, basis), _importance(samples)
    if held_out is None:
        return fitted
    return replace(
        fitted,
        auc=area_under_curve(held_out, right),
        error=calibration_error(held_out, right, importance),
        curve=reliability(held_out, right, importance),
    )


def _fit(samples: Samples, basis: str) -> Calibration:
    """Fit the parameters; fixed ones where right matches are fewer than `ENOUGH`."""
    right, x = samples.right, samples.evidence
    offsets, scales = _units(samples)
    width, few = x.shape[1], right.sum() < ENOUGH
    if few:
        weights, bias = (CENTRED if samples.centred else FIXED)[width]
        farthest, spread = _novelty_range([x[:, 3]])
        if samples.centred:
            spread *= WIDER
            for feature, (usual, deviation) in USUAL.items():
                offsets[feature], scales[feature] = usual, deviation
        lowest, highest = offsets - REACH * scales, offsets + REACH * scales
        steepness = STEEPNESS[0]
    else:
        strength = (x - offsets) / scales @ WEIGHTS[width]
        slope, bias, steepness = logistic(strength, x[:, 2], right, _importance(samples))
        bias = _bounded(bias, slope, strength[~right])
        passes = _bias_at_half(strength, x[:, 2], slope, steepness)
        bias = min(bias, max(_refusing_half(passes, samples), -slope * STRONG))
        weights = tuple(slope * np.array(WEIGHTS[width]))
        lowest, highest = x.min(axis=0), x.max(axis=0)
        farthest, spread = _novelty_range(
            [x[right & (samples.folds == fold), 3] for fold in np.unique(samples.folds)]
        )
        spread = max(spread, APART * _distance_gap(samples))
    return Calibration(
        weights=[float(weight) for weight in weights],
        offsets=offsets.tolist(),
        scales=scales.tolist(),
        bias=bias,
        n_queries=len(right),
        n_correct=int(right.sum()),
        auc=0.5,
        error=0.0,
        curve=[],
        traversals=samples.traversals,
        lowest=lowest.tolist(),
        highest=highest.tolist(),
        farthest=farthest,
        spread=spread,
        steepness=steepness,
        ceiling=CEILING if few else 1.0,
        doubt=DOUBT[BASES[2] if few else basis],
        centred=samples.centred,
        basis=basis,
    )


def _units(samples: Samples) -> tuple[Vectors, Vectors]:
    """Mean and standard deviation of the features of the negatives; if those are few, of all wrong matches, or all."""
    choices = (samples.labels < 0, ~samples.right, np.ones(len(samples), bool))
    x = samples.evidence[next((some for some in choices if some.sum() > FEW), choices[-1])]
    return x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6)


def _importance(samples: Samples) -> Vectors:
    """Weight of each query, such that negatives make up `SHARE` of all."""
    without = samples.labels < 0
    odds = SHARE / (1 - SHARE) * (~without).sum() / max(int(without.sum()), 1)
    return np.where(without, odds, 1.0)


def _novelty_range(distances: list[Vectors]) -> tuple[float, float]:
    """`farthest` (quantile of the distances, mean over the folds) and `spread` (from the median to it) of novelty."""
    everything = np.concatenate(distances)
    ends = [np.quantile(part, QUANTILE) for part in distances if len(part) >= 3]
    farthest = float(np.mean(ends or [np.quantile(everything, QUANTILE)]))
    return farthest, max(farthest - float(np.median(everything)), 1e-6)


def _bounded(bias: float, slope: float, wrong: Vectors) -> float:
    """Bound a bias: P ≥ ½ for matches stronger than `STRONG` and 95 % of the wrong ones, log-odds ≤ `MOST` at 0.

    >>> _bounded(-5.0, 1.0, np.zeros(9)), _bounded(-5.0, 1.0, np.full(9, 4.0)), _bounded(3.0, 1.0, np.zeros(9))
    (-2.5, -4.0, 1.0)
    """
    strongest = float(np.quantile(wrong, 0.95)) if len(wrong) else 0.0
    return min(max(bias, -slope * max(STRONG, strongest)), MOST)


def _bias_at_half(strength: Vectors, lead: Vectors, slope: float, steepness: float) -> Vectors:
    """The bias at which P of each match is one half; infinite where it has no lead.

    >>> _bias_at_half(np.array([0.0, 2.0, 0.0]), np.array([9.0, 9.0, 0.0]), 1.0, 8.0).round(6).tolist()
    [0.0, -2.0, inf]
    """
    first = sigmoid(steepness * lead)
    with np.errstate(divide="ignore"):
        needed: Vectors = np.log(0.5 / np.maximum(first - 0.5, 0)) - slope * strength
    return needed


def _refusing_half(passes: Vectors, samples: Samples) -> float:
    """The highest bias that refuses half of the negatives of every traversal, with P < ½.

    A weak match in one season looks like a wrong one in another: over all seasons, the fit may accept most negatives of
    the one to keep the right matches of the other. A traversal lowers the bias no further than to lose a tenth of its
    own right matches.
    """
    names, without = np.array(samples.names)[samples.folds], samples.labels < 0
    bounds = [np.inf]
    for name in samples.traversals:
        own = names == name
        if (own & without).sum() >= TELLING:
            right = passes[own & samples.right]
            kept = np.quantile(right, 0.9, method="lower") if len(right) else -np.inf
            bounds.append(max(float(np.quantile(passes[own & without], 0.5, method="higher")), float(kept)))
    return min(bounds)


def _distance_gap(samples: Samples) -> float:
    """Median distance of the negatives less that of the right matches; at least 0."""
    right, without = samples.evidence[samples.right, 3], samples.evidence[samples.labels < 0, 3]
    return 0.0 if len(without) <= FEW else max(0.0, float(np.median(without) - np.median(right)))


def logistic(
    strength: Vectors, lead: Vectors, right: Flags, importance: Vectors
) -> tuple[float, float, float]:
    """Slope, bias and steepness by penalised maximum likelihood (priors `SLOPE`, `STEEPNESS`); see the module.

    Neither slope nor steepness is below 0.
    """

    def loss(given: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slope, bias, steepness = given
        present, first = sigmoid(slope * strength + bias), sigmoid(steepness * lead)
        probability = np.clip(present * first, 1e-12, 1 - 1e-12)
        value = -float(importance @ np.log(np.where(right, probability, 1 - probability)))
        value += SLOPE[1] / 2 * (slope - SLOPE[0]) ** 2 + STEEPNESS[1] / 2 * (steepness - STEEPNESS[0]) ** 2
        pull = importance * np.where(right, -1.0, probability / (1 - probability))
        of_present, of_first = pull * (1 - present), pull * (1 - first)
        gradient = [
            float(of_present @ strength) + SLOPE[1] * (slope - SLOPE[0]),
            float(of_present.sum()),
            float(of_first @ lead) + STEEPNESS[1] * (steepness - STEEPNESS[0]),
        ]
        return value, np.array(gradient)

    start = np.array([SLOPE[0], 0.0, STEEPNESS[0]])
    bounds = [(0, None), (None, None), (0, None)]
    slope, bias, steepness = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    return float(slope), float(bias), float(steepness)


def _cross_validated(samples: Samples, basis: str) -> Vectors | None:
    """Cross-validation: P of each query by a fit to the other traversals; None where one of these fits has too few."""
    names = np.array(samples.names)[samples.folds]
    probability = np.empty(len(samples))
    for name in np.unique(names):
        own, others = names == name, samples.take(names != name)
        if others.right.sum() < ENOUGH or others.right.all():
            return None
        probability[own] = _fit(others, basis).probability(samples.evidence[own])
    return probability
