"""Adds and removes traversals: merges or subtracts statistics, fits the rows again, relearns the confidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np
from sklearn.base import clone

from displace.arrays import Vectors, plain
from displace.errors import DisplaceError, FormatError, InputError, SingularScatterError, UnknownNameError
from displace.fusion import get_fusion
from displace.fusion.base import Fusion, Rows, Statistics
from displace.geo import Positions
from displace.maps.calibrating import anchored
from displace.maps.digests import digests_of
from displace.maps.fitting import spectrum_note, stored_rows, with_places
from displace.maps.relearning import learned_again, relearned
from displace.maps.rounding import in_stable_basis, quantize
from displace.maps.state import CHOSEN_AT, MapState
from displace.maps.statistics import MapStatistics
from displace.maps.update_checks import (
    check_addition,
    check_is_references,
    check_name,
    check_not_twice,
    check_removal,
    unlike_places,
    usable_statistics,
)
from displace.references import ReferenceSet
from displace.truth import Tolerance, Truth

EVERYTHING = "that would remove every reference of the map: delete the file instead"

NOTHING_KNOWN = (
    "places: none of the new recording's was in the map, and none of the map's has gained by it; if it shows the map's "
    "route, remove it, give it the map's places (displace manifest NEW --against MAP), and add it then"
)

STILL_SKETCHED = (
    "sketches: what was removed is still in the sketches of its places, with which photos are compared; build again "
    "from all references to have them without"
)

OTHER_WAY = "remove it, as a camera that looks ahead sees other places then"


@dataclass(frozen=True)
class Update:
    """What an update did."""

    n_references: int
    """References added, or removed (negative)."""
    n_places: int
    """Places gained or lost."""
    moved: float = 0.0
    """Share (%) of the larger of the old and new projection's spans that is not in the other; 0 without projection."""
    sampling_ratio: tuple[float, float] | None = None
    """γ before and after, for `displace`."""
    decided: str = ""
    """Settings that one traversal had left open and that were chosen now; empty where none were."""
    confidence: str = ""
    """How the confidence was learned again; empty for a map that was built without."""
    advice: list[str] = field(default_factory=list)
    """What the user should do next, and why."""
    traversals: list[str] = field(default_factory=list)
    """The traversals that were added or removed."""


def added(
    state: MapState,
    refs: ReferenceSet,
    positions: Positions | None = None,
    images: Sequence[str] | None = None,
    *,
    check_looks: bool = True,
) -> tuple[MapState, Update]:
    """Return the map with more traversals, and what that changed."""
    check_is_references(refs)
    refs = with_places(refs, positions, images)
    kept = usable_statistics(state)
    check_addition(state, refs, check_looks)
    check_not_twice(kept, refs)
    found, done = _next(state, kept, refs, gained=True)
    if not np.isin(refs.place_ids, state.places.ids).any():
        done.advice.insert(0, NOTHING_KNOWN)
    elif check_looks and refs.info.positions is not None and (unlike := unlike_places(state, refs)):
        done.advice.insert(0, f"directions: {unlike}; if it was driven the other way, {OTHER_WAY}")
    return found, done


def removed(state: MapState, refs: ReferenceSet | str | int) -> tuple[MapState, Update]:
    """Return the map without some traversals: given their references, or by name where they were kept."""
    kept = usable_statistics(state)
    if isinstance(refs, str | int | np.integer):  # a map names its traversals as text
        refs = _kept_traversal(state, kept, str(refs))
    check_is_references(refs)
    check_removal(state, kept, refs)
    if len(refs) == sum(state.traversals.values()):
        raise InputError(EVERYTHING)
    return _next(state, kept, refs, gained=False)


def with_tolerance(state: MapState, tolerance: str | float | Tolerance) -> MapState:
    """Return the map with a confidence for another tolerance, learned from the references that it keeps."""
    truth = Truth.of(state.places, tolerance)
    if truth.tolerance == state.tolerance:
        return state
    fusion, known = _fusion(state), None
    if state.statistics is not None:
        kept = state.statistics.loaded()
        known = _known(fusion, _restored(state, fusion, kept), kept)
    if known is None or state.anchors is None:
        raise InputError(
            f"tolerance={str(tolerance)!r} is not that of the map ({state.tolerance}), and another confidence needs "
            "the references, which the map does not keep: build it again with that tolerance"
        )
    return learned_again(replace(state, tolerance=truth.tolerance), known, fusion)


