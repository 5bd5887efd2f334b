"""Whether a condition lies outside the variation of the other traversals.

DisPlace learns from the references in which directions weather and light move descriptors; of a condition that moves
them in other directions it knows nothing. For a held-out traversal h and the others R:

1. In one half of the places (every second), the deviations of R from their place means give the *known directions*:
   those of the deviations' scatter with more than its average variance (λ > tr/D), and the shifts of whole traversals.
2. In the other half, each o in R in turn is left out of the place means. The share of energy in the known directions
   is taken for the deviations of h from those means (*coverage*) and for the deviations of o (*usual coverage*).
3. The halves change roles, and energies are summed.

h and o deviate from the same means and are judged by directions learned at other places; what differs is that o's
condition was among those that the directions were learned from. If h is of their kind the shares are alike.

The limit on their ratio is 0.85. On 200 generated routes (``python -m benchmarks variation``) 6 % of conditions made of
the others' directions are warned about, nearly all of them shifted as a whole by twice what varies from place to place,
and 69 % of those with new directions that cost DisPlace 10 points or more. Stronger variation along *known* directions
raises the coverage: it is no reason for a warning.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors
from displace.holdout import spread
from displace.references import ReferenceSet

MAX_PLACES = 600
"""Most places that are used, spread evenly."""
MAX_OTHERS = 12
"""Most other traversals that are used, spread evenly."""
MIN_PLACES = 20
"""Fewest common places for an estimate."""


def coverage(refs: ReferenceSet, name: Any) -> tuple[float, float] | None:
    """Coverage of a held-out traversal by the variation of the others, and the others' own.

    None with fewer than two others, or fewer than 20 places that it shares with two of them.
    """
    others = refs.traversal_ids[refs.traversal_ids != name]
    if len(others) < 2:
        return None
    others = others[spread(len(others), MAX_OTHERS)]
    rows = np.stack([_row_of_each_place(refs, t) for t in (name, *others)])
    usable = np.flatnonzero((rows[0] >= 0) & ((rows[1:] >= 0).sum(axis=0) >= 2))
    if len(usable) < MIN_PLACES:
        return None
    usable = usable[spread(len(usable), MAX_PLACES)]
    energies = np.zeros((2, 2))
    for learn, judge in ((usable[::2], usable[1::2]), (usable[1::2], usable[::2])):
        directions = _known_directions(*_gather(refs, rows[1:, learn]))
        energies += _energies(*_gather(refs, rows[:, judge]), directions)
    if not energies[:, 1].all():
        return None  # a traversal that is a copy of the others does not deviate at all
    own, usual = energies[:, 0] / energies[:, 1]
    return float(own), float(usual)


def _row_of_each_place(refs: ReferenceSet, name: Any) -> Indices:
    """First reference of each place in a traversal, shape (N,); −1 without one."""
    own = np.flatnonzero(refs.traversals == name)
    places, first = np.unique(refs.places[own], return_index=True)
    rows = np.full(len(refs.place_ids), -1, np.intp)
    rows[np.searchsorted(refs.place_ids, places)] = own[first]
    return rows


def _gather(refs: ReferenceSet, rows: Indices) -> tuple[Vectors, NDArray[np.bool_]]:
    """Vectors (K, n, D) at `rows` (K, n), zero where a row is missing, and which rows are present."""
    present = rows >= 0
    vectors = np.zeros((*rows.shape, refs.vectors.shape[1]), refs.vectors.dtype)
    vectors[present] = refs.vectors[rows[present]]
    return vectors, present


def _known_directions(vectors: Vectors, present: NDArray[np.bool_]) -> Vectors:
    """Orthonormal rows (r, D): strong directions of the deviations from place means, and shifts of whole traversals."""
    weight = present[..., None].astype(vectors.dtype)
    deviations = (vectors - vectors.sum(axis=0) / weight.sum(axis=0)) * weight
    # A shift common to all places of a traversal would drown what varies from place to place: it counts apart.
    shifts = deviations.sum(axis=1) / np.maximum(weight.sum(axis=1), 1)
    scattered = (deviations - shifts[:, None] * weight)[present]
    strong = _strong_directions(scattered)
    rest = shifts - (shifts @ strong.T) @ strong
    _, sizes, further = np.linalg.svd(rest, full_matrices=False)
    return np.concatenate([strong, further[sizes > 1e-3 * max(float(np.linalg.norm(shifts)), 1e-12)]])


def _strong_directions(deviations: Vectors) -> Vectors:
    """Principal directions (r, D) with more than the average variance."""
    m, dim = deviations.shape
    if m >= dim:
        values, vectors = np.linalg.eigh(deviations.T @ deviations)
        directions: Vectors = vectors.T[values > values.sum() / dim]
        return directions
    values, vectors = np.linalg.eigh(deviations @ deviations.T)
    keep = values > max(values.sum() / dim, 1e-6 * values[-1])
    directions = (vectors[:, keep] / np.sqrt(values[keep])).T @ deviations
    return directions


def _energies(vectors: Vectors, present: NDArray[np.bool_], directions: Vectors) -> NDArray[np.float64]:
    """[[covered, all] of the held-out traversal, which comes first, [covered, all] of the others]."""
    total, count = vectors[1:].sum(axis=0), present[1:].sum(axis=0)
    energies = np.zeros((2, 2))
    for other in range(1, len(vectors)):
        at = present[other] & (count >= 2)
        means = (total[at] - vectors[other, at]) / (count[at] - 1)[:, None].astype(vectors.dtype)
        for row, traversal in enumerate((0, other)):
            deviations = vectors[traversal, at] - means
            energies[row] += _energy(deviations @ directions.T), _energy(deviations)
    return energies


def _energy(vectors: Vectors) -> float:
    return float(np.einsum("nd,nd->", vectors, vectors, dtype=np.float64))
