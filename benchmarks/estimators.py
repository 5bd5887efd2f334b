"""Whole fits at RobotCar size, D = 512: DisPlace against LDA, automatic settings, an update; and a small fit.

CPU time with one BLAS thread, interleaved. LDA (``svd``, ``eigen``) solves the same eigenproblem with other weights.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from benchmarks._measure import header, interleaved, row
from benchmarks._sizes import SIZES, traversals
from displace import DisPlace
from displace.fusion.solver.scatter import Scatter


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks estimators", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(argv)
    size = SIZES["robotcar"]
    parts = list(traversals(size, 512))
    X, y = np.concatenate(parts), np.tile(np.arange(size.n_places), size.n_references)
    names = np.repeat(np.arange(size.n_references), size.n_places)
    four = Scatter.of(X[names < 4], y[names < 4])
    costs = interleaved(
        {
            "DisPlace(ridge=0.0, center=False)": lambda: DisPlace(ridge=0.0, center=False).fit(X, y, names),
            "DisPlace(), settings by cross-validation": lambda: DisPlace().fit(X, y, names),
            "scikit-learn LDA, svd": lambda: LinearDiscriminantAnalysis(solver="svd").fit(X, y),
            "scikit-learn LDA, eigen": lambda: LinearDiscriminantAnalysis(solver="eigen").fit(X, y),
            "statistics of five traversals": lambda: Scatter.of(X, y),
            "one traversal added to four": lambda: four.copy().add(parts[4], np.arange(size.n_places)),
        },
        options.repeats,
    )
    base = costs["DisPlace(ridge=0.0, center=False)"].median
    header("N=3876, K=5, D=512", "CPU s", "ratio to DisPlace", "extra memory, MiB")
    for name, cost in costs.items():
        row(name, f"{cost.median:.2f}", f"{cost.median / base:.1f}", f"{cost.extra_bytes / 2**20:.0f}")
    ratio = costs["one traversal added to four"].median / costs["statistics of five traversals"].median
    print(f"\nadding one traversal / batch of five: {ratio:.2f}")
    added = costs["DisPlace(), settings by cross-validation"].median - base
    print(f"automatic settings add {added:.1f} s of CPU")
    _small(options.repeats)


def _small(repeats: int) -> None:
    """A fit where the fixed costs count: 60 places, four traversals, D = 24, ten times over."""
    X = np.random.default_rng(0).normal(size=(240, 24))
    y, names = np.tile(np.arange(60), 4), np.repeat(np.arange(4), 60)
    paper = DisPlace(ridge=0.0, center=False)
    costs = interleaved(
        {
            "DisPlace(ridge=0.0, center=False)": lambda: [paper.fit(X, y, names) for _ in range(10)],
            "DisPlace(), settings by cross-validation": lambda: [
                DisPlace().fit(X, y, names) for _ in range(10)
            ],
        },
        repeats,
    )
    header("N=60, K=4, D=24", "CPU ms")
    for name, cost in costs.items():
        row(name, f"{cost.median * 100:.1f}")
