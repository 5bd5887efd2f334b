"""Many queries judged together: whether hardly any of them is in the map, which no single one can tell.

Matches are called right with some probability in view of how often they were right where that was learned. Of a folder
of photos from elsewhere some look right all the same. How often matches of these very queries are right is found by
expectation and maximisation (Saerens, Latinne and Decaestecker 2002): each is judged in view of the share of right ones
so far, and their mean is the next share. For queries of another route it ends at nothing.
"""

from __future__ import annotations

import numpy as np

from displace.sequence.engine import Floats

HARDLY = 0.02
"""Share of right matches below which queries count as foreign, and are judged by their own share. Above it they are
judged as they were: of a condition that the map has not seen, right matches look worse than those it learned from, and
their share comes out too small."""
_ROUNDS = 1000


def judged_together(probability: Floats, usual: float) -> Floats:
    """Probabilities of matches in view of each other.

    Parameters
    ----------
    probability : array of shape (q,)
        That each match is right, were `usual` the share of right ones.
    usual : float
        Above 0 and below 1.

    Examples
    --------
    >>> judged_together(np.array([0.6, 0.05, 0.2, 0.1]), 0.7).round(2).tolist()
    [0.18, 0.01, 0.03, 0.02]
    >>> judged_together(np.array([0.6, 0.9, 0.99, 0.1]), 0.7).round(2).tolist()
    [0.6, 0.9, 0.99, 0.1]
    """
    own = np.clip(np.asarray(probability, np.float64), 1e-12, 1 - 1e-12)
    ratios = own / (1 - own) * (1 - usual) / usual
    share = own_share(ratios, usual)
    if share >= HARDLY:
        return np.asarray(probability, np.float64)
    odds = ratios * max(share, 1 / len(own)) / (1 - max(share, 1 / len(own)))
    found: Floats = np.minimum(odds / (1 + odds), own)
    return found


def own_share(ratios: Floats, usual: float) -> float:
    """Share of right matches, from how much likelier each looks if it is right than if it is wrong, (q,)."""
    share = usual
    for _ in range(_ROUNDS):
        odds = ratios * share / (1 - share)
        after = float(np.clip((odds / (1 + odds)).mean(), 1e-9, 1 - 1e-9))
        if abs(after - share) < 1e-6:
            break
        share = after
    return share
