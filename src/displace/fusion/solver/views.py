"""Views: which references of a place show the same thing, seen in different traversals.

S_W must see what weather, light and season change, and nothing else. Where a traversal has several images of a place
(a panorama, four cameras, frames along the way) the references of the place also differ in what they look at, which
distinguishes places and must stay. So references are grouped by view first: S_W is the scatter within groups, over
traversals, and every group is a row of the map.

Groups are given (heading, camera) or found: descriptors are centred by their traversal's mean, which takes most of the
condition out of them, and references of one place from two traversals belong together where each is the other's
nearest. A group holds a traversal once at most; what has no partner stays alone. On 811 real frames in two seasons,
4 to 16 frames a place, 97 to 98 % of the pairs found this way show the same frame.

Where no view is seen in more than one traversal, nothing is known about condition change: then references stay as they
are, P = I and every one of them is a row, which is pooling.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, l2_normalize
from displace.holdout import spread
from displace.references import occurrence, rows_of_each, sum_by

REPEATED = 0.65
"""Share of views that must be nearer to their own place than to another for views to count as repeated."""
ONE_DRIVE = 0.8
"""Share of places that must look like consecutive frames for the traversals to count as frames of one drive."""
SOME = 200
"""Places that are looked at for that, spread evenly."""
FEW = 8
"""Traversals of fewer references are centred by the mean of all."""


@dataclass(frozen=True, eq=False)
class Views:
    """References grouped by what they show."""

    index: Indices
    """Shape (m,). Group of each reference, 0 … G−1; groups of one place are neighbours, places in order."""
    places: Indices
    """Shape (G,). Index of each group's place."""
    kind: str = "one"
    """One of "one", one view a place; "given", groups as given; "found", as found; and "apart", every reference alone,
    nothing being known about conditions."""
    reason: str = ""
    """One line for a person; empty for one view a place."""

    @classmethod
    def one_each(cls, index: Indices, n_places: int) -> Views:
        """Every place one view: its references differ by condition only."""
        return cls(index, np.arange(n_places))


def group_views(
    vectors: Vectors, index: Indices, traversals: NDArray[Any], given: NDArray[Any] | None = None
) -> Views:
    """Separate the views of places: of references (m, D), their places 0 … N−1, traversals, and labels where `given`.

    >>> front, back, left, right = np.eye(4)
    >>> frames = np.array([front, back, back, front, left, right, right, left])
    >>> views = group_views(frames, np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.array(list("aabbaabb")))
    >>> views.index.tolist(), views.kind
    ([0, 1, 1, 0, 2, 3, 3, 2], 'found')
    """
    n_places = int(index.max()) + 1
    labels = np.unique(traversals, return_inverse=True)[1]
    n_traversals = int(labels.max()) + 1
    if given is not None:
        group = _numbered(index, np.unique(given, return_inverse=True)[1])
        if _repeats(group, labels):
            return Views(
                group,
                _places_of(group, index),
                "given",
                f"{_count(group)} views of {n_places} places as given",
            )
        return _apart(index, "no view that was given is seen in more than one traversal")
    if not several_images(index, labels):
        if frames_of_one_drive(vectors, index, labels):
            return _apart(
                index,
                "the traversals look like consecutive frames of one drive: the last of a place is nearer to the first "
                "of the next place than to its own",
            )
        # Even if a place's images differ a lot: weather and light may do that, and held-out traversals will show it.
        return Views.one_each(index, n_places)
    if n_traversals == 1:
        return _apart(index, "one traversal, so nothing is known about how conditions change")
    centred = _Centred(vectors, labels)
    share = _share_at_home(centred, index, labels)
    if share < REPEATED:
        return _apart(
            index,
            f"views are not seen again in other traversals ({100 * share:.0f} % are nearer to their own place than to "
            f"another, and {100 * REPEATED:.0f} % would show it)",
        )
    group = _found(centred, index, labels)
    reason = f"{_count(group)} views of {n_places} places found across {n_traversals} traversals"
    return Views(group, _places_of(group, index), "found", reason)


def several_images(index: Indices, labels: Indices) -> bool:
    """Whether some traversal has a place more than once, both being numbered."""
    return bool(occurrence(_numbered(index, labels)).any())


def frames_of_one_drive(vectors: Vectors, index: Indices, labels: Indices) -> bool:
    """Whether the "traversals" are frames of one drive, cut into places in the order of place ids.

    If so, two of them are the first and the last frame of each place, and the last frame is nearer to the first of the
    next place than (1) to the first of its own place, (2) the first frame is to the last of the next place, and (3) to
    the last of the next place. Real traversals pass none of the three tests. `index` numbers the places along the
    route, `labels` the traversals; a place is in a traversal once at most.
    """
    n_places, n_traversals = int(index.max()) + 1, int(labels.max()) + 1
    row = np.full((n_traversals, n_places), -1)
    row[labels, index] = np.arange(len(index))
    whole = np.flatnonzero((row[:, :-1] >= 0).all(axis=0) & (row[:, 1:] >= 0).all(axis=0))
    if len(whole) < 3 or n_traversals < 3:
        return False
    whole = whole[spread(len(whole), SOME)]
    here, after = (vectors[row[:, places]] for places in (whole, whole + 1))  # (K, places, D)
    common = here.mean(axis=(0, 1))
    here, after = l2_normalize(here - common), l2_normalize(after - common)
    across = np.einsum("apd,bpd->abp", here, after)
    means = across.mean(axis=2)
    np.fill_diagonal(means, -np.inf)
    last, first = divmod(int(means.argmax()), n_traversals)
    own = np.einsum("pd,pd->p", here[last], here[first])
    others = (own, across[first, last], across[last, last])
    return all(float(np.mean(across[last, first] > other)) >= ONE_DRIVE for other in others)


