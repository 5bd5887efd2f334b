"""Peak memory of a call, as numpy and Python allocate it."""

from __future__ import annotations

import tracemalloc

from displace import arrays


def peak_bytes(run):
    """The most that `run` holds at one time, beyond what was there before; its second time, when all is imported."""
    run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def set_block_bytes(monkeypatch, n_bytes):
    """Let every computation in blocks use smaller ones, so that small problems show what large ones hold."""
    monkeypatch.setattr(arrays.blocks, "__defaults__", (n_bytes,))
