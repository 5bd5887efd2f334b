from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from displace import PlaceMap, ReferenceSet, build, get_fusion
from displace.errors import InputError
from displace.maps.streaming import build_streamed
from displace.places import Places
from displace.references import ReferenceStream, occurrence, slot_of_each
from displace.synthetic import make_route


def test_traversals_by_name():
    refs = ReferenceSet.from_traversals(
        {"sun": np.eye(3), "rain": 2 * np.eye(3)}, places=["gate", "tower", "bridge"]
    )
    assert refs.place_ids.tolist() == ["bridge", "gate", "tower"]
    assert refs.traversal_ids.tolist() == ["rain", "sun"]
    np.testing.assert_array_equal(refs.only("rain").vectors, 2 * np.eye(3))
    np.testing.assert_array_equal(refs.without("rain").vectors, np.eye(3))
    assert len(refs) == 6


def test_labels_of_any_one_kind_are_kept():
    labels = (["b", "a"], np.array(["b", "a"], object), [2, 1], np.array([2, 1], object), [2.0, 1.0])
    for ids in labels:
        refs = ReferenceSet(np.eye(2), ids, ids)
        assert refs.place_ids.tolist() == refs.traversal_ids.tolist() == sorted(ids)


def test_without_traversals_the_jth_reference_is_in_traversal_j():
    refs = ReferenceSet(np.ones((5, 2)), ["a", "b", "a", "a", "b"])
    assert refs.traversals.tolist() == [0, 0, 1, 2, 1]


@given(st.lists(st.integers(0, 4), max_size=30))
def test_occurrence_counts_what_came_before(values):
    expected = [values[:i].count(v) for i, v in enumerate(values)]
    assert occurrence(np.array(values, np.intp)).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc")), min_size=1, max_size=30))
