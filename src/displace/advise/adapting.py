"""What adapting to the queries would give, on held-out traversals."""

from __future__ import annotations

import numpy as np

from displace.advise.recommending import Contender
from displace.bootstrap import in_groups, paired_bootstrap
from displace.fusion.base import Fusion
from displace.recall import percent
from displace.references import ReferenceSet
from displace.sequence.adaptation import LEAST_QUERIES, MapRows, adapt
from displace.truth import Flags, Truth


def adapted_hits(fusion: Fusion, queries: ReferenceSet, truth: Truth) -> Flags | None:
    """Whether each query is located rightly with ``adapt="batch"``; None where that cannot be.

    Parameters
    ----------
    fusion : Fusion
        Fitted on other traversals.
    queries : ReferenceSet
        Of one traversal, spread over the route.
    """
    rows = fusion.rows()
    if rows is None or len(queries) < LEAST_QUERIES:
        return None
    projected = rows.project(np.asarray(queries.vectors, np.float32))
    scores = adapt(MapRows(np.asarray(rows.vectors, np.float32), rows.starts), projected).scores(projected)
    return truth.correct(fusion.place_ids_[scores.argmax(axis=1)], queries.places)


def note_of(best: Contender) -> str | None:
    """Say what adapting changes with the recommended fusion; None where no traversal could tell."""
    names = [name for name in best.hits if best.adapted.get(name) is not None]
    if not names:
        return None
    plain = [best.hits[name] for name in names]
    adapted, groups = in_groups(flags for name in names if (flags := best.adapted[name]) is not None)
    order, _ = in_groups(best.order[name] for name in names)
    gain = paired_bootstrap(adapted, np.concatenate(plain), groups=groups, order=order)
    before = float(np.mean([percent(flags) for flags in plain]))
    return (
        f"Adapting the matching to the drive (--adapt batch; displace locate does so for {LEAST_QUERIES} or more "
        f"images) changed the mean R@1 of {len(names)} held-out traversals by {gain.value:+z.1f} "
        f"[{gain.low:+z.1f}, {gain.high:+z.1f}] points, from {before:.1f}"
    )
