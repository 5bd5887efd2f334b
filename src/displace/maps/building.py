"""Builds a map from references in memory: fit, rotate and round the rows, then calibrate.

`streaming` builds the same map from references that do not fit in memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from displace.arrays import Indices, check_one_of, plain
from displace.descriptors.store import DescriptorStore
from displace.errors import InputError
from displace.fusion import FUSIONS
from displace.fusion.base import Fusion, Rows, Statistics
from displace.geo import Positions
from displace.maps.calibrating import anchored, calibrated
from displace.maps.digests import digests_of
from displace.maps.fitting import fit, fusion_of, spectrum_note, stored_rows, with_places
from displace.maps.place_map import PlaceMap
from displace.maps.rounding import DTYPES, RecallLoss, agreement, in_stable_basis, quantize
from displace.maps.sketching import with_sketches
from displace.maps.state import MapState
from displace.maps.statistics import MapStatistics
from displace.models import get_model
from displace.places import Places
from displace.progress import Stage
from displace.references import ReferenceSet, ReferenceStream
from displace.truth import Tolerance, Truth

if TYPE_CHECKING:
    from displace.models.base import DescriptorModel

MAX_CALIBRATION = 2**28
"""Numbers (references × dimensions) up to which all references take part in the calibration: bounds its memory."""
STRETCHES = 10
"""Stretches of the route, evenly spaced, that take part above that."""


MANY = 30
TOO_MANY = 10
"""From so many traversals on, and more than so many times as many as places, the two were swapped."""

NONE = "there are no references to build a map of"


def build(
    refs: ReferenceSet | DescriptorStore | str | os.PathLike[str],
    fusion: str | Fusion = "displace",
    model: str | DescriptorModel | Mapping[str, Any] | None = None,
    *,
    positions: Positions | None = None,
    images: Sequence[str] | None = None,
    dtype: str = "float16",
    calibration: bool = True,
    tolerance: str | float | Tolerance | None = None,
    keep_references: bool = False,
    progress: Stage | None = None,
) -> PlaceMap:
    """Build a map.

    Parameters
    ----------
    refs : ReferenceSet, DescriptorStore or path-like
        References of all traversals, with what is known of their places; or a store of `displace extract`, whose model
        is then the map's, and of whose images the map keeps a sketch for each place.
    fusion : str or Fusion
        Name of a fusion whose `rows` a map can hold, or such an estimator, of this package or of your own.
    model : str, DescriptorModel or mapping, optional
        Model that described the references: its name with its default settings, the model itself, or its fingerprint.
        The map then describes images with it, refuses others' queries, and judges matches of `hog` and
        `efficientnet_lite` by the cells of the picture, too: without it, more photos from elsewhere pass.
    positions : Positions, optional
        Of the places, in the order of ``refs.place_ids``, where `refs` itself does not know them.
    images : sequence of str, optional
        One reference image of each place, likewise.
    dtype : {"float16", "float32", "int8"}
        How rows are stored.
    calibration : bool
        Learn the confidence from what can be held out: traversals where there are three, parts of them where there
        are two; with one it is a fixed rule, and weaker.
    tolerance : str, float or Tolerance, optional
        What counts as correct for the confidence: "25m" or a number of metres where places have positions (25 by
        default), "2 frames" where they have an order along the route, or "exact", the very place.
    keep_references : bool
        Keep the references in the statistics, so that a traversal can be removed by name.
    progress : callable, optional
        Called with (done, total) steps of the calibration.

    Examples
    --------
    >>> from displace.synthetic import make_route
    >>> route = make_route(n_places=50, n_traversals=3, dim=32)
    >>> place_map = build(route.references)
    >>> place_map  # doctest: +ELLIPSIS
    PlaceMap(50 places from 3 traversals, displace, ... of 32 dimensions, float16)
    >>> place_map.locate(route.queries[:1], k=3).places.shape
    (1, 3)
    """
    check_one_of(dtype, DTYPES, "dtype")
    if isinstance(refs, str | os.PathLike):
        refs = DescriptorStore(refs)
    stores = [refs] if isinstance(refs, DescriptorStore) else []
    refs, fingerprint = _references(refs, _fingerprint(model))
    refs = with_places(refs, positions, images)
    truth = Truth.of(refs.info, tolerance)
    estimator = clone(fusion_of(fusion))
    statistics = fit(estimator, refs)
    rows = in_stable_basis(stored_rows(estimator))
    vectors, scales = quantize(rows.vectors, dtype)
    state = fitted_state(
        refs,
        estimator,
        replace(rows, vectors=vectors),
        scales,
        fingerprint,
        truth.tolerance,
        _kept(statistics, refs, keep_references),
    )
    loss = None if dtype == "float32" else RecallLoss(dtype, truth)
    if calibration:
        used = estimator.used(refs)
        sample = used.select(calibration_rows(used.places, used.info, used.vectors.shape[1]))
        state = calibrated(anchored(state, used), sample, truth, progress, loss)
    notes = {} if loss is None else loss.notes() or agreement(rows.vectors, rows.place_index, dtype)
    state = replace(state, notes={**notes, **spectrum_note(estimator)})
    return PlaceMap(with_sketches(state, stores))


def fitted_state(
    refs: ReferenceSet | ReferenceStream,
    estimator: Fusion,
    stored: Rows,
    scales: NDArray[Any] | None,
    model: Mapping[str, Any] | None,
    tolerance: Tolerance,
    statistics: MapStatistics | None,
) -> MapState:
    """Map of a fitted fusion and its rows as stored, without a confidence."""
    return MapState(
        places=refs.info.take(refs.info.rows_of(estimator.place_ids_)),
        vectors=stored.vectors,
        row_places=stored.place_index,
        fusion=FUSIONS.name_of(type(estimator)),
        settings=plain(estimator.settings()),
        reason=estimator.explain(),
        dim=refs.dim,
        projection=stored.projection,
        mean=stored.mean,
        scales=scales,
        model=None if model is None else dict(model),
        traversals={str(t): int(np.sum(refs.traversals == t)) for t in np.unique(refs.traversals)},
        tolerance=tolerance,
        statistics=statistics,
        estimator=clone(estimator).set_params(**estimator.settings()),
    )


def _fingerprint(model: str | DescriptorModel | Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Fingerprint of a model, however it was given."""
    from displace.models.base import DescriptorModel

    if isinstance(model, str):
        model = get_model(model)
    if isinstance(model, DescriptorModel):
        return model.fingerprint()
    if model is None or isinstance(model, Mapping):
        return model
    raise InputError(
        f"model={model!r} must be the name of a model, such as 'hog', a DescriptorModel, or a fingerprint such as "
        "get_model('hog').fingerprint() or DescriptorStore(path).model"
    )


