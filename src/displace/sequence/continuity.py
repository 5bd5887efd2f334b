"""Whether a drive goes on along a route: the log-evidence that the route's order saves against rearranged routes.

Cut the route into blocks of `BLOCK` places and put these in another order. A drive along the route must now jump at the
end of each block, which costs it about log(N / P(jump)) nats. A drive through other streets resembles the route as far
as the next corner, in any order of the blocks: it jumps anyway and loses little. Both keep what single frames and
neighbouring places look like, so a hard night and a strange town, which earn about as much beyond chance
(`belonging`), differ in the share of the cost of all jumps that the true order saves.
"""

from __future__ import annotations

from math import log

import numpy as np

from displace.arrays import Indices, sigmoid_of
from displace.sequence.engine import Blocks, Motion
from displace.sequence.weighing import earnings

BLOCK = 30
"""Places of a block: streets of two towns look alike for some twenty."""
ORDERS = 8
"""Rearranged routes, whose mean counts."""
MOST = 600
"""Frames that are compared, at most."""
_CLEAR = 2.0
"""Nats saved, beyond what other streets save, at which the probability is one half."""


def continues(scores: Blocks, slope: float, motion: Motion, around: slice, usual: float) -> float:
    """Probability that a drive goes on along the route; 0 where the route is too short to tell.

    Parameters
    ----------
    scores : Blocks
        Standard scores of frames and places.
    slope, motion : float and Motion
        As for `earnings`.
    around : slice
        Frames in the middle of those that are compared.
    usual : float
        Share of the cost of all jumps that drives through other streets save.
    """
    n_frames, n_places = scores.shape
    if n_places < 4 * BLOCK:
        return 0.0
    middle, compared = (around.start + around.stop) // 2, min(n_frames, MOST)
    first = min(max(middle - compared // 2, 0), n_frames - compared)
    rng = np.random.default_rng(0)

    def earned(order: Indices) -> float:
        return float(earnings(scores.part(slice(first, first + compared), order), slope, motion).sum())

    others = [earned(rearranged(n_places, rng)) for _ in range(ORDERS)]
    saved = earned(np.arange(n_places)) - float(np.mean(others))
    jumps = compared * motion.mean_step / BLOCK * log(n_places / motion.jump)
    return sigmoid_of(saved - usual * jumps - _CLEAR)


def rearranged(n_places: int, rng: np.random.Generator) -> Indices:
    """Places in an order in which no block is followed by the one that it was followed by."""
    cuts = np.arange(rng.integers(1, BLOCK + 1), n_places, BLOCK)
    blocks = np.split(np.arange(n_places), cuts)
    order = rng.permutation(len(blocks))
    while (np.diff(order) == 1).any():
        order = rng.permutation(len(blocks))
    return np.concatenate([blocks[at] for at in order])
