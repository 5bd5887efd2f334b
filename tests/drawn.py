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


def drawn(
    places: int, traversals: tuple[str, ...] = town.TRAVERSALS, size: tuple[int, int] = town.SIZE
) -> Path:
    """The folder of a town: read from it or copy it, do not change it. One process draws, others wait for it."""
    name = f"town-{places}-{'-'.join(traversals)}-{size[0]}x{size[1]}-{_version()}"
    KEPT.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = KEPT / name
    with (KEPT / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (
            folder / "manifest.csv"
        ).is_file():  # drawing goes on where it stopped; the manifest comes last
            town.write(folder, places, traversals, size=size)
    return folder


def copy_drawn(target: Path, *arguments: object, **options: object) -> Path:
    """Copy a drawn town to `target`; returns its manifest."""
    shutil.copytree(drawn(*arguments, **options), target)
    return target / "manifest.csv"


def _version() -> str:
    """What the pictures depend on: the code that draws, and the libraries that compute and encode."""
    digest = hashlib.sha256()
    for path in sorted(Path(town.__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    for library in ("numpy", "opencv-python-headless", "Pillow"):
        digest.update(version(library).encode())
    return digest.hexdigest()[:16]
