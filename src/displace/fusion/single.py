"""Single reference: one traversal alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, l2_normalize
from displace.errors import InputError
from displace.fusion.base import VectorFusion
from displace.holdout import spread
from displace.references import ReferenceSet, slot_of_each

MAX_QUERIES = 500
"""Queries of a traversal that take part in choosing the best one."""


class Single(VectorFusion):
    """Plain retrieval from one traversal.

    Only places of that traversal can be found. Where it has several images of a place, the first is used.

    Parameters
    ----------
    traversal : optional
        The traversal to use. By default the one from which the others' places are found most often; each place counts
        once, so that a short traversal does not win by its few places being recorded often.

    Attributes
    ----------
    traversal_ : object
        The traversal used.
    traversal_recalls_ : dict
        For each traversal that was compared, the share (%) of the other traversals' references whose place it finds;
        each place counts once.
    """

    title = "Single"

    def __init__(self, traversal: Any = None) -> None:
        self.traversal = traversal

    def _fit(self, X: Vectors, index: Indices, traversals: NDArray[Any] | None) -> None:
        labels = slot_of_each(index, None) if traversals is None else traversals
        names = np.unique(labels)
        self.traversal_recalls_: dict[Any, float] = {}
        if self.traversal is not None:
            # As text: that is how `settings`, and so a map, names a traversal that is a number.
            known = {str(name): name for name in names.tolist()}
            if str(self.traversal) not in known:
                raise InputError(f"traversal={self.traversal!r} is none of {', '.join(known)}")
            self.traversal_ = known[str(self.traversal)]
        elif len(names) == 1:
            self.traversal_ = names[0]
        else:
            self.traversal_recalls_ = {name: _recall(X, index, labels, name) for name in names.tolist()}
            self.traversal_ = max(self.traversal_recalls_, key=lambda name: self.traversal_recalls_[name])
        rows = _rows(index, labels, self.traversal_)
        self.place_ids_ = self.place_ids_[index[rows]]
        self.place_vectors_ = l2_normalize(X[rows])

    def settings(self) -> dict[str, Any]:
        """The traversal that was used."""
        return {"traversal": str(self.traversal_)}

    def used(self, refs: ReferenceSet) -> ReferenceSet:
        """The references of the traversal that was used."""
        return refs.select(refs.traversals == self.traversal_)


def _rows(index: Indices, labels: NDArray[Any], name: Any) -> Indices:
    """The first reference of each place in traversal `name`, in order of place."""
    own = np.flatnonzero(labels == name)
    return own[np.unique(index[own], return_index=True)[1]]


def _recall(X: Vectors, index: Indices, labels: NDArray[Any], name: Any) -> float:
    """R@1 (%) of a sample of the other traversals' references, each place counted once; those it lacks are misses."""
    own, others = _rows(index, labels, name), np.flatnonzero(labels != name)
    sample = others[np.lexsort((index[others], labels[others]))]
    sample = sample[spread(len(sample), MAX_QUERIES)]
    scores = l2_normalize(X[sample]) @ l2_normalize(X[own]).T
    hits = index[own][scores.argmax(axis=1)] == index[sample]
    return 100 * float(np.average(hits, weights=1 / np.bincount(index[others])[index[sample]]))
