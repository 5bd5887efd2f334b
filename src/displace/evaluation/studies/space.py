"""Study: the descriptors around one query before and after the projection, with the place that confounds it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from displace.arrays import Vectors, l2_normalize, top_k
from displace.errors import InputError
from displace.evaluation.studies.task import DISPLACE, HOPS, Run, Setting, Task, run, run_paper
from displace.fusion.base import VectorFusion
from displace.progress import Progress, counted, part
from displace.truth import Flags

ROLES = ("other", "truth", "confounder", "query")


@dataclass(frozen=True)
class SpaceView:
    """The points in one space."""

    title: str
    dim: int
    """Dimension of the space."""
    points: list[list[float]]
    """t-SNE coordinates x and y, in the order of `Space.places`."""
    truth: float
    confounder: float
    """Cosine of the query with the fused vector of the right place that is most like it in this space, and of the
    confounding one."""


@dataclass(frozen=True)
class Space:
    """References around one query, and the query, in the spaces of HOPS and DisPlace, ours and the paper's."""

    setting: Setting
    row: int
    """Number of the query."""
    truth: str
    confounder: str
    """Place ids; of several right places the query's own, where that is known."""
    places: list[str]
    traversals: list[str]
    roles: list[str]
    """Of each point; the last point is the query."""
    views: list[SpaceView]
    """HOPS first, then DisPlace, then DisPlace in the paper's setting where that is possible."""
    seed: int
    reason: str
    """Why this query."""
    notes: list[str] = field(default_factory=list)
    """Which setting was not possible, and why."""

    @property
    def right(self) -> list[str]:
        """The right places that are shown, each once."""
        return list(
            dict.fromkeys(p for p, role in zip(self.places, self.roles, strict=True) if role == ROLES[1])
        )

    @property
    def right_name(self) -> str:
        """What one right place is called."""
        return "its place" if len(self.right) == 1 else "a right place"

    @property
    def right_text(self) -> str:
        """What is drawn as right, in words."""
        if len(self.right) == 1:
            return f"its place, {self.truth}"
        return f"{len(self.right)} right places, such as {self.truth}"


def study_space(
    task: Task,
    row: int | None = None,
    n_places: int = 60,
    seed: int = 0,
    progress: Progress | None = None,
) -> Space:
    """Lay out the places nearest to one query by t-SNE, in the space of HOPS and in those of DisPlace.

    By default the query is the one that HOPS gets wrong by the widest margin and DisPlace right; without such a query,
    the one that HOPS gets wrong by the widest margin, and without any error query 0. The `n_places` shown are those
    most like the query in either space, the confounding one and the best right one of each space included. Where a
    tolerance makes several places right, all of those shown are marked.
    """
    if row is not None and not 0 <= row < len(task.queries):
        raise InputError(f"row={row} must be at least 0 and below {len(task.queries)}, the number of queries")
    if n_places < 3:
        raise InputError(f"n_places={n_places} must be at least 3")
    notes: list[str] = []
    runs = [run(HOPS, task), run(DISPLACE, task), *run_paper(task, notes)]
    row, reason = (row, "chosen by the user") if row is not None else _telling_query(task, runs)
    scores = [_scores(done, task, row) for done in runs]
    known, right = task.references.place_ids, _right(task, row)
    truth = task.truth_of(row)
    confounder = int(np.argmax(np.where(right, -np.inf, scores[0])))
    best = [int(np.argmax(np.where(right, score, -np.inf))) for score in scores]
    shown = _shown(scores, n_places, confounder, *best, truth)
    near = task.references.select(np.isin(task.references.places, known[shown]))
    roles = np.where(np.isin(near.places, known[right]), 1, np.where(near.places == known[confounder], 2, 0))
    spaces = counted(list(zip(runs, scores, best, strict=True)), part(progress, "descriptor space"))
    views = [
        _view(done, score, near.vectors, task.queries[row], found, confounder, seed)
        for done, score, found in spaces
    ]
    return Space(
        task.setting,
        row,
        str(known[truth]),
        str(known[confounder]),
        [*map(str, near.places.tolist()), str(known[truth])],
        [*map(str, near.traversals.tolist()), task.query],
        [*(ROLES[role] for role in roles), ROLES[3]],
        views,
        seed,
        reason,
        notes,
    )


def _right(task: Task, row: int) -> Flags:
    """Which places are right for a query: some, and not all."""
    right = np.zeros(len(task.references.place_ids), bool)
    right[task.correct.of(row)] = True
    if not right.any() or right.all():
        raise InputError(
            f"query {row} has {int(right.sum())} right places of {len(right)}: nothing confounds it"
        )
    return right


def _telling_query(task: Task, runs: list[Run]) -> tuple[int, str]:
    """Return the query that HOPS is most wrong about, if possible one that DisPlace mends, and why it was chosen."""
    hops, displace = runs[:2]
    for flags, reason in (
        (~hops.hits & displace.hits, "HOPS is wrong by the widest margin where DisPlace is right"),
        (~hops.hits, "HOPS is wrong by the widest margin; DisPlace is wrong there too"),
    ):
        rows = [row for row in np.flatnonzero(flags).tolist() if len(task.correct.of(row))]
        if rows:
            return max(rows, key=lambda row: _margin(task, hops, row)), reason
    return 0, "the first query, as HOPS makes no error that could be mended"


def _margin(task: Task, done: Run, row: int) -> float:
    """By how much the place found, a wrong one, is more like the query than the best right one."""
    return float(done.scores[row] - _scores(done, task, row)[task.correct.of(row)].max())


def _scores(done: Run, task: Task, row: int) -> Vectors:
    """Cosine of one query with each place."""
    stored = done.fusion.rows()
    assert stored is not None
    scores: Vectors = stored.scores(task.queries[row : row + 1])[0]
    return scores


def _shown(scores: list[Vectors], n_places: int, *needed: int) -> list[int]:
    """Return the places most like the query, taken from either space in turn."""
    order = [top_k(score[None], n_places)[0].tolist() for score in scores]
    both = [place for pair in zip(*order, strict=True) for place in pair]
    return list(dict.fromkeys([*needed, *both]))[:n_places]


def _view(
    done: Run, score: Vectors, near: Vectors, query: Vectors, truth: int, confounder: int, seed: int
) -> SpaceView:
    """Lay out one space."""
    from sklearn.manifold import TSNE

    fusion = done.fusion
    assert isinstance(fusion, VectorFusion)
    vectors = l2_normalize(np.asarray(fusion.transform(np.vstack([near, query[None]])))).astype(np.float64)
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    points = TSNE(init="pca", perplexity=perplexity, random_state=seed).fit_transform(vectors)
    return SpaceView(
        f"{done.method.label}'s space",
        vectors.shape[1],
        [[round(float(x), 3), round(float(y), 3)] for x, y in points],
        float(score[truth]),
        float(score[confounder]),
    )
