"""Fixtures for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from postgres import postgres as postgres  # a fixture

os.environ.setdefault("DISPLACE_MODEL", "hog")  # the fastest, whatever is installed

ROOT = Path(__file__).resolve().parent.parent

# The same examples on every run, and no limit on the time of one: a lazy import or a busy machine is no failure.
settings.register_profile("displace", deadline=None, derandomize=True)
settings.load_profile("displace")


FIRST = ("vit", "vgg", "resnet", "processes")
"""Groups that take long: started first, so that no process is left with one at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file in one process, where they share fixtures, unless they name a group of their own."""
    groups = {}
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        if mark is None:
            mark = pytest.mark.xdist_group(item.path.relative_to(ROOT / "tests").as_posix())
            item.add_marker(mark)
        groups[item] = str(mark.args[0])
    items.sort(key=lambda item: FIRST.index(groups[item]) if groups[item] in FIRST else len(FIRST))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with real data, which is not part of the repository."""
    folder = Path(os.environ.get("DISPLACE_SHARED", ROOT / ".." / "shared")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder} (set DISPLACE_SHARED)")
    return folder


@pytest.fixture(scope="session")
def drawn_town() -> Path:
    """The town of the demonstration, drawn once for all tests: read from it or copy it, do not change it."""
    from drawn import drawn

    return drawn(200)