def _known(fusion: Fusion, statistics: Any, kept: MapStatistics) -> ReferenceSet | None:
    """References that a map keeps, with their views where it has several; None where it does not keep them."""
    return fusion.references_in(statistics) or kept.references


def _fusion(state: MapState) -> Fusion:
    """The map's fusion with the map's settings, unfitted."""
    if state.estimator is not None:
        fusion: Fusion = clone(state.estimator)
        return fusion
    try:
        return get_fusion(state.fusion)(**state.settings)
    except UnknownNameError as error:
        raise InputError(
            f"the map was made by the fusion {state.fusion!r}, which is not installed here: {error}. Install the "
            "package that has it (docs/add_a_fusion.md says how it is registered)"
        ) from error


def _restored(state: MapState, fusion: Fusion, kept: MapStatistics) -> Statistics:
    """The fusion's statistics of the references that are in the map."""
    try:
        restored = fusion.restored_statistics(
            kept.arrays, state.rows().astype(np.float32), state.places.ids[state.row_places]
        )
        _check_same_references(state, restored)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise FormatError(f"the statistics of the map are damaged: {error!r}; build it anew") from None
    return restored


@contextmanager
def _of_sound_statistics() -> Iterator[None]:
    """Turn the errors that damaged statistics cause into a FormatError."""
    try:
        yield
    except DisplaceError:
        raise
    except (ValueError, IndexError, TypeError, ArithmeticError) as error:
        raise FormatError(f"the statistics of the map are damaged: {error!r}; build it anew") from None


def _check_same_references(state: MapState, statistics: Statistics) -> None:
    """Raise ValueError where statistics are not those of the map's references."""
    known, found = sum(state.traversals.values()), statistics.n_references
    if known != found:
        raise ValueError(f"they are of {found} references, the map of {known}")
    if not np.array_equal(statistics.place_ids, state.places.ids):
        raise ValueError("they are of other places")


def _check_outcome(rows: Rows, dim: int) -> None:
    """Refuse rows that are not finite, or of another dimension: their statistics are damaged."""
    parts = [rows.vectors, *(part for part in (rows.projection, rows.mean) if part is not None)]
    shape = rows.projection.shape[0] if rows.projection is not None else rows.vectors.shape[1]
    if shape != dim or not len(rows.vectors) or not all(np.isfinite(part).all() for part in parts):
        raise FormatError(
            "the statistics of the map are damaged: they make rows that are no numbers, or of another "
            "dimension; the map is left as it was. Build it anew from all references"
        )


def _statistics_after(state: MapState, before: Statistics, refs: ReferenceSet, gained: bool) -> Any:
    """Statistics with the references that were gained, or without those that were not."""
    with _of_sound_statistics():
        # In float64: adding and removing again then differ by less than the rounding to float16.
        known = before.astype(np.float64)
        change = _fusion(state).further_statistics(refs.astype(np.float64), before)
        return (known.merge(change) if gained else known.subtract(change)).astype(np.float32)


def _next(state: MapState, kept: MapStatistics, refs: ReferenceSet, gained: bool) -> tuple[MapState, Update]:
    """The map with `refs` gained, or lost, and what that changed."""
    before = _restored(state, _fusion(state), kept)
    after = _statistics_after(state, before, refs, gained)
    fusion = _fitted(state, after)
    rows = in_stable_basis(stored_rows(fusion))
    _check_outcome(rows, state.dim)
    vectors, scales = quantize(rows.vectors, state.vectors.dtype.name)
    settings = plain(fusion.settings())
    remaining = _kept(kept, after, refs, gained)
    upcoming = replace(
        state,
        places=state.places.updated(after.place_ids, refs.info if gained else state.places),
        vectors=vectors,
        row_places=rows.place_index,
        scales=scales,
        projection=rows.projection,
        mean=rows.mean,
        settings=settings,
        reason=f"{fusion.explain()}, after an update",
        sketches=state.sketches and state.sketches.of_places(state.places.rows_of(after.place_ids)),
        traversals=_counted(state.traversals, refs, gained),
        notes=spectrum_note(fusion),  # the loss by rounding was that of the old rows
        statistics=remaining,
        no_statistics="",
        estimator=clone(fusion).set_params(**settings),
    )
    known = _known(fusion, after, remaining)
    if state.calibrated_on is not None:
        upcoming = anchored(upcoming, known)
    else:
        upcoming = replace(upcoming, anchors=None)
    upcoming, confidence = relearned(state, upcoming, refs, gained, _fusion(upcoming), known)
    ratios = _ratios(before, after)
    decided = fusion.explain() if settings != state.settings else ""
    chosen_at = _chosen_at(state, ratios, bool(decided))
    if chosen_at is not None:
        upcoming = replace(upcoming, notes={**upcoming.notes, CHOSEN_AT: chosen_at})
    update = Update(
        len(refs) if gained else -len(refs),
        len(upcoming.places) - len(state.places),
        moved(state.projection, upcoming.projection),
        ratios,
        decided,
        confidence,
        _advice(upcoming, "" if decided else fusion.outgrown(before, after, chosen_at)),
        [str(name) for name in refs.traversal_ids],
    )
    if not gained and upcoming.sketches is not None:
        update.advice.append(STILL_SKETCHED)
    return upcoming, update


