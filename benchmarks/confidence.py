"""Is the query in the map? Real descriptors (sped400), 100 of 400 places left out of the map; needs the shared data.

The map is built from the three reference traversals, its confidence from those alone; the query traversal, which
neither has seen, is located. AUC and expected calibration error are for "the top match is right".
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks._measure import header, row
from benchmarks._shared import sped400
from displace import ReferenceSet, build
from displace.maps.calibration import calibration_error, features


def main(argv: list[str]) -> None:
    argparse.ArgumentParser(prog="python -m benchmarks confidence", description=__doc__).parse_args(argv)
    real = sped400()
    if real is None:
        return
    columns = ["confidence", "score", "score ratio", "z-score"]
    header(
        "places left out",
        "right",
        *[f"AUC, {name}" for name in columns],
        "calibration error",
        "mean confidence",
    )
    totals = []
    for start in range(0, 400, 100):
        totals.append(measured(real, start))
        row(f"{start} to {start + 99}", *(f"{value:.3f}" for value in totals[-1]))
    row("mean", *(f"{value:.3f}" for value in np.mean(totals, axis=0)))


def measured(real: dict[str, np.ndarray], start: int) -> list[float]:
    """Figures for one map."""
    refs = ReferenceSet.from_traversals({name: real[name] for name in ("ref1", "ref2", "ref3")})
    town = build(refs.select((refs.places < start) | (refs.places >= start + 100)))
    matches = town.locate(real["query"], k=20)
    right = matches.places[:, 0] == np.arange(400)
    ratio = matches.scores[:, 0] / np.maximum(matches.scores[:, 1], 1e-6)
    figures = (matches.confidence, matches.scores[:, 0], ratio, features(matches.scores)[:, 2])
    return [
        float(right.mean()),
        *(float(roc_auc_score(right, figure)) for figure in figures),
        calibration_error(matches.confidence, right),
        float(matches.confidence.mean()),
    ]
