"""Checks of an update's references, before anything changes: right kind, not twice, and of the map's route."""

from __future__ import annotations

import numpy as np

from displace.errors import InputError
from displace.geo import Positions
from displace.holdout import spread
from displace.maps.digests import digests_of
from displace.maps.state import MapState
from displace.maps.statistics import MapStatistics
from displace.references import ReferenceSet
from displace.registry import looks_the_same

FAR = 50.0
"""Median distance (m) above which places of the same ids are different places (or the map's tolerance, if larger)."""
ENOUGH = 50
"""Fewest images at known places for the test whether they look like these."""
MOST = 500
"""Most images of that test: bounds its time."""


def check_is_references(refs: object) -> None:
    """Refuse arrays and whatever else is no set of references, and an empty one."""
    if not isinstance(refs, ReferenceSet):
        raise InputError(
            f"an update takes a ReferenceSet; got {type(refs).__name__}. For arrays: ReferenceSet(vectors, places, "
            "traversals)"
        )
    if len(refs) == 0:
        raise InputError(
            "there are no references to update the map with: the set is empty, as after only() without a name; name "
            "the traversals"
        )


def check_addition(state: MapState, refs: ReferenceSet, looks: bool = True) -> None:
    """Refuse references of another kind, of known traversals, or of another route by position or (`looks`) by sight."""
    _check_kind(state, refs)
    known = [str(name) for name in refs.traversal_ids if str(name) in state.traversals]
    if known:
        raise InputError(
            f"the map already has references of {', '.join(known)}; add other traversals (--traversal), or give "
            "this recording a name of its own in its manifest"
        )
    refs.info.numbered_as(state.places)  # raises where route numbers do not fit
    if state.places.positions is not None and refs.info.positions is not None:
        _check_nearness(state, state.places.positions, refs, refs.info.positions)
    elif looks and (unlike := unlike_places(state, refs)):
        by_sight = "" if state.places.order is None else " --layout sight"
        raise InputError(
            f"{unlike}. If it is of another route, or equal ids are not equal places, give it places first: displace "
            f"manifest NEW --against MAP{by_sight}. If it is the same route in another condition, build the map again "
            "from all references, or add it all the same with --no-check-looks (check_looks=False)"
        )


def check_not_twice(kept: MapStatistics, refs: ReferenceSet) -> None:
    """Refuse a traversal whose references are in the map under another name: it would count twice."""
    names = {mark: name for name, mark in kept.digests.items()}
    for name, mark in digests_of(refs).items():
        if mark in names:
            raise InputError(
                f"the references of {name} are in the map already, as {names[mark]}: to rename the traversal, remove "
                f"{names[mark]} first"
            )


def unlike_places(state: MapState, refs: ReferenceSet) -> str:
    """Message about a traversal whose images at known places are found there no more often than by chance; or empty.

    The threshold is the expected number of hits if matches and true places were paired at random, plus two standard
    deviations (Poisson). Without positions nothing else reveals another route: ids such as 0001 are alike everywhere.
    """
    for name in refs.traversal_ids:
        own = refs.only(name)
        known = own.select(np.isin(own.places, state.places.ids))
        known = known.select(spread(len(known), MOST))
        if len(known) < ENOUGH:
            continue
        best, _ = state.best(state.project(known.vectors.astype(np.float32)), 1, "exact")
        found = state.places.ids[best[:, 0]]
        hits = int(state.truth.correct(found, known.places).sum())
        by_chance = float(state.truth.correct(found[:, None], known.places[None, :]).mean(axis=1).sum())
        if hits <= by_chance + 2 * np.sqrt(by_chance):
            return (
                f"traversal {str(name)!r} does not look like the map's places: {hits} of {len(known)} images at places "
                "of the same ids are found there, as by chance"
            )
    return ""


def check_removal(state: MapState, kept: MapStatistics, refs: ReferenceSet) -> None:
    """Refuse references that are not, traversal for traversal, those that the map was made of."""
    _check_kind(state, refs)
    digests = digests_of(refs, kept.digests) if kept.digests else {}
    for traversal in refs.traversal_ids:
        name, n = str(traversal), int(np.sum(refs.traversals == traversal))
        check_name(state, name)
        if n != state.traversals[name]:
            raise InputError(
                f"traversal {name!r} has {n} references here and {state.traversals[name]} in the map; give all "
                "of them, from the store that was added"
            )
        if name in kept.digests and kept.digests[name] != digests[name]:
            raise InputError(
                f"the references given for traversal {name!r} are not those in the map: places or vectors differ; "
                "give the store that was added, or build the map anew without this traversal"
            )


def check_name(state: MapState, name: str) -> None:
    """Refuse a traversal that is not in the map."""
    if name not in state.traversals:
        same = looks_the_same(name, state.traversals)
        has = f"{same} It has" if same else "; it has"
        raise InputError(f"the map has no traversal {name!r}{has} {', '.join(state.traversals)}")


def usable_statistics(state: MapState) -> MapStatistics:
    """Statistics of the map, loaded; refuses a map without, and one within an area."""
    if state.area is not None:
        raise InputError(
            "an update changes the whole map: add to the map itself, or remove from it, not from what is within an area"
        )
    if state.statistics is None:
        why = state.no_statistics or f"the fusion {state.fusion!r} keeps no statistics"
        raise InputError(f"the map cannot be updated: {why}. Otherwise build it anew from all references")
    return state.statistics.loaded()


def _check_kind(state: MapState, refs: ReferenceSet) -> None:
    if refs.vectors.shape[1] != state.dim:
        raise InputError(f"references have {refs.vectors.shape[1]} dimensions; the map has {state.dim}")
    if (refs.places.dtype.kind in "iu") != (state.places.ids.dtype.kind in "iu"):
        raise InputError(
            f"the references' place ids are {refs.places.dtype}, the map's are {state.places.ids.dtype}: use one kind"
        )


def _check_nearness(state: MapState, theirs: Positions, refs: ReferenceSet, positions: Positions) -> None:
    """Refuse positions in another unit, and far from those of the same ids: generated ids are the same everywhere."""
    if positions.degrees != theirs.degrees:
        unit = {True: "latitude and longitude", False: "easting and northing in metres"}
        raise InputError(
            f"the new positions are {unit[positions.degrees]}, the map's {unit[theirs.degrees]}; convert one of the two"
        )
    _, ours, known = np.intersect1d(refs.place_ids, state.places.ids, assume_unique=True, return_indices=True)
    both = positions.known[ours] & theirs.known[known]
    if not both.any():
        return
    origin = theirs.origin
    here, there = positions.metres(origin)[ours[both]], theirs.metres(origin)[known[both]]
    away = float(np.median(np.linalg.norm(here - there, axis=1)))
    limit = max(state.tolerance.value if state.tolerance.kind == "metres" else 0.0, FAR)
    if away > limit:
        raise InputError(
            f"{both.sum()} places of the new recording have the ids of places in the map but lie {away:,.0f} m from "
            f"them in the median (limit {limit:g} m): they are other places. Assign the recording to the map's places "
            "first: displace manifest NEW --against MAP"
        )
