"""The eigenproblem: this package's routes against scipy.linalg.eigh(S_B, S_W) in float64 and float32.

CPU time with one BLAS thread, medians of interleaved repeats (once above D = 4096); extra peak memory in units of
D²·8 bytes. scipy is handed S_B; where our route forms it from the place means, that is a column of its own and no part
of "ours" nor of "ratio". "S_B by both" is the ratio in float64 when each side forms S_B from the place means in its
own type; "by us only" when scipy has it for nothing. Both projections match one more traversal to the places: "same
top-1" is how often they agree. Examples::

    python -m benchmarks solver --dim 512 4096
    python -m benchmarks solver --dim 8448 --sizes robotcar
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.linalg import eigh

from benchmarks._measure import Cost, header, measure, row
from benchmarks._sizes import SIZES, Size, traversals
from displace.arrays import Vectors
from displace.fusion.solver.eigen import Solution, pick_route, solve
from displace.fusion.solver.scatter import Scatter
from displace.fusion.solver.tuning import rule_ridge

ONCE_ABOVE = 4096
"""Above this D scipy takes minutes: it runs once, for the first size; its cost depends on D alone."""


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks solver", description=__doc__)
    parser.add_argument("--dim", type=int, nargs="+", default=[512, 4096, 8448])
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--repeats", type=int, default=3, help="once above D = 4096")
    options = parser.parse_args(argv)
    header(
        "D", "size", "route", "n", "S_B, s", "ours, s", "memory, D²·8 B",
        "scipy f64 s", "ratio", "S_B by both", "by us only", "memory", "scipy f32 s", "ratio", "same top-1",
    )  # fmt: skip
    for dim in options.dim:
        compare(dim, options.sizes, options.repeats if dim <= ONCE_ABOVE else 1)


def compare(dim: int, sizes: list[str], repeats: int) -> None:
    """Print a row for each size at one D; where scipy takes minutes it runs for the first size only."""
    double, single = Cost(), Cost()
    for name in sizes:
        forming_double = Cost()
        scatter, queries = statistics_and_queries(SIZES[name], dim)
        ridge = rule_ridge(scatter.sampling_ratio) * scatter.within_trace() / dim
        route = pick_route(*scatter.means.shape)
        forming, ours, agreement = Cost(), Cost(), "–"
        if dim <= ONCE_ABOVE:
            double, single = Cost(), Cost()
        for _ in range(repeats):
            if route != "gram":
                measure(scatter.between, forming)
            solution = measure(lambda s=scatter, r=ridge: solve(s, r), ours)
            if dim <= ONCE_ABOVE or name == sizes[0]:
                agreement = against_scipy(scatter, ridge, solution, queries, double, single, forming_double)
        formed = forming.median if forming.seconds else 0.0
        seconds, unit = ours.median - formed, dim**2 * 8
        both = double.median + forming_double.median if forming_double.seconds else None
        row(
            dim, name, route, solution.projection.shape[1], f"{formed:.2f}" if formed else "–",
            f"{seconds:.2f}", f"{ours.extra_bytes / unit:.2f}",
            f"{double.median:.2f}", f"**{double.median / seconds:.1f}×**",
            f"{both / ours.median:.1f}×" if both else "–", f"{double.median / ours.median:.1f}×",
            f"{double.extra_bytes / unit:.2f}",
            f"{single.median:.2f}", f"{single.median / seconds:.1f}×", agreement,
        )  # fmt: skip


def statistics_and_queries(size: Size, dim: int) -> tuple[Scatter, Vectors]:
    """Statistics of generated references, and up to 1,000 queries of one more traversal."""
    scatter = Scatter.empty(dim)
    one_more = size._replace(n_references=size.n_references + 1)
    for turn, vectors in enumerate(traversals(one_more, dim)):
        if turn < size.n_references:
            scatter.add(vectors, np.arange(size.n_places))
    return scatter, vectors[:: -(-size.n_places // 1000)].copy()


def against_scipy(
    scatter: Scatter,
    ridge: float,
    solution: Solution,
    queries: Vectors,
    double: Cost,
    single: Cost,
    forming: Cost,
) -> str:
    """Measure scipy in float64 and float32, and forming S_B for it; return how often its projection and ours agree."""
    S_B, S_W = matrices(scatter, ridge, forming)
    P = measure(lambda: peer(S_B, S_W), double)
    agreement = f"{same_top_1(scatter, solution, P, queries):.2f} %"
    S_B, S_W = S_B.astype(np.float32), S_W.astype(np.float32)
    measure(lambda: peer(S_B, S_W), single)
    return agreement


def matrices(scatter: Scatter, ridge: float, forming: Cost) -> tuple[np.ndarray, np.ndarray]:
    """S_B and the ridged S_W in float64, for scipy."""
    B = scatter.between_rows().astype(np.float64)
    S_W = scatter.within.astype(np.float64) / scatter.n_references
    S_W = np.tril(S_W) + np.tril(S_W, -1).T
    S_W.flat[:: len(S_W) + 1] += ridge
    return measure(lambda: B.T @ B, forming), S_W


def peer(S_B: np.ndarray, S_W: np.ndarray) -> np.ndarray:
    """All generalized eigenvectors, as the paper's text has it; those that reach 0.95."""
    values, vectors = eigh(S_B, S_W, check_finite=False)
    share = np.cumsum(values[::-1].clip(min=0))
    n = int(np.searchsorted(share, 0.95 * share[-1])) + 1
    return vectors[:, ::-1][:, :n]


def same_top_1(scatter: Scatter, solution: Solution, P: np.ndarray, queries: Vectors) -> float:
    """Share (%) of the queries that both projections match to the same place."""
    best = []
    for projection in (solution.projection, P.astype(np.float32)):
        places, q = scatter.means @ projection, queries @ projection
        places /= np.linalg.norm(places, axis=1, keepdims=True)
        best.append((q @ places.T).argmax(axis=1))
    return 100 * float(np.mean(best[0] == best[1]))
