"""Details of the core that whole runs would hardly notice, each against the formula or by hand."""

from __future__ import annotations

import hashlib
import inspect
from functools import reduce
from typing import ClassVar

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from displace import PlaceMap, ReferenceSet, build, get_fusion, verbs
from displace.arrays import l2_normalize
from displace.datasets import robotcar
from displace.errors import InputError
from displace.files import tensors
from displace.fusion.solver import eigen, scatter
from displace.fusion.solver.scatter import Scatter
from displace.geo import Positions, radii_at
from displace.manifest.builder import build_manifest
from displace.manifest.place_assignment import Rule
from displace.maps.digests import Digests, digests_of
from displace.maps.rounding import quantize, rounded
from displace.places import Places
from displace.synthetic import make_route
from displace.truth import PlaceSets, SamePlace, Tolerance, Truth, WithinFrames, WithinMetres


@pytest.fixture(scope="module")
def refs():
    return make_route(n_places=30, n_traversals=3, dim=8).references


class TestScatter:
    def test_the_sum_between_places_takes_every_block(self, refs, monkeypatch):
        whole = Scatter.of(refs.vectors.astype(np.float64), refs.places)
        B = whole.between_rows()
        real = scatter.blocks
        monkeypatch.setattr(
            scatter, "blocks", lambda n, row_bytes: real(n, row_bytes=1, budget=7) if row_bytes else None
        )
        np.testing.assert_allclose(np.tril(whole.between()), np.tril(B.T @ B), atol=1e-12)

    def test_merging_and_subtracting_take_every_block(self, refs, monkeypatch):
        vectors = refs.vectors.astype(np.float64)
        real = scatter.blocks
        monkeypatch.setattr(scatter, "blocks", lambda n, row_bytes: real(n, 1, 7) if row_bytes else None)
        last = refs.traversals == "t2"
        joined = Scatter.of(vectors[~last], refs.places[~last])
        joined.merge(Scatter.of(vectors[last], refs.places[last]))
        monkeypatch.undo()
        expected = Scatter.of(vectors, refs.places)
        np.testing.assert_allclose(np.tril(joined.within), np.tril(expected.within), atol=1e-10)
        np.testing.assert_allclose(joined.means, expected.means, atol=1e-12)

    def test_a_pivot_of_the_size_of_rounding_is_no_pivot(self):
        def with_last(value):
            within = np.asfortranarray(np.diag([1.0, 1.0, value]).astype(np.float32))
            return Scatter(np.array([0]), np.array([1]), np.zeros((1, 3), np.float32), within)

        with pytest.raises(LinAlgError, match="not positive definite"):
            eigen._cholesky(with_last(7.5e-7), 0.0)  # of 4√3 roundings, 8.3e-7
        assert eigen._cholesky(with_last(9e-7), 0.0).shape == (3, 3)
        with pytest.raises(LinAlgError, match="not positive definite"):
            eigen._cholesky(
                with_last(-1.0), 0.0
            )  # no decomposition, though its diagonal is far from rounding


class TestBsf:
    """Two traversals of two places, the query at known distances from each."""

    distances = np.array([[0.2, 0.6], [0.21, 0.4]])

    def scores(self, **options):
        angles = np.arccos(1 - self.distances)
        vectors = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(4, 2)
        fusion = get_fusion("bsf")(**options).fit(vectors, [0, 1, 0, 1], [0, 0, 1, 1])
        matches = fusion.rank(np.array([[1.0, 0.0]]), k=2)
        return dict(zip(matches.places[0].tolist(), matches.scores[0].tolist(), strict=True))

    @pytest.mark.parametrize("likelihood", ["exponential", "gaussian"])
    def test_the_posterior_is_that_of_the_formula(self, likelihood):
        scores = self.scores(likelihood=likelihood, scale=0.3)
        scaled = self.distances / 0.3
        energy = (scaled if likelihood == "exponential" else scaled**2 / 2).mean(axis=0)
        expected = -energy - np.log(np.exp(-energy).sum())
        np.testing.assert_allclose([scores[0], scores[1]], expected, atol=1e-6)

    def test_a_traversal_farther_than_the_selection_is_left_out(self):
        scores = self.scores(selection=0.01, scale=0.3)
        energy = self.distances[0] / 0.3
        expected = -energy - np.log(np.exp(-energy).sum())
        np.testing.assert_allclose([scores[0], scores[1]], expected, atol=1e-6)

    def test_copies_of_the_query_are_at_no_negative_distance(self):
        vector = l2_normalize(np.random.default_rng(0).standard_normal((1, 64)).astype(np.float32))
        fusion = get_fusion("bsf")(likelihood="gaussian", scale=1e-4)
        fusion.fit(np.concatenate([vector, -vector, vector * 3, -vector]), [0, 1, 0, 1], [0, 0, 1, 1])
        similar = np.array([[[1 + 1e-3, 0.0], [1.0, 0.0]]], np.float32)
        np.testing.assert_allclose(fusion._fuse(similar)[0, 0], 0, atol=1e-6)


