"""Building a map from references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Vectors, l2_normalize
from displace.errors import InputError
from displace.fusion import get_fusion
from displace.fusion.base import Fusion
from displace.fusion.displace import DisPlace
from displace.fusion.solver.scatter import Scatter
from displace.geo import Positions
from displace.maps.basis import turned
from displace.maps.calibration import Calibration, SamePlace, calibrate
from displace.maps.place_map import PlaceMap
from displace.maps.rounding import DTYPES, RecallLoss, agreement, quantize
from displace.maps.statistics import Statistics, digests_of
from displace.references import ReferenceSet

TOLERANCE = 25.0
"""Metres within which a match counts as correct, where places have positions."""


def build(
    refs: ReferenceSet,
    fusion: str | Fusion = "displace",
    model: Mapping[str, Any] | None = None,
    *,
    positions: Positions | None = None,
    images: list[str] | None = None,
    dtype: str = "float16",
    calibration: bool = True,
    tolerance: float | None = None,
    keep_references: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> PlaceMap:
    """Build a map.

    Parameters
    ----------
    refs : ReferenceSet
        References of all traversals.
    fusion : str or Fusion
        "displace", "hops", "pooling", "single" or "dmat_avg", or an unfitted estimator of these.
    model : mapping, optional
        Fingerprint of the model that described the references; the map then refuses others' queries.
    positions : Positions, optional
        Of the places, in the order of ``refs.place_ids``.
    images : list of str, optional
        One reference image of each place, in that order.
    dtype : {"float16", "float32", "int8"}
        How rows are stored.
    calibration : bool
        Fit the confidence on held-out traversals; needs three.
    tolerance : float, optional
        What counts as correct for the confidence: metres, where places have positions (25 by default); otherwise the
        very place.
    keep_references : bool
        Keep the references in the statistics, so that a traversal can be removed by name.
    progress : callable, optional
        Called with (done, total) steps of the calibration.

    Examples
    --------
    >>> from displace.synthetic import make_route
    >>> route = make_route(n_places=50, n_traversals=3, dim=32)
    >>> town = build(route.references)
    >>> town  # doctest: +ELLIPSIS
    PlaceMap(50 places from 3 traversals, displace, ... of 32 dimensions, float16)
    >>> town.locate(route.queries[:1], k=3).places.shape
    (1, 3)
    """
    if dtype not in DTYPES:
        raise InputError(f"dtype={dtype!r} must be one of {', '.join(DTYPES)}")
    for name, values in (("positions", positions), ("images", images)):
        if values is not None and len(values) != len(refs.place_ids):
            raise InputError(
                f"{name} has {len(values)} entries; the references have {len(refs.place_ids)} places"
            )
    estimator = get_fusion(fusion)() if isinstance(fusion, str) else fusion
    estimator.fit(refs.vectors, refs.places, refs.traversals)
    rows, row_places = estimator.stored_rows()
    projection = None
    if isinstance(estimator, DisPlace):
        rows, projection = turned(estimator)
    keep = np.isin(refs.place_ids, estimator.place_ids_)
    vectors, scales = quantize(rows, dtype)
    town = PlaceMap(
        place_ids=estimator.place_ids_,
        vectors=vectors,
        row_places=row_places,
        fusion=_name_of(estimator),
        settings=resolved(estimator),
        reason=estimator.explain() if isinstance(estimator, DisPlace) else "as given",
        dim=refs.vectors.shape[1],
        projection=projection,
        mean=mean_of(estimator),
        scales=scales,
        model=None if model is None else dict(model),
        traversals={str(t): int(np.sum(refs.traversals == t)) for t in refs.traversal_ids},
        positions=None if positions is None else positions.take(keep),
        images=None if images is None else [image for image, kept in zip(images, keep, strict=True) if kept],
        tolerance=0.0 if positions is None else TOLERANCE if tolerance is None else tolerance,
        statistics=statistics_of(_name_of(estimator), refs, keep_references),
    )
    loss = None if dtype == "float32" else RecallLoss(dtype, same_place(town))
    if calibration:
        town.calibration = _calibrate(town, refs, progress, loss)
        town.calibrated_on = dict(town.traversals)
    if loss is not None:
        town.notes = loss.notes() or agreement(rows, row_places, dtype)
    return town


def resolved(estimator: Fusion) -> dict[str, Any]:
    """Parameters of a fitted fusion with what was "auto" decided, JSON-able.

    What DisPlace could not decide, falling back to plain retrieval, stays open for an update to decide.
    """
    settings: dict[str, Any] = dict(estimator.get_params())
    if isinstance(estimator, DisPlace) and not fell_back(estimator):
        settings |= {"ridge": float(estimator.ridge_), "center": bool(estimator.center_)}
    if "traversal" in settings:
        settings["traversal"] = str(getattr(estimator, "traversal_", settings["traversal"]))
    return settings


def fell_back(estimator: DisPlace) -> bool:
    """Whether there was nothing to discriminate by, so that no eigenproblem was solved."""
    return estimator.eigenvalues_.size == 0


def _calibrate(
    town: PlaceMap,
    refs: ReferenceSet,
    progress: Callable[[int, int], None] | None,
    loss: RecallLoss | None,
) -> Calibration | None:
    """Fit the confidence of a map on held-out traversals of its references, which show the loss by rounding too."""
    if town.fusion == "single":
        return None  # there is one traversal: nothing of it can be held out

    def make() -> Fusion:
        return get_fusion(town.fusion)(**town.settings)

    return calibrate(refs, make, same_place(town), progress, None if loss is None else loss.watch)


def same_place(town: PlaceMap) -> SamePlace:
    """Whether two place ids count as the same: within the tolerance, or equal where positions are not known."""
    if town.positions is None or town.tolerance <= 0:
        return lambda found, truth: found == truth
    metres = town.positions.metres()

    def near(found: NDArray[Any], truth: NDArray[Any]) -> NDArray[np.bool_]:
        at = [np.searchsorted(town.place_ids, ids) for ids in (found, truth)]
        away = np.linalg.norm(metres[at[0]] - metres[at[1]], axis=1)
        right: NDArray[np.bool_] = np.where(np.isfinite(away), away <= town.tolerance, found == truth)
        return right

    return near


def statistics_of(fusion: str, refs: ReferenceSet, keep_references: bool) -> Statistics | None:
    """What an update of such a map needs; None where it cannot be updated."""
    if fusion not in ("displace", "hops", "dmat_avg", "pooling"):
        return None
    scatter = None if fusion == "pooling" else scatter_of(fusion, refs)
    return Statistics(scatter, refs if keep_references else None, digests_of(refs))


def scatter_of(fusion: str, refs: ReferenceSet) -> Scatter:
    """Statistics of references: with the within scatter for `displace`, of unit vectors for `dmat_avg`."""
    vectors = refs.vectors.astype(np.float32, copy=False)
    if fusion == "dmat_avg":
        vectors = l2_normalize(vectors)
    return Scatter.of(vectors, refs.places, means_only=fusion != "displace")


def mean_of(estimator: Fusion) -> Vectors | None:
    """What is subtracted from queries, in float32; None where nothing is."""
    centred = isinstance(estimator, DisPlace) and estimator.center_
    return np.ascontiguousarray(estimator.mean_, np.float32) if centred else None


def _name_of(estimator: Fusion) -> str:
    return type(estimator).__module__.rsplit(".", 1)[-1]
