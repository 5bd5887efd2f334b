"""Small descriptor stores and suites for the tests of evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from displace.datasets.base import Protocol
from displace.descriptors.imported import write_store
from displace.descriptors.store import DescriptorStore, Queries
from displace.evaluation.methods import Method
from displace.evaluation.suites import Suite
from displace.manifest.table import Manifest
from displace.synthetic import make_route
from displace.truth import Tolerance

TRAVERSALS = ("sun", "rain", "dusk", "night")


def make_store(
    folder: Path, n_places: int = 30, dim: int = 12, seed: int = 0, model: str = "made", traversals=TRAVERSALS
) -> DescriptorStore:
    """A generated route as a store: place and frame i of each traversal are the same spot, 10 m apart."""
    route = make_route(n_places, len(traversals) - 1, dim, seed=seed)
    vectors = np.concatenate([route.references.vectors, route.queries])
    number = np.tile(np.arange(n_places), len(traversals))
    names = np.repeat(traversals, n_places)
    manifest = Manifest(
        [f"{name}/{place:04d}.jpg" for name, place in zip(names, number, strict=True)],
        [f"p{place:04d}" for place in number],
        names,
        folder.parent / "images",
        frame=number,
        easting=10.0 * number,
        northing=0.0 * number,
    )
    return write_store(Queries(vectors, manifest.places, manifest), folder, model)


def make_suite(stores, *, fusions=("hops", "displace"), tolerance=None, **changes) -> Suite:
    """A suite of these stores, each traversal in turn."""
    values = {
        "name": "made",
        "title": "a made route",
        "dataset": "made",
        "protocol": Protocol("made-exact", tolerance or Tolerance("exact")),
        "methods": tuple(Method(name) for name in fusions),
        "stores": {name: Path(path) for name, path in stores.items()},
        "queries": ("night",),
    }
    return Suite(**{**values, **changes})