class TestSingle:
    def test_places_that_the_traversal_lacks_are_misses_when_it_is_chosen(self):
        """ "short" finds all that it has; "long", with twice the places, finds more in all."""
        E = np.eye(4)
        vectors = np.concatenate([E[:2], E, E])
        places = [0, 1, 0, 1, 2, 3, 0, 1, 2, 3]
        traversals = ["short"] * 2 + ["long"] * 4 + ["query"] * 4
        fusion = get_fusion("single")().fit(vectors, places, traversals)
        assert fusion.traversal_recalls_["short"] == 50
        assert fusion.traversal_recalls_["long"] == 100
        assert fusion.traversal_ in ("long", "query")

    def test_one_traversal_is_compared_with_none_and_two_are_with_each_other(self):
        E = np.eye(4)
        alone = get_fusion("single")().fit(E, [0, 1, 2, 3], ["a"] * 4)
        assert (alone.traversal_, alone.traversal_recalls_) == ("a", {})
        both = get_fusion("single")().fit(np.concatenate([E[:1], E]), [0, 0, 1, 2, 3], ["a"] + ["b"] * 4)
        assert both.traversal_recalls_ == {"a": 25, "b": 100}
        assert both.traversal_ == "b"

    def test_only_places_of_the_traversal_are_found(self):
        E = np.eye(3)
        fusion = get_fusion("single")(traversal="b").fit(
            np.concatenate([E, E[1:]]), ["x", "y", "z", "y", "z"], ["a"] * 3 + ["b"] * 2
        )
        assert fusion.place_ids_.tolist() == ["y", "z"]
        np.testing.assert_array_equal(fusion.predict(E[1:]), ["y", "z"])