def _fitted(state: MapState, statistics: Any) -> Fusion:
    """Fit the map's settings to new statistics."""
    try:
        return _fusion(state).from_statistics(statistics)
    except SingularScatterError as error:
        raise SingularScatterError(
            f"the map keeps the settings it was built with, and with them {error}. Build it anew from all references"
        ) from error
    except (np.linalg.LinAlgError, FloatingPointError) as error:
        raise FormatError(
            f"the statistics of the map cannot be solved ({error}): they are damaged; build it anew from all references"
        ) from error


def _counted(traversals: dict[str, int], refs: ReferenceSet, gained: bool) -> dict[str, int]:
    """References of each traversal after the update."""
    names = {str(name): int(np.sum(refs.traversals == name)) for name in refs.traversal_ids}
    left = {name: n for name, n in traversals.items() if name not in names}
    return left | names if gained else left


def _ratios(before: Any, after: Any) -> tuple[float, float] | None:
    """γ before and after, of statistics that have it."""
    if not getattr(before, "within", np.empty(0)).size:
        return None
    return before.sampling_ratio, after.sampling_ratio


def _chosen_at(state: MapState, ratios: tuple[float, float] | None, decided: bool) -> float | None:
    """γ at which the settings were chosen: now, or before the first update since."""
    if ratios is None or decided:
        return None if ratios is None or not isfinite(ratios[1]) else ratios[1]
    return state.notes.get(CHOSEN_AT, ratios[0] if isfinite(ratios[0]) else None)


def moved(old: Vectors | None, new: Vectors | None) -> float:
    """Share (%) of the larger of two spans that does not lie in the other."""
    if old is None or new is None:
        return 0.0
    dim, sizes = len(old), (old.shape[1], new.shape[1])
    common = float(min(sizes))  # where one of them spans everything, as plain retrieval does
    if dim not in sizes:
        Q_old, Q_new = (np.linalg.qr(P.astype(np.float64))[0] for P in (old, new))
        common = float(np.linalg.norm(Q_old.T @ Q_new) ** 2)
    return max(0.0, 100 - 100 * common / float(max(sizes)))


def _advice(state: MapState, outgrown: str) -> list[str]:
    advice = []
    if outgrown:
        advice.append(f"settings: {outgrown}; build again from all references to choose anew")
    if state.driving is not None and state.driving.by_rule and len(state.traversals) > 1:
        advice.append(
            "drives: how sure matches of a drive are is told by a fixed rule, as of one traversal; build again from "
            "all references to learn it from drives that are held out"
        )
    return advice


def _kept(old: MapStatistics, statistics: Statistics, refs: ReferenceSet, gained: bool) -> MapStatistics:
    """Statistics after the update; references are kept if those before were."""
    names = {str(name) for name in refs.traversal_ids}
    digests = {name: digest for name, digest in old.digests.items() if name not in names}
    if gained:
        digests |= digests_of(refs)
    kept = old.references
    if kept is not None and gained:
        kept = _joined(kept, refs)
    elif kept is not None:
        kept = kept.select(~np.isin(kept.traversals.astype(str), sorted(names)))
    return MapStatistics(statistics.to_arrays(), kept, digests)


def _kept_traversal(state: MapState, kept: MapStatistics, name: str) -> ReferenceSet:
    check_name(state, name)
    if kept.references is None:
        raise InputError(
            f"cannot remove traversal {name!r} by name: the map was built without --keep-references; "
            "give its references (--references STORE)"
        )
    return kept.references.select(kept.references.traversals.astype(str) == name)


def _joined(a: ReferenceSet, b: ReferenceSet) -> ReferenceSet:
    return ReferenceSet(
        np.concatenate([a.vectors, b.vectors]),
        np.concatenate([a.places, b.places]),
        np.concatenate([a.traversals.astype(str), b.traversals.astype(str)]),
    )
