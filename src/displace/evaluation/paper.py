"""The published numbers: Recall@1 of the paper's Tables I to III, under the names of this package.

Source: D. M. Rajani, M. Milford, T. Fischer: "DisPlace: Discriminative Place Projections for Multi-Reference Visual
Place Recognition". The values are as printed there, with one decimal.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

SOURCE = "Rajani, Milford, Fischer: DisPlace, Tables I to III"
FILES = ("nordland.csv", "robotcar.csv", "pitts30k_gldv2.csv")
DATASETS = {
    "Nordland": "nordland",
    "Oxford RobotCar": "robotcar",
    "Pittsburgh30k": "pittsburgh30k",
    "GLDv2-micro": "gldv2_micro",
}
PROTOCOLS = {
    "nordland": "nordland-exact",
    "robotcar": "robotcar-5",
    "pittsburgh30k": "pittsburgh30k-25m",
    "gldv2_micro": "gldv2_micro-exact",
}
"""Protocol of each table: numbers of another one are not comparable."""
GROUPS = {"single-reference": "single", "score-level": "score", "descriptor-level": "descriptor"}
FUSIONS = {
    "dMat. Avg.": "dmat_avg",
    "dMat. Min.": "dmat_min",
    "Std. dMat. Min.": "std_dmat_min",
    "dMat. Med.": "dmat_med",
    "BSF": "bsf",
    "Pooling": "pooling",
    "HOPS": "hops",
    "DisPlace": "displace",
}
PARAMETERS: dict[str, dict[str, Any]] = {"displace": {"tau": 0.95, "ridge": 0.0, "center": False}}
"""Of the published methods, where they are not the defaults of this package."""
DIMS = {"cosplace": 512, "eigenplaces": 512, "mixvpr": 4096, "netvlad": 4096, "salad": 8448, "megaloc": 8448}
"""Dimensions of the models' descriptors in the tables."""
ONLY_QUERY = {"pittsburgh30k": "queries", "gldv2_micro": "val"}
"""Query traversal of the tables that have one for each data set."""


@dataclass(frozen=True)
class Published:
    """One published value."""

    dataset: str
    model: str
    query: str
    fusion: str
    """Names of this package."""
    traversal: str | None
    """For single references: which."""
    group: str
    """One of "single", "score", "descriptor"."""
    label: str
    """The method's name in the table."""
    recall: float
    """Recall@1 in percent."""


@cache
def published() -> tuple[Published, ...]:
    """All 720 values, in the order of the tables."""
    folder = files("displace.evaluation") / "data"
    values = []
    for name in FILES:
        rows = csv.DictReader((folder / name).read_text("utf-8").splitlines())
        values += [_value(row) for row in rows]
    return tuple(values)


def published_recall(
    dataset: str, model: str, query: str, fusion: str, traversal: str | None = None
) -> float | None:
    """Return the published Recall@1 (%), of the fusion "single" for one reference; None where the paper has none.

    >>> published_recall("robotcar", "cosplace", "night", "displace")
    60.6
    >>> published_recall("nordland", "netvlad", "winter", "single", "fall")
    7.8
    """
    return _index().get((dataset, model, query, fusion, traversal))


@cache
def _index() -> dict[tuple[str, str, str, str, str | None], float]:
    return {(v.dataset, v.model, v.query, v.fusion, v.traversal): v.recall for v in published()}


def _value(row: dict[str, str]) -> Published:
    dataset, single = DATASETS[row["dataset"]], row["group"] == "single-reference"
    return Published(
        dataset,
        row["descriptor"].lower(),
        ONLY_QUERY.get(dataset, row["query"].lower()),
        "single" if single else FUSIONS[row["method"]],
        row["method"].lower() if single else None,
        GROUPS[row["group"]],
        row["method"],
        float(row["recall_at_1"]),
    )
