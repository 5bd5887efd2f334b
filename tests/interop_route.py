"""A generated route, its descriptor store and its map, for the tests of exchange with other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from displace.descriptors.imported import references_of, write_store
from displace.descriptors.store import DescriptorStore, Queries
from displace.geo import Positions
from displace.manifest.table import Manifest
from displace.maps import PlaceMap
from displace.maps.building import build
from displace.maps.located import Located
from displace.synthetic import make_route

N_PLACES, DIM = 40, 24
DAYS, NIGHT = ("sun", "rain", "dusk", "snow"), "night"
MODEL = "generated"


@dataclass
class Town:
    """Everything of one route; row i of `vectors` is image i of `manifest`."""

    manifest: Manifest
    vectors: np.ndarray
    references: object
    town: PlaceMap
    locations: Located

    def store(self, folder: Path) -> DescriptorStore:
        return write_store(Queries(self.vectors, self.manifest.places, self.manifest), folder, MODEL)


def make_town(
    fusion: str = "displace",
    dtype: str = "float32",
    degrees: bool = True,
    positions: bool = True,
    images: bool = True,
    calibration: bool = True,
    k: int = 3,
) -> Town:
    route = make_route(n_places=N_PLACES, n_traversals=len(DAYS), dim=DIM, noise=0.6, seed=1)
    vectors = np.concatenate([route.references.vectors, route.queries])
    names = np.repeat([*DAYS, NIGHT], N_PLACES)
    places = np.tile([f"{i:03d}" for i in range(N_PLACES)], len(DAYS) + 1)
    paths = [f"{name}/{place}.jpg" for name, place in zip(names, places, strict=True)]
    frames = np.tile(np.arange(N_PLACES, dtype=float), len(DAYS) + 1)
    manifest = Manifest(paths, places, names, root="route", frame=frames, timestamp=1.7e9 + frames / 4)
    all_images = Queries(vectors, manifest.places, manifest)
    refs = references_of(all_images).without(NIGHT)
    town = build(
        refs,
        fusion,
        {"model": MODEL, "imported": True},
        dtype=dtype,
        calibration=calibration,
        positions=place_positions(degrees) if positions else None,
        images=[f"sun/{place}.jpg" for place in refs.place_ids] if images else None,
    )
    night = manifest.traversals == NIGHT
    queries = Queries(vectors[night], manifest.places[night], manifest.select(night))
    return Town(manifest, vectors, refs, town, Located.of(town, queries, k))


def place_positions(degrees: bool) -> Positions:
    """A straight road in Oxford, 10 m from place to place; the last place's position is not known."""
    steps = np.arange(N_PLACES, dtype=float)
    if degrees:
        points = np.column_stack([51.75 + steps * 9e-5, np.full(N_PLACES, -1.26)])
    else:
        points = np.column_stack([620000 + 10 * steps, np.full(N_PLACES, 5734795.25)])
    points[-1] = np.nan
    return Positions(points, degrees, heading=np.where(steps < 20, 90.0, np.nan))
