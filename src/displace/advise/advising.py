"""Leave-one-traversal-out over fusions and settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from displace.advise import worth
from displace.advise.advice import Advice, Choice, Condition, Score, Worth
from displace.advise.recommending import Contender, adapted_hits, adapting_note, recommend
from displace.advise.trials import Trials, fit
from displace.advise.variation import coverage
from displace.arrays import check_count
from displace.errors import InputError, why_not
from displace.fusion import DEFAULT, FUSIONS
from displace.fusion.base import Fusion
from displace.geo import Positions
from displace.maps.fitting import with_places
from displace.progress import Stage
from displace.references import ReferenceSet
from displace.truth import Tolerance, Truth


def advise(
    refs: ReferenceSet,
    *,
    positions: Positions | None = None,
    tolerance: str | float | Tolerance | None = None,
    fusions: Sequence[str | Choice] | None = None,
    max_queries: int = 1000,
    progress: Stage | None = None,
) -> Advice:
    """Hold out each traversal in turn and compare fusions of the others on it.

    Parameters
    ----------
    refs : ReferenceSet
        Comparing fusions needs three traversals with common places; with one, the structure of the data decides.
    positions : Positions, optional
        Positions of the places, in the order of ``refs.place_ids``, if `refs` has none.
    tolerance : str, float or Tolerance, optional
        What counts as correct: "25m" or a number of metres where places have positions (25 by default), "2 frames"
        where they have an order along the route, or "exact".
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
    check_count(max_queries, "max_queries")
    refs = with_places(refs, positions, None)
    truth, choices = Truth.of(refs.info, tolerance), choices_of(fusions)
    if len(refs.traversal_ids) < 2:
        return _of_one_traversal(refs, truth, choices)
    return _Advising(Trials(refs, truth, max_queries), choices, progress).run()


def choices_of(fusions: Sequence[str | Choice] | None) -> list[Choice]:
    """Return the fusions and settings to compare; names are checked.

    >>> [str(choice) for choice in choices_of(["displace", "hops"])]
    ['displace', 'displace tau=1', 'displace ridge=0 center=False', 'hops']
    """
    if isinstance(fusions, str):
        raise InputError(f"fusions={fusions!r} must be a sequence, such as ({fusions!r}, 'hops')")
    found: list[Choice] = []
    for entry in FUSIONS.usable() if fusions is None else fusions:
        named = (
            [entry] if isinstance(entry, Choice) else [Choice(entry, s) for s in FUSIONS.get(entry).compared]
        )
        for choice in named:
            if fusions is not None:
                choice.make()  # an unknown name or parameter fails here, not after minutes
            if choice not in found:
                found.append(choice)
    if not found:
        raise InputError(f"fusions is empty; known: {', '.join(FUSIONS.names())}")
    # The default first: with two traversals, and between equals, the first one counts.
    return sorted(found, key=lambda choice: choice.fusion != DEFAULT)


def _of_one_traversal(refs: ReferenceSet, truth: Truth, choices: list[Choice]) -> Advice:
    """Advise from the structure of the data: with one traversal nothing can be held out."""
    default = Choice(DEFAULT)
    chosen = default if default in choices else choices[0]
    several = len(refs) > len(refs.place_ids)
    notes = [
        "With 1 traversal nothing can be held out, so recall cannot be measured and nothing is known about how "
        "conditions change places. Images of the same drive cannot show it either",
        "Every image is a row of the map, since views tell places apart; "
        "n_rows sets a budget if that is too much to store"
        if several
        else "Places have one image each: all fusions are plain retrieval",
        "A second traversal in another season, weather or light is what helps most; until then, locate whole drives "
        "with displace locate --adapt batch, which learns their condition from the queries",
    ]
    return Advice(
        n_references=len(refs),
        n_places=len(refs.place_ids),
        dim=refs.vectors.shape[1],
        protocol=truth.name,
        recommended=chosen,
        settings=fit(chosen, refs).explain(),
        notes=notes,
    )


