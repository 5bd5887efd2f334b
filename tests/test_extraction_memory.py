"""Memory stays flat over a hundred thousand images."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tiny import TinyModel

from displace.descriptors import extraction, preparation
from displace.descriptors.extraction import extract
from displace.manifest.table import Manifest

N_IMAGES = 100_000


def number_of(path: str) -> int:
    """Tell which of the made-up images is asked for."""
    return int(Path(path).name)


def read_made_up(path: str) -> np.ndarray:
    """Image number n, as if decoded from a file."""
    return np.full((32, 32, 3), number_of(path) % 251, np.uint8)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class PixelModel(TinyModel):
    """Cheap for the machine: the first pixels of each image."""

    def describe(self, batch):
        return batch[:, :2, :2].reshape(len(batch), -1)


def measure(folder: Path) -> None:
    """Describe a few images, then many more, and print by how many megabytes the peak rose."""
    extraction.content_hash = lambda path: f"{number_of(path):064x}"
    preparation.read_image = read_made_up
    names = [str(n) for n in range(N_IMAGES)]
    manifest = Manifest(names, ["p"] * N_IMAGES, ["t"] * N_IMAGES, folder)
    extract(manifest.select(np.arange(2000)), PixelModel(), folder / "few.desc", workers=2)
    before = peak_megabytes()
    store = extract(manifest, PixelModel(), folder / "many.desc", workers=2).store
    growth = peak_megabytes() - before
    assert len(store) == N_IMAGES
    print(growth)


@pytest.mark.skipif(sys.platform == "win32", reason="resource usage is read the POSIX way")
def test_memory_is_flat_on_100_000_images(tmp_path):
    run = subprocess.run(
        [sys.executable, __file__, str(tmp_path)], capture_output=True, text=True, check=True
    )
    # Names and hashes take some 700 bytes an image; prepared images would be 1,200 MB, read ones 300.
    assert float(run.stdout) < 150


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
