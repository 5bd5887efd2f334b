"""Every fusion at Nordland size: 27,592 places × 3 traversals × 27,592 queries, D = 512; time and peak memory.

Each fusion is a process of its own, so that its peak is its own: the whole process, references and queries included.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np

from benchmarks._measure import header, peak, reset_peak, row
from benchmarks._sizes import SIZES, traversals
from displace.fusion import FUSIONS


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ranking", description=__doc__)
    parser.add_argument("--fusion", nargs="+", default=FUSIONS.names(), choices=FUSIONS.names())
    parser.add_argument("--queries", type=int, default=27592)
    options = parser.parse_args(argv)
    header("fusion", "fit, CPU s", "rank, CPU s", "peak memory of the process, MiB")
    for name in options.fusion:
        code = f"from benchmarks.ranking import measure_one; measure_one({name!r}, {options.queries})"
        subprocess.run([sys.executable, "-c", code], check=True)


def measure_one(name: str, n_queries: int) -> None:
    """Print one row."""
    size = SIZES["nordland"]
    *parts, queries = traversals(size._replace(n_references=4), 512)
    X, y = np.concatenate(parts), np.tile(np.arange(size.n_places), 3)
    del parts
    names = np.repeat(np.arange(3), size.n_places)
    reset_peak()
    start = time.process_time()
    fusion = FUSIONS.get(name)().fit(X, y, names)
    fitted = time.process_time()
    fusion.rank(queries[:n_queries], k=5)
    ranked = time.process_time()
    row(name, f"{fitted - start:.1f}", f"{ranked - fitted:.1f}", f"{peak() / 2**20:.0f}")
