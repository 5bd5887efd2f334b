"""A small model and small routes for the tests of stores and extraction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from displace.manifest.table import Manifest
from displace.models.base import DescriptorModel


class TinyModel(DescriptorModel):
    """Mean colour of each quarter: its descriptors can be computed in one line by a test."""

    name = "tiny"
    licence = "none"
    paper = "none"

    def __init__(self, version: int = 1) -> None:
        self.dim, self.version = 12, version
        self.n_described = 0
        self.shapes: list[tuple[int, ...]] = []

    def prepare(self, image):
        return image.astype(np.float32) / 255

    def describe(self, batch):
        self.n_described += len(batch)
        self.shapes.append(batch.shape)
        return np.stack([quarters(image) for image in batch])

    def fingerprint(self) -> Mapping[str, Any]:
        return {"model": "tiny", "version": self.version, "size": (2, 2)}


class HeavyTinyModel(TinyModel):
    """The same, with its work in `prepare`."""

    prepare_is_heavy = True


def quarters(image: np.ndarray) -> np.ndarray:
    """Mean colours of the four quarters of an image (H, W, 3), 12 numbers."""
    h, w = image.shape[0] // 2, image.shape[1] // 2
    parts = (image[:h, :w], image[:h, w:], image[h:, :w], image[h:, w:])
    return np.concatenate([part.mean(axis=(0, 1)) for part in parts]).astype(np.float32)


def expected(manifest: Manifest) -> np.ndarray:
    """Descriptors of a manifest's images, computed without the package."""
    images = (np.asarray(Image.open(path).convert("RGB"), np.float32) / 255 for path in manifest.paths())
    return np.stack([quarters(image) for image in images])


def touch(folder: Path, names: Iterable[str]) -> Path:
    """Make empty files of these names in a folder, which is returned."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return folder


def make_route(
    folder: Path,
    n_places: int = 6,
    traversals: tuple[str, ...] = ("sun", "night"),
    shape: tuple[int, int] = (8, 10),
) -> Manifest:
    """Write a route of random images and return its manifest, also written to ``route.csv``."""
    rng = np.random.default_rng(3)
    images, places, names = [], [], []
    for traversal in traversals:
        (folder / traversal).mkdir(parents=True, exist_ok=True)
        for place in range(n_places):
            pixels = rng.integers(0, 256, (*shape, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / traversal / f"{place:03d}.png", compress_level=1)
            images.append(f"{traversal}/{place:03d}.png")
            places.append(f"{place:03d}")
            names.append(traversal)
    manifest = Manifest(images, places, names, root=folder)
    manifest.write(folder / "route.csv")
    return Manifest.read(folder / "route.csv")
