"""What a map's file may say: every rule of `displace.maps.checking`, on both sides of its limit."""

from __future__ import annotations

import numpy as np
import pytest

from displace.files.schema import MAX_DIM
from displace.geo import Positions
from displace.maps.calibration import Calibration
from displace.maps.checking import check_fields, check_row_places, check_rows, checked_calibration
from displace.maps.samples import Samples
from displace.maps.witness import Anchors
from displace.places import Places

N, D = 3, 4
NUMBERS = [0.5] * 4
SURE = Calibration(NUMBERS, NUMBERS, NUMBERS, 0.0, 9, 5, 0.7, 0.1, [[0.5, 0.5, 9]], ["a"], NUMBERS, NUMBERS)
FIRST = Calibration(NUMBERS[:3], NUMBERS[:3], NUMBERS[:3], 0.0, 9, 5, 0.7, 0.1, [], ["a"])
"""Of this release, and of the first."""


def anchors(mean=D, lengths=N, squares=N, counts=(1.0, 2.0, 1.0)):
    one = np.ones(max(N, D) + 1, np.float32)
    return Anchors(one[:mean], one[:lengths], one[:squares], np.array(counts, np.float32))


def samples(n=5, numbers=4, folds=(0, 0, 1, 1, 1), names=("a", "b")):
    return Samples(np.zeros((n, numbers)), np.zeros(5, np.int8), np.array(folds, np.int8), list(names))


def places(points=None, degrees=False, heading=None, frames=None, ids=(1, 2, 5)):
    positions = None if points is None else Positions(np.array(points), degrees, heading)
    return Places(np.array(ids), positions, frames=frames)


def fields(**others):
    """Those of a map of three places in four dimensions."""
    usual = {
        "fusion": "hops",
        "settings": {},
        "reason": "",
        "dim": D,
        "model": None,
        "traversals": {"a": 3},
        "notes": {},
        "calibrated_on": None,
        "vectors": np.eye(N, D, dtype=np.float32),
        "places": places(),
        "projection": None,
        "mean": None,
        "scales": None,
        "calibration": None,
        "anchors": None,
        "samples": None,
    }
    return usual | others


