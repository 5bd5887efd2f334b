"""What an update refuses before it changes anything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from displace.errors import InputError
from displace.geo import Positions
from displace.maps.place_map import PlaceMap
from displace.maps.statistics import Statistics, digests_of
from displace.references import ReferenceSet

FAR = 50.0
"""Metres, in the median, from which on places of the same ids are other places (or the map's tolerance, if larger)."""


def check_addition(
    town: PlaceMap, refs: ReferenceSet, positions: Positions | None, images: Sequence[str] | None
) -> None:
    """Refuse references that do not fit the map, are in it already, or were taken elsewhere."""
    _check_kind(town, refs)
    usable_statistics(town)
    for name, values in (("positions", positions), ("images", images)):
        if values is not None and len(values) != len(refs.place_ids):
            raise InputError(
                f"{name} has {len(values)} entries; the references have {len(refs.place_ids)} places"
            )
    known = [str(name) for name in refs.traversal_ids if str(name) in town.traversals]
    if known:
        raise InputError(
            f"the map already has references of {', '.join(known)}; add other traversals (--traversal), or give "
            "this recording a name of its own in its manifest"
        )
    if town.positions is not None and positions is not None:
        _check_nearness(town, town.positions, refs, positions)


def check_removal(town: PlaceMap, refs: ReferenceSet) -> None:
    """Refuse references that are not, traversal for traversal, those that the map was made of."""
    _check_kind(town, refs)
    kept = usable_statistics(town)
    digests = digests_of(refs) if kept.digests else {}
    for traversal in refs.traversal_ids:
        name, n = str(traversal), int(np.sum(refs.traversals == traversal))
        check_name(town, name)
        if n != town.traversals[name]:
            raise InputError(
                f"traversal {name!r} has {n} references here and {town.traversals[name]} in the map; give all of them, "
                "from the store that was added"
            )
        if name in kept.digests and kept.digests[name] != digests[name]:
            raise InputError(
                f"the references given for traversal {name!r} are not those in the map: places or vectors differ; "
                "give the store that was added, or build the map anew without this traversal"
            )


def check_name(town: PlaceMap, name: str) -> None:
    """Refuse a traversal that is not in the map."""
    if name not in town.traversals:
        raise InputError(f"the map has no traversal {name!r}; it has {', '.join(town.traversals)}")


def usable_statistics(town: PlaceMap) -> Statistics:
    """Statistics of the map, read; refuses a map without."""
    if town.statistics is None:
        why = town.no_statistics or "it has no statistics"
        raise InputError(f"the map cannot be updated: {why}. Otherwise build it anew from all references")
    return town.statistics.loaded()


def _check_kind(town: PlaceMap, refs: ReferenceSet) -> None:
    if town.fusion == "single":
        raise InputError("a map of a single traversal cannot be updated: build it anew")
    if refs.vectors.shape[1] != town.dim:
        raise InputError(f"references have {refs.vectors.shape[1]} dimensions; the map has {town.dim}")
    if (refs.places.dtype.kind in "iu") != (town.place_ids.dtype.kind in "iu"):
        raise InputError(
            f"the references' place ids are {refs.places.dtype}, the map's are {town.place_ids.dtype}: use one kind"
        )


def _check_nearness(town: PlaceMap, theirs: Positions, refs: ReferenceSet, positions: Positions) -> None:
    """Refuse another unit, and known places that lie elsewhere: generated ids such as 0001 are the same everywhere."""
    if positions.degrees != theirs.degrees:
        unit = {True: "latitude and longitude", False: "easting and northing in metres"}
        raise InputError(
            f"the new positions are {unit[positions.degrees]}, the map's {unit[theirs.degrees]}; convert one of the two"
        )
    _, ours, known = np.intersect1d(refs.place_ids, town.place_ids, assume_unique=True, return_indices=True)
    both = positions.known[ours] & theirs.known[known]
    if not both.any():
        return
    origin = theirs.origin
    here, there = positions.metres(origin)[ours[both]], theirs.metres(origin)[known[both]]
    away = float(np.median(np.linalg.norm(here - there, axis=1)))
    limit = max(town.tolerance, FAR)
    if away > limit:
        raise InputError(
            f"{both.sum()} places of the new recording have the ids of places in the map but lie {away:,.0f} m from "
            f"them in the median (limit {limit:g} m): they are other places. Assign the recording to the map's places "
            "first: displace manifest NEW --against MAP"
        )
