"""What the studies work on: one query traversal against its references, and the methods that are compared."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from displace.arrays import Vectors, as_vectors, l2_normalize, nearest_rows
from displace.descriptors.store import DescriptorStore
from displace.errors import InputError, SingularScatterError
from displace.evaluation.correct_places import CorrectPlaces, correct_places
from displace.evaluation.loading import store_digest
from displace.evaluation.methods import Method, methods_named
from displace.evaluation.record import Result
from displace.evaluation.results import Results
from displace.fusion.base import Fusion, fit_unwarned
from displace.recall import as_rule, percent
from displace.references import ReferenceSet
from displace.truth import Flags


@dataclass(frozen=True)
class Setting:
    """What the numbers of a study are about; it goes beside every one of them."""

    dataset: str
    model: str
    protocol: str
    query: str
    references: list[str]
    """Reference traversals."""
    n_places: int
    n_queries: int
    dim: int
    content: str = ""
    """Hash of the descriptor store's content; empty for one's own arrays."""

    def __str__(self) -> str:
        """One line.

        >>> print(Setting("town", "hog", "town-1", "night", ["sun", "rain"], 240, 240, 3168))
        town, night against sun, rain; hog, 3168-D; 240 places, 240 queries; protocol town-1
        """
        return (
            f"{self.dataset}, {self.query} against {', '.join(self.references)}; {self.model}, {self.dim}-D; "
            f"{self.n_places:,} places, {self.n_queries:,} queries; protocol {self.protocol}"
        )


@dataclass(frozen=True, eq=False)
class Task:
    """One query traversal against its references."""

    references: ReferenceSet
    queries: Vectors
    """Shape (q, D)."""
    correct: CorrectPlaces
    """Of each query, among ``references.place_ids``."""
    query: str = "query"
    dataset: str = "own data"
    model: str = "descriptors"
    protocol: str = ""
    """Names, to be printed beside the numbers."""
    query_images: list[str] = field(default_factory=list)
    place_images: list[str] = field(default_factory=list)
    """Paths of a picture of each query and of each place; empty where there are none."""
    query_places: list[str] = field(default_factory=list)
    """Place of each query, where it is known."""
    content: str = ""
    """Hash of the descriptor store's content, where they come from one."""
    query_order: NDArray[np.float64] | None = None
    """Shape (q,). Frame number or time of each query along its drive, for intervals (`displace.bootstrap`)."""

    @classmethod
    def of(cls, references: ReferenceSet, queries: ArrayLike, truth: Any, **names: Any) -> Task:
        """Return the task of arrays and of what is correct, as `displace.recall_at` takes it; `names` are fields."""
        vectors = as_vectors(queries, "queries")
        if vectors.shape[1] != references.dim:
            raise InputError(
                f"queries have {vectors.shape[1]} dimensions; the references have {references.dim}"
            )
        rule = as_rule(truth, len(vectors), "queries")
        correct = correct_places(rule, references.place_ids)
        return cls(references, vectors, correct, **{"protocol": rule.name, **names})

    @classmethod
    def of_result(cls, results: Results, result: Result, store: DescriptorStore) -> Task:
        """Return the task that a result is about, with the vectors of the store that it was made from."""
        asked = results.questions(result)
        references, manifest = store.references(result.references), store.manifest
        # Some of the traversal's images may have been left out.
        rows = np.flatnonzero(
            (manifest.traversals == result.query) & np.isin(manifest.images, asked.query_images)
        )
        same_places = np.array_equal(references.place_ids, asked.place_ids)
        same = same_places and [manifest.images[row] for row in rows] == asked.query_images.tolist()
        _check_made_from(result, store, same)
        root = asked.root(results.folder)
        return cls(
            references,
            store.vectors(rows),
            asked.correct_places,
            result.query,
            result.dataset,
            result.model,
            result.protocol,
            [(root / image).as_posix() for image in asked.query_images.tolist()],
            [(root / image).as_posix() for image in asked.place_images.tolist()],
            asked.query_places.tolist(),
            str(result.store.get("content") or ""),
            asked.query_order,
        )

    def __repr__(self) -> str:
        return f"<Task: {self.setting}>"

    @property
    def setting(self) -> Setting:
        """Names and sizes."""
        return Setting(
            self.dataset,
            self.model,
            self.protocol,
            self.query,
            [str(name) for name in self.references.traversal_ids.tolist()],
            len(self.references.place_ids),
            len(self.queries),
            self.references.vectors.shape[1],
            self.content,
        )

    def projected(self, R: Vectors) -> Task:
        """Return the task with references and queries multiplied by the same matrix."""
        references = replace(self.references, vectors=self.references.vectors @ R)
        return replace(self, references=references, queries=self.queries @ R)

    def truth_of(self, row: int) -> int:
        """Row of the place that stands for the truth of one query; −1 where there is none."""
        own = self.query_places[row] if self.query_places else None
        return self.correct.shown(row, self.references.place_ids, own)

    def hits(self, places: NDArray[Any]) -> Flags:
        """Whether the place given to each query is correct, shape (q,)."""
        found = np.searchsorted(self.references.place_ids, places)
        return self.correct.among(found[:, None])[:, 0]

    def recall(self, queries: Vectors, rows: Vectors, places: NDArray[Any]) -> float:
        """R@1 (%) of the rows nearest to the queries, both scaled to unit length; `places` are those of the rows."""
        return percent(self.hits(places[nearest_rows(l2_normalize(queries), l2_normalize(rows))]))


