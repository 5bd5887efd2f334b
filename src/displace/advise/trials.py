"""Trials: traversals held out as queries to fusions of others."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.advise.advice import Choice
from displace.errors import ConditioningWarning, InputError
from displace.fusion.base import Fusion
from displace.geo import Positions
from displace.maps.building import TOLERANCE
from displace.references import ReferenceSet
from displace.truth import Flags

MAX_HELD_OUT = 12
"""Traversals that are held out; of more, these many spread evenly over their names."""


@dataclass(frozen=True, eq=False)
class Truth:
    """What counts as correct: the very place, or one within the tolerance.

    Parameters
    ----------
    place_ids : array of shape (N,)
        Sorted.
    metres : array of shape (N, 2) or None
        Where the places are; NaN where unknown, and then only the very place is correct.
    tolerance : float
        In metres.
    """

    place_ids: NDArray[Any]
    metres: NDArray[np.float64] | None = None
    tolerance: float = 0.0

    @classmethod
    def of(cls, refs: ReferenceSet, positions: Positions | None, tolerance: float | None) -> Truth:
        """Check the positions and the tolerance of `advise`."""
        if positions is None:
            if tolerance is not None:
                raise InputError(f"tolerance={tolerance:g} m needs positions= of the places")
            return cls(refs.place_ids)
        if len(positions) != len(refs.place_ids):
            raise InputError(
                f"positions has {len(positions)} entries; the references have {len(refs.place_ids)} places"
            )
        tolerance = TOLERANCE if tolerance is None else tolerance
        if not tolerance >= 0:
            raise InputError(f"tolerance={tolerance:g} must be at least 0 metres")
        return (
            cls(refs.place_ids, positions.metres(), tolerance)
            if positions.known.any()
            else cls(refs.place_ids)
        )

    @property
    def name(self) -> str:
        """Name of the protocol, to be printed beside every number."""
        return "exact place" if self.metres is None else f"within {self.tolerance:g} m"

    def correct(self, found: NDArray[Any], places: NDArray[Any]) -> Flags:
        """Whether each place found is right for a query at the place beside it."""
        right: Flags = found == places
        if self.metres is not None:
            away = self.metres[self._at(found)] - self.metres[self._at(places)]
            right |= np.hypot(*away.T) <= self.tolerance
        return right

    def answerable(self, places: NDArray[Any], known: NDArray[Any]) -> Flags:
        """Whether `known` has a right answer for a query at each of `places`."""
        there: Flags = np.isin(places, known)
        if self.metres is None:
            return there
        from scipy.spatial import cKDTree

        targets, queries = self.metres[self._at(known)], self.metres[self._at(places)]
        targets, located = targets[np.isfinite(targets).all(axis=1)], np.isfinite(queries).all(axis=1)
        if len(targets):
            there[located] |= cKDTree(targets).query(queries[located])[0] <= self.tolerance
        return there

    def _at(self, ids: NDArray[Any]) -> NDArray[np.intp]:
        return np.searchsorted(self.place_ids, ids)


class Trials:
    """References, and the queries that each traversal makes when it is held out.

    Parameters
    ----------
    refs : ReferenceSet
    truth : Truth
    max_queries : int
        Queries of one traversal; of more, these many spread evenly over its places.

    Attributes
    ----------
    names : list
        All traversals.
    tried : list
        Those that are held out and valued: all, or `MAX_HELD_OUT` of them.
    queries : dict of name to ReferenceSet
        Of the tried ones that have queries: references whose place the other traversals have.
    n_left_out : dict of name to int
        References of each tried one whose place the others do not have.
    """

    def __init__(self, refs: ReferenceSet, truth: Truth, max_queries: int) -> None:
        self.refs, self.truth = refs, truth
        self.names: list[Any] = refs.traversal_ids.tolist()
        spread = np.linspace(0, len(self.names) - 1, min(len(self.names), MAX_HELD_OUT))
        self.tried = [self.names[at] for at in spread.astype(np.intp)]
        self.queries: dict[Any, ReferenceSet] = {}
        self.n_left_out: dict[Any, int] = {}
        for name in self.tried:
            own, others = refs.traversals == name, np.unique(refs.places[refs.traversals != name])
            answerable = np.zeros(len(refs), bool)
            answerable[own] = truth.answerable(refs.places[own], others)
            self.n_left_out[name] = int(own.sum() - answerable.sum())
            if len(others) >= 2 and answerable.any():
                self.queries[name] = refs.select(
                    thinned(np.flatnonzero(answerable), refs.places, max_queries)
                )

    def hits(self, choice: Choice, references: Collection[Any]) -> dict[Any, Flags]:
        """Fit on some traversals and ask the queries of all tried ones that are not among them.

        Parameters
        ----------
        choice : Choice
        references : collection of names

        Returns
        -------
        dict of name to array of shape (q,)
            Whether the best place was right for each query.
        """
        fusion = fit(choice, self.refs.only(*references))
        return {
            name: self.truth.correct(fusion.predict(queries.vectors), queries.places)
            for name, queries in self.queries.items()
            if name not in references
        }

    def others(self, *names: Any) -> frozenset[Any]:
        """All traversals but these."""
        return frozenset(self.names) - set(names)


def fit(choice: Choice, refs: ReferenceSet) -> Fusion:
    """Fit a fusion, without the warnings that a deliberate trial of few references would raise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConditioningWarning)
        return choice.make().fit(refs.vectors, refs.places, refs.traversals)


def thinned(rows: NDArray[np.intp], places: NDArray[Any], limit: int) -> NDArray[np.intp]:
    """At most `limit` of the rows, spread evenly in order of place."""
    rows = rows[np.argsort(places[rows], kind="stable")]
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), limit)).astype(np.intp)]
