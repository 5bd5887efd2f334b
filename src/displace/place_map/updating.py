"""Adding references to a map, and removing them, from its statistics alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors, l2_normalize
from displace.errors import InputError
from displace.fusion.displace import DisPlace
from displace.geo import Positions
from displace.place_map.building import as_float32, quantize
from displace.place_map.place_map import PlaceMap
from displace.place_map.statistics import Statistics
from displace.references import ReferenceSet
from displace.scatter import Scatter


@dataclass(frozen=True)
class Update:
    """What an update did.

    Parameters
    ----------
    n_references : int
        References added, or removed (negative).
    n_places : int
        Places gained or lost.
    moved : float
        Share (%) of the projection's span that is new: 0 where the new span is the old one. 0 for maps without one.
    sampling_ratio : (float, float) or None
        γ before and after, for `displace`.
    advice : list of str
        What should be done again, and why.
    """

    n_references: int
    n_places: int
    moved: float = 0.0
    sampling_ratio: tuple[float, float] | None = None
    advice: list[str] = field(default_factory=list)


def add(town: PlaceMap, refs: ReferenceSet, positions: Positions | None = None) -> Update:
    """Add references to the map, in place."""
    _check(town, refs)
    if positions is not None and len(positions) != len(refs.place_ids):
        raise InputError(
            f"positions has {len(positions)} entries; the references have {len(refs.place_ids)} places"
        )
    if town.fusion == "pooling":
        return _change_rows(town, refs, +1, positions)
    statistics = _statistics(town)
    # In float64: an update and its undoing then differ by less than what rounding to float16 can see.
    scatter = _scatter(statistics).astype(np.float64)
    scatter.add(_as_summed(town, refs).astype(np.float64), refs.places)
    scatter = scatter.astype(np.float32)
    kept = None if statistics.references is None else _joined(statistics.references, refs)
    return _apply(town, scatter, kept, refs, +1, positions)


def remove(town: PlaceMap, refs: ReferenceSet | str) -> Update:
    """Remove references from the map, in place: those given, or a traversal whose references were kept."""
    if isinstance(refs, str):
        refs = _kept_traversal(town, refs)
    _check(town, refs)
    if town.fusion == "pooling":
        return _change_rows(town, refs, -1, None)
    statistics = _statistics(town)
    scatter = _scatter(statistics).astype(np.float64)
    scatter.remove(_as_summed(town, refs).astype(np.float64), refs.places)
    scatter = scatter.astype(np.float32)
    if len(scatter.counts) == 0:
        raise InputError("that would remove every reference of the map: delete the file instead")
    kept = None if statistics.references is None else _without(statistics.references, refs)
    return _apply(town, scatter, kept, refs, -1, None)


def _apply(
    town: PlaceMap,
    scatter: Scatter,
    kept: ReferenceSet | None,
    refs: ReferenceSet,
    sign: int,
    positions: Positions | None,
) -> Update:
    """Compute the map of new statistics and put it in the old one's place."""
    before = _scatter(_statistics(town))
    old_projection, n_before = town.projection, len(town.place_ids)
    if town.fusion == "displace":
        fusion = DisPlace(**town.settings).fit_statistics(scatter)
        rows = fusion.place_vectors_
        town.projection = as_float32(fusion.projection_)
        town.mean = as_float32(fusion.mean_) if fusion.center_ else None
        town.reason = f"{fusion.explain()}, after an update"
    else:
        rows = scatter.means if town.fusion == "dmat_avg" else l2_normalize(scatter.means)
    _replace_places(town, scatter.place_ids, refs, positions)
    _replace_rows(town, rows, np.arange(len(rows)))
    _count(town, refs, sign)
    town.statistics = Statistics(scatter, kept)
    ratios = (before.sampling_ratio, scatter.sampling_ratio) if town.fusion == "displace" else None
    return Update(
        sign * len(refs),
        len(town.place_ids) - n_before,
        _moved(old_projection, town.projection),
        ratios,
        _advice(town, ratios),
    )


def _change_rows(town: PlaceMap, refs: ReferenceSet, sign: int, positions: Positions | None) -> Update:
    """Pooling keeps every reference as a row: append or drop rows."""
    n_before = len(town.place_ids)
    rows, places = town.rows().astype(np.float32), town.place_ids[town.row_places]
    fresh = l2_normalize(refs.vectors).astype(np.float32)
    if sign > 0:
        rows, places = np.concatenate([rows, fresh]), np.concatenate([places, refs.places])
    else:
        keep = _rows_left(town, rows, places, fresh, refs.places)
        rows, places = rows[keep], places[keep]
        if len(rows) == 0:
            raise InputError("that would remove every reference of the map: delete the file instead")
    order = np.argsort(places, kind="stable")
    ids, index = np.unique(places[order], return_inverse=True)
    _replace_places(town, ids, refs, positions)
    _replace_rows(town, rows[order], index)
    _count(town, refs, sign)
    town.statistics = Statistics()
    return Update(sign * len(refs), len(ids) - n_before, advice=_advice(town, None))


def _rows_left(
    town: PlaceMap, rows: Vectors, places: NDArray[Any], gone: Vectors, gone_places: NDArray[Any]
) -> NDArray[np.bool_]:
    """Mask of the rows that stay when each of `gone` takes its nearest row of the same place with it."""
    keep = np.ones(len(rows), bool)
    stored, scales = quantize(gone, town.vectors.dtype.name)
    rounded = (stored if scales is None else stored * scales[:, None]).astype(np.float32)
    for vector, place in zip(rounded, gone_places, strict=True):
        candidates = np.flatnonzero(keep & (places == place))
        away = np.abs(rows[candidates] - vector).max(axis=1, initial=0)
        if len(candidates) == 0 or away.min() > 1e-3:
            raise InputError(f"cannot remove a reference of place {place!r} that is not in the map")
        keep[candidates[away.argmin()]] = False
    return keep


