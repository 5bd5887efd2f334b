"""Calibration of the limit below which a condition lies outside the variation of the others.

Routes of random size and kind are generated twice from one seed: once with traversal t0 made of the directions that the
others vary in, once with further directions added to it. For several limits: the share of routes that would be warned
about, of the first kind, and of the second by what the new directions cost DisPlace (points of R@1).
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from benchmarks._measure import header, row
from displace import DisPlace, ReferenceSet
from displace.advise.variation import coverage
from displace.arrays import l2_normalize
from displace.errors import ConditioningWarning

N_ROUTES = 200
LIMITS = (0.8, 0.85, 0.88, 0.9, 0.95)


def route(seed: int, *, new: bool) -> tuple[ReferenceSet, float]:
    """References, and by how much traversals are shifted as a whole, in units of what varies from place to place."""
    rng = np.random.default_rng(seed)
    n, dim, n_traversals = rng.choice([120, 240]), rng.choice([48, 96, 256]), rng.choice([3, 4, 6])
    rank = dim // rng.choice([4, 8, 16])
    spread, shift, strength = rng.uniform(0.5, 1.2), rng.choice([0.0, 0.5, 1.0, 2.0]), rng.uniform(0.3, 1.5)
    noise = rng.uniform(0.6, 1.4)
    basis = np.linalg.qr(rng.standard_normal((dim, dim)))[0] * np.sqrt(dim / rank)
    own = rng.standard_normal((n, dim))

    def moved(directions: np.ndarray) -> np.ndarray:
        amounts = rng.standard_normal((n, rank)) + shift * rng.standard_normal((1, rank))
        return spread * amounts @ directions

    traversals = {}
    for k in range(n_traversals):
        traversals[f"t{k}"] = own + moved(basis[:rank]) + noise * rng.standard_normal((n, dim))
    if new:
        traversals["t0"] = traversals["t0"] + strength * moved(basis[rank : 2 * rank])
    refs = ReferenceSet.from_traversals(
        {k: l2_normalize(v).astype(np.float32) for k, v in traversals.items()}
    )
    return refs, float(shift)


def measure(refs: ReferenceSet, shift: float) -> tuple[float, float, float]:
    """Ratio of coverages of t0, its R@1 by DisPlace on the others, and the shift."""
    own, usual = coverage(refs, "t0") or (np.nan, np.nan)
    rest, queries = refs.without("t0"), refs.only("t0")
    fusion = DisPlace().fit(rest.vectors, rest.places, rest.traversals)
    return own / usual, 100 * float(np.mean(fusion.predict(queries.vectors) == queries.places)), shift


def main(argv: list[str]) -> None:
    argparse.ArgumentParser(prog="python -m benchmarks variation", description=__doc__).parse_args(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConditioningWarning)
        inside, outside = (
            np.array([measure(*route(seed, new=new)) for seed in range(N_ROUTES)]) for new in (False, True)
        )
    cost = inside[:, 1] - outside[:, 1]
    kinds = {
        "inside": inside[:, 0],
        "inside, shifted by twice what varies": inside[inside[:, 2] == 2, 0],
        "inside, shifted by less": inside[inside[:, 2] < 2, 0],
        "new directions, cost below 3": outside[cost < 3, 0],
        "new directions, cost 3 to 10": outside[(cost >= 3) & (cost < 10), 0],
        "new directions, cost 10 and more": outside[cost >= 10, 0],
    }
    header("warned about, %", "routes", "median ratio", *(f"limit {limit}" for limit in LIMITS))
    for name, ratios in kinds.items():
        shares = (f"{100 * np.mean(ratios < limit):.0f}" for limit in LIMITS)
        row(name, str(len(ratios)), f"{np.median(ratios):.2f}", *shares)
