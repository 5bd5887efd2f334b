"""Temporary folders that are removed also where the process is told to end, or was killed before."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

_ENDING = ".parts"
_RANDOM = re.compile(r"\w{8}" + re.escape(_ENDING))
"""End of the names of folders beside a file, after the file's own name."""


@contextmanager
def temporary_folder(
    prefix: str = "displace-", suffix: str = "", beside: Path | None = None
) -> Iterator[Path]:
    """A temporary folder that is removed also where the process is told to end or its terminal is closed."""
    received: list[int] = []

    def unwind(number: int, _: object) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)
        received.append(number)
        raise SystemExit(128 + number)

    ends = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    main = threading.current_thread() is threading.main_thread()
    ends = [number for number in ends if main and signal.getsignal(number) is signal.SIG_DFL]
    for number in ends:
        signal.signal(number, unwind)
    try:
        with tempfile.TemporaryDirectory(suffix, prefix, beside) as folder:
            yield Path(folder)
    finally:
        for number in ends:
            signal.signal(number, signal.SIG_DFL)
        if received:
            signal.raise_signal(received[0])


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A temporary folder for the one writer of `path`; those that killed writers left are removed first."""
    start = f".{path.name}."
    for entry in os.scandir(path.parent):
        ours = entry.name.startswith(start) and _RANDOM.fullmatch(entry.name[len(start) :])
        if ours and entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
    with temporary_folder(start, _ENDING, path.parent) as folder:
        yield folder
