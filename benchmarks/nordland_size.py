"""Whole suites on generated descriptors of Nordland's and RobotCar's size: time, memory and bytes of each method.

Nordland: 27,592 places × 4 traversals × 512 dimensions; RobotCar: 3,876 × 6 × 512. One traversal is located in all
others, through `run_suite`: descriptors from a store on disk, rankings and records to a results folder. Wall time, one
thread. Memory is the process's peak while a method runs, all included; the limit is 6 GB. Recalls are not printed: on
generated descriptors they say nothing about real ones.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._measure import header, peak, reset_peak, row
from benchmarks._sizes import SIZES, Size, traversals
from displace.datasets.base import Protocol
from displace.descriptors.imported import write_store
from displace.descriptors.store import Queries
from displace.evaluation.benchmark import run_suite
from displace.evaluation.methods import Method, methods_named
from displace.evaluation.record import Result
from displace.evaluation.suites import Suite
from displace.manifest.table import Manifest
from displace.truth import Tolerance

LIMIT = 6e9
TOLERANCES = {"nordland": Tolerance("exact"), "robotcar": Tolerance("frames", 5)}


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks nordland_size", description=__doc__)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--fraction", type=float, default=1.0, help="of the places")
    options = parser.parse_args(argv)
    highest = 0
    for name, tolerance in TOLERANCES.items():
        n_places = max(2, round(options.fraction * SIZES[name].n_places))
        with tempfile.TemporaryDirectory() as folder:
            highest = max(highest, measured(name, n_places, options.dim, tolerance, Path(folder)))
    within = "within" if highest <= LIMIT else "ABOVE"
    print(f"\nhighest peak {highest / 1e9:.2f} GB, {within} the limit of {LIMIT / 1e9:.0f} GB")


def measured(name: str, n_places: int, dim: int, tolerance: Tolerance, folder: Path) -> int:
    """Run one suite, print a row for each method, and return the peak of memory in bytes."""
    size = Size(n_places, SIZES[name].n_references + 1)
    write_generated(size, dim, folder / "generated.desc")
    paper = Method("displace", {"ridge": 0.0, "center": False}, "DisPlace (paper)")
    suite = Suite(
        name,
        name,
        name,
        Protocol(f"{name}-generated", tolerance),
        (*methods_named(), paper),
        {"generated": folder / "generated.desc"},
        (f"t{size.n_references - 1}",),
    )
    peaks: list[int] = []

    def note(_stage: str, done: int, _total: int) -> None:
        if done:
            peaks.append(peak())
        reset_peak()

    outcome = run_suite(suite, folder / "results", note)
    print(f"\n{name}: {size.n_places:,} places, {size.n_references - 1} references each, {dim} dimensions\n")
    header("method", "fit, s", "all queries, s", "ms a query", "stored, MiB", "peak memory, GB")
    for result, highest in zip(outcome.cells, peaks, strict=True):
        row(result.label, *figures(result), f"{highest / 1e9:.2f}")
    print(f"\nthe whole suite {outcome.seconds:.0f} s")
    return max(peaks)


def figures(result: Result) -> list[str]:
    """Cells of a row."""
    if not result.ok:
        return ["not possible", "", "", ""]
    fit, rank = result.seconds["fit"], result.seconds["rank"]
    numbers = (fit, rank, 1000 * rank / result.n_queries, result.n_bytes / 2**20)
    return [f"{number:,.2f}" for number in numbers]


def write_generated(size: Size, dim: int, folder: Path) -> None:
    """Keep generated descriptors in a store."""
    vectors = np.concatenate(list(traversals(size, dim)))
    number = np.tile(np.arange(size.n_places), size.n_references)
    names = np.repeat([f"t{k}" for k in range(size.n_references)], size.n_places)
    manifest = Manifest(
        [f"{name}/{place:05d}.jpg" for name, place in zip(names, number, strict=True)],
        [f"{place:05d}" for place in number],
        names,
        folder.parent,
        frame=number,
    )
    write_store(Queries(vectors, manifest.places, manifest), folder, "generated")
