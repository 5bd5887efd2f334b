"""Fixtures for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


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