def test_a_slot_holds_a_place_once_and_belongs_to_one_traversal(pairs):
    places, traversals = np.array([p for p, _ in pairs]), np.array([t for _, t in pairs])
    slots = slot_of_each(places, traversals)
    assert len(set(zip(slots.tolist(), places.tolist(), strict=True))) == len(pairs)
    assert all(len(set(traversals[slots == s])) == 1 for s in range(slots.max() + 1))
    # A second image of one place in one traversal opens a slot; nothing else does.
    expected = sum(max(pairs.count((p, t)) for p in range(5)) for t in set(traversals.tolist()))
    assert slots.max() + 1 == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReferenceSet(np.ones((2, 3)), [0]), r"places must have shape \(2,\)"),
        (lambda: ReferenceSet(np.ones((2, 3)), [0, 1], ["sun"]), r"traversals must have shape \(2,\)"),
        (lambda: ReferenceSet(np.eye(2), [0, np.nan]), "places has nan in row 1, which names nothing"),
        (lambda: ReferenceSet(np.eye(2), [None, "a"]), "places has None in row 0, which names nothing"),
        (
            lambda: ReferenceSet(np.eye(2), np.array([1, "a"], object)),
            "places has both 'a' and 1: use strings",
        ),
        (lambda: ReferenceSet(np.eye(2), [0, 1], [0.5, np.nan]), "traversals has nan in row 1"),
        (
            lambda: ReferenceSet(np.eye(2), [0, 1], np.array(["a", 2], object)),
            "traversals has both 'a' and 2",
        ),
        (lambda: ReferenceSet(np.eye(2), ["a", np.nan]), "places has nan in row 1, which names nothing"),
        (lambda: ReferenceSet(np.eye(2), ("a", 1)), "places has both 'a' and 1"),
        (lambda: ReferenceSet(np.eye(2), [0, 1], [1, "a"]), "traversals has both 'a' and 1"),
        (
            lambda: ReferenceSet.from_traversals({1: np.eye(2), "b": np.eye(2)}),
            "traversals has both 'b' and 1",
        ),
        (lambda: ReferenceSet.from_traversals({"b": np.eye(2)}, ["a", 1]), "places has both 'a' and 1"),
        (lambda: get_fusion("hops")().fit(np.eye(2), ["a", np.nan]), "y has nan in row 1"),
        (lambda: get_fusion("displace")().fit(np.eye(2), ["a", 1]), "y has both 'a' and 1"),
        (lambda: get_fusion("hops")().fit(np.eye(2), [0, 1], ["a", 1]), "traversals has both 'a' and 1"),
        (lambda: ReferenceSet(np.eye(2), np.ma.masked_equal([0, 1], 1)), "places has masked entries"),
        (lambda: get_fusion("hops")().fit(np.ma.masked_equal(np.eye(2), 1), [0, 1]), "X has masked entries"),
        (lambda: get_fusion("hops")().fit(np.eye(2), np.ma.masked_equal([0, 1], 1)), "y has masked entries"),
        (lambda: ReferenceSet.from_traversals({}), "at least one traversal"),
        (lambda: ReferenceSet.from_traversals({"a": 3}), r"traversals\['a'\] must have shape \(m, D\); got"),
        (lambda: ReferenceSet(np.eye(2), [[1], [2, 3]]), "places cannot be read as an array"),
        (lambda: ReferenceSet.from_traversals([np.eye(2)]), "traversals must be a mapping .* got list"),
        (lambda: ReferenceSet(np.eye(2), [0, 1]).select(np.ones(3, bool)), "keep does not fit 2 references"),
        (lambda: ReferenceSet(np.eye(2), [0, 1]).select(np.array([2])), "keep does not fit 2 references"),
        (lambda: Places(np.arange(2), frames=["a", "b"]), "frames must be numbers"),
        (lambda: Places(["p9", "p10"]), "ids must be sorted, each once; got 'p10' after 'p9'"),
        (lambda: Places(np.array([1, 4, 4])), "ids must be sorted, each once; got 4 after 4"),
        (
            lambda: ReferenceSet.from_traversals({"a": np.eye(2), "a\0": np.eye(2)}),
            "traversals has .* ends with a NUL",
        ),
        (
            lambda: ReferenceSet.from_traversals({"a": np.eye(2)}, ["p", "p\0"]),
            "places has .* in row 1, which ends with a NUL",
        ),
        (lambda: ReferenceSet.from_traversals({"a": np.eye(2), "b": np.ones((3, 2))}), "must have one shape"),
        (lambda: ReferenceSet(np.eye(2), [0, 1], ["a", "b"]).only("c"), "no traversal 'c'; there are a, b"),
    ],
)
def test_bad_references_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.array([1.0, 7.0]), [1, 7]),
        (np.array([1, 7], dtype=object), [1, 7]),
        (np.array([1.0, 7], dtype=object), [1, 7]),
        (np.array([1, 7], np.uint8), [1, 7]),
        (np.array([1, 2**63 - 1], np.uint64), [1, 2**63 - 1]),
        (np.array(["a", "b"], dtype=object), ["a", "b"]),
    ],
)
def test_ids_become_integers_or_text(given, kept):
    refs = ReferenceSet(np.eye(2), given, ["t", "t"])
    assert refs.places.tolist() == kept
    assert refs.places.dtype.kind in "iU"
    assert refs.places.dtype.kind == "U" or refs.places.dtype == np.int64


@pytest.mark.parametrize("where", ["places", "traversals"])
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array([1.5, 2.0]), "must be integers or strings; got 1.5"),
        (np.array([1.0, np.inf]), "must be integers or strings; got inf"),
        (np.array([1.0, 2.0**60]), r"beyond ±\d+: use strings"),
        (np.array([1, 2**63], np.uint64), r"above \d+: use strings"),
        (np.array([1, 10**30], dtype=object), r"beyond ±\d+: use strings"),
        (np.array([b"a", b"b"]), "decode them first"),
        (np.array([b"a", b"b"], dtype=object), "got b'a' of type bytes"),
        (np.array([True, False]), "bool"),
        (np.array([True, False], dtype=object), "got True of type bool"),
        (np.array(["2020", "2021"], "M8[Y]"), "use whole numbers or strings"),
        (["gate\0", "mill"], "ends with a NUL character"),
        (np.array(["gate\0", "mill"], dtype=object), "ends with a NUL character"),
        (["ga\0te", "mill"], "a NUL character in it"),
        (["ga\ud800te", "mill"], "no valid text in it"),
        (["g" * 1001, "mill"], "a name of 1001 characters; at most 1000"),
        (np.array(["g" * 1001, "mill"], dtype=object), "a name of 1001 characters; at most 1000"),
    ],
)
def test_ids_that_no_file_could_keep_are_refused(where, ids, message):
    other = {"places": "traversals", "traversals": "places"}[where]
    with pytest.raises(InputError, match=f"{where}.*{message}"):
        ReferenceSet(np.eye(2), **{where: ids, other: [0, 1]})


