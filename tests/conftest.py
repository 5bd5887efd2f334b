"""Fixtures for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from postgres import postgres as postgres  # a fixture

ROOT = Path(__file__).resolve().parent.parent

# The same examples on every run, and no limit on the time of one: a lazy import or a busy machine is no failure.
settings.register_profile("displace", deadline=None, derandomize=True)
settings.load_profile("displace")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with real data and golden vectors, which is not part of the repository."""
    folder = Path(os.environ.get("DISPLACE_SHARED", ROOT / ".." / "shared")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder} (set DISPLACE_SHARED)")
    return folder


@pytest.fixture(scope="session")
def drawn_town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The town of the demonstration, drawn once for all tests: read from it or copy it, do not change it."""
    from displace.datasets import town

    folder = tmp_path_factory.mktemp("drawn") / "town"
    town.write(folder, 200)
    return folder
