"""The size of the memory, above which data stay in files."""

from __future__ import annotations

import os
from pathlib import Path

CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def physical_memory() -> int:
    """Bytes of memory of this machine or container, whichever is less; 8 GiB if unknown."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        machine = 8 * 2**30
    try:
        return min(machine, int(CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit: "max"
        return machine
