"""Adding traversals to a map, and removing them, from its statistics alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors, l2_normalize
from displace.errors import InputError, SingularScatterError
from displace.fusion.displace import DisPlace
from displace.fusion.solver.scatter import Scatter
from displace.geo import Positions
from displace.maps.basis import turned
from displace.maps.building import fell_back, mean_of, resolved
from displace.maps.new_places import Places, replace_places
from displace.maps.place_map import PlaceMap
from displace.maps.rounding import quantize, rounded
from displace.maps.statistics import Statistics, digests_of
from displace.maps.update_checks import check_addition, check_name, check_removal, usable_statistics
from displace.references import ReferenceSet

EVERYTHING = "that would remove every reference of the map: delete the file instead"


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
        Share (%) of the projection's span that is not common to the old and the new one, of the larger of the two: 0
        where they are the same, and for maps without a projection.
    sampling_ratio : (float, float) or None
        γ before and after, for `displace`.
    decided : str
        Settings that the map had left open, being of one traversal, and that were decided now; empty where none were.
    advice : list of str
        What should be done again, and why.
    """

    n_references: int
    n_places: int
    moved: float = 0.0
    sampling_ratio: tuple[float, float] | None = None
    decided: str = ""
    advice: list[str] = field(default_factory=list)


def add(
    town: PlaceMap,
    refs: ReferenceSet,
    positions: Positions | None = None,
    images: Sequence[str] | None = None,
) -> Update:
    """Add traversals to the map, in place."""
    check_addition(town, refs, positions, images)
    places = Places(refs.place_ids, positions, images)
    if town.fusion == "pooling":
        return _change_rows(town, refs, +1, places)
    # In float64: an update and its undoing then differ by less than what rounding to float16 can see.
    scatter = _scatter(town).astype(np.float64)
    scatter.add(_as_summed(town, refs).astype(np.float64), refs.places)
    return _apply(town, scatter.astype(np.float32), refs, +1, places)


def remove(town: PlaceMap, refs: ReferenceSet | str) -> Update:
    """Remove traversals from the map, in place: given their references, or by name where they were kept."""
    if isinstance(refs, str):
        refs = _kept_traversal(town, refs)
    check_removal(town, refs)
    if len(refs) == sum(town.traversals.values()):
        raise InputError(EVERYTHING)
    places = Places(refs.place_ids[:0])
    if town.fusion == "pooling":
        return _change_rows(town, refs, -1, places)
    scatter = _scatter(town).astype(np.float64)
    scatter.remove(_as_summed(town, refs).astype(np.float64), refs.places)
    return _apply(town, scatter.astype(np.float32), refs, -1, places)


def _fit(town: PlaceMap, scatter: Scatter) -> DisPlace:
    """Fit the map's settings to new statistics."""
    try:
        return DisPlace(**town.settings).fit_statistics(scatter)
    except SingularScatterError as error:
        raise SingularScatterError(
            f"the map keeps the settings it was built with (ridge {town.settings['ridge']}), and they cannot be solved "
            f"for γ = {scatter.sampling_ratio:.2f}; build it anew from all references, with a ridge"
        ) from error


def _apply(town: PlaceMap, scatter: Scatter, refs: ReferenceSet, sign: int, places: Places) -> Update:
    """Compute the map of new statistics and put it in the old one's place."""
    fusion = _fit(town, scatter) if town.fusion == "displace" else None
    before, old_projection, n_before = _scatter(town), town.projection, len(town.place_ids)
    decided = ""
    if fusion is None:
        rows = scatter.means if town.fusion == "dmat_avg" else l2_normalize(scatter.means)
    else:
        rows, town.projection = turned(fusion)
        town.mean = mean_of(fusion)
        town.reason = f"{fusion.explain()}, after an update"
        settings = resolved(fusion)
        if settings != town.settings:
            town.settings, decided = settings, fusion.explain()
    _keep_statistics(town, scatter, refs, sign)
    replace_places(town, scatter.place_ids, places)
    _replace_rows(town, rows, np.arange(len(rows)))
    _count(town, refs, sign)
    ratios = None if fusion is None else (before.sampling_ratio, scatter.sampling_ratio)
    return Update(
        sign * len(refs),
        len(town.place_ids) - n_before,
        0.0 if fusion is None or fell_back(fusion) else moved(old_projection, town.projection),
        ratios,
        decided,
        _advice(town, None if decided else ratios),
    )