def _check_made_from(result: Result, store: DescriptorStore, same: bool) -> None:
    """Refuse another store than that of a result, or one of which places or queries are not the same any more."""
    content, wrong = result.store.get("content"), "" if same else "its places or queries differ"
    if content and content != store_digest(store):
        wrong = "images, descriptors or places were changed since"
    if wrong:
        raise InputError(
            f"{store.folder} is not the store that {result.name} was made from: {wrong}; give that store, or run the "
            "suite again"
        )


PAPER = Method("displace", {"ridge": 0.0, "center": False}, "DisPlace (paper)")
BUDGETS = (1, 2, 4, 8)
"""Rows a place in the study of storage."""
HOPS, DISPLACE = Method("hops"), Method("displace")
BEST_SINGLE = Method("single", label="Best single", each_reference=True)
"""The traversal that the truth says is best: a bound, not a method that one could use."""

METHODS = (BEST_SINGLE, Method("dmat_avg"), Method("pooling"), HOPS, DISPLACE)
"""The methods whose single queries are shown, as in the paper."""


def all_methods() -> list[Method]:
    """Return every fusion there is, the best single traversal, and DisPlace in the paper's setting too."""
    return [BEST_SINGLE, *(method for method in methods_named() if method.group != "single"), PAPER]


def budgets(references: ReferenceSet) -> list[Method]:
    """Return DisPlace with fewer and more rows a place, where places have several views; nothing else."""
    usual = fit_unwarned(DISPLACE.make(), references).rows()
    assert usual is not None
    most = int(np.bincount(usual.place_index).max())
    return [Method("displace", {"n_rows": n}, f"DisPlace, {n} a place") for n in BUDGETS if n < most]


@dataclass(frozen=True, eq=False)
class Run:
    """A fitted method with what it found."""

    method: Method
    fusion: Fusion
    """Fitted."""
    places: NDArray[Any]
    """Shape (q,). The best place of each query."""
    scores: Vectors
    """Shape (q,). Its score."""
    hits: Flags
    """Shape (q,). Whether it is correct."""

    @property
    def recall(self) -> float:
        """R@1 in percent."""
        return percent(self.hits)


def run_paper(task: Task, notes: list[str]) -> list[Run]:
    """Run DisPlace in the paper's setting; if that is not possible the list is empty, and `notes` say why."""
    try:
        return [run(PAPER, task)]
    except SingularScatterError as error:
        notes.append(f"{PAPER.label} was not possible: {error}")
        return []


def run(method: Method, task: Task) -> Run:
    """Fit a method on the references and find the best place of each query.

    Of a method with a row for each reference traversal, the best row counts.
    """
    refs, runs = task.references, []
    for row in method.rows(refs.traversal_ids.tolist()):
        fusion = fit_unwarned(row.make(), refs)
        best = fusion.rank(task.queries, k=1)
        places = best.places[:, 0]
        runs.append(Run(method, fusion, places, best.scores[:, 0], task.hits(places)))
    return max(runs, key=lambda done: done.recall)
