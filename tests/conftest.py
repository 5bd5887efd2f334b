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
