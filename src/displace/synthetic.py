"""Generated descriptors of a route seen several times, for demonstrations, benchmarks and tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from displace.arrays import Indices, Vectors, l2_normalize
from displace.references import ReferenceSet


@dataclass(frozen=True, eq=False)
class Route:
    """References and queries of one generated route.

    Parameters
    ----------
    references : ReferenceSet
    queries : array of shape (N, D)
        One more traversal: query i is at place i.
    truth : array of shape (N,)
        Place of each query.
    """

    references: ReferenceSet
    queries: Vectors
    truth: Indices


def make_route(
    n_places: int = 400,
    n_traversals: int = 4,
    dim: int = 256,
    *,
    nuisance: float = 1.2,
    drop: float = 0.0,
    seed: int = 0,
) -> Route:
    """Generate unit descriptors in which a traversal's condition moves every place along the same few directions.

    A descriptor is a place's own vector, plus a random amount of each of dim/4 nuisance directions shared by all places
    (weather, light), plus noise.

    Parameters
    ----------
    n_places, n_traversals, dim : int
        Sizes; one more traversal is made for the queries.
    nuisance : float
        Strength of the shared variation relative to the places' own.
    drop : float
        Share of references that are missing at random (every place keeps at least one).
    seed : int
    """
    rng = np.random.default_rng(seed)
    rank = max(1, dim // 4)
    own = rng.standard_normal((n_places, dim), np.float32)
    directions = rng.standard_normal((rank, dim), np.float32) / np.float32(np.sqrt(rank))
    strengths = np.float32(nuisance) * np.linspace(2, 0.5, rank, dtype=np.float32)

    def traversal() -> Vectors:
        shared = rng.standard_normal((n_places, rank), np.float32) * strengths
        noise = rng.standard_normal((n_places, dim), np.float32)
        return l2_normalize(own + shared @ directions + np.float32(0.6) * noise)

    references = ReferenceSet.from_traversals({f"t{k}": traversal() for k in range(n_traversals)})
    queries = traversal()
    keep = rng.random(len(references)) >= drop
    keep[rng.integers(n_traversals, size=n_places) * n_places + np.arange(n_places)] = True
    return Route(references.select(keep) if drop else references, queries, np.arange(n_places))