class TestTruth:
    @pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int16])
    def test_frames_of_unsigned_numbers_have_neighbours_on_both_sides(self, dtype):
        frames = np.array([0, 1, 5], dtype)
        rule = WithinFrames(frames, 2)
        ranked = np.array([[2, 3], [0, 4], [7, 2]], dtype)
        assert rule.correct(ranked).tolist() == [[True, False], [True, False], [True, False]]
        assert rule.answerable(np.array([3], dtype)).tolist() == [False, True, True]
        assert rule.answerable(np.array([8, 3], dtype)).tolist() == [False, True, True]
        assert rule.answerable(np.array([7, 2], dtype)).tolist() == [True, True, True]
        assert WithinFrames(np.array([7, 5], dtype), 1).answerable(np.array([3, 8], dtype)).tolist() == [
            True,
            False,
        ]

    def test_the_nearest_place_on_either_side_can_answer(self):
        known = np.array([0, 3, 5, 9, 20])
        rule = WithinFrames(np.array([6, 8, 7, 12, 19, 30]), 1)
        assert rule.answerable(known).tolist() == [True, True, False, False, True, False]

    def test_what_can_be_answered_by_frames(self):
        places = Places(np.array(["a", "b", "c", "d"]), frames=[0, 1, 5, np.nan])
        truth = Truth.of(places, "1 frames")
        asked = places.ids
        assert truth.answerable(asked, np.array(["a"])).tolist() == [True, True, False, False]
        assert truth.answerable(asked, np.array(["d"])).tolist() == [False, False, False, True]
        assert truth.answerable(asked, np.array(["b", "d"])).tolist() == [True, True, False, True]

    def test_what_can_be_answered_by_metres(self):
        points = np.array([[0.0, 0.0], [24.9, 0.0], [50.1, 0.0], [np.nan, np.nan]])
        places = Places(np.array([1, 2, 3, 4]), Positions(points))
        truth = Truth.of(places, "25m")
        assert truth.answerable(places.ids, np.array([1])).tolist() == [True, True, False, False]
        assert truth.answerable(places.ids, np.array([4])).tolist() == [False, False, False, True]
        assert truth.correct(np.array([2, 3, 4, 4]), np.array([1, 1, 4, 1])).tolist() == [
            True,
            False,
            True,
            False,
        ]

    @pytest.mark.parametrize(
        ("text", "kind", "value"),
        [
            ("exact", "exact", 0),
            (" 5 Frames ", "frames", 5),
            ("1 frame", "frames", 1),
            ("0frames", "frames", 0),
            ("25m", "metres", 25),
            ("2.5 metres", "metres", 2.5),
            ("7 meters", "metres", 7),
            ("12", "metres", 12),
            (0, "metres", 0),
            (3.5, "metres", 3.5),
        ],
    )
    def test_tolerances_as_people_write_them(self, text, kind, value):
        assert Tolerance.parse(text) == Tolerance(kind, value)
        assert Tolerance.parse(Tolerance(kind, value)) == Tolerance(kind, value)

    @pytest.mark.parametrize("text", [-1, np.inf, np.nan, "2.5 frames", "far", "m", "", "1.2.3m", "-5m"])
    def test_what_is_no_tolerance(self, text):
        with pytest.raises(InputError, match="tolerance"):
            Tolerance.parse(text)

    def test_which_tolerance_is_meant(self):
        ids = np.array([1, 2])
        bare, numbered = Places(ids), Places(ids, frames=[0, 1])
        located = Places(ids, Positions(np.zeros((2, 2))))
        nowhere = Places(ids, Positions(np.full((2, 2), np.nan)))
        assert Truth.of(located).tolerance == Tolerance("metres", 25)
        assert [Truth.of(places).name for places in (bare, numbered, nowhere)] == ["exact place"] * 3
        assert Truth.of(located, "exact").name == "exact place"
        assert Truth.of(numbered, "1 frames").name == "±1 frames"
        for places, tolerance, missing in (
            (bare, "5m", "positions"),
            (nowhere, "5m", "positions"),
            (located, "1 frames", "order"),
        ):
            with pytest.raises(InputError, match=f"needs .*{missing}"):
                Truth.of(places, tolerance)

    def test_just_near_enough_is_right(self):
        truth = Truth.of(
            Places(np.array([1, 2, 3]), Positions(np.array([[0, 0], [0, 25], [0, 25.1]]))), "25m"
        )
        assert truth.correct(np.array([1, 1]), np.array([2, 3])).tolist() == [True, False]
        assert truth.answerable(np.array([2, 3]), np.array([1])).tolist() == [True, False]
        within = WithinMetres(np.zeros((1, 2)), 25, np.array([2, 3]), np.array([[0.0, 25.0], [0.0, 25.1]]))
        assert within.correct(np.array([[2, 3]])).tolist() == [[True, False]]
        assert [within.answerable(np.array([place])).tolist() for place in (2, 3)] == [[True], [False]]
        assert within.answerable(None).tolist() == [True]

    def test_metres_are_as_long_in_every_town_of_a_map(self):
        """Of a map of Oslo and Madrid, 25 m were 19 m in the one and 29 m in the other."""
        step = np.degrees(24 / radii_at(59.9)[0]), np.degrees(26 / radii_at(40.4)[0])
        points = [[59.9, 10.7], [59.9, 10.7 + step[0]], [40.4, -3.7], [40.4, -3.7 + step[1]]]
        truth = Truth.of(Places(np.arange(4), Positions(points, degrees=True)), "25m")
        assert truth.correct(np.array([1, 3]), np.array([0, 2])).tolist() == [True, False]
        assert truth.answerable(np.array([1, 3]), np.array([0, 2])).tolist() == [True, False]

    def test_ids_of_another_kind_are_named(self):
        rule = WithinFrames(np.array([1]), 1, np.array(["a", "b"]), np.array([0, 1]))
        for asked in (lambda: rule.correct(np.array([[1, 2]])), lambda: rule.answerable(np.array([1]))):
            with pytest.raises(InputError, match="use one kind of place id in both"):
                asked()
        with pytest.raises(InputError, match="'c' has no frame or position"):
            rule.correct(np.array([["a", "c"]]))
        assert rule.answerable(None).tolist() == [True]

    def test_what_is_counted_is_what_the_tolerance_says(self):
        """Places that have both: two that are near each other on the ground and far apart along the route."""
        places = Places(np.array([1, 2]), Positions(np.array([[0.0, 0.0], [0.5, 0.0]])), frames=[0, 50])
        asked = np.array([1]), np.array([2])
        for tolerance, right in (("1 frames", False), ("exact", False), ("1m", True), ("50 frames", True)):
            assert Truth.of(places, tolerance).correct(*asked).tolist() == [right]
        same = Places(np.array([1, 2]), frames=[7, 7])  # two cameras, or two lanes
        assert Truth.of(same, "exact").correct(*asked).tolist() == [False]
        assert Truth.of(same, "0 frames").correct(*asked).tolist() == [True]

    def test_places_alone_are_their_own_frames(self):
        rule = WithinFrames(np.array([4]), 1, np.array([3, 9]))
        assert rule.correct(np.array([[3, 9]])).tolist() == [[True, False]]
        assert rule.answerable(None).tolist() == [True]

    def test_rules_have_lengths_and_shapes(self):
        sets = PlaceSets([["a"], [], ["b", "c"]])
        assert sets.correct(np.array([["a", "b"]] * 3)).tolist() == [
            [True, False],
            [False, False],
            [False, True],
        ]
        assert sets.answerable(None).tolist() == [True, False, True]
        assert sets.answerable(np.array(["c", "d"])).tolist() == [False, False, True]
        same = SamePlace(np.array(["a", "b"]))
        assert same.answerable(None).tolist() == [True, True]
        assert same.answerable(np.array(["b"])).tolist() == [False, True]
        assert [len(rule) for rule in (sets, same, WithinFrames(np.arange(4), 1))] == [3, 2, 4]
        assert sets.correct(np.empty((3, 0), str)).shape == (3, 0)


