"""Small things of the core that a single change would break unseen: constants, blanks, limits."""

from __future__ import annotations

import numpy as np
import pytest

from displace import build
from displace.errors import FormatError
from displace.geo import Positions
from displace.maps.checking import check_fields, check_rows, checked_calibration
from displace.places import Places
from displace.synthetic import make_route
from displace.truth import Tolerance, Truth


def test_half_a_position_is_none():
    points = np.array([[0.0, 0], [5, 0], [1, np.nan]])
    truth = Truth(Places(np.arange(3), positions=Positions(points)), Tolerance("metres", 6))
    assert truth.answerable(np.arange(3), np.array([0])).tolist() == [True, True, False]
    assert truth.answerable(np.array([2]), np.array([2])).tolist() == [True]
    assert truth.answerable(np.arange(2), np.array([2])).tolist() == [False, False]


@pytest.mark.parametrize(("scale", "whole"), [(1 / 127, True), (1.04 / 127, True), (1.06 / 127, False)])
def test_rows_in_eight_bits_are_as_long_as_their_scales_make_them(scale, whole):
    fields = {"vectors": np.array([[127, 0], [0, -127]], np.int8), "scales": np.array([scale, 1 / 127])}
    if whole:
        check_rows("town", fields)
    else:
        with pytest.raises(FormatError, match="not unit vectors"):
            check_rows("town", fields)


@pytest.fixture(scope="module")
def town():
    return build(make_route(n_places=40, n_traversals=3, dim=16, noise=0.3, seed=4).references, "hops")


@pytest.fixture(scope="module")
def record(town):
    return town.calibration.to_json()


@pytest.mark.parametrize("counts", [{"sun": -1}, {"sun": 1.5}, {"sun": "many"}])
@pytest.mark.parametrize("name", ["traversals", "calibrated_on"])
def test_counts_of_references_are_whole_numbers(town, name, counts):
    fields = {field: getattr(town.state, field) for field in town.state.__dataclass_fields__}
    fields |= {"dim": 16}
    check_fields(fields)
    with pytest.raises(ValueError, match=name):
        check_fields({**fields, name: counts})


@pytest.mark.parametrize("field", ["bias", "auc", "error"])
def test_a_confidence_of_no_numbers_is_void(record, field):
    assert checked_calibration(record) is not None
    with pytest.raises(ValueError, match=f"{field} is nan, which is not finite"):
        checked_calibration({**record, field: np.nan})
