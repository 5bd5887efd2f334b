"""Trials: traversals held out as queries to fusions of others."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from displace.advise.advice import Choice
from displace.fusion.base import Fusion, fit_unwarned
from displace.holdout import spread, thinned
from displace.neighbours import is_sequence
from displace.references import ReferenceSet
from displace.truth import Flags, Truth

MAX_HELD_OUT = 12
"""Traversals that are held out; of more, these many spread evenly over their names."""


class Trials:
    """References, and the queries that each traversal makes when it is held out.

    Attributes
    ----------
    names, tried : list
        All traversals, and those that are held out and valued: all, or `MAX_HELD_OUT` of them.
    queries : dict of name to ReferenceSet
        Of the tried ones that have queries: references whose place the other traversals have, at most `max_queries` of
        them, spread evenly over its places.
    order : dict of name to array of shape (q,)
        Number along the route of each query's place, NaN where unknown or where neighbours do not look alike and frames
        are not counted, so that the places are hardly a route: `order` of `displace.bootstrap.bootstrap`.
    n_left_out : dict of name to int
        References of each tried one whose place the others do not have.
    """

    def __init__(self, refs: ReferenceSet, truth: Truth, max_queries: int) -> None:
        self.refs, self.truth = refs, truth
        self.names: list[Any] = refs.traversal_ids.tolist()
        self.tried = [self.names[at] for at in spread(len(self.names), MAX_HELD_OUT)]
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

        frames = refs.info.frames if truth.tolerance.kind == "frames" or is_sequence(refs) else None
        self.order = {
            name: np.full(len(asked), np.nan) if frames is None else frames[refs.info.rows_of(asked.places)]
            for name, asked in self.queries.items()
        }

    def hits(self, choice: Choice, references: Collection[Any]) -> dict[Any, Flags]:
        """Fit on some traversals and locate the queries of all tried ones that are not among them."""
        return self.hits_of(fit(choice, self.refs.only(*references)), references)

    def hits_of(self, fusion: Fusion, references: Collection[Any]) -> dict[Any, Flags]:
        """Whether a fusion of some traversals finds each query of the others, shape (q,), by traversal."""
        return {
            name: self.truth.correct(fusion.predict(queries.vectors), queries.places)
            for name, queries in self.queries.items()
            if name not in references
        }

    def others(self, *names: Any) -> frozenset[Any]:
        """All traversals but these."""
        return frozenset(self.names) - set(names)


def fit(choice: Choice, refs: ReferenceSet) -> Fusion:
    """Fit a choice, without warnings about few references."""
    return fit_unwarned(choice.make(), refs)