def _change_rows(town: PlaceMap, refs: ReferenceSet, sign: int, new: Places) -> Update:
    """Pooling keeps every reference as a row: append or drop rows."""
    n_before = len(town.place_ids)
    rows, places = town.rows().astype(np.float32), town.place_ids[town.row_places]
    fresh = l2_normalize(refs.vectors).astype(np.float32)
    if sign > 0:
        rows, places = np.concatenate([rows, fresh]), np.concatenate([places, refs.places])
    else:
        keep = _rows_left(town, rows, places, fresh, refs.places)
        rows, places = rows[keep], places[keep]
    order = np.argsort(places, kind="stable")
    ids, index = np.unique(places[order], return_inverse=True)
    _keep_statistics(town, None, refs, sign)
    replace_places(town, ids, new)
    _replace_rows(town, rows[order], index)
    _count(town, refs, sign)
    return Update(sign * len(refs), len(ids) - n_before, advice=_advice(town, None))


def _rows_left(
    town: PlaceMap, rows: Vectors, places: NDArray[Any], gone: Vectors, gone_places: NDArray[Any]
) -> NDArray[np.bool_]:
    """Mask of the rows that stay when each of `gone` takes its nearest row of the same place with it."""
    keep = np.ones(len(rows), bool)
    for vector, place in zip(rounded(gone, town.vectors.dtype.name), gone_places, strict=True):
        candidates = np.flatnonzero(keep & (places == place))
        away = np.abs(rows[candidates] - vector).max(axis=1, initial=0)
        if len(candidates) == 0 or away.min() > 1e-3:
            raise InputError(f"cannot remove a reference of place {place!r} that is not in the map")
        keep[candidates[away.argmin()]] = False
    return keep


def _replace_rows(town: PlaceMap, rows: Vectors, row_places: NDArray[np.intp]) -> None:
    town.vectors, town.scales = quantize(rows, town.vectors.dtype.name)
    town.row_places = row_places
    town.notes = {}  # the loss by rounding was that of the old rows
    for name in ("_indexes", "_most_rows"):
        town.__dict__.pop(name, None)


def _count(town: PlaceMap, refs: ReferenceSet, sign: int) -> None:
    """Keep the number of references of each traversal."""
    for name in refs.traversal_ids:
        if sign > 0:
            town.traversals[str(name)] = int(np.sum(refs.traversals == name))
        else:
            del town.traversals[str(name)]


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


def _advice(town: PlaceMap, ratios: tuple[float, float] | None) -> list[str]:
    advice = []
    if ratios is not None:
        before, after = ratios
        if before != after and not 0.5 <= after / before <= 2:
            advice.append(
                f"settings: the ridge {town.settings['ridge']:.3g} was chosen at γ = {before:.3g}, which is now "
                f"{after:.3g}; build again from all references to choose anew"
            )
    if town.calibration_is_stale:
        advice.append("calibration: it was made with other traversals; build again to redo it")
    elif town.calibration is None and len(town.traversals) >= 3:
        advice.append("calibration: there are three traversals now; build again to have one")
    return advice


def _scatter(town: PlaceMap) -> Scatter:
    scatter = usable_statistics(town).scatter
    if scatter is None:
        raise InputError("the map cannot be updated: its statistics hold no counts and means; build it anew")
    return scatter


def _keep_statistics(town: PlaceMap, scatter: Scatter | None, refs: ReferenceSet, sign: int) -> None:
    """Replace the statistics by those of the new references; what was kept of the old ones is kept of the new."""
    old = usable_statistics(town)
    names = {str(name) for name in refs.traversal_ids}
    digests = {name: digest for name, digest in old.digests.items() if name not in names}
    if sign > 0:
        digests |= digests_of(refs)
    kept = old.references
    if kept is not None and sign > 0:
        kept = _joined(kept, refs)
    elif kept is not None:
        kept = kept.select(~np.isin(kept.traversals.astype(str), sorted(names)))
    town.statistics = Statistics(scatter, kept, digests)


def _as_summed(town: PlaceMap, refs: ReferenceSet) -> Vectors:
    vectors = refs.vectors.astype(np.float32, copy=False)
    return l2_normalize(vectors) if town.fusion == "dmat_avg" else vectors


def _kept_traversal(town: PlaceMap, name: str) -> ReferenceSet:
    check_name(town, name)
    kept = usable_statistics(town).references
    if kept is None:
        raise InputError(
            f"cannot remove traversal {name!r} by name: the map was built without keep_references; give its references"
        )
    return kept.select(kept.traversals.astype(str) == name)


def _joined(a: ReferenceSet, b: ReferenceSet) -> ReferenceSet:
    return ReferenceSet(
        np.concatenate([a.vectors, b.vectors]),
        np.concatenate([a.places, b.places]),
        np.concatenate([a.traversals.astype(str), b.traversals.astype(str)]),
    )
