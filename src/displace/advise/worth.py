"""What each traversal t is worth as a reference.

*Gain when added* to one other traversal s: R@1 of a held-out condition h from {s, t} minus that from {s}; mean over s,
then over h.

*Loss when removed* from all traversals: R@1 of h from all but h, minus that from all but h and t; mean over h.

Both are paired over the same queries; h, s and t differ. Queries of places that only t has are misses without t. With
three traversals the two are the same number.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from displace.advise.advice import Worth
from displace.advise.trials import Trials
from displace.bootstrap import Estimate, in_groups, paired_bootstrap
from displace.fusion.solver import tuning
from displace.references import ReferenceSet
from displace.truth import Flags

Hits = dict[frozenset[Any], dict[Any, Flags]]
"""Hits by the traversals that were references, then by the one held out."""

MAX_OPERATIONS = 5e13
"""Largest valuation that is run, in floating-point operations: some 20 minutes on one core."""


def subsets(trials: Trials) -> list[frozenset[Any]]:
    """Return the sets of traversals to fit on: single ones, pairs, and all but two; not all but one."""
    pairs = list(combinations(trials.tried, 2))
    wanted = {
        *(frozenset([name]) for name in trials.tried),
        *map(frozenset, pairs),
        *(trials.others(*pair) for pair in pairs),
    }
    done = {trials.others(name) for name in trials.tried}
    return sorted(wanted - done, key=lambda names: (len(names), sorted(map(str, names))))


def operations(refs: ReferenceSet, n_fits: int) -> float:
    """Upper bound of the floating-point operations of `n_fits` fits of DisPlace with cross-validation."""
    m, n = len(refs), len(refs.place_ids)
    d = min(refs.vectors.shape[1], m)
    small = min(n, d)
    solution = d**3 / 3 + 2 * d**2 * small + 9 * small**3 + 2 * n * d * small
    deciding = min(tuning.MAX_OPERATIONS, tuning.MAX_FOLDS * len(tuning.RIDGES) * solution)
    return float(n_fits * (m * d**2 + solution + deciding))


def value(trials: Trials, hits: Hits) -> list[Worth]:
    """Gain and loss of each traversal, from the hits of all subsets; traversals without queries are left out."""
    found = []
    for name in trials.tried:
        gain, loss = _gain(trials, hits, name), _loss(trials, hits, name)
        if gain is not None and loss is not None:
            found.append(Worth(str(name), gain, loss))
    return found


def _gain(trials: Trials, hits: Hits, name: Any) -> Estimate | None:
    with_it, without = {}, {}
    for held_out in (h for h in trials.queries if h != name):
        partners = [s for s in trials.tried if s not in (name, held_out)]
        with_it[held_out] = np.mean([hits[frozenset([s, name])][held_out] for s in partners], axis=0)
        without[held_out] = np.mean([hits[frozenset([s])][held_out] for s in partners], axis=0)
    return _difference(trials, with_it, without)


def _loss(trials: Trials, hits: Hits, name: Any) -> Estimate | None:
    held_out = [h for h in trials.queries if h != name]
    with_it = {h: hits[trials.others(h)][h] for h in held_out}
    without = {h: hits[trials.others(h, name)][h] for h in held_out}
    return _difference(trials, with_it, without)


def _difference(trials: Trials, with_it: dict[Any, Any], without: dict[Any, Any]) -> Estimate | None:
    """Paired difference, the mean of the held-out conditions'."""
    if not with_it:
        return None
    hits, groups = in_groups(with_it.values())
    order, _ = in_groups(trials.order[name] for name in with_it)
    return paired_bootstrap(hits, in_groups(without.values())[0], groups=groups, order=order)
