"""Write a golden map of the present format: ``python tests/golden/make.py map_v1``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from displace import ReferenceSet, build
from displace.geo import Positions
from displace.synthetic import make_route


def main(name: str) -> None:
    """Write NAME.displace, its statistics and NAME.npz beside this file."""
    folder = Path(__file__).parent
    route = make_route(n_places=16, n_traversals=3, dim=10, seed=11)
    ids = np.array([f"place {p:02d}" for p in range(16)])
    refs = ReferenceSet(route.references.vectors, ids[route.references.places], route.references.traversals)
    points = Positions(np.column_stack([np.arange(16) * 10.0, np.zeros(16)]))
    town = build(
        refs, model={"model": "hog"}, positions=points, images=[f"{i}.jpg" for i in ids], tolerance=15.0
    )
    town.save(folder / f"{name}.displace")
    matches = town.locate(route.queries, k=3)
    np.savez(
        folder / f"{name}.npz",
        queries=route.queries,
        places=matches.places,
        scores=matches.scores,
        confidence=matches.confidence,
        n_references=len(refs),
    )


if __name__ == "__main__":
    main(sys.argv[1])
