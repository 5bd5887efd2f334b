"""Write a golden results folder of the present format.

``PYTHONPATH=tests python tests/golden/make_results.py results_v1``
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from routes import make_store, make_suite

from displace.evaluation.benchmark import run_suite
from displace.evaluation.methods import Method


def main(name: str) -> None:
    """Write the folder NAME beside this file: two methods and an impossible one, as they are and projected."""
    folder = Path(__file__).resolve().parent / name
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)  # so that the record of the store has no path of this machine
        make_store(Path("made.desc"), n_places=12, dim=40)
        methods = (
            Method("hops"),
            Method("displace", {"ridge": 0.0, "center": False}, "DisPlace (paper)"),
            Method("displace"),
        )
        outcome = run_suite(make_suite({"made": "made.desc"}, methods=methods, dims=(30,)), "results")
        for result in outcome.cells:
            outcome.results.update(replace(result, versions={**result.versions, "platform": "Linux"}))
        Path("results").rename(folder)


if __name__ == "__main__":
    main(sys.argv[1])
