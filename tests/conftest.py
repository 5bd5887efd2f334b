"""Fixtures for every test."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from postgres import postgres as postgres  # a fixture

os.environ.setdefault("DISPLACE_MODEL", "hog")  # the fastest, whatever is installed

gc.disable()  # nothing of what is imported and collected becomes garbage

ROOT = Path(__file__).resolve().parent.parent

# The same examples on every run, and no limit on the time of one: a lazy import or a busy machine is no failure.
settings.register_profile("displace", deadline=None, derandomize=True)
settings.load_profile("displace")

# Freed memory is kept for the next large array: to ask the system each time takes a quarter of a network's pass.
with suppress(AttributeError, OSError):  # glibc's alone
    ctypes.CDLL(None).mallopt(M_MMAP_MAX := -4, 0)
    ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD := -1, 2**31 - 1)

# Nobody pulls a plug here, so that nothing has to wait for the disk. Tests that kill processes count these calls.
os.fsync = lambda descriptor: None


PROCESSES = ("test_extraction_killed", "test_extraction_memory", "test_place_map_file")
"""Files whose tests kill processes or measure their memory: one at a time."""

DATABASE = ("test_pgvector", "test_in_database", "test_search")
"""Files whose tests share a database server."""

FIRST = (
    *("processes", "vit", "tests/test_demo.py", "vgg", "resnet", "tests/test_report_browser.py"),
    *("tests/test_advise.py", "tests/test_cli_maps.py", "tests/test_cluster.py", "tests/test_examples.py"),
    *("database", "tests/test_web_browser.py", "tests/test_sped400.py", "tests/test_report.py"),
    *("tests/test_tensors.py", "tests/test_place_map_updating.py", "tests/test_fuzz.py"),
    *("tests/test_web_hardening.py", "tests/contract/test_fusions.py", "tests/contract/test_models.py"),
    *("tests/test_evaluation_tables.py", "tests/test_evaluation_studies.py", "tests/test_town.py"),
)
"""Groups that take long: started first, so that no process is left with one at the end.

Processes are forked before anything that other tests use has started threads."""


@cache
def group_of(nodeid: str) -> str:
    """Tests of a group run in one process. It is the file, whose tests share fixtures, but for what takes long."""
    path = Path(nodeid.split("::")[0])
    if path.stem == "test_models_parity":  # families of networks, each of which shares weights and passes
        name = nodeid.lower()
        return "vgg" if "vgg16" in name else "vit" if "salad" in name or "megaloc" in name else "resnet"
    shared = {**dict.fromkeys(PROCESSES, "processes"), **dict.fromkeys(DATABASE, "database")}
    return shared.get(path.stem, path.as_posix())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long groups first."""
    items.sort(key=lambda item: (*FIRST, group_of(item.nodeid)).index(group_of(item.nodeid)))
    gc.freeze()  # what was imported stays; the search for garbage goes on without it
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share the groups out among the processes of ``-n 2 --dist loadfile``."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with real data, which is not part of the repository."""
    folder = Path(os.environ.get("DISPLACE_SHARED", ROOT / ".." / "shared")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder} (set DISPLACE_SHARED)")
    return folder


@pytest.fixture
def not_for_ever() -> Iterator[None]:
    """Fail instead of waiting for ever, such as for somebody to write to a pipe; what is tested takes no time."""

    def give_up(*_: object) -> None:
        pytest.fail("it would have waited for ever")  # which no code under test catches

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(int(os.environ.get("TESTS_WAIT", "300")))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