def _references(
    given: ReferenceSet | DescriptorStore, model: Mapping[str, Any] | None
) -> tuple[ReferenceSet, Mapping[str, Any] | None]:
    """References of a set or a store, and the model that described them; refuses obvious mistakes."""
    if isinstance(given, DescriptorStore):
        model = given.model if model is None else model
        given = given.references()
    if not isinstance(given, ReferenceSet):
        raise InputError(
            f"a map is built from a ReferenceSet, a DescriptorStore or the folder of one; got {type(given).__name__}. "
            "For arrays: build(ReferenceSet(vectors, places, traversals))"
        )
    if not len(given):
        raise InputError(NONE)
    n_places, n_traversals = len(given.place_ids), len(given.traversal_ids)
    if n_traversals >= MANY and n_traversals > TOO_MANY * n_places:
        raise InputError(
            f"there are {n_traversals} traversals of {n_places} places: places and traversals seem to be swapped; it "
            "is ReferenceSet(vectors, places, traversals)"
        )
    return given, model


def _kept(statistics: Statistics | None, refs: ReferenceSet, references: bool) -> MapStatistics | None:
    """Statistics that an update of the map needs; None where the fusion has none."""
    if statistics is None:
        return None
    # A copy, as the caller may use the arrays for something else.
    return MapStatistics(statistics.to_arrays(), deepcopy(refs) if references else None, digests_of(refs))


def calibration_rows(places: NDArray[Any], info: Places, dim: int) -> Indices:
    """Indices of the references that the confidence is learned from: all, or stretches of the route where too many.

    The choice depends on sizes alone, so that a map is the same whether built in memory or streamed.
    """
    n_numbers = len(places) * dim
    if n_numbers <= MAX_CALIBRATION:
        return np.arange(len(places))
    route = info.route
    length = max(1, int(MAX_CALIBRATION / n_numbers * len(route) / STRETCHES))
    starts = np.linspace(0, len(route) - length, STRETCHES).astype(np.intp)
    chosen = np.unique(np.concatenate([route[start : start + length] for start in starts]))
    return np.flatnonzero(np.isin(places, chosen))