def _replace_rows(town: PlaceMap, rows: Vectors, row_places: NDArray[np.intp]) -> None:
    town.vectors, town.scales = quantize(rows, town.vectors.dtype.name)
    town.row_places = row_places
    for name in ("_indexes", "_most_rows"):
        town.__dict__.pop(name, None)


def _replace_places(
    town: PlaceMap, ids: NDArray[Any], refs: ReferenceSet, positions: Positions | None
) -> None:
    """Give the map new ids, with positions and images carried over."""
    old = {place: row for row, place in enumerate(town.place_ids.tolist())}
    rows = np.array([old.get(place, -1) for place in ids.tolist()])
    if town.positions is not None:
        points = np.where((rows >= 0)[:, None], town.positions.points[rows], np.nan)
        if positions is not None and positions.degrees == town.positions.degrees:
            at = np.searchsorted(ids, refs.place_ids)
            new = rows[at] < 0
            points[at[new]] = positions.points[new]
        heading = town.positions.heading
        heading = None if heading is None else np.where(rows >= 0, heading[rows], np.nan)
        town.positions = Positions(points, town.positions.degrees, heading)
    if town.images is not None:
        town.images = [town.images[row] if row >= 0 else "" for row in rows.tolist()]
    town.place_ids = ids


def _count(town: PlaceMap, refs: ReferenceSet, sign: int) -> None:
    """Keep the number of references of each traversal."""
    for name in refs.traversal_ids:
        n = town.traversals.get(str(name), 0) + sign * int(np.sum(refs.traversals == name))
        if n > 0:
            town.traversals[str(name)] = n
        else:
            town.traversals.pop(str(name), None)


def _moved(old: Vectors | None, new: Vectors | None) -> float:
    """Share (%) of the new span that lies outside the old one."""
    if old is None or new is None:
        return 0.0
    Q_old, Q_new = (np.linalg.qr(P.astype(np.float64))[0] for P in (old, new))
    inside = np.linalg.norm(Q_old.T @ Q_new) ** 2 / min(Q_old.shape[1], Q_new.shape[1])
    return 100 * max(0.0, 1 - float(inside))


def _advice(town: PlaceMap, ratios: tuple[float, float] | None) -> list[str]:
    advice = []
    if ratios is not None:
        before, after = ratios
        if not 0.5 <= after / before <= 2:
            advice.append(
                f"settings: the ridge {town.settings['ridge']:.3g} was chosen at γ = {before:.3g}, which is now "
                f"{after:.3g}; build again from all references to choose anew"
            )
    if town.calibration is not None and set(town.traversals) != set(town.calibration.traversals):
        advice.append("calibration: it was made with other traversals; build again to redo it")
    elif town.calibration is None and len(town.traversals) >= 3:
        advice.append("calibration: there are three traversals now; build again to have one")
    return advice


def _check(town: PlaceMap, refs: ReferenceSet) -> None:
    if town.fusion == "single":
        raise InputError("a map of a single traversal cannot be updated: build it anew")
    if refs.vectors.shape[1] != town.dim:
        raise InputError(f"references have {refs.vectors.shape[1]} dimensions; the map has {town.dim}")
    if (refs.places.dtype.kind in "iu") != (town.place_ids.dtype.kind in "iu"):
        raise InputError(
            f"the references' place ids are {refs.places.dtype}, the map's are {town.place_ids.dtype}: use one kind"
        )


def _statistics(town: PlaceMap) -> Statistics:
    if town.statistics is None:
        raise InputError(
            "the map has no statistics beside it (NAME.displace-stats), without which it cannot be updated; "
            "put the file back, or build the map anew from all references"
        )
    return town.statistics.loaded()


def _scatter(statistics: Statistics) -> Scatter:
    if statistics.scatter is None:
        raise InputError("the statistics hold no counts and means")
    return statistics.scatter


def _as_summed(town: PlaceMap, refs: ReferenceSet) -> Vectors:
    vectors = refs.vectors.astype(np.float32, copy=False)
    return l2_normalize(vectors) if town.fusion == "dmat_avg" else vectors


def _kept_traversal(town: PlaceMap, name: str) -> ReferenceSet:
    kept = _statistics(town).references
    if kept is None:
        raise InputError(
            f"cannot remove traversal {name!r} by name: the map was built without keep_references; give its references"
        )
    return kept.only(name)


def _joined(a: ReferenceSet, b: ReferenceSet) -> ReferenceSet:
    return ReferenceSet(
        np.concatenate([a.vectors, b.vectors]),
        np.concatenate([a.places, b.places]),
        np.concatenate([a.traversals, b.traversals]),
    )


def _without(kept: ReferenceSet, gone: ReferenceSet) -> ReferenceSet:
    """References that stay when each of `gone` takes an equal one with it."""
    keep = np.ones(len(kept), bool)
    for vector, place in zip(gone.vectors, gone.places, strict=True):
        same = np.flatnonzero(keep & (kept.places == place))
        keep[same[np.abs(kept.vectors[same] - vector).max(axis=1).argmin()]] = False
    return kept.select(keep)
