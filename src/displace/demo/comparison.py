"""All fusions on all conditions: each traversal in turn is the query, the others are the references."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from displace.bootstrap import Estimate, paired_bootstrap
from displace.datasets.base import Protocol
from displace.descriptors.store import DescriptorStore
from displace.fusion import FUSIONS
from displace.fusion.base import Fusion
from displace.matches import Matches
from displace.recall import recall_at
from displace.truth import TruthRule

Flags = NDArray[np.bool_]
K = 5


@dataclass(frozen=True, eq=False)
class Score:
    """One fusion on every condition.

    Parameters
    ----------
    name, title : str
        In the registry, and in tables.
    storable : bool
        Whether a map can hold it; not where whole score matrices are fused.
    recalls : dict of str to dict of int to float
        R@1 and R@5 (%) of each condition, when it is the query.
    matches : dict of str to Matches
        The rankings behind them.
    seconds, milliseconds : float
        To fit, and to rank one of many queries; medians over the conditions.
    n_bytes : int
        Stored for locating, as float32.
    """

    name: str
    title: str
    storable: bool
    recalls: dict[str, dict[int, float]]
    matches: dict[str, Matches]
    seconds: float
    milliseconds: float
    n_bytes: int

    @property
    def mean(self) -> float:
        """Mean R@1 (%) over the conditions."""
        return fmean(recall[1] for recall in self.recalls.values())


@dataclass(frozen=True)
class Condition:
    """DisPlace against the best other fusion when one condition is the query.

    Parameters
    ----------
    name : str
    recall : float
        R@1 (%) of DisPlace.
    other : str
        Title of the best other fusion.
    other_recall : float
    lead : Estimate
        Difference in points with its 95 % interval, from paired bootstrap over the queries.
    """

    name: str
    recall: float
    other: str
    other_recall: float
    lead: Estimate

    @property
    def verdict(self) -> str:
        """What the difference amounts to, in words.

        >>> Condition("rain", 83.0, "HOPS", 80.0, Estimate(3.0, -1.5, 7.5)).verdict
        'ahead, by less than these queries can tell'
        """
        side = "ahead" if self.lead.value > 0 else "behind" if self.lead.value < 0 else "level"
        told = self.lead.low > 0 or self.lead.high < 0
        return side if told or side == "level" else f"{side}, by less than these queries can tell"


@dataclass(frozen=True, eq=False)
class Comparison:
    """All fusions, best mean first; what single traversals find; what counted as right.

    Parameters
    ----------
    protocol : Protocol
        Its name belongs beside every number.
    query : str
        The condition that R@5 and the pictures are about.
    n_places : int
    truth : dict of str to TruthRule
        What is right for the queries of each condition.
    scores : list of Score
    conditions : list of Condition
    singles : dict of str to dict of str to float
        R@1 (%) by query, then by the one traversal that was searched.
    """

    protocol: Protocol
    query: str
    n_places: int
    truth: dict[str, TruthRule]
    scores: list[Score]
    conditions: list[Condition]
    singles: dict[str, dict[str, float]]

    def score(self, name: str) -> Score:
        """Return the score of a fusion by its registry name."""
        return next(score for score in self.scores if score.name == name)

    @property
    def worst(self) -> Condition:
        """Condition on which DisPlace does worst compared with the best other fusion."""
        return min(self.conditions, key=lambda condition: condition.lead.value)


def compare(
    store: DescriptorStore,
    protocol: Protocol,
    query: str,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Fit every fusion on all traversals but one and rank the left-out one's images, for each traversal.

    Parameters
    ----------
    store : DescriptorStore
        Of a data set with that protocol; three traversals at least.
    protocol : Protocol
        What counts as right.
    query : str
        The traversal that is shown in detail.
    progress : callable, optional
        Called with (done, total) fits.
    """
    names = store.manifest.traversal_names()
    truth = {name: protocol.truth(store.manifest, name) for name in names}
    fusions = FUSIONS.names()
    scores = []
    for number, fusion in enumerate(fusions):
        report = (
            None if progress is None else _shifted(progress, number * len(names), len(fusions) * len(names))
        )
        scores.append(_score(fusion, store, truth, report))
    scores.sort(key=lambda score: (-score.mean, score.name))
    return Comparison(
        protocol,
        query,
        len(store.manifest.place_ids()),
        truth,
        scores,
        [_condition(name, scores, truth[name]) for name in names],
        _singles(store, truth),
    )


def _shifted(progress: Callable[[int, int], None], before: int, total: int) -> Callable[[int], None]:
    return lambda done: progress(before + done, total)


def _score(
    name: str, store: DescriptorStore, truth: dict[str, TruthRule], report: Callable[[int], None] | None
) -> Score:
    """Fit and rank with each condition left out."""
    recalls, matches, seconds, milliseconds = {}, {}, [], []
    kind = FUSIONS.get(name)
    for done, (condition, rule) in enumerate(truth.items(), 1):
        refs, queries = store.references(exclude=[condition]), store.queries(condition)
        fusion = kind()
        start = time.perf_counter()
        fusion.fit(refs.vectors, refs.places, refs.traversals)
        fitted = time.perf_counter()
        matches[condition] = fusion.rank(queries.vectors, k=K)
        milliseconds.append(1000 * (time.perf_counter() - fitted) / len(queries.vectors))
        seconds.append(fitted - start)
        recalls[condition] = dict(recall_at(matches[condition], rule, ks=(1, K)))
        if report is not None:
            report(done)
    return Score(
        name,
        kind.title,
        kind.stored_rows is not Fusion.stored_rows,
        recalls,
        matches,
        median(seconds),
        median(milliseconds),
        fusion.nbytes_,
    )


def _condition(name: str, scores: list[Score], rule: TruthRule) -> Condition:
    """Compare DisPlace with the best of the others."""
    own = next(score for score in scores if score.name == "displace")
    other = max((score for score in scores if score is not own), key=lambda score: score.recalls[name][1])
    lead = paired_bootstrap(*(first_is_right(score.matches[name], rule) for score in (own, other)))
    return Condition(name, own.recalls[name][1], other.title, other.recalls[name][1], lead)


def first_is_right(matches: Matches, rule: TruthRule) -> Flags:
    """Whether the first place of each query is right, shape (q,)."""
    return rule.correct(matches.places[:, :1])[:, 0]


def _singles(store: DescriptorStore, truth: dict[str, TruthRule]) -> dict[str, dict[str, float]]:
    """R@1 of each query in each single other traversal."""
    single = FUSIONS.get("single")
    fitted = {}
    for name in truth:
        refs = store.references([name])
        fitted[name] = single().fit(refs.vectors, refs.places, refs.traversals)
    return {
        query: {
            name: recall_at(fusion.rank(store.queries(query).vectors, k=1), rule, ks=(1,))[1]
            for name, fusion in fitted.items()
            if name != query
        }
        for query, rule in truth.items()
    }
