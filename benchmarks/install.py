"""What an installation takes on disk: the core, and what each extra adds to it, from the packages installed here."""

from __future__ import annotations

import argparse
import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from benchmarks._measure import header, row

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def main(argv: list[str]) -> None:
    argparse.ArgumentParser(prog="python -m benchmarks install", description=__doc__).parse_args(argv)
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    core = needed(project["dependencies"])
    header("install", "packages", "MB")
    row("core", f"{len(core)}", f"{megabytes(core):.0f}")
    for extra, requirements in project["optional-dependencies"].items():
        try:
            added = needed(requirements) - core
        except PackageNotFoundError as missing:
            row(extra, "–", f"not installed here: {missing.name}")
        else:
            row(extra, f"+{len(added)}", f"+{megabytes(added):.0f}")


def needed(requirements: list[str]) -> set[str]:
    """Names of the packages that `requirements` bring along, all the way down."""
    found: set[str] = set()
    todo = [Requirement(text) for text in requirements]
    while todo:
        requirement = todo.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        extras = {*requirement.extras, ""}
        if name in found and not requirement.extras:
            continue
        found.add(name)
        todo += [
            below
            for below in map(Requirement, distribution(name).requires or [])
            if below.marker is None or any(below.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return found


def megabytes(names: set[str]) -> float:
    """Size of the files of installed packages."""
    files = {Path(str(file.locate())) for name in names for file in distribution(name).files or []}
    return sum(path.stat().st_size for path in files if path.is_file()) / 1e6
