"""Leave-one-traversal-out over fusions and settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from displace.advise import worth
from displace.advise.advice import Advice, Choice, Condition, Score, Worth
from displace.advise.choices import choices_of
from displace.advise.trials import Trials, Truth, fit
from displace.advise.variation import coverage
from displace.errors import InputError, SingularScatterError
from displace.fusion.base import Fusion
from displace.fusion.displace import DisPlace
from displace.geo import Positions
from displace.metrics import Estimate, bootstrap, paired_bootstrap
from displace.references import ReferenceSet

SAME_SIZE = 1.1
"""Sizes that differ by less than this factor count as equal."""


def advise(
    refs: ReferenceSet,
    *,
    positions: Positions | None = None,
    tolerance: float | None = None,
    fusions: Sequence[str | Choice] | None = None,
    max_queries: int = 1000,
    progress: Callable[[int, int], None] | None = None,
) -> Advice:
    """Hold out each traversal in turn and compare fusions of the others on it.

    Parameters
    ----------
    refs : ReferenceSet
        At least two traversals with common places; three to compare fusions.
    positions : Positions, optional
        Of the places, in the order of ``refs.place_ids``.
    tolerance : float, optional
        What counts as correct: metres, where places have positions (25 by default); otherwise the very place.
    fusions : sequence of str or Choice, optional
        What to compare: names (``"displace"`` stands for its default, τ=1 and the paper's setting) or fusions with
        parameters. By default all.
    max_queries : int
        Queries of each held-out traversal, spread evenly over its places.
    progress : callable, optional
        Called with (done, total) fits.

    Examples
    --------
    >>> from displace.synthetic import make_route
    >>> advice = advise(make_route(n_places=80, n_traversals=4, dim=32).references, fusions=["displace", "hops"])
    >>> advice.recommended.fusion
    'displace'
    >>> [worth.traversal for worth in advice.worth]
    ['t0', 't1', 't2', 't3']
    """
    if len(refs.traversal_ids) < 2:
        raise InputError(
            f"advise needs at least 2 traversals, so that one can be held out; got {len(refs.traversal_ids)}. "
            "With one traversal there is nothing to fuse: fusion='hops' retrieves from it plainly"
        )
    if max_queries < 1:
        raise InputError(f"max_queries={max_queries} must be at least 1")
    return _Advising(
        refs, Truth.of(refs, positions, tolerance), choices_of(fusions), max_queries, progress
    ).run()


class _Advising:
    """One run: the trials, what is compared, and how far it is."""

    def __init__(
        self,
        refs: ReferenceSet,
        truth: Truth,
        choices: list[Choice],
        max_queries: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.refs, self.choices, self.progress = refs, choices, progress
        self.trials = Trials(refs, truth, max_queries)
        if not self.trials.queries:
            raise InputError(
                "no traversal has two places or more in common with the others: nothing can be held out. "
                "Places must have the same id in all traversals"
            )
        self.hits: dict[int, worth.Hits] = {}
        self.fitted: dict[int, tuple[int, bool, str]] = {}
        self.impossible: dict[str, str] = {}
        self.notes = self._limits()
        self.subsets = [] if self.notes else worth.subsets(self.trials)
        self.notes += self._too_large()
        self.done = 0
        self.total = (
            len(choices) * (len(self.trials.queries) + 1) + len(self.trials.tried) + len(self.subsets)
        )

    def run(self) -> Advice:
        for number in range(len(self.choices)):
            self._try(number)
        if not any(storable for _, storable, _ in self.fitted.values()):
            raise InputError(
                f"none of the fusions {', '.join(map(str, self.choices))} can be held by a map and fitted "
                f"({'; '.join(self.impossible.values()) or 'they need whole score matrices'}); add displace or hops"
            )
        conditions = [self._condition(name) for name in self.trials.tried]
        best = self._recommend()
        scores = sorted((self._score(n, best) for n in self.fitted), key=lambda score: -score.mean.value)
        return Advice(
            n_references=len(self.refs),
            n_places=len(self.refs.place_ids),
            dim=self.refs.vectors.shape[1],
            protocol=self.trials.truth.name,
            recommended=self.choices[best],
            settings=self.fitted[best][2],
            conditions=conditions,
            scores=scores,
            worth=self._worth(best),
            impossible=self.impossible,
            notes=self.notes,
        )

    def _try(self, number: int) -> None:
        """Fit one choice on all but each traversal, and on all."""
        choice, start = self.choices[number], self.done
        self.hits[number] = {}
        try:
            for name in self.trials.queries:
                rest = self.trials.others(name)
                self.hits[number][rest] = self.trials.hits(choice, rest)
                self._step()
            self.fitted[number] = _stored(fit(choice, self.refs))
        except SingularScatterError as error:
            self.impossible[str(choice)] = str(error)
        self._step(start + len(self.trials.queries) + 1 - self.done)

    def _recommend(self) -> int:
        """The smallest of those that a map can hold and that are not shown to be worse than the best of them."""
        storable = [number for number, (_, can, _) in self.fitted.items() if can]
        if len(self.trials.names) < 3:
            return storable[0]
        means = {number: self._mean(number).value for number in storable}
        best = max(storable, key=lambda number: means[number])
        equal = [number for number in storable if self._behind(best, number).low <= 0]
        smallest = min(self.fitted[number][0] for number in equal)
        small = [number for number in equal if self.fitted[number][0] <= SAME_SIZE * smallest]
        plain = {self.choices[number].fusion for number in small if not self.choices[number].params}
        # Settings other than the defaults must earn their place.
        left = [n for n in small if not self.choices[n].params or self.choices[n].fusion not in plain]
        return max(left, key=lambda number: means[number])

    def _score(self, number: int, best: int) -> Score:
        n_bytes, storable, _ = self.fitted[number]
        recalls = {str(name): bootstrap(flags) for name, flags in self._by_condition(number).items()}
        return Score(
            self.choices[number], n_bytes, storable, recalls, self._mean(number), self._behind(best, number)
        )

    def _mean(self, number: int) -> Estimate:
        return bootstrap(np.concatenate(list(self._by_condition(number).values())), groups=self._groups())

    def _behind(self, best: int, number: int) -> Estimate:
        a, b = (np.concatenate(list(self._by_condition(n).values())) for n in (best, number))
        return paired_bootstrap(a, b, groups=self._groups())

    def _by_condition(self, number: int) -> dict[Any, Any]:
        return {name: self.hits[number][self.trials.others(name)][name] for name in self.trials.queries}

    def _groups(self) -> Any:
        queries = self.trials.queries.values()
        return np.repeat(np.arange(len(queries)), [len(part) for part in queries])

    def _condition(self, name: Any) -> Condition:
        queries = self.trials.queries.get(name)
        shares = coverage(self.refs, name)
        self._step()
        return Condition(
            str(name), 0 if queries is None else len(queries), self.trials.n_left_out[name], *(shares or ())
        )

    def _worth(self, best: int) -> list[Worth]:
        hits = self.hits[best]
        for names in self.subsets:
            hits[names] = self.trials.hits(self.choices[best], names)
            self._step()
        return worth.value(self.trials, hits) if self.subsets else []

    def _limits(self) -> list[str]:
        """What two traversals cannot tell."""
        if len(self.trials.names) > 2:
            return []
        return [
            "With 2 traversals one is the reference of the other, so that all fusions are plain retrieval: the "
            "recalls are of that, and nothing tells fusions, settings or traversals apart. A third traversal would"
        ]

    def _too_large(self) -> list[str]:
        needed = worth.operations(self.refs, len(self.subsets))
        if needed <= worth.MAX_OPERATIONS:
            return []
        note = (
            f"What each traversal is worth was left out: {len(self.subsets)} fits on {len(self.refs)} references of "
            f"{self.refs.vectors.shape[1]} dimensions take up to {needed:.0e} operations, and the limit is "
            f"{worth.MAX_OPERATIONS:.0e}. With fewer dimensions (displace.compression.random_projection) it is told"
        )
        self.subsets = []
        return [note]

    def _step(self, steps: int = 1) -> None:
        self.done += steps
        if self.progress and steps:
            self.progress(self.done, self.total)


def _stored(fusion: Fusion) -> tuple[int, bool, str]:
    """Bytes to store as float32, whether a map can hold it, and its settings in a line."""
    if isinstance(fusion, DisPlace):
        return fusion.nbytes_, True, fusion.explain()
    try:
        rows, _ = fusion.stored_rows()
    except InputError:
        return fusion.nbytes_, False, "as given"
    # For dMat Avg a map needs one row for each place, though the fusion itself keeps every reference.
    return 4 * rows.size, True, "as given"