class _Advising:
    """State of one run: the trials, the fusions compared so far, and the progress."""

    def __init__(self, trials: Trials, choices: list[Choice], progress: Stage | None) -> None:
        if not trials.queries:
            raise InputError(
                "no traversal has two or more places in common with the others, so nothing can be held out. "
                "Places must have the same id in all traversals"
            )
        self.trials, self.choices, self.progress = trials, choices, progress
        self.contenders: list[Contender] = []
        self.impossible: dict[str, str] = {}
        self.notes: list[str] = []
        self.subsets = self._valued_subsets()
        self.done = 0
        self.total = len(choices) * (len(trials.queries) + 1) + len(trials.tried) + len(self.subsets)

    def run(self) -> Advice:
        for choice in self.choices:
            self._try(choice)
        storable = [contender for contender in self.contenders if contender.storable]
        if not storable:
            raise InputError(
                f"none of the fusions {', '.join(map(str, self.choices))} can be held by a map and fitted "
                f"({'; '.join(self.impossible.values()) or 'they need whole score matrices'}); add displace or hops"
            )
        best = recommend(storable) if len(self.trials.names) > 2 else storable[0]
        scores = [_score(contender, best) for contender in self.contenders]
        if note := adapting_note(best):
            self.notes.append(note)
        refs = self.trials.refs
        return Advice(
            n_references=len(refs),
            n_places=len(refs.place_ids),
            dim=refs.vectors.shape[1],
            protocol=self.trials.truth.name,
            recommended=best.choice,
            settings=best.settings,
            conditions=[self._condition(name) for name in self.trials.tried],
            scores=sorted(scores, key=lambda score: -score.mean.value),
            worth=self._worth(best),
            impossible=self.impossible,
            notes=self.notes,
        )

    def _try(self, choice: Choice) -> None:
        """Fit one choice on all but each traversal, and on all."""
        end = self.done + len(self.trials.queries) + 1
        hits, adapted = {}, {}
        try:
            for name, queries in self.trials.queries.items():
                others = self.trials.others(name)
                fusion = fit(choice, self.trials.refs.only(*others))
                hits[name] = self.trials.hits_of(fusion, others)[name]
                adapted[name] = adapted_hits(fusion, queries, self.trials.truth)
                self._step()
            stored = _stored(fit(choice, self.trials.refs))
            self.contenders.append(Contender(choice, *stored, hits, self.trials.order, adapted))
        except Exception as error:  # a fault of one fusion, such as another package's, must not end all
            self.impossible[str(choice)] = why_not(error)
        self._step(end - self.done)

    def _condition(self, name: Any) -> Condition:
        queries = self.trials.queries.get(name)
        shares = coverage(self.trials.refs, name)
        self._step()
        return Condition(
            str(name), 0 if queries is None else len(queries), self.trials.n_left_out[name], *(shares or ())
        )

    def _worth(self, best: Contender) -> list[Worth]:
        hits = {self.trials.others(name): {name: flags} for name, flags in best.hits.items()}
        for names in self.subsets:
            hits[names] = self.trials.hits(best.choice, names)
            self._step()
        return worth.value(self.trials, hits) if self.subsets else []

    def _valued_subsets(self) -> list[frozenset[Any]]:
        """Sets of traversals to fit on for the worth; none, with a note, if it cannot be computed."""
        if len(self.trials.names) < 3:
            self.notes.append(
                "With 2 traversals each is located in the other alone, so all fusions are plain retrieval with the "
                "same recall. A third traversal would allow comparing fusions, settings and traversals."
            )
            return []
        refs, subsets = self.trials.refs, worth.subsets(self.trials)
        needed = worth.operations(refs, len(subsets))
        if needed > worth.MAX_OPERATIONS:
            self.notes.append(
                f"What each traversal is worth was left out: {len(subsets)} fits on {len(refs)} references of "
                f"{refs.vectors.shape[1]} dimensions take up to {needed:.0e} operations, and the limit is "
                f"{worth.MAX_OPERATIONS:.0e}. Fewer dimensions (displace.evaluation.random_projection) make it possible"
            )
            return []
        return subsets

    def _step(self, steps: int = 1) -> None:
        self.done += steps
        if self.progress and steps:
            self.progress(self.done, self.total)


def _score(contender: Contender, best: Contender) -> Score:
    return Score(
        contender.choice,
        contender.n_bytes,
        contender.storable,
        contender.recalls(),
        contender.mean(),
        best.ahead_of(contender),
    )


def _stored(fusion: Fusion) -> tuple[int, bool, str]:
    """Bytes to store as float32, whether a map can hold it, and its settings in a line."""
    rows = fusion.rows()
    # For dMat Avg a map needs one row for each place, though the fusion itself keeps every reference.
    return fusion.nbytes_ if rows is None else rows.nbytes, rows is not None, fusion.explain()
