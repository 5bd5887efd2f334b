"""Write a golden store and a map of images: ``python tests/golden/make_store.py store_v1``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from displace import build
from displace.descriptors.extraction import extract
from displace.manifest.table import Manifest
from displace.models import get_model

PLACES, TRAVERSALS = 8, ("sun", "rain", "night")
CROP = (0.25, 0, 0, 0)


def main(name: str) -> None:
    """Write NAME/ with images, NAME.desc with their descriptors, a map of them, and what it answers."""
    folder = Path(__file__).parent / name
    rng = np.random.default_rng(5)
    images, places, traversals = [], [], []
    for place in range(PLACES):
        base = rng.integers(0, 256, (6, 8, 3)).astype(np.uint8)
        for traversal in TRAVERSALS:
            noisy = np.clip(base + rng.normal(0, 30, base.shape), 0, 255).astype(np.uint8)
            images.append(f"{traversal}/{place}.png")
            (folder / traversal).mkdir(parents=True, exist_ok=True)
            Image.fromarray(noisy).resize((48, 36)).save(folder / images[-1])
            places.append(str(place))
            traversals.append(traversal)
    manifest = Manifest(images, places, traversals, folder, frame=[float(place) for place in places])
    model = get_model("hog", crop=CROP)
    store = extract(manifest, model, folder / "route.desc", dtype="float16").store
    town = build(store.references(exclude=["night"]), model=store.model, dtype="int8")
    town.save(folder / "town.displace")
    (folder / "town.displace-stats").unlink()  # 20 MB; that of map_v1 is enough
    matches = town.locate(store.queries("night").vectors, k=3)
    np.savez(folder / "answers.npz", vectors=store.vectors(), places=matches.places, scores=matches.scores)


if __name__ == "__main__":
    main(sys.argv[1])