def merged(rows: Vectors, places: Indices, most: int) -> tuple[Vectors, Indices]:
    """Merge the unit rows of each place down to `most`, those first that lose least (Ward), into normalised sums.

    >>> rows, places = merged(np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), np.array([0, 0, 0]), 2)
    >>> rows.round(2).tolist(), places.tolist()
    ([[0.95, 0.32], [0.0, 1.0]], [0, 0])
    """
    starts = np.unique(places, return_index=True)[1]
    label = np.arange(len(rows))
    for start, end in pairwise([*starts.tolist(), len(places)]):
        if end - start > most:
            label[start:end] = start + _ward(rows[start:end], most)
    kept, index = np.unique(label, return_inverse=True)
    return l2_normalize(sum_by(rows, index, len(kept))), places[kept]


def _ward(rows: Vectors, most: int) -> Indices:
    """Number of the first row of each row's cluster."""
    from scipy.cluster.hierarchy import fcluster, linkage

    clusters = fcluster(linkage(rows, "ward"), most, "maxclust")
    _, first, cluster = np.unique(clusters, return_index=True, return_inverse=True)
    return first[cluster]


class _Centred:
    """References without their traversal's mean, as unit vectors, some at a time."""

    def __init__(self, vectors: Vectors, labels: Indices) -> None:
        self.vectors, self.labels = vectors, labels
        common = vectors.mean(axis=0)
        self.means = np.stack([self._mean(labels == label, common) for label in range(int(labels.max()) + 1)])

    def _mean(self, mine: NDArray[np.bool_], common: Vectors) -> Vectors:
        return self.vectors[mine].mean(axis=0) if mine.sum() >= FEW else common

    def __getitem__(self, rows: Indices) -> Vectors:
        return l2_normalize(self.vectors[rows] - self.means[self.labels[rows]])


def _found(centred: _Centred, index: Indices, labels: Indices) -> Indices:
    """Groups by mutual nearest neighbours within places."""
    group = np.empty(len(index), np.intp)
    next_group = 0
    for rows in rows_of_each(index):
        local = labels[rows]
        alone = len(np.unique(local)) == len(local)
        clusters = np.zeros(len(rows), np.intp) if alone else _paired(centred[rows], local)
        group[rows] = next_group + clusters
        next_group += int(clusters.max()) + 1
    return group


def _paired(units: Vectors, labels: Indices) -> Indices:
    """Clusters of mutual nearest neighbours, nearest pairs first, each with a traversal once at most."""
    cosines = units @ units.T
    nearest = np.zeros(cosines.shape, bool)
    for label in np.unique(labels):
        columns, rows = np.flatnonzero(labels == label), np.flatnonzero(labels != label)
        if len(rows):
            nearest[rows, columns[cosines[np.ix_(rows, columns)].argmax(axis=1)]] = True
    a, b = np.nonzero(np.triu(nearest & nearest.T, 1))
    cluster = np.arange(len(labels))
    for at in np.argsort(-cosines[a, b], kind="stable"):
        one, other = cluster == cluster[a[at]], cluster == cluster[b[at]]
        if not np.intersect1d(labels[one], labels[other]).size:
            cluster[other] = cluster[a[at]]
    return np.unique(cluster, return_inverse=True)[1]


def _share_at_home(centred: _Centred, index: Indices, labels: Indices) -> float:
    """Share of references nearer to their own place in another traversal than to the place half the route away.

    Both are given the same number of candidates, so that chance is one half.
    """
    members = rows_of_each(index)
    half = len(members) // 2
    wins = tries = 0
    for own, other in zip(members, members[half:] + members[:half], strict=True):
        mine, theirs = centred[own], centred[other]
        at_home, away = mine @ mine.T, mine @ theirs.T
        for row, label in enumerate(labels[own]):
            candidates, strangers = (np.flatnonzero(labels[rows] != label) for rows in (own, other))
            size = min(len(candidates), len(strangers))
            if size:
                tries += 1
                wins += at_home[row, candidates[:size]].max() > away[row, strangers[:size]].max()
    return wins / tries if tries else 0.0


def _repeats(group: Indices, labels: Indices) -> bool:
    """Whether some group has two traversals."""
    pairs = np.unique(np.stack([group, labels]), axis=1)
    return bool(np.bincount(pairs[0]).max() > 1)


def _numbered(index: Indices, labels: Indices) -> Indices:
    """Number the pairs of place and label, those of a place side by side."""
    return np.unique(index * (labels.max() + 1) + labels, return_inverse=True)[1]


def _apart(index: Indices, reason: str) -> Views:
    """Every reference a view of its own."""
    order = np.argsort(index, kind="stable")
    group = np.empty(len(index), np.intp)
    group[order] = np.arange(len(index))
    return Views(group, index[order], "apart", reason)


def _places_of(group: Indices, index: Indices) -> Indices:
    places = np.empty(_count(group), np.intp)
    places[group] = index
    return places


def _count(group: Indices) -> int:
    return int(group.max()) + 1
