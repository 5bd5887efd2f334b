"""Confidence of many queries together: their own prior of being in the map is estimated and replaces the learned one.

A calibrated probability p holds for the share π of right matches in its training data. For queries with another share
π' the odds are p/(1−p) · (1−π)/π · π'/(1−π'). π' is estimated from the queries by EM (Saerens, Latinne and Decaestecker
2002): the mean of the posteriors is the next π'. For photos of another route it ends near 0, and all are refused.
"""

from __future__ import annotations

import numpy as np

from displace.arrays import Vectors, log_odds, sigmoid
from displace.sequence.engine import Floats

HARDLY = 0.02
"""Estimated share below which queries count as foreign, and get their own share as prior; so do those above the learned
share. Between the two the learned prior stays: in a condition new to the map right matches look worse than in training,
and the estimate is too small."""
MOST = 0.95
"""Largest share that is used as a prior."""
_ROUNDS, _ROUNDS_ONLINE = 1000, 3
"""Most EM iterations: for a batch, and online with each new match."""
_LEAST_MATCHES = 30
"""Matches that an online estimate needs before it is used."""
_LEAST_SURE = 5
"""Matches above one half that an estimate of the condition's effect needs."""
_MOST_GAIN = 2.0
"""Most log-odds that an adapted match gains from its confidence without adaptation."""
_QUANTILE = 0.25
"""Quantile of the unadapted log-odds of sure matches that is attributed to the condition."""
_RAISED, _HALVINGS = 8.0, 30
"""Most that log-odds are raised by, and steps of the search for how much."""
_CLIP = 1e-6
"""Probabilities are clipped this far from 0 and 1 before their log-odds are taken."""
_LEAST_SHARE = 1e-4
"""Share at which an online EM restarts at least: from 0 it could not grow again."""


def judged_together(probability: Floats, usual: float) -> Floats:
    """Probabilities of matches with their own prior where it says that they are foreign, or surer than usual.

    `usual`, in (0, 1), is the share of right matches for which `probability` was calibrated.

    >>> judged_together(np.array([0.6, 0.05, 0.2, 0.1]), 0.7).round(2).tolist()
    [0.18, 0.01, 0.03, 0.02]
    >>> judged_together(np.array([0.6, 0.9, 0.99, 0.1]), 0.7).round(2).tolist()
    [0.6, 0.9, 0.99, 0.1]
    """
    share = own_share(_ratios(probability, usual), usual)
    if HARDLY <= share <= usual:
        return np.asarray(probability, np.float64)
    return judged_by_share(probability, usual)


def judged_by_share(probability: Floats, usual: float) -> Floats:
    """Probabilities of matches with their own share of right ones as prior, whatever it is.

    >>> judged_by_share(np.array([0.6, 0.9, 0.99, 0.1]), 0.7).round(2).tolist()
    [0.49, 0.85, 0.98, 0.07]
    """
    ratios = _ratios(probability, usual)
    return _judged(ratios, min(own_share(ratios, usual), MOST), len(ratios))


def judged_under_way(probability: Floats, usual: float) -> Floats:
    """`judged_together` online: each match by the share among those so far, and only where that says foreign."""
    ratios, share = _ratios(probability, usual), usual
    found = np.array(probability, np.float64)
    for at in range(len(ratios)):
        share = own_share(ratios[: at + 1], max(share, _LEAST_SHARE), _ROUNDS_ONLINE)
        if at >= _LEAST_MATCHES and share < HARDLY:
            found[at] = _judged(ratios[at], share, at + 1)
    return found


def judged_in_order(probability: Vectors, right: float) -> Floats:
    """Probabilities whose log-odds are all raised until they add up to a number of right matches that is known.

    What the order of matches proves holds in a light that the map has not seen, where all of them look too bad. None is
    lowered: the number is a lower bound.

    >>> judged_in_order(np.array([0.5, 0.1, 0.01]), 1.5).round(2).tolist()
    [0.9, 0.51, 0.09]
    """
    odds, right = log_odds(probability, _CLIP), min(right, MOST * len(probability))
    low, high = 0.0, _RAISED
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if float(sigmoid(odds + middle).sum()) < right else (low, middle)
    return sigmoid(odds + low)


def agreed(adapted: Vectors, plain: Vectors, under_way: bool = False) -> Floats:
    """Combine the probabilities of adapted matches with those of the same queries without adaptation.

    A foreign photo among photos of the route may stand out after adaptation, but does not resemble the map without. So
    the log-odds are (adapted + 2 · (plain − condition)) / 3. In a condition new to the map all queries look unlikely
    without adaptation; `condition` ≤ 0 is what the upper three quarters of the sure matches reach, and is not held
    against them. The log-odds rise by at most `_MOST_GAIN`, and not at all where hardly any match is right.
    `under_way`, each is judged by those before it only.

    >>> adapted = np.full(10, 0.8)
    >>> agreed(adapted, np.r_[np.full(9, 0.8), 0.02]).round(2).tolist()[-2:]
    [0.8, 0.11]
    >>> agreed(adapted, np.full(10, 0.02)).round(2).tolist()[-2:]
    [0.61, 0.61]
    """
    by_adapting, by_itself = log_odds(adapted, _CLIP), log_odds(plain, _CLIP)
    sure = by_adapting > 0
    until = range(1, len(sure) + 1) if under_way else [len(sure)]
    condition = np.array([_condition(by_itself[:end][sure[:end]]) for end in until])
    some_right = np.array([np.mean(adapted[:end]) >= HARDLY for end in until])
    odds = np.minimum((by_adapting + 2 * (by_itself - condition)) / 3, by_adapting + _MOST_GAIN * some_right)
    return sigmoid(odds)


def _condition(by_itself: Floats) -> float:
    """Effect of the condition on the unadapted log-odds, from those of the sure matches; at most 0."""
    return min(0.0, float(np.quantile(by_itself, _QUANTILE))) if len(by_itself) >= _LEAST_SURE else 0.0


def _ratios(probability: Floats, usual: float) -> Floats:
    """Likelihood ratios, right against wrong: the odds without the prior `usual`."""
    own = np.clip(np.asarray(probability, np.float64), 1e-12, 1 - 1e-12)
    return own / (1 - own) * (1 - usual) / usual


def _judged(ratios: Floats, share: float, n: int) -> Floats:
    """Posteriors with a share of `n` matches as prior; at least 1/n, as one of them may be right."""
    odds = ratios * max(share, 1 / n) / (1 - max(share, 1 / n))
    found: Floats = odds / (1 + odds)
    return found


def own_share(ratios: Floats, usual: float, rounds: int = _ROUNDS) -> float:
    """Share of right matches by EM, from likelihood ratios (q,); it starts at `usual`."""
    share = usual
    for _ in range(rounds):
        odds = ratios * share / (1 - share)
        after = float(np.clip((odds / (1 + odds)).mean(), 1e-9, 1 - 1e-9))
        if abs(after - share) < 1e-6:
            break
        share = after
    return share
