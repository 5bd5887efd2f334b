"""Validates what was read from a map's file; rows are left out, so that maps of any size open at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from displace.arrays import LONGEST, blocks
from displace.errors import FormatError
from displace.files import schema
from displace.files.schema import require
from displace.geo import Positions
from displace.maps.calibration import Calibration
from displace.maps.rounding import DTYPES
from displace.maps.witness import NAMES

SHARE = 1.001
"""Largest share: 1, and what rounding may add."""
LARGEST = 1e9
"""Largest weight of a calibration, and reciprocal of its smallest scale: keeps probabilities finite."""
FARTHEST = 4e38
"""Largest value of a feature: a squared distance of descriptors, whose length is not limited, in float32."""

KINDS: dict[str, tuple[type, ...]] = {
    "fusion": (str,),
    "settings": (dict,),
    "reason": (str,),
    "dim": (int,),
    "model": (dict, type(None)),
    "traversals": (dict,),
    "notes": (dict,),
}
"""Fields of a map that its header holds unchanged, and their types."""


def check_fields(fields: dict[str, Any]) -> None:
    """Raise ValueError where the fields of a map do not fit together."""
    for name, kinds in KINDS.items():
        require(isinstance(fields[name], kinds), f"{name} is {schema.shown(fields[name])}")
    schema.whole(fields["dim"], "dim", 1, schema.MAX_DIM)
    for name in ("traversals", "calibrated_on"):
        if fields[name] is not None:
            schema.mapping(fields[name], name, schema.whole)
    vectors, places = fields["vectors"], fields["places"]
    ids = places.ids
    require(ids.ndim == 1 and len(ids) > 0, "it has no places")
    require(bool(np.all(ids[1:] > ids[:-1])), "place ids are out of order")
    require(vectors.ndim == 2 and vectors.dtype.name in DTYPES, f"rows are {vectors.dtype}{vectors.shape}")
    _check_projection(fields, vectors.shape[1])
    scales = fields["scales"]
    require((scales is not None) == (vectors.dtype == np.int8), "scales are for int8 rows, and needed there")
    if scales is not None:
        _check_numbers("scales", scales, (len(vectors),))
        require(bool(((scales > 0) & (scales < 1)).all()), "scales are not those of unit vectors")
    _check_confidence(fields)
    if places.positions is not None:
        _check_positions(places.positions, len(ids))
    if places.frames is not None:
        _check_numbers("route numbers", places.frames, (len(ids),), blanks=True)
    _check_notes(fields["notes"])


def check_rows(path: object, fields: dict[str, Any]) -> None:
    """Raise FormatError where rows are longer than unit vectors; those that are no numbers are found when used."""
    vectors, scales = fields["vectors"], fields["scales"]
    for rows in blocks(len(vectors), row_bytes=4 * vectors.shape[1]):
        lengths = np.einsum("rn,rn->r", *[vectors[rows].astype(np.float32)] * 2)
        if scales is not None:
            lengths *= scales[rows] ** 2
        if (lengths > LONGEST**2).any():
            raise FormatError(
                f"{path} is damaged: the rows of the map are damaged, they are not unit vectors"
            )


def _check_confidence(fields: dict[str, Any]) -> None:
    """Raise ValueError where anchors do not fit the rows, or samples are inconsistent."""
    anchors, samples, n_rows = fields.get("anchors"), fields.get("samples"), len(fields["vectors"])
    if anchors is not None:
        _check_numbers("anchor_mean", anchors.mean, (fields["dim"],))
        for name in ("lengths", "squares", "counts"):
            _check_numbers(name, getattr(anchors, name), (n_rows,))
        require(bool((anchors.counts > 0).all()), "a row has no references")
    if samples is not None:
        width = max(len(NAMES) - 1, min(len(NAMES), samples.evidence.shape[-1]))
        _check_numbers("samples", samples.evidence, (len(samples), width))
        require(samples.folds.shape == samples.labels.shape, "its samples have not one fold each")
        folds = range(len(samples.names))
        require(
            all(int(fold) in folds for fold in np.unique(samples.folds)), "its samples have unknown folds"
        )
    if fields["calibration"] is not None and not fields["calibration"].reads_rankings:
        require(anchors is not None, "its confidence needs anchors")


def checked_calibration(record: Any) -> Calibration | None:
    """Calibration of a record, after a trial; None without one, or where it has features that this release lacks."""
    if record is None or len(record.get("lowest", ())) not in (0, len(NAMES) - 1, len(NAMES)):
        return None
    calibration = Calibration(**record)
    _check_calibration(calibration)
    with np.errstate(all="ignore"):
        example = np.array([[0.9, 0.5, 0.1, 0.0, 0.1]])
        ranking = calibration.reads_rankings
        probability = (calibration.probability_of_scores if ranking else calibration.probability)(example)
    require(probability.shape == (1,) and bool(np.isfinite(probability).all()), "its calibration is void")
    return calibration


def _check_calibration(calibration: Calibration) -> None:
    """Raise ValueError where a field has another type or range than `learning` writes.

    Within these bounds the probability of every query is finite.
    """
    schema.listed(calibration.weights, "weights", _bounded)
    for name in ("offsets", "lowest", "highest"):
        schema.listed(getattr(calibration, name), name, _evidence)
    for name in ("bias", "steepness", "auc", "error"):
        _bounded(getattr(calibration, name), name)
    if calibration.farthest is not None:
        _evidence(calibration.farthest, "farthest")
    schema.listed(calibration.scales, "scales", _scale)
    _scale(calibration.spread, "spread")
    for name in ("ceiling", "doubt"):
        schema.number(getattr(calibration, name), name, 0, 1)
    for name in ("n_queries", "n_correct"):
        schema.whole(getattr(calibration, name), name)
    schema.listed(calibration.traversals, "traversals", schema.text)
    schema.text(calibration.basis, "basis")
    require(isinstance(calibration.centred, bool), f"centred is {schema.shown(calibration.centred)}")
    for row in schema.listed(
        calibration.curve, "curve", lambda row, name: schema.listed(row, name, schema.number, 3)
    ):
        require(min(row) >= 0 and max(row[:2]) <= SHARE, f"a row of the curve is {schema.shown(row)}")


def _bounded(value: Any, name: str) -> float:
    return schema.number(value, name, -LARGEST, LARGEST)


def _evidence(value: Any, name: str) -> float:
    return schema.number(value, name, -FARTHEST, FARTHEST)


def _scale(value: Any, name: str) -> float:
    return schema.number(value, name, 1 / LARGEST, FARTHEST)


def check_row_places(row_places: NDArray[Any], n_rows: int, n_places: int) -> None:
    """Raise ValueError unless rows of a place are side by side, in order of place, and every place has one."""
    require(row_places.dtype.kind == "i", f"places of rows are {row_places.dtype}")
    require(row_places.shape == (n_rows,), f"{row_places.shape} places of rows for {n_rows} rows")
    require(
        n_rows > 0 and row_places[0] == 0 and row_places[-1] == n_places - 1,
        "rows are not those of the places",
    )
    steps = np.diff(row_places.astype(np.int64))
    require(bool(((steps == 0) | (steps == 1)).all()), "rows are not in order of place")


def _check_projection(fields: dict[str, Any], n: int) -> None:
    dim, projection, mean = fields["dim"], fields["projection"], fields["mean"]
    if projection is None:
        require(n == dim, f"rows have {n} dimensions, descriptors {dim}, and there is no projection")
    else:
        _check_numbers("projection", projection, (dim, n))
    if mean is not None:
        _check_numbers("mean", mean, (dim,))


def _check_positions(positions: Positions, n_places: int) -> None:
    _check_numbers("positions", positions.points, (n_places, 2), blanks=True)
    if positions.degrees:
        within = ~(np.abs(positions.points) > [90, 360]).any()
        require(bool(within), "positions are outside of ±90 and ±360 degrees")
    if positions.heading is not None:
        _check_numbers("headings", positions.heading, (n_places,), blanks=True)


def _check_numbers(name: str, array: NDArray[Any], shape: tuple[int, ...], blanks: bool = False) -> None:
    require(array.shape == shape, f"{name} has shape {array.shape}, not {shape}")
    require(array.dtype.kind == "f", f"{name} has values that are no numbers")
    wrong = np.isinf(array) if blanks else ~np.isfinite(array)
    require(not wrong.any(), f"{name} has values that are no numbers")


def _check_notes(notes: dict[str, Any]) -> None:
    """Raise ValueError where notes for `inspect` have another type or range than `rounding` and `fitting` write."""
    recalls = schema.mapping(notes.get("recall_at_1", {}), "recall_at_1")
    for recall in recalls.values():
        schema.number(recall, "recall_at_1", 0, 100)
    if recalls or "n_queries" in notes:
        schema.whole(notes.get("n_queries"), "n_queries")
    if "settings_chosen_at" in notes:
        schema.number(notes["settings_chosen_at"], "settings_chosen_at", 0)
    if "same_top_match" in notes:
        schema.number(notes["same_top_match"], "same_top_match", 0, 100)
    schema.listed(
        notes.get("spectrum", []), "spectrum", lambda pair, name: schema.listed(pair, name, schema.number, 2)
    )
