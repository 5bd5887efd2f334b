"""Whether what a file says makes a map. Rows are not looked at, so that a map of any size opens at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.geo import Positions
from displace.maps.calibration import Calibration
from displace.maps.rounding import DTYPES

KINDS: dict[str, tuple[type, ...]] = {
    "fusion": (str,),
    "settings": (dict,),
    "reason": (str,),
    "dim": (int,),
    "model": (dict, type(None)),
    "traversals": (dict,),
    "notes": (dict,),
}
"""Fields of a map that stand in its header as they are, and what they may be."""


def check_fields(fields: dict[str, Any]) -> None:
    """Raise ValueError where the fields of a map do not fit together."""
    for name, kinds in KINDS.items():
        _require(isinstance(fields[name], kinds), f"{name} is {fields[name]!r}")
    vectors, places = fields["vectors"], fields["places"]
    ids = places.ids
    _require(ids.ndim == 1 and len(ids) > 0, "it has no places")
    _require(bool(np.all(ids[1:] > ids[:-1])), "place ids are out of order")
    _require(vectors.ndim == 2 and vectors.dtype.name in DTYPES, f"rows are {vectors.dtype}{vectors.shape}")
    _check_row_places(fields["row_places"], len(vectors), len(ids))
    _check_projection(fields, vectors.shape[1])
    scales = fields["scales"]
    _require((scales is not None) == (vectors.dtype == np.int8), "scales are for int8 rows, and needed there")
    if scales is not None:
        _check_numbers("scales", scales, (len(vectors),))
        _require(bool(((scales > 0) & (scales < 1)).all()), "scales are not those of unit vectors")
    if places.positions is not None:
        _check_positions(places.positions, len(ids))
    if places.frames is not None:
        _require(places.frames.shape == (len(ids),), f"route numbers have shape {places.frames.shape}")


def checked_calibration(record: Any) -> Calibration | None:
    """Calibration of a record, after trying it out; None for none."""
    if record is None:
        return None
    calibration = Calibration(**record)
    with np.errstate(all="ignore"):
        probability = calibration.probability(np.array([[0.9, 0.5, 0.1]]))
    _require(probability.shape == (1,) and bool(np.isfinite(probability).all()), "its calibration is void")
    np.asarray(calibration.curve, np.float64).reshape(-1, 3)
    _require(np.isfinite(float(calibration.auc) + float(calibration.error)), "its calibration is void")
    return calibration


def _check_row_places(row_places: NDArray[Any], n_rows: int, n_places: int) -> None:
    """Rows of a place are side by side, in order of place, and every place has one."""
    _require(row_places.shape == (n_rows,), f"{row_places.shape} places of rows for {n_rows} rows")
    steps = np.diff(row_places, prepend=-1, append=n_places)
    _require(bool(((steps == 0) | (steps == 1)).all() and steps[0] == 1), "rows are not in order of place")


def _check_projection(fields: dict[str, Any], n: int) -> None:
    dim, projection, mean = fields["dim"], fields["projection"], fields["mean"]
    if projection is None:
        _require(n == dim, f"rows have {n} dimensions, descriptors {dim}, and there is no projection")
    else:
        _check_numbers("projection", projection, (dim, n))
    if mean is not None:
        _check_numbers("mean", mean, (dim,))


def _check_positions(positions: Positions, n_places: int) -> None:
    _require(positions.points.shape == (n_places, 2), f"positions have shape {positions.points.shape}")
    heading = positions.heading
    _require(heading is None or heading.shape == (n_places,), "it has not one heading for each place")


def _check_numbers(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    _require(array.shape == shape, f"{name} has shape {array.shape}, not {shape}")
    _require(
        array.dtype.kind == "f" and bool(np.isfinite(array).all()), f"{name} has values that are no numbers"
    )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
