"""Is the top match right, or is the query not in the map at all? A calibrated probability.

`displace.maps.witness` says what a match is judged by, `displace.maps.learning` how that becomes a probability. Here
is what a map keeps of it: the probability that the query is in the map at all, which grows with similarity and standing
and falls with the distance from the references, within what was seen when it was learned and not beyond, times the
probability that it is the first place and not its rival, which is a half without a lead. What speaks against a match
was learned from conditions that the map has: it counts in part only, so that a refusal is less sure than it looks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from displace.arrays import Vectors
from displace.sequence.together import judged_together
from displace.truth import Flags

BINS = 10
BASES = ("held-out traversals", "two traversals", "one traversal")
"""What a confidence can be learned from, the strongest first."""


@dataclass(frozen=True)
class Calibration:
    """How matches become probabilities, and how well that worked on held-out traversals."""

    weights: list[float]
    offsets: list[float]
    scales: list[float]
    """Of similarity, standing, lead and distance, and of registration where it was learned from:
    sigmoid(bias + Σ weight·(feature − offset)/scale − novelty)·sigmoid(steepness·lead)."""
    bias: float
    n_queries: int
    n_correct: int
    """Held-out queries it was fitted on, and how many of their top matches were right."""
    auc: float
    """Area under the ROC curve for right against wrong top matches; each fold judged by the others' fit."""
    error: float
    """Expected calibration error over ten bins, judged likewise."""
    curve: list[list[float]]
    """Mean probability, share of right matches and number of queries in each bin that has any; in shares and error,
    queries without an answer count as often as the confidence reckons with."""
    traversals: list[str]
    """Traversals that were held out."""
    lowest: list[float] = field(default_factory=list)
    highest: list[float] = field(default_factory=list)
    """Range of the features that were seen, which bounds those of queries. Empty for maps of the first release, whose
    features are others: top score, margin over the second place, and standard score against the next nineteen."""
    farthest: float | None = None
    spread: float = 1.0
    """Distance up to which a query is as near to its references as right matches are, and the scale beyond it: t scales
    farther take t + t²/2 from the logarithm of the odds (`novelty`)."""
    steepness: float = 8.0
    """Of the lead, for the choice between the first place and its rival."""
    ceiling: float = 1.0
    """Highest probability that is given."""
    doubt: float = 1.0
    """What the logarithm of the odds is multiplied by below one half (`tempered`)."""
    centred: bool = False
    """Whether similarity and standing are measured from the mean of the references."""
    basis: str = BASES[0]
    """What it was learned from: "held-out traversals"; "two traversals", a quarter of one held out at a time; or "one
    traversal", where there are no right matches to learn from and fixed weights are used."""

    @property
    def reads_rankings(self) -> bool:
        """Whether it is of the first release: scores are all that it is computed from."""
        return not self.lowest

    def probability(self, evidence: Vectors, together: bool = False) -> Vectors:
        """Return the probability (q,) that the first place is right, from its evidence (q, 4 or 5).

        Queries judged `together` are so in view of each other: pictures of another route are then refused. Not so in
        maps of one traversal, which have no right matches to compare with.
        """
        bounded = np.clip(evidence[:, : len(self.weights)], self.lowest, self.highest)
        odds = self._odds(bounded)
        if self.farthest is not None:
            odds = odds - novelty(evidence[:, 3], self.farthest, self.spread)
        found = sigmoid(odds) * sigmoid(self.steepness * bounded[:, 2])
        if together and self.basis != BASES[2] and 0 < self.n_correct < self.n_queries:
            found = judged_together(found, self.n_correct / self.n_queries)
        return np.minimum(tempered(found, self.doubt), self.ceiling)

    def probability_of_scores(self, scores: Vectors) -> Vectors:
        """Return it as maps of the first release do, from the best scores (q, up to 20)."""
        return sigmoid(self._odds(ranking_features(scores)))

    def _odds(self, features: Vectors) -> Vectors:
        odds: Vectors = (features - self.offsets) / self.scales @ np.asarray(self.weights) + self.bias
        return odds

    def to_json(self) -> dict[str, Any]:
        """Return a record for the map's header."""
        return asdict(self)


def novelty(distance: Vectors, farthest: float, spread: float) -> Vectors:
    """What a distance beyond that of right matches takes from the logarithm of the odds."""
    beyond = np.maximum((distance - farthest) / spread, 0)
    result: Vectors = beyond + beyond**2 / 2
    return result


def tempered(probability: Vectors, doubt: float) -> Vectors:
    """Multiply the logarithm of the odds by `doubt` below one half, so that no decision at a half or above changes.

    >>> tempered(np.array([0.1, 0.5, 0.9]), 0.5).round(2).tolist()
    [0.25, 0.5, 0.9]
    """
    weak = probability**doubt
    softer: Vectors = weak / (weak + (1 - probability) ** doubt)
    return np.where(probability < 0.5, softer, probability)


def ranking_features(scores: Vectors) -> Vectors:
    """Top score, margin over the second, and standard score against the next ones; shape (q, 3)."""
    scores = np.asarray(scores[:, :20], np.float64)
    top, rest = scores[:, 0], scores[:, 1:]
    if rest.shape[1] == 0:
        return np.stack([top, np.zeros_like(top), np.zeros_like(top)], axis=1)
    spread = np.maximum(rest.std(axis=1), 1e-6)
    return np.stack([top, top - rest[:, 0], (top - rest.mean(axis=1)) / spread], axis=1)


def reliability(probability: Vectors, right: Flags, importance: Vectors | None = None) -> list[list[float]]:
    """Mean probability, share of right matches and count, in ten equal bins that are not empty.

    What each match counts in the means is its `importance`; by default all the same.
    """
    counts = np.ones(len(right)) if importance is None else importance
    return [
        [
            float(np.average(probability[own], weights=counts[own])),
            float(np.average(right[own], weights=counts[own])),
            int(own.sum()),
        ]
        for own in _bins(probability)
    ]


def calibration_error(probability: Vectors, right: Flags, importance: Vectors | None = None) -> float:
    """Expected calibration error: mean gap between probability and share of right matches, by bin."""
    counts = np.ones(len(right)) if importance is None else importance
    gap = counts * (probability - right)
    return float(sum(abs(gap[own].sum()) for own in _bins(probability)) / counts.sum())


def _bins(probability: Vectors) -> list[Flags]:
    at = np.clip((probability * BINS).astype(int), 0, BINS - 1)
    return [at == number for number in np.unique(at)]


def area_under_curve(probability: Vectors, right: Flags) -> float:
    """Chance that a right match has the higher probability than a wrong one, ties counting half.

    >>> area_under_curve(np.array([0.9, 0.2, 0.6, 0.6]), np.array([True, False, True, False]))
    0.875
    """
    n = int(right.sum())
    if n in (0, len(right)):
        return 0.5
    _, at, counts = np.unique(probability, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[at]
    return float((ranks[right].sum() - n * (n + 1) / 2) / (n * (len(right) - n)))


def sigmoid(x: Vectors) -> Vectors:
    """1/(1 + e⁻ˣ), without overflow."""
    result: Vectors = 1 / (1 + np.exp(-np.clip(x, -50, 50)))
    return result
