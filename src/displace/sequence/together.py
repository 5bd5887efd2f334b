"""Many queries judged together: whether hardly any of them is in the map, which no single one can tell.

Matches are called right with some probability in view of how often they were right where that was learned. Of a folder
of photos from elsewhere some look right all the same. How often matches of these very queries are right is found by
expectation and maximisation (Saerens, Latinne and Decaestecker 2002): each is judged in view of the share of right ones
so far, and their mean is the next share. For queries of another route it ends at nothing.
"""

from __future__ import annotations

import numpy as np

from displace.arrays import Vectors
from displace.sequence.engine import Floats

HARDLY = 0.02
"""Share of right matches below which queries count as foreign, and are judged by their own share; as they are where it
is larger than usual. Between they are judged as they were: of a condition that the map has not seen, right matches look
worse than those it learned from, and their share comes out too small."""
MOST = 0.95
"""Share that is reckoned with at most."""
_ROUNDS, _AT_ONCE = 1000, 3
"""At most, of all matches, and with each one that joins them."""
_TELL = 30
"""Matches that tell a share."""
_SURE = 5
"""Sure matches that tell what the condition does to all."""
_MORE = 2.0
"""Logarithm of the odds that a query gains at most by how sure it is without adaptation."""
_UNSURE = 0.25
"""Share of the sure matches that look less likely without adaptation than what is taken for the condition."""
_LEAST = 1e-4
"""Share from which it is sought anew with each match: from less, it would never grow again."""


def judged_together(probability: Floats, usual: float) -> Floats:
    """Probabilities of matches in view of each other; each holds were `usual`, in (0, 1), the share of right ones.

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
    """Probabilities of matches in view of their own share of right ones, whatever it is.

    >>> judged_by_share(np.array([0.6, 0.9, 0.99, 0.1]), 0.7).round(2).tolist()
    [0.49, 0.85, 0.98, 0.07]
    """
    ratios = _ratios(probability, usual)
    return _judged(ratios, min(own_share(ratios, usual), MOST), len(ratios))


def agreed(adapted: Vectors, plain: Vectors, under_way: bool = False) -> Floats:
    """Probabilities of adapted matches in view of how sure the same queries are without adaptation.

    A photo from elsewhere that is located among photos of the route may stand out of their condition; it does not
    resemble the map, though. So the mean of the logarithms of both odds counts, the latter twice. In a condition that
    the map has not seen all queries look unlikely without adaptation, the surest matches, too: what three in four of
    these reach is then taken for the condition, and not for a sign. What is refused beyond doubt stays refused, and so
    does everything where hardly any match is right. `under_way`, each is judged in view of those before it only.

    >>> adapted = np.full(10, 0.8)
    >>> agreed(adapted, np.r_[np.full(9, 0.8), 0.02]).round(2).tolist()[-2:]
    [0.8, 0.11]
    >>> agreed(adapted, np.full(10, 0.02)).round(2).tolist()[-2:]
    [0.61, 0.61]
    """
    by_adapting, by_itself = _log_odds(adapted), _log_odds(plain)
    sure = by_adapting > 0
    until = range(1, len(sure) + 1) if under_way else [len(sure)]
    condition = np.array([_condition(by_itself[:end][sure[:end]]) for end in until])
    some_right = np.array([np.mean(adapted[:end]) >= HARDLY for end in until])
    odds = np.minimum((by_adapting + 2 * (by_itself - condition)) / 3, by_adapting + _MORE * some_right)
    found: Floats = 1 / (1 + np.exp(-odds))
    return found


def _condition(by_itself: Floats) -> float:
    """What a condition takes from the logarithm of the odds of sure matches; at most 0."""
    return min(0.0, float(np.quantile(by_itself, _UNSURE))) if len(by_itself) >= _SURE else 0.0


def _log_odds(probability: Vectors) -> Floats:
    own = np.clip(np.asarray(probability, np.float64), 1e-6, 1 - 1e-6)
    return np.log(own / (1 - own))


def judged_under_way(probability: Floats, usual: float) -> Floats:
    """The same, each in view of those before it: after so many that they tell a share."""
    ratios, share = _ratios(probability, usual), usual
    found = np.array(probability, np.float64)
    for at in range(len(ratios)):
        share = own_share(ratios[: at + 1], max(share, _LEAST), _AT_ONCE)
        if at >= _TELL and share < HARDLY:
            found[at] = _judged(ratios[at], share, at + 1)
    return found


def _ratios(probability: Floats, usual: float) -> Floats:
    """How much likelier each match looks if it is right than if it is wrong."""
    own = np.clip(np.asarray(probability, np.float64), 1e-12, 1 - 1e-12)
    return own / (1 - own) * (1 - usual) / usual


def _judged(ratios: Floats, share: float, n: int) -> Floats:
    """Probabilities in view of a share of `n` matches; one of them may be right."""
    odds = ratios * max(share, 1 / n) / (1 - max(share, 1 / n))
    found: Floats = odds / (1 + odds)
    return found


def own_share(ratios: Floats, usual: float, rounds: int = _ROUNDS) -> float:
    """Share of right matches, from how much likelier each looks if it is right than if it is wrong, (q,)."""
    share = usual
    for _ in range(rounds):
        odds = ratios * share / (1 - share)
        after = float(np.clip((odds / (1 + odds)).mean(), 1e-9, 1 - 1e-9))
        if abs(after - share) < 1e-6:
            break
        share = after
    return share
