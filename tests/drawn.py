"""Pictures of the town, drawn once for each version of the code that draws them and kept for the next run."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

import displace.datasets.town as town

KEPT = Path(
    os.environ.get("DISPLACE_TEST_CACHE", Path(tempfile.gettempdir()) / f"displace-tests-{os.getuid()}")
)


SMALL = (160, 120)
DRAWN = {town.SIZE: 200, SMALL: 24}
"""Places that are drawn of each size; tests that want fewer take the first."""


def drawn(size: tuple[int, int] = town.SIZE) -> Path:
    """The folder of a town: read from it or copy it, do not change it. One process draws, others wait for it."""
    places = DRAWN[size]
    name = f"town-{places}-{size[0]}x{size[1]}-{_version()}"
    KEPT.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = KEPT / name
    with (KEPT / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (
            folder / "manifest.csv"
        ).is_file():  # drawing goes on where it stopped; the manifest comes last
            town.write(folder, places, size=size)
    return folder


def copy_drawn(
    target: Path,
    places: int,
    traversals: tuple[str, ...] = town.TRAVERSALS,
    size: tuple[int, int] = town.SIZE,
) -> Path:
    """Copy the first places of a drawn town to `target`; returns its manifest."""
    source = drawn(size)
    for traversal in traversals:
        (target / traversal).mkdir(parents=True)
        for place in range(places):
            shutil.copy2(source / traversal / f"{place:04d}.jpg", target / traversal)
    shutil.copy2(source / "town.json", target)
    return town.write(target, places, traversals, size=size, workers=1)


def _version() -> str:
    """What the pictures depend on: the code that draws, and the libraries that compute and encode."""
    digest = hashlib.sha256()
    for path in sorted(Path(town.__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    for library in ("numpy", "opencv-python-headless", "Pillow"):
        digest.update(version(library).encode())
    return digest.hexdigest()[:16]
