"""Fits a fusion and takes from it what a map stores: rows, statistics for updates, and its spectrum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np

from displace.errors import InputError, PluginError
from displace.fusion import FUSIONS, get_fusion
from displace.fusion.base import Fusion, Rows, Statistics
from displace.geo import Positions
from displace.references import ReferenceSet

SHOWN = 64
"""Most points of the cumulated spectrum that a map keeps for `inspect`."""


def with_places(
    refs: ReferenceSet, positions: Positions | None, images: Sequence[str] | None
) -> ReferenceSet:
    """References with the positions and images of their places, where these are given separately."""
    beside: dict[str, Any] = {"positions": positions, "images": images}
    given = {name: value for name, value in beside.items() if value is not None}
    return replace(refs, info=replace(refs.info, **given)) if given else refs


def fusion_of(given: str | Fusion) -> Fusion:
    """Return the fusion of a name, or the estimator that was given."""
    if isinstance(given, str):
        return _of_name(given)
    if not isinstance(given, Fusion):
        raise InputError(f"fusion={given!r} must be a name or an estimator, such as 'displace' or DisPlace()")
    return given


def _of_name(name: str) -> Fusion:
    """Return a fusion with the defaults of its parameters; one of another package may lack some."""
    made = get_fusion(name)
    for parameter in signature(made).parameters.values():
        several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not several:
            raise PluginError(
                f"the fusion {name!r} needs a value for {parameter.name!r}, which has no default: give it one in "
                f"{made.__module__}, or build in Python: displace.build(refs, {made.__name__}({parameter.name}=…))"
            )
    return made()


def fit(estimator: Fusion, refs: ReferenceSet) -> Statistics | None:
    """Fit a fusion, from its statistics where it has them; returns those that an update of the map needs."""
    statistics = estimator.statistics(refs)
    if statistics is None:
        estimator.fit_references(refs)
    else:
        estimator.from_statistics(statistics, refs)
        statistics = estimator.kept_statistics(statistics, refs)
    return statistics


def spectrum_note(estimator: Fusion) -> dict[str, Any]:
    """Cumulated share of the eigenvalues at up to `SHOWN` numbers of dimensions; empty without a projection."""
    eigenvalues = estimator.spectrum()
    total = float(eigenvalues.sum())
    if not total > 0:
        return {}
    share = np.cumsum(eigenvalues) / total
    shown = np.unique(np.geomspace(1, len(share), SHOWN).round().astype(np.intp))
    return {"spectrum": [[int(n), round(float(share[n - 1]), 3)] for n in shown]}


def stored_rows(estimator: Fusion) -> Rows:
    """Rows of a fitted fusion; an error where a map cannot hold it."""
    rows = estimator.rows()
    if rows is None:
        able = [name for name, fusion in FUSIONS.usable().items() if fusion.rows is not Fusion.rows]
        raise InputError(
            f"{estimator.title} needs whole score matrices and exists for evaluation only; a map can hold "
            f"{', '.join(able)}"
        )
    return rows
