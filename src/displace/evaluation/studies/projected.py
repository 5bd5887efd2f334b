"""The study of random projections from cells of a suite that had them, without computing anything again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

import numpy as np

from displace.evaluation.record import of_last_runs
from displace.evaluation.results import Result
from displace.evaluation.studies.compression import Compression, Curve, numbers
from displace.evaluation.studies.task import BEST_SINGLE, Setting
from displace.files import schema

Key = tuple[str, str, str, str]


def compressions_of(results: Iterable[Result]) -> list[Compression]:
    """Return a study for each data set, protocol, model and query traversal that has randomly projected cells."""
    groups: dict[Key, list[Result]] = {}
    for result in results:
        groups.setdefault((result.dataset, result.protocol, result.model, result.query), []).append(result)
    return [_study(cells) for _, cells in sorted(groups.items()) if any(cell.projection for cell in cells)]


def _study(found: Sequence[Result]) -> Compression:
    cells = of_last_runs(found)
    dims = sorted({cell.projection for cell in cells if cell.projection is not None})
    seeds = sorted({cell.seed for cell in cells if cell.projection is not None})
    named: dict[str, list[Result]] = {}
    for cell in sorted(cells, key=lambda cell: (cell.group != "single", cell.order[2])):
        named.setdefault(BEST_SINGLE.label if cell.group == "single" else cell.label, []).append(cell)
    whole = max(cells, key=lambda cell: cell.dim)
    setting = schema.made(Setting, asdict(whole))  # its fields are some of a result's
    curves = [_curve(label, own, dims, seeds) for label, own in named.items()]
    notes = dict.fromkeys(f"{cell.label} at D={cell.dim}: {cell.error}" for cell in cells if not cell.ok)
    return Compression(setting, dims, seeds, curves, list(notes))


def _curve(label: str, cells: Sequence[Result], dims: Sequence[int], seeds: Sequence[int]) -> Curve:
    """Mean and deviation over the seeds; of single references the best one of each projection counts."""
    found = np.full((len(dims), len(seeds)), np.nan)
    full = np.nan
    for cell in cells:
        if cell.ok and cell.projection is None:
            full = np.fmax(full, cell.recalls[1])
        elif cell.ok and cell.projection is not None:
            at = dims.index(cell.projection), seeds.index(cell.seed)
            found[at] = np.fmax(found[at], cell.recalls[1])
    n = (~np.isnan(found)).sum(axis=1)
    known = np.where(np.isnan(found), 0, found)
    means = np.where(n > 0, known.sum(axis=1) / np.maximum(n, 1), np.nan)
    squares = np.where(np.isnan(found), 0, found - means[:, None]) ** 2
    spread = np.where(n > 0, np.sqrt(squares.sum(axis=1) / np.maximum(n - 1, 1)), np.nan)
    plain = label == BEST_SINGLE.label or not cells[0].parameters
    return Curve(label, cells[0].fusion, plain, numbers(means), numbers(spread), numbers([full])[0])
