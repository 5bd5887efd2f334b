"""Locating: one query against 200,000 places of 256 dimensions, and maps of RobotCar's size.

The first table is in multiples of the time that ``np.dot(x, x)`` takes over the float32 rows' bytes: what reading them
once costs. CPU time, one thread, interleaved, medians. The second compares maps of three fusions with the same search
code, dtype and threads, for the best five places and for the best one (which is what the paper asks for).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._measure import header, row
from benchmarks._sizes import SIZES, traversals
from displace import PlaceMap, ReferenceSet, build, get_fusion
from displace.maps.state import MapState
from displace.places import Places

N, WIDTH, DIM = 200_000, 256, 512


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks locate", description=__doc__)
    parser.add_argument("--repeats", type=int, default=101)
    options = parser.parse_args(argv)
    against_memory(options.repeats)
    print()
    against_other_fusions(options.repeats)


def against_memory(repeats: int) -> None:
    """Print the first table."""
    try:
        import faiss
    except ImportError:
        faiss = None
    else:
        faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((N, WIDTH), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    single, half = (made_map(rows.astype(dtype), rng) for dtype in (np.float32, np.float16))
    query = rng.standard_normal((1, DIM)).astype(np.float32)
    flat = rows.ravel()
    runs: dict[str, Callable[[], Any]] = {
        "np.dot(x, x)": lambda: np.dot(flat, flat),
        "locate, core install, float32 working copy": lambda: single.locate(query, search="exact"),
    }
    if faiss:
        index = faiss.IndexFlatIP(WIDTH)
        index.add(rows)
        runs["faiss IndexFlatIP float32, search alone"] = lambda: index.search(query[:, :WIDTH], 5)
        runs["locate, faiss, float32"] = lambda: single.locate(query, search="faiss")
        runs["locate, faiss, float16"] = lambda: half.locate(query, search="faiss")
    seconds = timed(runs, repeats)
    base = seconds["np.dot(x, x)"]
    header(f"N={N:,}, n={WIDTH}, k=5", "ms", "multiple of reading the bytes")
    for name, value in seconds.items():
        row(name, f"{1000 * value:.1f}", f"{value / base:.2f}")


def made_map(rows: np.ndarray, rng: np.random.Generator) -> PlaceMap:
    """A map of given rows, with a projection from 512 dimensions."""
    projection = rng.standard_normal((DIM, WIDTH)).astype(np.float32)
    everything = np.arange(len(rows))
    return PlaceMap(
        MapState(Places(everything), rows, everything, "displace", {}, "generated", DIM, projection)
    )


def against_other_fusions(repeats: int) -> None:
    """Print the second table."""
    size = SIZES["robotcar"]
    parts = list(traversals(size, DIM))
    refs = ReferenceSet.from_traversals({f"t{k}": part for k, part in enumerate(parts)})
    fusions = {
        "displace, n=259": get_fusion("displace")(ridge=0.0, center=False, n_components=259),
        "hops": get_fusion("hops")(),
        "pooling": get_fusion("pooling")(),
    }
    towns = {
        name: build(refs, fusion, dtype="float32", calibration=False) for name, fusion in fusions.items()
    }
    queries = next(iter(traversals(size, DIM, seed=1)))[:100]
    five, one = (
        timed(
            {n: lambda t=town, k=k: t.locate(queries[:1], k, search="exact") for n, town in towns.items()},
            repeats,
            calls=20,
        )
        for k in (5, 1)
    )
    many = timed({n: lambda t=town: t.locate(queries, search="exact") for n, town in towns.items()}, repeats)
    header(
        "N=3876, K=5, D=512", "one query, k=5, ms", "displace / this", "k=1, ms", "displace / this",
        "of 100 at a time, k=5, ms", "displace / this", "MiB", "displace / this", "paper: time, bytes",
    )  # fmt: skip
    ours = "displace, n=259"
    paper = {ours: "1, 1", "hops": "0.78, 0.57", "pooling": "0.15, 0.11"}
    for name, town in towns.items():
        row(
            name,
            f"{1000 * five[name]:.2f}",
            f"{five[ours] / five[name]:.2f}",
            f"{1000 * one[name]:.2f}",
            f"{one[ours] / one[name]:.2f}",
            f"{10 * many[name]:.3f}",
            f"{many[ours] / many[name]:.2f}",
            f"{town.nbytes / 2**20:.2f}",
            f"{towns[ours].nbytes / town.nbytes:.2f}",
            paper[name],
        )


def timed(runs: dict[str, Callable[[], Any]], repeats: int, calls: int = 1) -> dict[str, float]:
    """Median CPU seconds of each, `calls` at a time, interleaved, after one unmeasured round."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            start = time.process_time()
            for _ in range(calls):
                run()
            if turn:
                times[name].append((time.process_time() - start) / calls)
    return {name: statistics.median(values) for name, values in times.items()}