INT8 = np.eye(N, D).astype(np.int8) * 127
AROUND = [[0.0, 0], [90, 360], [-90, -360]]


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"model": {"model": "hog"}, "calibrated_on": {"a": 3}},
        {"vectors": INT8, "scales": np.full(N, 0.5)},
        {"vectors": INT8, "scales": np.array([1e-9, 0.5, 0.999])},
        {"vectors": np.eye(N, 2, dtype=np.float16), "projection": np.ones((D, 2)), "mean": np.zeros(D)},
        {"mean": np.zeros(D)},
        {"places": places(ids=[7]), "vectors": np.eye(1, D, dtype=np.float32)},
        {"calibration": SURE, "anchors": anchors(), "samples": samples()},
        {"calibration": FIRST},
        {"places": places(AROUND, degrees=True, heading=np.array([0.0, np.nan, 9]))},
        {"places": places([[0.0, 1e6], [np.nan, np.nan], [1, 1]], frames=np.array([0, np.nan, 2]))},
        {"notes": {"recall_at_1": {"float16": 100.0, "float32": 0}, "n_queries": 0}},
        {"notes": {"same_top_match": 100, "spectrum": [[1, 0.5], [2, 1.0]]}},
        {"notes": {"same_top_match": 0, "spectrum": []}},
    ],
)
def test_what_may_be(others):
    check_fields(fields(**others))


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"fusion": 1}, "fusion is 1"),
        ({"settings": []}, "settings is"),
        ({"reason": None}, "reason is None"),
        ({"dim": "4"}, "dim is '4'"),
        ({"dim": 0}, "dim is 0; 1 to"),
        ({"dim": MAX_DIM + 1}, "dim is"),
        ({"model": "hog"}, "model is 'hog'"),
        ({"traversals": None}, "traversals is None"),
        ({"notes": []}, "notes is"),
        ({"places": places(ids=[])}, "it has no places"),
        ({"vectors": np.eye(N, D)}, "rows are float64"),
        ({"vectors": np.zeros((N, D, 1), np.float32)}, r"rows are float32\(3, 4, 1\)"),
        ({"vectors": np.eye(N, D - 1, dtype=np.float32)}, "rows have 3 dimensions, descriptors 4"),
        ({"projection": np.ones((D, D - 1))}, r"projection has shape \(4, 3\), not \(4, 4\)"),
        ({"projection": np.full((D, D), np.inf)}, "projection has values that are no numbers"),
        ({"mean": np.zeros(D + 1)}, "mean has shape"),
        ({"mean": np.full(D, np.nan)}, "mean has values that are no numbers"),
        ({"mean": np.zeros(D, int)}, "mean has values that are no numbers"),
        ({"scales": np.full(N, 0.5)}, "scales are for int8 rows"),
        ({"vectors": INT8}, "scales are for int8 rows"),
        ({"vectors": INT8, "scales": np.full(N + 1, 0.5)}, "scales has shape"),
        ({"vectors": INT8, "scales": np.array([0.5, 0.0, 0.5])}, "scales are not those of unit vectors"),
        ({"vectors": INT8, "scales": np.array([0.5, 1.0, 0.5])}, "scales are not those of unit vectors"),
        ({"anchors": anchors(mean=D + 1)}, "anchor_mean has shape"),
        ({"anchors": anchors(lengths=N - 1)}, "lengths has shape"),
        ({"anchors": anchors(squares=N + 1)}, "squares has shape"),
        ({"anchors": anchors(counts=(1.0, 2.0))}, "counts has shape"),
        ({"anchors": anchors(counts=(1.0, 0.0, 2.0))}, "a row has no references"),
        ({"samples": samples(numbers=3)}, "samples has shape"),
        ({"samples": samples(n=4)}, "samples has shape"),
        ({"samples": samples(folds=(0, 0, 1, 1))}, "not one fold each"),
        ({"samples": samples(folds=(0, 0, 1, 1, 2))}, "unknown folds"),
        ({"samples": samples(folds=(0, 0, 1, 1, -1))}, "unknown folds"),
        ({"calibration": SURE}, "its confidence needs anchors"),
        ({"places": places([[0.0, 0], [90.1, 0], [0, 0]], degrees=True)}, "outside of ±90 and ±360"),
        ({"places": places([[0.0, 0], [0, -360.1], [0, 0]], degrees=True)}, "outside of ±90 and ±360"),
        ({"places": places([[0.0, 0], [0, np.inf], [0, 0]])}, "positions has values that are no numbers"),
        ({"places": places(AROUND, heading=np.array([0, np.inf, 1]))}, "headings has values"),
        ({"places": places(frames=np.array([0, np.inf, 1]))}, "route numbers has values"),
        ({"notes": {"recall_at_1": {"float16": 100.1}}}, "recall_at_1 is 100.1"),
        ({"notes": {"recall_at_1": {"float16": -0.1}}}, "recall_at_1 is -0.1"),
        ({"notes": {"recall_at_1": 50.0}}, "recall_at_1 is 50.0, not an object"),
        ({"notes": {"n_queries": -1}}, "n_queries is -1"),
        ({"notes": {"n_queries": 0.5}}, "n_queries is 0.5"),
        ({"notes": {"same_top_match": 100.5}}, "same_top_match is 100.5"),
        ({"notes": {"same_top_match": -0.5}}, "same_top_match is -0.5"),
        ({"notes": {"spectrum": [[1, 0.5, 2]]}}, "has 3 entries, not 2"),
        ({"notes": {"spectrum": [[1]]}}, "has 1 entries, not 2"),
        ({"notes": {"spectrum": {}}}, "spectrum is {}, not a list"),
    ],
)
def test_what_may_not_be(others, message):
    with pytest.raises(ValueError, match=message):
        check_fields(fields(**others))


@pytest.mark.parametrize("ids", [(1, 5, 2), (1, 1, 2)])
def test_places_are_in_order_and_each_is_there_once(ids):
    known = places()
    object.__setattr__(known, "ids", np.array(ids))
    with pytest.raises(ValueError, match="out of order"):
        check_fields(fields(places=known))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([0.0, 1.0, 2.0]), "places of rows are float64"),
        (np.array([[0], [1], [2]]), "places of rows for 3 rows"),
        (np.array([0, 1]), "places of rows for 3 rows"),
        (np.array([0, 0, 1]), "not those of the places"),
        (np.array([1, 1, 2]), "not those of the places"),
        (np.array([0, 2, 2]), "not in order of place"),
    ],
)
def test_rows_belong_to_places(rows, message):
    check_row_places(np.array([0, 1, 2]), 3, 3)
    with pytest.raises(ValueError, match=message):
        check_row_places(rows, 3, 3)


def test_rows_of_every_block_are_looked_at(monkeypatch):
    from displace.maps import checking

    real = checking.blocks
    monkeypatch.setattr(checking, "blocks", lambda n, row_bytes: real(n, 1, 2) if row_bytes else None)
    rows = np.eye(5, dtype=np.float32)
    check_rows("town", {"vectors": rows, "scales": None})
    rows[4, 4] = 1.06
    with pytest.raises(Exception, match="town is damaged"):
        check_rows("town", {"vectors": rows, "scales": None})


class TestRecords:
    def test_of_both_releases_and_of_none(self):
        for known in (SURE, FIRST):
            assert checked_calibration(known.to_json()) == known
        assert checked_calibration(None) is None
        assert checked_calibration({**SURE.to_json(), "lowest": [0.0] * 3}) is None

    @pytest.mark.parametrize(
        "others",
        [{"curve": [[0.5, 0.5]]}, {"curve": [0.5, 0.5, 9]}, {"scales": [0.0] * 4}, {"weights": NUMBERS[:2]}],
    )
    def test_that_make_no_probability(self, others):
        with pytest.raises((ValueError, TypeError)):
            checked_calibration({**SURE.to_json(), **others})
