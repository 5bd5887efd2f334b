"""Confidence of a match as a map stores it: P(the top match is right), from the evidence of `witness`.

    P = sigmoid(bias + Σ weight·(feature − offset)/scale − novelty) · sigmoid(steepness·lead)

The first factor is the probability that the query is in the map at all, with features clipped to the range seen in
training; the second that its place is the first and not its rival (the best other place), ½ without a lead. Log-odds
below 0 are shrunk (`tempered`): evidence against a match was learned in conditions that the map has, and a new one
looks foreign. `learning` fits the parameters; the measures of a calibration (ECE, AUC) are here, too.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from displace.arrays import Vectors, sigmoid
from displace.sequence.following import ranking_features
from displace.sequence.together import judged_together
from displace.truth import Flags

BINS = 10
"""Equal bins of the probability, for the calibration error and curve."""
BASES = ("held-out traversals", "two traversals", "one traversal")
"""What a confidence can be learned from, the strongest first."""


@dataclass(frozen=True)
class Calibration:
    """Parameters of the confidence (see the module), and how it did on held-out traversals."""

    weights: list[float]
    offsets: list[float]
    scales: list[float]
    """One for each feature: similarity, standing, lead, distance, and registration where the descriptor has it."""
    bias: float
    n_queries: int
    n_correct: int
    """Held-out queries it was fitted to, and how many of their top matches were right."""
    auc: float
    """Area under the ROC curve for right against wrong top matches, cross-validated over traversals."""
    error: float
    """Expected calibration error over ten bins, cross-validated likewise."""
    curve: list[list[float]]
    """Mean probability, share of right matches and number of queries in each bin that has any. In this and the error,
    queries without an answer are weighted to the share of them that is assumed (`learning.SHARE`)."""
    traversals: list[str]
    """Traversals that were held out."""
    lowest: list[float] = field(default_factory=list)
    highest: list[float] = field(default_factory=list)
    """Range of the features in training; those of queries are clipped to it. Empty for maps of the first release, whose
    features are others: top score, margin over the second place, and standard score against the next nineteen."""
    farthest: float | None = None
    spread: float = 1.0
    """Distance from its references that right matches stay within, and the scale beyond it: see `novelty`."""
    steepness: float = 8.0
    """Weight of the lead in the choice between the first place and its rival."""
    ceiling: float = 1.0
    """Highest probability that is given."""
    doubt: float = 1.0
    """Factor of log-odds below 0 (`tempered`)."""
    centred: bool = False
    """Whether similarity and standing are computed about the mean of the references: see `witness`."""
    basis: str = BASES[0]
    """What it was learned from: "held-out traversals"; "two traversals", a quarter of one held out at a time; or "one
    traversal", where there are no right matches to learn from and fixed weights are used."""

    @property
    def reads_rankings(self) -> bool:
        """Whether it is of the first release, and computed from scores alone."""
        return not self.lowest

    def probability(self, evidence: Vectors, together: bool = False) -> Vectors:
        """Return the probability (q,) that the first place is right, from its evidence (q, 4 or 5).

        With `together`, the prior probability of being in the map is estimated from all queries (`sequence.together`),
        so that pictures of another route are refused; not in maps of one traversal, whose weights imply no prior.
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
        """Return the probability as in maps of the first release, from the best scores (q, up to 20)."""
        return sigmoid(self._odds(ranking_features(scores)))

    def _odds(self, features: Vectors) -> Vectors:
        odds: Vectors = (features - self.offsets) / self.scales @ np.asarray(self.weights) + self.bias
        return odds

    def to_json(self) -> dict[str, Any]:
        """Return a record for the map's header."""
        return asdict(self)


def novelty(distance: Vectors, farthest: float, spread: float) -> Vectors:
    """Penalty in log-odds of a distance beyond that of right matches: t + t²/2, t = (distance − farthest) / spread."""
    beyond = np.maximum((distance - farthest) / spread, 0)
    result: Vectors = beyond + beyond**2 / 2
    return result


def tempered(probability: Vectors, doubt: float) -> Vectors:
    """Multiply negative log-odds by `doubt`; probabilities of one half and more stay as they are.

    >>> tempered(np.array([0.1, 0.5, 0.9]), 0.5).round(2).tolist()
    [0.25, 0.5, 0.9]
    """
    weak = probability**doubt
    softer: Vectors = weak / (weak + (1 - probability) ** doubt)
    return np.where(probability < 0.5, softer, probability)


def reliability(probability: Vectors, right: Flags, importance: Vectors | None = None) -> list[list[float]]:
    """Reliability curve: mean probability, share of right matches and count of each bin that is not empty.

    `importance` weights the matches in both means; by default equally.
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
    """Expected calibration error: mean over the matches of |mean probability − share of right ones| in their bin."""
    counts = np.ones(len(right)) if importance is None else importance
    gap = counts * (probability - right)
    return float(sum(abs(gap[own].sum()) for own in _bins(probability)) / counts.sum())


def _bins(probability: Vectors) -> list[Flags]:
    at = np.clip((probability * BINS).astype(int), 0, BINS - 1)
    return [at == number for number in np.unique(at)]


def area_under_curve(probability: Vectors, right: Flags) -> float:
    """Area under the ROC curve: P(a right match has the higher probability than a wrong one), ties counting half.

    >>> area_under_curve(np.array([0.9, 0.2, 0.6, 0.6]), np.array([True, False, True, False]))
    0.875
    """
    n = int(right.sum())
    if n in (0, len(right)):
        return 0.5
    _, at, counts = np.unique(probability, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[at]
    return float((ranks[right].sum() - n * (n + 1) / 2) / (n * (len(right) - n)))