class TestRounding:
    def test_int8_takes_the_nearest_code(self):
        rows = l2_normalize(np.random.default_rng(0).standard_normal((20, 33)).astype(np.float32))
        stored, scales = quantize(rows, "int8")
        assert np.abs(stored).max(axis=1).tolist() == [127] * 20
        error = np.abs(rounded(rows, "int8") - rows) / scales[:, None]
        assert error.max() <= 0.5 + 1e-4
        assert (
            abs(float((rounded(rows, "int8") - rows).mean() / scales.mean())) < 0.03
        )  # no side is preferred

    def test_rows_of_zeros_stay(self):
        np.testing.assert_array_equal(rounded(np.zeros((2, 3), np.float32), "int8"), 0)


class TestDigest:
    @pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 16, 17])
    def test_every_byte_counts(self, monkeypatch, n):
        monkeypatch.setattr(tensors, "CHUNK", 8)
        content = np.arange(n, dtype=np.uint8)
        assert tensors.payload_digest({"x": content}) == hashlib.sha256(content.tobytes()).hexdigest()

    def test_of_a_mapped_file_too(self, monkeypatch, tmp_path):
        monkeypatch.setattr(tensors, "CHUNK", 8)
        (tmp_path / "x").write_bytes(bytes(range(21)))
        mapped = np.memmap(tmp_path / "x", np.uint8, mode="r", offset=2)
        assert tensors.payload_digest({"x": mapped}) == hashlib.sha256(bytes(range(2, 21))).hexdigest()


class TestMarks:
    """Marks of traversals stand in the statistics of maps: other ones would make every map one of other references."""

    refs = ReferenceSet(
        np.arange(15, dtype=np.float32).reshape(5, 3) / 7,
        ["gate", "tower", "gate", "x", "y"],
        ["sun", "sun", "rain", "rain", "rain"],
    )
    marks: ClassVar = {
        "rain": "sum:3:d225fd963c71f4308ee33c3863c35415",
        "sun": "sum:2:3c66ef76be33efff4adeaf39e7a735f4",
    }

    def test_they_stay_what_they_are(self):
        assert digests_of(self.refs) == self.marks
        even = ReferenceSet(np.arange(8, dtype=np.float32).reshape(2, 4) / 7, [1, 2], ["a", "a"])
        assert digests_of(even) == {"a": "sum:2:15a96892ecb592af60af661c5ccd5ef9"}
        before = "321c9cc91a03ce9ac32a940786c00413550e1724e285c282ef41402cb1e959b8"
        assert digests_of(even, {"a": "of an older map"}) == {"a": before}

    def test_in_parts_too(self):
        parts = [Digests().add(self.refs.select([row])) for row in (4, 2, 0, 3, 1)]
        assert reduce(Digests.merge, parts).result() == self.marks


