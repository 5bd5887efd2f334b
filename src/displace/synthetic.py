"""Generated descriptors of a route seen several times, for demonstrations, benchmarks and tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from displace.arrays import Indices, Vectors, l2_normalize
from displace.references import ReferenceSet


@dataclass(frozen=True, eq=False)
class SyntheticRoute:
    """References and queries of one generated route."""

    references: ReferenceSet
    queries: Vectors
    """Shape (N, D). One more traversal: query i is at place i."""
    truth: Indices
    """Shape (N,). Place of each query."""


def make_route(
    n_places: int = 400,
    n_traversals: int = 4,
    dim: int = 256,
    *,
    nuisance: float = 0.7,
    noise: float = 1.0,
    similarity: float = 0.8,
    drop: float = 0.0,
    seed: int = 0,
) -> SyntheticRoute:
    """Generate unit descriptors in which conditions move every place along the same few directions.

    A descriptor is the sum of a place's own vector, which resembles its neighbours' as along a road, of random
    amounts of dim/4 directions shared by all places (weather, light), and of noise.

    Parameters
    ----------
    n_places, n_traversals, dim : int
        Sizes; one more traversal is made for the queries.
    nuisance, noise : float
        Strength of the shared variation and of the noise, relative to the places' own.
    similarity : float
        Correlation of neighbouring places.
    drop : float
        Share of references that are missing at random (every place keeps at least one).
    seed : int
    """
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((n_places, dim), np.float32)
    fresh = np.float32(np.sqrt(1 - similarity**2))
    for place in range(1, n_places):
        own[place] = np.float32(similarity) * own[place - 1] + fresh * own[place]
    rank = max(1, dim // 4)
    directions = rng.standard_normal((rank, dim), np.float32) / np.float32(np.sqrt(rank))
    strengths = np.float32(nuisance) * np.linspace(2, 0.5, rank, dtype=np.float32)

    def traversal() -> Vectors:
        shared = rng.standard_normal((n_places, rank), np.float32) * strengths
        rest = rng.standard_normal((n_places, dim), np.float32)
        return l2_normalize(own + shared @ directions + np.float32(noise) * rest)

    references = ReferenceSet.from_traversals({f"t{k}": traversal() for k in range(n_traversals)})
    queries = traversal()
    keep = rng.random(len(references)) >= drop
    keep[rng.integers(n_traversals, size=n_places) * n_places + np.arange(n_places)] = True
    return SyntheticRoute(references.select(keep), queries, np.arange(n_places))