@pytest.mark.parametrize("ids", [np.array([3.0, 1.0, 2.0]), ["日本", "", "0" * 64], ["a b", " a", "a\n"]])
def test_whatever_ids_are_taken_a_map_of_them_loads(tmp_path, ids):
    refs = ReferenceSet(np.tile(np.eye(3), (2, 1)), [*ids, *ids], ["0" * 64] * 3 + ["\r"] * 3)
    build(refs, "hops", calibration=False).save(tmp_path / "town.displace")
    assert PlaceMap.load(tmp_path / "town.displace").place_ids.tolist() == sorted(ids)


@pytest.mark.parametrize("fusion", ["displace", "hops", "pooling", "single"])
def test_no_references_make_no_map(tmp_path, fusion):
    some = ReferenceSet(np.eye(4), [0, 1, 0, 1], ["sun", "sun", "rain", "rain"])
    for none in (some.only(), some.without("sun", "rain"), ReferenceSet(np.empty((0, 4)), [])):
        with pytest.raises(InputError, match="there are no references to build a map of"):
            build(none, fusion)
        stream = ReferenceStream(none.places, none.traversals, none.info, none.dim, none.vectors.__getitem__)
        with pytest.raises(InputError, match="there are no references to build a map of"):
            build_streamed(stream, fusion, folder=tmp_path)


@pytest.mark.parametrize("scale", [1e-40, 1e-35, 1e35])
def test_references_whose_squares_are_no_numbers_are_refused(scale):
    vectors = (np.eye(3) * scale).astype(np.float32)
    with pytest.raises(InputError, match=r"vectors have numbers up to .*: scale them"):
        ReferenceSet(vectors, [0, 1, 2])
    with pytest.raises(InputError, match=r"X have numbers up to .*: scale them"):
        get_fusion("displace")().fit(np.concatenate([vectors, vectors]), [0, 1, 2, 0, 1, 2])
    assert len(ReferenceSet(np.zeros((2, 2)), [0, 1])) == 2


@pytest.mark.parametrize("fusion", ["displace", "hops", "pooling"])
def test_a_map_of_the_largest_references_is_saved_and_updated(tmp_path, fusion):
    """Of larger ones it could be built, but not saved: its squared distances were no numbers of float32."""
    refs = make_route(n_places=30, n_traversals=3, dim=16).references
    largest = refs.vectors * np.float32(1e15 / np.abs(refs.vectors).max())
    with pytest.raises(
        InputError, match=r"vectors have numbers up to 1.0e\+16, and 1e-30 to 1e\+15 is possible"
    ):
        ReferenceSet(10 * largest, refs.places, refs.traversals)
    refs = ReferenceSet(largest, refs.places, refs.traversals)
    town = build(refs.only("t0", "t1"), fusion)
    town.save(tmp_path / "town.displace")
    town = PlaceMap.load(tmp_path / "town.displace")
    town.add(refs.only("t2"))
    town.save(tmp_path / "town.displace")
    assert (town.locate(largest[:30]).places[:, 0] == refs.places[:30]).mean() > 0.5


def test_selecting_all_references_copies_none():
    """They may be most of the memory there is."""
    refs = ReferenceSet(np.eye(4, dtype=np.float32), [0, 0, 1, 1], ["a", "b"] * 2)
    assert refs.select(np.ones(4, bool)) is refs
    assert refs.select(np.arange(4)) is refs
    np.testing.assert_array_equal(refs.select([3, 2, 1, 0]).vectors, refs.vectors[::-1])
