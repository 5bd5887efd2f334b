"""Recall@1 on real descriptors (sped400), as they are and projected to γ ≈ 1; needs the shared data."""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks._measure import header, row
from benchmarks._shared import sped400
from displace import DisPlace, ReferenceSet, get_fusion, recall_at
from displace.evaluation.random_projection import random_projection

FUSIONS = {
    "DisPlace, default": DisPlace,
    "DisPlace, ridge 1e-6, not centred": lambda: DisPlace(ridge=1e-6, center=False),
    "HOPS": get_fusion("hops"),
    "Pooling": get_fusion("pooling"),
}


def main(argv: list[str]) -> None:
    argparse.ArgumentParser(prog="python -m benchmarks sped400", description=__doc__).parse_args(argv)
    real = sped400()
    if real is None:
        return
    header("R@1", "D=1792, γ=2.2", "D=792, γ=0.99 (5 seeds)")
    for name, make in FUSIONS.items():
        projected = [recall(make(), real, random_projection(1792, 792, seed)) for seed in range(5)]
        row(name, f"{recall(make(), real):.1f}", f"{np.mean(projected):.1f}")


def recall(fusion, arrays: dict[str, np.ndarray], R: np.ndarray | None = None) -> float:
    vectors = arrays if R is None else {name: array @ R for name, array in arrays.items()}
    refs = ReferenceSet.from_traversals({name: vectors[name] for name in ("ref1", "ref2", "ref3")})
    fusion.fit(refs.vectors, refs.places, refs.traversals)
    return recall_at(fusion.rank(vectors["query"], k=1), np.arange(400))[1]
