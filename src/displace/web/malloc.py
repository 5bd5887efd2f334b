"""Memory of large images, given back to the system."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Of malloc.h."""
LARGE = 4 * 2**20
"""Bytes from which on memory is given back at once: the pixels of a megapixel and more."""


def return_memory() -> None:
    """Let the memory of images go back to the system when they are forgotten (Linux with glibc).

    Its allocator would keep what the largest ones took, in pieces: a quarter more after ten thousand uploads. What the
    small ones take stays: to give it back and take it again cost a sixth of the time of each image.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(M_MMAP_THRESHOLD, LARGE)
            mallopt(M_TRIM_THRESHOLD, 4 * LARGE)
            mallopt(M_ARENA_MAX, 2)
