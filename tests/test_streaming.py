"""A map of references that are read in blocks is the map of all references at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from displace import DisPlace, PlaceMap, build
from displace.errors import InputError
from displace.geo import Positions
from displace.maps.building import calibration_rows
from displace.maps.digests import Digests, digests_of
from displace.maps.streaming import build_streamed, place_blocks
from displace.places import Places
from displace.references import ReferenceSet, ReferenceStream
from displace.synthetic import make_route

SMALL_BLOCK = 4 * 24 * 100
"""Bytes of 100 references of the route: a dozen blocks."""


@pytest.fixture(scope="module")
def route():
    """Ragged references in no order at all."""
    made = make_route(n_places=300, n_traversals=4, dim=24, drop=0.2, seed=3)
    shuffled = np.random.default_rng(0).permutation(len(made.references))
    return made.references.select(shuffled), made.queries


def stream_of(refs, reads=None):
    def read(rows):
        if reads is not None:
            reads.append(rows)
        return refs.vectors[rows]

    return ReferenceStream(refs.places, refs.traversals, refs.info, refs.vectors.shape[1], read)


def assert_same(place_map, other, queries):
    """Equal first places, and scores that differ by rounding: of what was stored, where that is coarser."""
    atol = {"float32": 1e-4, "float16": 5e-4, "int8": 5e-3}[place_map.state.vectors.dtype.name]
    mine, its = place_map.locate(queries, k=3), other.locate(queries, k=3)
    np.testing.assert_array_equal(mine.places[:, 0], its.places[:, 0])
    np.testing.assert_allclose(mine.scores, its.scores, atol=atol)


@pytest.mark.parametrize(
    "fusion", ["displace", DisPlace(ridge=0.1, center=True), "hops", "pooling", "dmat_avg"], ids=str
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_the_map_of_a_stream_is_that_of_all_references(route, tmp_path, fusion, dtype):
    refs, queries = route
    reads = []
    options = {"dtype": dtype, "calibration": False}
    streamed = build_streamed(
        stream_of(refs, reads), fusion, folder=tmp_path, block_bytes=SMALL_BLOCK, **options
    )
    whole = build(refs, fusion, **options)
    assert_same(streamed, whole, queries)
    assert streamed.settings == whole.settings
    first_pass = [row for rows in reads for row in rows.tolist()][: len(refs)]
    assert sorted(first_pass) == list(range(len(refs))), "every reference is read once"
    assert all(len(rows) <= 104 for rows in reads[: len(refs) // 104])


def test_more_dimensions_than_places_take_the_route_through_the_places(tmp_path):
    made = make_route(n_places=20, n_traversals=5, dim=32)
    streamed = build_streamed(
        stream_of(made.references), folder=tmp_path, block_bytes=1000, calibration=False, dtype="float32"
    )
    assert_same(streamed, build(made.references, calibration=False, dtype="float32"), made.queries)


def test_the_confidence_is_that_of_all_references(route, tmp_path):
    refs, queries = route
    streamed = build_streamed(stream_of(refs), folder=tmp_path, block_bytes=SMALL_BLOCK)
    whole = build(refs)
    np.testing.assert_allclose(
        streamed.locate(queries).confidence, whole.locate(queries).confidence, atol=1e-3
    )
    assert streamed.notes == whole.notes


@pytest.mark.filterwarnings("ignore:DisPlace falls back")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_is_known_about_drives_is_that_of_all_references(tmp_path, n):
    refs = make_route(n_places=150, n_traversals=n, dim=24, noise=0.4, seed=3).references
    info = Places(refs.place_ids, frames=np.arange(150.0))
    refs = ReferenceSet(refs.vectors, refs.places, refs.traversals, info=info)
    streamed = build_streamed(stream_of(refs), "hops", folder=tmp_path, block_bytes=SMALL_BLOCK)
    whole = build(refs, "hops")
    assert streamed.adapts("auto", 150) == whole.adapts("auto", 150) == "batch"
    assert streamed.state.driving == whole.state.driving


def test_a_saved_map_of_a_stream_needs_no_folder_and_can_be_updated(route, tmp_path):
    refs, queries = route
    work = tmp_path / "work"
    work.mkdir()
    some = refs.without("t3")
    place_map = build_streamed(
        stream_of(some), folder=work, block_bytes=SMALL_BLOCK, calibration=False, dtype="float32"
    )
    place_map.save(tmp_path / "town.displace")
    for file in work.iterdir():
        file.unlink()
    again = PlaceMap.load(tmp_path / "town.displace")
    whole = build(some, calibration=False, dtype="float32")
    assert_same(again, whole, queries)
    again.add(refs.only("t3"))
    whole.add(refs.only("t3"))
    assert_same(again, whole, queries)


def test_a_fusion_that_needs_all_references_says_so(route, tmp_path):
    with pytest.raises(InputError, match="cannot be fitted without all references in memory"):
        build_streamed(stream_of(route[0]), "single", folder=tmp_path)


def test_blocks_hold_whole_places_and_every_row_once():
    places = np.random.default_rng(0).integers(0, 30, 200)
    parts = place_blocks(places, row_bytes=4, block_bytes=100)
    assert sorted(np.concatenate(parts).tolist()) == list(range(200))
    for first, second in pairwise(parts):
        assert places[first].max() < places[second].min()
        assert (np.diff(first) > 0).all()
    assert max(map(len, place_blocks(places, 4, 1))) == np.bincount(places).max()


def test_a_digest_does_not_depend_on_order_or_blocks(route):
    refs, _ = route
    parts = np.array_split(np.random.default_rng(1).permutation(len(refs)), 7)
    in_parts = Digests()
    for rows in parts:
        in_parts.merge(Digests().add(refs.select(rows)))
    assert in_parts.result() == digests_of(refs)


@pytest.mark.parametrize("change", ["vector", "place", "missing", "sign of zero", "swapped"])
def test_a_digest_tells_references_apart(route, change):
    refs = route[0].only("t0")
    vectors, places = refs.vectors.copy(), refs.places.copy()
    if change == "vector":
        vectors[5, 3] = np.nextafter(vectors[5, 3], np.float32(2))
    elif change == "place":
        places[5] += 1
    elif change == "missing":
        vectors, places = vectors[1:], places[1:]
    elif change == "sign of zero":
        vectors[0, 0], refs = 0.0, ReferenceSet(np.where(vectors == vectors[0, 0], -0.0, vectors), places)
        vectors = np.where(vectors == vectors[0, 0], 0.0, vectors)
    else:
        vectors[[0, 1]] = vectors[[1, 0]]
    names = np.full(len(vectors), "t0")
    before = digests_of(ReferenceSet(refs.vectors, refs.places, np.full(len(refs), "t0")))
    assert digests_of(ReferenceSet(vectors, places, names)) != before


def test_digests_of_older_maps_are_still_compared(route):
    refs = route[0].only("t0", "t1")
    mixed = digests_of(refs, {"t0": "0" * 64, "t1": "sum:1:0"})
    assert len(mixed["t0"]) == 64
    assert mixed["t1"].startswith("sum:")


def test_confidence_of_many_references_is_learned_from_stretches_of_the_route(monkeypatch):
    monkeypatch.setattr("displace.maps.building.MAX_CALIBRATION", 400)
    monkeypatch.setattr("displace.maps.building.STRETCHES", 2)
    info = Places(np.arange(100), Positions(np.zeros((100, 2))))
    rows = calibration_rows(np.tile(np.arange(100), 2), info, dim=10)
    assert rows.tolist() == [*range(10), *range(90, 100), *range(100, 110), *range(190, 200)]
    assert len(calibration_rows(np.arange(40), Places(np.arange(40)), dim=10)) == 40


def test_progress_counts_every_reference_and_every_row(route, tmp_path):
    refs, _ = route
    told = []
    build_streamed(
        stream_of(refs),
        "hops",
        folder=tmp_path,
        block_bytes=SMALL_BLOCK,
        progress=lambda *step: told.append(step),
    )
    parts = [len(part) for part in place_blocks(refs.places, 4 * 24, SMALL_BLOCK)]
    reading = [step for step in told if step[0] == "reading"]
    assert reading == [("reading", done, len(refs)) for done in np.cumsum(parts).tolist()]
    assert [step for step in told if step[0] == "rows"][-1] == ("rows", 300, 300)
    folds = [step[1:] for step in told if step[0] == "calibrating"]
    assert folds == [(number, len(folds)) for number in range(1, len(folds) + 1)]


@pytest.mark.parametrize("model", [None, {"model": "hog"}])
def test_a_stream_is_described_as_it_was_given(route, tmp_path, model):
    refs, _ = route
    town = build_streamed(stream_of(refs), "hops", model, folder=tmp_path, calibration=False)
    assert town.model == model
    assert town.traversals == {f"t{i}": int((refs.traversals == f"t{i}").sum()) for i in range(4)}