class TestUpdates:
    def test_adding_and_removing_again_is_the_map_before(self, refs, tmp_path):
        """In float64: in float32 the rows would differ by more than their own rounding."""
        small = ReferenceSet(refs.vectors + 100, refs.places, refs.traversals)  # a mean far from zero
        town = build(small.without("t2"), "displace", calibration=False, dtype="float32")
        town.save(tmp_path / "town")
        before = PlaceMap.load(tmp_path / "town")
        town.add(small.only("t2"))
        town.remove(small.only("t2"))
        old, new = (np.array(a.statistics.loaded().arrays["within"]) for a in (before, town))
        assert np.abs(old - new).max() <= 2e-6 * np.abs(old).max()

    def test_adding_several_traversals_rounds_once(self):
        """Means far from zero, of several new references each: in float32 they would be off by a thousand roundings."""
        refs = make_route(n_places=30, n_traversals=5, dim=8).references
        far = ReferenceSet(refs.vectors + 100, refs.places, refs.traversals)
        town = build(far.only("t0", "t1"), "displace", calibration=False, dtype="float32")
        before = Scatter.from_arrays(town.statistics.loaded().arrays).astype(np.float64)
        town.add(far.without("t0", "t1"))
        after = Scatter.from_arrays(town.statistics.loaded().arrays)
        new = far.without("t0", "t1").astype(np.float64)
        deviations = new.vectors.reshape(3, 30, 8) - new.vectors.reshape(3, 30, 8).mean(axis=0)
        apart = new.vectors.reshape(3, 30, 8).mean(axis=0) - before.means
        within = np.einsum("kpi,kpj->ij", deviations, deviations) + 2 * 3 / 5 * apart.T @ apart
        within += before.within
        np.testing.assert_allclose(
            np.tril(after.within), np.tril(within), rtol=0, atol=2e-7 * np.abs(within).max()
        )

    @pytest.mark.parametrize(("n_far", "refused"), [(14, False), (16, True)])
    def test_the_median_decides_whether_a_recording_is_of_somewhere_else(self, refs, n_far, refused):
        here = np.stack([np.arange(30.0) * 5, np.zeros(30)], axis=1)
        there = here.copy()
        there[:n_far] += 1000
        town = build(refs.without("t2"), "hops", calibration=False, positions=Positions(here))
        if refused:
            with pytest.raises(InputError, match="they are other places"):
                town.add(refs.only("t2"), Positions(there))
        else:
            assert town.add(refs.only("t2"), Positions(there)).n_references == 30


def test_rules_of_places():
    assert Rule() == Rule(spacing=5.0, radius=10.0, max_heading=45.0)
    for made in (build_manifest, verbs.manifest):
        options = inspect.signature(made).parameters
        assert Rule(*(options[name].default for name in ("spacing", "radius", "max_heading"))) == Rule()
    assert Rule(spacing=1.0, radius=2.5, max_heading=45.0) == robotcar._SPACING


@pytest.mark.parametrize("k", [1.5, True, 0, -1, "3", None])
def test_a_number_of_places_is_whole_and_positive(refs, k):
    town = build(refs, "hops", calibration=False)
    for asked in (town.locate, get_fusion("hops")().fit_references(refs).rank):
        with pytest.raises(InputError, match=rf"k={k!r} must be a whole number of at least 1"):
            asked(refs.vectors[:2], k=k)


@pytest.mark.parametrize("ids", [["9" * 5000, "1"], [10**5000, 1]])
def test_ids_of_thousands_of_digits_are_refused_in_a_line(ids):
    with pytest.raises(InputError, match=r"at most 1000 are possible|use strings") as refused:
        ReferenceSet(np.eye(2), ids, ["a", "a"])
    assert len(str(refused.value)) < 200


def test_equal_references_give_equal_bytes(refs, tmp_path):
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        build(refs, dtype="int8").save(folder / "town.displace")
    for suffix in ("", "-stats"):
        one, two = ((tmp_path / name / f"town.displace{suffix}").read_bytes() for name in ("one", "two"))
        assert one == two
