"""Parts of maps in detail: rounding, its price, the basis, samples, and what an update refuses."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from displace import DisPlace, PlaceMap, ReferenceSet, build, get_fusion
from displace.arrays import l2_normalize
from displace.errors import FormatError, InputError
from displace.files import tensors
from displace.fusion.base import Rows
from displace.fusion.solver.kept_references import KeptReferences, KeptViews
from displace.fusion.solver.scatter import Scatter
from displace.geo import Positions
from displace.maps import driving, file, relearning, rounding, samples, state, streaming
from displace.maps.calibration import area_under_curve
from displace.maps.checking import check_row_places
from displace.maps.digests import digests_of
from displace.maps.file import packed, unpacked
from displace.maps.fitting import spectrum_note
from displace.maps.rounding import (
    RecallLoss,
    agreement,
    in_stable_basis,
    quantize,
    stable_rotation,
    within_unit,
)
from displace.maps.samples import KEPT, Samples
from displace.maps.statistics import MapStatistics, StatisticsFile
from displace.maps.streaming import place_blocks
from displace.places import Places
from displace.references import ReferenceStream
from displace.synthetic import make_route
from displace.truth import Tolerance, Truth


@pytest.fixture(scope="module")
def refs():
    return make_route(n_places=40, n_traversals=3, dim=16, noise=0.3, seed=4).references


class TestRounding:
    @pytest.mark.parametrize("sign", [1, -1])
    def test_the_largest_number_is_inside(self, sign):
        assert within_unit(np.array([[sign * rounding.LARGEST, 0.0]]))
        assert not within_unit(np.array([[sign * np.nextafter(rounding.LARGEST, 2), 0.0]]))
        half = np.float16(rounding.LARGEST)
        assert within_unit(np.array([[sign * half]], np.float16))
        assert not within_unit(np.array([[sign * np.nextafter(half, np.float16(2))]], np.float16))

    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    @pytest.mark.parametrize(
        ("value", "inside"), [(1.0, True), (1.009, True), (1.02, False), (np.nan, False), (np.inf, False)]
    )
    @pytest.mark.parametrize("sign", [1, -1])
    def test_numbers_of_unit_vectors(self, dtype, value, inside, sign):
        assert within_unit(np.array([[0.5, sign * value], [0.1, -0.2]], dtype)) == inside
        assert within_unit(np.empty((0, 2), dtype))

    def test_eight_bits_have_a_scale_each(self):
        rows = np.array([[0.5, -1.0, 0.25], [0.0, 0.0, 0.0], [0.1, 0.05, -0.1]], np.float32)
        stored, scales = quantize(rows, "int8")
        assert stored.tolist() == [[64, -127, 32], [0, 0, 0], [127, 64, -127]]
        np.testing.assert_allclose(scales, np.array([1, 1e-12, 0.1]) / 127, rtol=1e-6)
        assert quantize(rows, "float16")[1] is None

    def test_what_is_lost_is_counted_over_the_places_that_are_there(self, refs, monkeypatch):
        """Rows whose signs are all that is left, against rows as they are, one query after the other."""
        rest, asked = refs.without("t2").select(refs.without("t2").places != 7), refs.only("t2")
        fusion = get_fusion("hops")().fit_references(rest)
        monkeypatch.setattr(
            rounding, "rounded", lambda rows, dtype: rows if dtype == "float32" else np.sign(rows)
        )
        loss = RecallLoss("int8", Truth.of(refs.info))
        assert loss.notes() == {}
        loss.watch(fusion, asked)
        queries = asked.select(asked.places != 7)
        unit, rows = l2_normalize(queries.vectors), fusion.rows().vectors
        right = {
            name: fusion.place_ids_[(unit @ kept.T).argmax(axis=1)] == queries.places
            for name, kept in (("float32", rows), ("int8", np.sign(rows)))
        }
        expected = {name: round(100 * float(hits.mean()), 2) for name, hits in right.items()}
        assert loss.notes() == {"recall_at_1": expected, "n_queries": 39}
        assert not np.array_equal(right["float32"], right["int8"])
        loss.watch(fusion, asked)
        assert loss.notes() == {"recall_at_1": expected, "n_queries": 78}
        monkeypatch.setattr(rounding, "MAX_QUERIES", 5)
        loss.watch(fusion, asked)
        assert loss.notes()["n_queries"] == 83

    def test_agreement_is_that_of_the_best_places(self, monkeypatch):
        rows = l2_normalize(np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32))
        assert agreement(rows, np.arange(60), "float16") == {"same_top_match": 100.0}
        monkeypatch.setattr(
            rounding, "rounded", lambda rows, dtype: rows if dtype == "float32" else rows[::-1]
        )
        assert agreement(rows, np.arange(60), "int8")["same_top_match"] < 10
        assert agreement(rows, np.zeros(60, int), "int8") == {"same_top_match": 100.0}


class TestBasis:
    def test_a_projection_and_its_turns_are_brought_to_the_same_basis(self):
        rng = np.random.default_rng(0)
        P, mean = rng.standard_normal((9, 4)).astype(np.float32), rng.standard_normal(9).astype(np.float32)
        rows = rng.standard_normal((5, 4)).astype(np.float32)
        turn = np.linalg.qr(rng.standard_normal((4, 4)))[0].astype(np.float32)
        one, other = (
            in_stable_basis(Rows(rows @ by, np.arange(5), P @ by, mean))
            for by in (np.eye(4, dtype=np.float32), turn)
        )
        np.testing.assert_allclose(one.projection, other.projection, atol=1e-5)
        np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-5)
        queries = rng.standard_normal((3, 9)).astype(np.float32)
        before, after = (r.project(queries) @ r.vectors.T for r in (Rows(rows, np.arange(5), P, mean), one))
        np.testing.assert_allclose(after, before, atol=1e-5)
        assert one.projection.dtype == one.vectors.dtype == one.mean.dtype == np.float32

    @pytest.mark.parametrize(
        ("shape", "turns"), [((9, 8), True), ((9, 9), False), ((600, 512), True), ((600, 513), False)]
    )
    def test_wide_and_square_ones_stay(self, shape, turns):
        assert (stable_rotation(np.ones(shape, np.float32)) is not None) == turns
        assert stable_rotation(None) is None


def test_statistics_may_be_called_almost_anything(tmp_path):
    refs = make_route(n_places=5, n_traversals=2, dim=4).references
    own = {"places_seen": np.arange(3.0), "traversals": np.ones(2)}
    with pytest.raises(InputError, match=r"'traversals'.*call them otherwise"):
        MapStatistics(own)
    own["traversals_seen"] = own.pop("traversals")
    for kept in (None, refs):
        MapStatistics(own, kept).write(tmp_path / "stats", "x")
        again = StatisticsFile(path=tmp_path / "stats").loaded()
        assert again.arrays.keys() == own.keys()
        assert (again.references is None) == (kept is None)


class TestSamples:
    def samples(self):
        labels = np.array([1, 0, -1, 1, 1], np.int8)
        return Samples(
            np.arange(20.0).reshape(5, 4), labels, np.array([0, 0, 1, 2, 2], np.int8), ["a", "b", "a"]
        )

    def test_folds_and_traversals(self):
        samples = self.samples()
        assert samples.right.tolist() == [True, False, False, True, True]
        assert samples.traversals == ["a", "b"]
        assert samples.without(["a"]).evidence[:, 0].tolist() == [8]
        assert len(samples.without(["a", "b"]).without(["a"])) == 0

    def test_what_traversals_that_went_had_leaves_nothing_behind(self):
        rest = self.samples().without(["b"])
        assert (rest.folds.tolist(), rest.names) == ([0, 0, 1, 1], ["a", "a"])
        samples = self.samples()
        for _ in range(200):  # a recording that is replaced every day
            samples = samples.without(["b"]).joined(self.samples()).thinned().without(["a"])
        assert (samples.folds.tolist(), samples.names) == ([0], ["b"])

    def test_a_map_may_keep_many_folds(self, tmp_path):
        town = build(make_route(n_places=12, n_traversals=2, dim=8).references)
        samples = self.samples()
        for _ in range(99):
            samples = samples.joined(self.samples())
        town.changed(samples=samples).save(tmp_path / "town.displace")
        kept = PlaceMap.load(tmp_path / "town.displace").state.samples
        np.testing.assert_array_equal(kept.folds, samples.folds)
        assert kept.folds.max() == 299

    def test_joined_folds_are_others(self):
        joined = self.samples().joined(self.samples())
        assert joined.folds.tolist() == [0, 0, 1, 2, 2, 3, 3, 4, 5, 5]
        assert joined.names == ["a", "b", "a", "a", "b", "a"]
        assert len(joined) == 10

    def test_each_fold_is_thinned_by_itself(self):
        n = KEPT + 200
        folds = np.r_[np.zeros(n, np.int8), np.ones(3, np.int8)]
        many = Samples(
            np.arange(4.0 * (n + 3)).reshape(-1, 4), np.ones(n + 3, np.int8), folds, ["a", "b", "c"]
        )
        thin = many.thinned()
        assert np.bincount(thin.folds).tolist() == [KEPT, 3]
        assert thin.evidence[[0, KEPT - 1], 0].tolist() == [0, 4 * (n - 1)]
        nothing = self.samples().without(["a", "b"])
        assert len(nothing.thinned()) == 0


class TestPooled:
    def test_the_nearest_row_of_the_place_goes_and_each_once(self):
        kept = KeptReferences(np.eye(3)[[0, 1, 0, 2]], np.array(["a", "a", "b", "b"]))
        near = KeptReferences(np.eye(3)[[1]] + 0.9 * KeptReferences.rounding, np.array(["a"]))
        assert kept.subtract(near).vectors.tolist() == np.eye(3)[[0, 0, 2]].tolist()
        assert (kept.n_references, kept.place_ids.tolist()) == (3, ["a", "b"])
        for gone in (near, KeptReferences(np.eye(3)[[0]] + 1.1 * KeptReferences.rounding, np.array(["a"]))):
            with pytest.raises(InputError, match="a reference of place 'a' that is not in the map"):
                kept.subtract(gone)
        with pytest.raises(InputError, match="place 'c'"):
            kept.subtract(KeptReferences(np.eye(3)[[0]], np.array(["c"])))
        edge = KeptReferences(np.array([[0.0, 0, 1]]), np.array(["b"]))
        edge.vectors[0, 0] = KeptReferences.rounding
        assert KeptReferences(np.eye(3)[[2]], np.array(["b"])).subtract(edge).n_references == 0
        merged = kept.merge(KeptReferences(np.eye(3)[[1]], np.array(["a"])))
        assert merged.places.tolist() == ["a", "a", "b", "b"]
        assert merged.vectors[1].tolist() == [0, 1, 0]


@pytest.mark.parametrize(("dtype", "large"), [("int8", True), ("float16", False), ("float32", False)])
def test_rows_in_eight_bits_are_not_widened_where_they_are_many(refs, monkeypatch, dtype, large):
    town = build(refs, "hops", dtype=dtype, calibration=False)
    assert not town.state._too_large_widened
    monkeypatch.setattr(state.exact, "MAPPED_ABOVE", 4 * town.vectors.size - 1)
    assert town.state._too_large_widened is large
    searched = {kind: town.state.index(f"exact{kind}").rows for kind in ("", ":int8", ":float32")}
    if dtype == "int8":  # as stored, unless another kind is asked for
        assert (searched[""], searched[":int8"]) == (None, None)
    assert town.state.index("exact:float32").kind == "float32"
    monkeypatch.setattr(state.exact, "MAPPED_ABOVE", 4 * town.vectors.size)
    assert not town.state._too_large_widened


@pytest.mark.parametrize(("length", "whole"), [(1.005, True), (1.012, False)])
def test_scales_of_rows_that_are_searched_as_stored_are_those_of_unit_vectors(refs, length, whole):
    town = build(refs, "hops", dtype="int8", calibration=False)
    scales = town.state.scales.copy()
    scales[7] = length / 127
    searched = town.changed(scales=scales).state
    if whole:
        assert searched._index_as_stored().recall == 1.0
    else:
        with pytest.raises(FormatError, match="rows of the map are damaged"):
            searched._index_as_stored()


def test_rows_in_eight_bits_are_their_codes_times_their_scales(refs):
    town = build(refs, "hops", dtype="int8", calibration=False).state
    some = np.array([3, 0, 39])
    np.testing.assert_allclose(town.rows_at(some), town.vectors[some] * town.scales[some, None])
    np.testing.assert_allclose(np.linalg.norm(town.rows_at(some), axis=1), 1, atol=0.02)


def test_headings_that_are_not_known_are_kept(refs, tmp_path):
    headings = np.where(np.arange(40) % 3 == 0, np.nan, 90.0)
    places = Positions(np.stack([10.0 * np.arange(40), np.zeros(40)], axis=1), heading=headings)
    build(refs, "hops", positions=places, calibration=False).save(tmp_path / "town")
    np.testing.assert_array_equal(PlaceMap.load(tmp_path / "town").positions.heading, headings)


def test_statistics_are_of_the_format_that_the_first_release_reads(refs, tmp_path):
    build(refs, "hops", calibration=False).save(tmp_path / "town")
    header, _ = tensors.read(tmp_path / "town-stats", "displace statistics", 1)
    assert header["version"] == 1


@pytest.mark.parametrize(
    ("rows", "n_places"), [([], 0), ([0, 1, 1], 3), ([1, 1, 2], 3), ([0, 2], 3), ([1, 0], 2)]
)
def test_rows_of_no_place_or_out_of_order_are_refused(rows, n_places):
    with pytest.raises(ValueError, match="rows are not"):
        check_row_places(np.array(rows, np.int64), len(rows), n_places)
    check_row_places(np.array([0, 0, 1, 2]), 4, 3)


def test_the_level_off_the_map_is_the_lowest_of_all_drives(refs, monkeypatch):
    levels = iter([0.5, 0.2, 0.4])
    monkeypatch.setattr(driving, "_prior_level", lambda *_: next(levels))
    monkeypatch.setattr(driving, "LEAST_PLACES", 10)
    info = Places(refs.place_ids, frames=np.arange(40.0))
    route = ReferenceSet(refs.vectors, refs.places, refs.traversals, info=info)
    assert build(route, "hops", tolerance="1 frames").state.driving.level == 0.2


@pytest.mark.parametrize(("most", "measured"), [(40 * 16, True), (40 * 16 - 1, False)])
def test_of_a_stream_what_rounding_costs_is_measured_on_few_rows(refs, tmp_path, monkeypatch, most, measured):
    monkeypatch.setattr(streaming, "SMALL_ROWS", most)
    stream = ReferenceStream(refs.places, refs.traversals, refs.info, 16, lambda rows: refs.vectors[rows])
    town = streaming.build_streamed(stream, "hops", folder=tmp_path, calibration=False)
    assert ("same_top_match" in town.notes) is measured


@pytest.mark.parametrize("fusion", ["displace", "hops"])
def test_a_stream_tells_what_it_was_built_from(refs, tmp_path, fusion):
    stream = ReferenceStream(refs.places, refs.traversals, refs.info, 16, lambda rows: refs.vectors[rows])
    town = streaming.build_streamed(stream, fusion, folder=tmp_path, calibration=False)
    assert town.statistics.loaded().digests == digests_of(refs)


class TestFramesAroundTheGap:
    most = driving.MOST_FRAMES

    def test_few_are_all_taken(self):
        few = np.arange(self.most)
        assert driving._around_the_gap(few, few > 3) is few

    @pytest.mark.parametrize(("gap", "first"), [(None, 0.5), (0.6, 0.6), (0.01, 0.0), (0.99, 1.0)])
    def test_of_many_those_around_it(self, gap, first):
        n = 4 * self.most + 3
        answerable = np.ones(n, bool)
        if gap is not None:
            answerable[int(gap * n) : int(gap * n) + 5] = False
        taken = driving._around_the_gap(10 * np.arange(n), answerable)
        start = int(np.clip(int(first * n) - self.most // 2, 0, n - self.most))
        np.testing.assert_array_equal(taken, 10 * np.arange(start, start + self.most))

    @pytest.mark.parametrize(("gap", "first"), [(-1, 0), (0, 200), (7, 207)])
    def test_some_of_them_the_map_has(self, gap, first):
        """Of a long stretch at the start of the route none had a place: the level was that of a drive elsewhere."""
        n = 4 * self.most
        answerable = np.arange(n) >= self.most + gap
        np.testing.assert_array_equal(
            driving._around_the_gap(np.arange(n), answerable), np.arange(first, first + self.most)
        )

    def test_without_any_that_the_map_has(self):
        n = 4 * self.most
        assert driving._around_the_gap(np.arange(n), np.zeros(n, bool))[0] == 0


def test_one_reference_is_the_smallest_block():
    assert [part.tolist() for part in place_blocks(np.array([5, 4, 6]), 8, 1)] == [[1], [0], [2]]


def test_blocks_are_as_large_as_whole_places_allow():
    places = np.array([2, 0, 0, 1, 1, 1, 2, 3])
    assert [part.tolist() for part in place_blocks(places, 4, 4 * 5)] == [[1, 2, 3, 4, 5], [0, 6, 7]]
    assert [part.tolist() for part in place_blocks(places, 4, 4 * 4)] == [[1, 2], [3, 4, 5], [0, 6, 7]]
    assert [part.tolist() for part in place_blocks(places, 4, 0)] == [[1, 2], [3, 4, 5], [0, 6], [7]]
    assert place_blocks(places[:0], 4, 4) == []


class TestRelearning:
    def test_new_traversals_are_located_with_the_middle_of_the_route_masked(self, refs):
        """Of 40 places the 12 from the 14th on are masked, and the first and last of these are not asked."""
        town = build(refs.without("t2"), "hops")
        samples = relearning._located_before(town.state, refs.only("t2"))
        assert samples.names == ["t2"]
        assert len(samples) == 38
        asked = [place for place in range(40) if place not in (14, 25)]
        hidden = [
            label for place, label in zip(asked, samples.labels.tolist(), strict=True) if 14 <= place < 26
        ]
        shown = [
            label for place, label in zip(asked, samples.labels.tolist(), strict=True) if not 14 <= place < 26
        ]
        assert hidden == [-1] * 10
        assert set(shown) <= {0, 1}
        assert sum(shown) > 5

    def test_the_margin_of_a_long_stretch_is_wider(self):
        route = make_route(n_places=100, n_traversals=3, dim=16, noise=0.3).references
        town = build(route.without("t2"), "hops")
        samples = relearning._located_before(town.state, route.only("t2"))
        assert len(samples) == 96  # of the 30 from the 35th on, not the two at each end
        assert np.flatnonzero(samples.labels == -1).tolist() == list(range(35, 35 + 26))

    def test_what_is_said_where_nothing_can_be_learned(self, refs, monkeypatch):
        town = build(refs.without("t2"), "hops")
        known = list(town.state.samples.names)
        update = town.add(refs.only("t2"))
        assert town.state.samples.names == [*known, "t2"]
        assert update.confidence.startswith(f"learned again from {len(town.state.samples)} held-out queries")
        monkeypatch.setattr(relearning, "calibration_of", lambda *_: None)
        update = town.remove(refs.only("t2"))
        assert update.confidence.startswith("none: the map keeps too few held-out queries")
        assert town.calibration is None
        assert town.state.samples.names  # they are kept for the next update

    def test_three_places_are_enough_to_be_compared(self, refs):
        town, new = build(refs.without("t2"), "hops"), refs.only("t2")
        assert len(relearning._masked(town.state, new, np.arange(37), "t2")) == 40
        assert len(relearning._masked(town.state, new.select([0]), np.arange(9), "t2")) == 1

    def test_the_evidence_is_that_of_a_map_without_the_masked_places(self, refs):
        town = build(refs.without("t2"), "hops")
        masked = np.arange(14, 26)
        few = relearning._masked(town.state, refs.only("t2"), masked, "t2")
        best = few.evidence[:, 0]
        rows = np.delete(town.rows(), masked, axis=0)
        unit = l2_normalize(refs.only("t2").vectors)
        assert (best <= (unit @ rows.T).max(axis=1) + 1e-3).all()
        assert relearning._masked(town.state, refs.only("t2"), np.arange(38), "t2") is None
        assert relearning._masked(town.state, refs.select([]), masked, "t2") is None

    @pytest.mark.parametrize(("n_masked", "n_best"), [(10, relearning.TOP), (36, 4)])
    def test_as_many_places_are_compared_as_a_map_compares(self, refs, monkeypatch, n_masked, n_best):
        town, asked, plain = build(refs.without("t2"), "hops"), [], relearning.top_k
        monkeypatch.setattr(relearning, "top_k", lambda scores, k: asked.append(k) or plain(scores, k))
        relearning._masked(town.state, refs.only("t2"), np.arange(n_masked), "t2")
        assert asked == [n_best]


class TestUpdatesThatAreRefused:
    @pytest.mark.parametrize(("metres", "refused"), [(49, False), (50, False), (51, True)])
    def test_places_of_the_same_ids_fifty_metres_away_are_others(self, refs, metres, refused):
        here = np.stack([np.arange(40.0) * 5, np.zeros(40)], axis=1)
        town = build(refs.without("t2"), "hops", calibration=False, positions=Positions(here))
        there = Positions(here + np.array([0, metres]))
        if refused:
            with pytest.raises(InputError, match=r"lie 51 m from them in the median \(limit 50 m\)"):
                town.add(refs.only("t2"), there)
        else:
            town.add(refs.only("t2"), there)

    def test_places_that_only_one_of_them_knows_do_not_count(self, refs):
        here = np.stack([np.arange(40.0) * 5, np.zeros(40)], axis=1)
        there = here + np.array([0, 60.0])
        here[0], there[1] = np.nan, np.nan
        known = Places(refs.place_ids, Positions(here), frames=np.arange(40.0))
        route = ReferenceSet(refs.vectors, refs.places, refs.traversals, info=known)
        town = build(route.without("t2"), "hops", calibration=False, tolerance="100 frames")
        with pytest.raises(
            InputError, match=r"^38 places .* lie 60 m from them in the median \(limit 50 m\)"
        ):
            town.add(refs.only("t2"), Positions(there))
        nowhere = np.full((40, 2), np.nan)
        assert town.add(refs.only("t2"), Positions(nowhere)).n_references == 40

    def test_a_larger_tolerance_is_the_limit(self, refs):
        here = np.stack([np.arange(40.0) * 5, np.zeros(40)], axis=1)
        town = build(
            refs.without("t2"), "hops", calibration=False, positions=Positions(here), tolerance="80m"
        )
        town.add(refs.only("t2"), Positions(here + np.array([0, 70])))
        with pytest.raises(InputError, match="limit 80 m"):
            town.add(renamed(refs, "t2", "t3"), Positions(here + np.array([0, 90])))

    def test_other_dimensions_kinds_and_names(self, refs):
        town = build(refs.without("t2"), "hops", calibration=False)
        last = refs.only("t2")
        for wrong, message in (
            (ReferenceSet(last.vectors[:, :9], last.places, last.traversals), "9 dimensions; the map has 16"),
            (ReferenceSet(last.vectors, last.places.astype(str), last.traversals), "use one kind"),
            (renamed(refs, "t2", "t1"), "already has references of t1"),
        ):
            with pytest.raises(InputError, match=message):
                town.add(wrong)
        with pytest.raises(InputError, match="has 39 references here and 40 in the map"):
            town.remove(refs.only("t1").select(np.arange(39)))
        with pytest.raises(InputError, match="are not those in the map"):
            town.remove(renamed(refs, "t2", "t1"))
        with pytest.raises(InputError, match="no traversal 't2'; it has t0, t1"):
            town.remove(last)


def renamed(refs, old, new):
    own = refs.only(old)
    return ReferenceSet(own.vectors, own.places, [new] * len(own))


def test_a_place_that_is_added_keeps_the_tolerance_in_frames(refs):
    numbered = replace(refs, info=Places(refs.place_ids, frames=refs.place_ids))
    town = build(numbered.without("t2"), "hops", tolerance="2 frames", calibration=False)
    town.add(numbered.only("t2"))
    assert str(town.tolerance) == "±2 frames"


def test_a_recording_that_shares_no_place_is_told_of_and_not_mixed_into_the_route(refs):
    """Its places stood between the map's along the route, and nothing was said."""
    old, new = refs.without("t2"), refs.only("t2")
    numbered = replace(old, info=Places(old.place_ids, frames=np.arange(40.0)))
    town = build(numbered, "hops", calibration=False)

    def elsewhere(first: float | None) -> ReferenceSet:
        frames = None if first is None else first + np.arange(len(new.place_ids))
        info = Places(new.place_ids + 1000, frames=frames)
        return ReferenceSet(new.vectors, new.places + 1000, new.traversals, info=info)

    with pytest.raises(
        InputError, match=r"none of the \d+ new places is one of the map's, and their frames have"
    ):
        town.add(elsewhere(0))
    done = town.add(elsewhere(1000))
    assert "none of the new recording's was in the map" in done.advice[0]
    assert town.places.order[:40].tolist() == list(range(40))
    assert "was in the map" in build(numbered, "hops", calibration=False).add(elsewhere(None)).advice[0]
    assert build(numbered, "hops", calibration=False).add(new).advice == []


def test_what_rounding_costs_is_measured_on_traversals_where_one_can_be_spared(refs):
    assert set(build(refs, "hops", dtype="int8").notes) == {"recall_at_1", "n_queries"}
    assert set(build(refs.without("t2"), "hops", dtype="int8").notes) == {"same_top_match"}


def test_without_right_or_without_wrong_matches_the_area_is_a_half():
    for right in (np.ones(3, bool), np.zeros(3, bool)):
        assert area_under_curve(np.array([0.1, 0.5, 0.9]), right) == 0.5


def test_a_map_that_tells_views_apart_keeps_its_references():
    vectors = np.random.default_rng(0).standard_normal((12, 8))
    several = ReferenceSet(np.tile(vectors, (2, 1)), np.tile(np.arange(12) // 2, 2), ["a"] * 12 + ["b"] * 12)
    one_each = ReferenceSet(np.tile(vectors, (2, 1)), np.tile(np.arange(12), 2), ["a"] * 12 + ["b"] * 12)
    assert isinstance(DisPlace().statistics(several), KeptViews)
    assert isinstance(DisPlace().statistics(one_each), Scatter)


@pytest.mark.parametrize("names", [("a", "b", "c"), (0, 1, 2)])
def test_of_equal_references_those_of_the_traversal_itself_are_removed(names):
    """Two black frames are equal: the other traversal lost its own, and that which was removed stayed."""
    vectors = np.random.default_rng(0).standard_normal((3, 12, 8))
    vectors[1, ::3] = vectors[0, ::3]
    places, traversals = np.tile(np.arange(12) // 2, 3), np.repeat(names, 12)
    every = ReferenceSet(vectors.reshape(-1, 8), places, traversals)
    kept = KeptViews.of(every)
    kept.traversals = kept.traversals.astype(str)  # as they are in a map's file
    left = kept.subtract(KeptViews.of(every.only(names[1])))
    expected = KeptViews.of(every.without(names[1]))
    np.testing.assert_array_equal(left.traversals, expected.traversals.astype(str))
    np.testing.assert_array_equal(left.vectors, expected.vectors)


def test_a_map_that_was_updated_is_driven_along_as_it_is_now(refs):
    """The route is made once for each state of a map, not for each call and not for all states."""
    info = Places(refs.place_ids, frames=np.arange(40.0))
    route = ReferenceSet(refs.vectors, refs.places, refs.traversals, info=info)
    town = build(route.without("t2"), "hops", calibration=False)
    course = town._course(town.state)
    assert town._course(town.state) is course
    town.add(route.only("t2"))
    assert town._course(town.state) is not course
    np.testing.assert_array_equal(town._course(town.state).rows.vectors, town.state.working_rows)


@pytest.mark.parametrize("degrees", [0, 1, "yes", None])
def test_whether_positions_are_degrees_is_yes_or_no(refs, degrees):
    town = build(refs, "hops", calibration=False)
    header, arrays = packed(town.state)
    assert unpacked(header, arrays, "town")["dim"] == 16
    with pytest.raises(FormatError, match="degrees is"):
        unpacked({**header, "degrees": degrees}, arrays, "town")


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_equal_numbers_are_within_bounds(dtype):
    assert within_unit(np.full((2, 2), 0.5, dtype))
    assert not within_unit(np.full((2, 2), -1.5, dtype))


def test_rows_of_no_numbers_are_within_bounds():
    for dtype in (np.float16, np.float32):
        assert within_unit(np.empty((0, 3), dtype))


@pytest.mark.parametrize(
    ("upcoming", "sidecar", "dropped"),
    [("other", "this", True), ("other", "other", True), ("this", "this", True), ("this", "other", False)],
)
def test_statistics_written_in_vain_go_unless_the_map_needs_them(
    tmp_path, monkeypatch, upcoming, sidecar, dropped
):
    path = tmp_path / "town"
    written = tmp_path / "town-stats.next"
    written.touch()
    monkeypatch.setattr(file, "_checksum", lambda _: "this")
    monkeypatch.setattr(file, "_map_of", lambda own: upcoming if own == written else sidecar)
    file._drop_upcoming(path)
    assert written.exists() is not dropped


@pytest.mark.parametrize(("upcoming", "placed"), [("this", True), ("other", False)])
def test_statistics_of_a_save_that_died_are_put_in_place(tmp_path, monkeypatch, upcoming, placed):
    (tmp_path / "town-stats.next").touch()
    monkeypatch.setattr(file, "_checksum", lambda _: "this")
    monkeypatch.setattr(file, "_map_of", lambda _: upcoming)
    file._finish_killed_save(tmp_path / "town")
    assert (tmp_path / "town-stats").exists() is placed
    assert (tmp_path / "town-stats.next").exists() is not placed


def test_what_a_file_belongs_to_is_told_without_reading_it_all(refs, tmp_path):
    """A map and statistics may be of any size, and damage in their arrays is found when those are used."""
    town = build(refs, "hops", calibration=False)
    town.save(tmp_path / "town")
    checksum, version = file.checksum_of(tmp_path / "town"), file.version_of(tmp_path / "town")
    for name in ("town", "town-stats"):
        content = bytearray((tmp_path / name).read_bytes())
        content[-1] ^= 1
        (tmp_path / name).write_bytes(content)
    assert file.checksum_of(tmp_path / "town") == checksum
    assert file.version_of(tmp_path / "town") == version
    assert len(version) == 12
    assert StatisticsFile.belongs_to(tmp_path / "town-stats") == checksum
    with pytest.raises(FormatError):
        PlaceMap.load(tmp_path / "town")
    with pytest.raises(FormatError):
        StatisticsFile(path=tmp_path / "town-stats").loaded()


def test_a_save_reaches_the_disk(refs, tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(file, "sync_folder", synced.append)
    build(refs, "hops", calibration=False).save(tmp_path / "town")
    assert synced == [tmp_path]


def test_the_curve_of_eigenvalues():
    def noted(*eigenvalues):
        return spectrum_note(SimpleNamespace(spectrum=lambda: np.array(eigenvalues)))

    assert noted(0.5, 0.25, 0.125) == {"spectrum": [[1, 0.571], [2, 0.857], [3, 1.0]]}
    assert noted() == {}
    assert noted(0.0, 0.0) == {}
    long = noted(*np.ones(1000))["spectrum"]
    assert (long[0], long[-1]) == ([1, 0.001], [1000, 1.0])
    assert len(long) < 64
    assert all(share == pytest.approx(n / 1000) for n, share in long)


@pytest.mark.parametrize("tolerance", ["exact", "0 frames", "3 frames", 0.5, 1.0, 25.0])
def test_a_file_keeps_the_tolerance(refs, tmp_path, tolerance):
    line = np.stack([np.arange(40.0) * 5, np.zeros(40)], axis=1)
    places = Places(refs.place_ids, Positions(line), frames=np.arange(40.0))
    route = ReferenceSet(refs.vectors, refs.places, refs.traversals, info=places)
    town = build(route, "hops", calibration=False, tolerance=tolerance)
    town.save(tmp_path / "town")
    assert PlaceMap.load(tmp_path / "town").tolerance == town.tolerance == Tolerance.parse(tolerance)


def test_what_fusions_say_that_decide_nothing():
    fusion = get_fusion("hops")()
    assert not fusion.wants_references(3, 4, 5)
    assert fusion.spectrum().shape == (0,)
    assert fusion.explain() == "as given"


def test_of_each_fold_a_map_keeps_so_many_queries(refs, monkeypatch):
    monkeypatch.setattr(samples, "KEPT", 3)
    town = build(refs.without("t2"), "hops")
    assert set(np.bincount(town.state.samples.folds).tolist()) == {3}
    town.add(refs.only("t2"))
    assert set(np.bincount(town.state.samples.folds).tolist()) == {3}


def test_what_a_build_does_where_nothing_is_said(refs, tmp_path):
    town = build(refs)
    assert town.calibration is not None
    assert town.statistics.references is None
    stream = ReferenceStream(refs.places, refs.traversals, refs.info, 16, lambda rows: refs.vectors[rows])
    assert streaming.build_streamed(stream, "hops", folder=tmp_path).calibration is not None
    assert get_fusion("hops")().fit_references(refs).rank(refs.vectors[:2]).places.shape == (2, 5)


def test_a_map_of_a_save_that_died_is_updated_after_a_later_save(refs, tmp_path):
    """The later one renames its statistics: they were then looked for under the name that they had."""
    build(refs, "hops", calibration=False).save(tmp_path / "town")
    (tmp_path / "town-stats").rename(tmp_path / "town-stats.next")
    town = PlaceMap.load(tmp_path / "town")
    town.save(tmp_path / "town")
    assert town.statistics.nbytes == (tmp_path / "town-stats").stat().st_size
    gone = refs.traversal_ids[0]
    town.remove(refs.only(gone))
    assert str(gone) not in town.traversals


def test_a_save_first_finishes_one_that_died(refs, tmp_path):
    """Its statistics are then those of the map that is replaced, and go with it."""
    build(refs, "hops", calibration=False).save(tmp_path / "town")
    (tmp_path / "town-stats").rename(tmp_path / "town-stats.next")
    build(refs, "single", calibration=False).save(tmp_path / "town")
    assert not list(tmp_path.glob("town-stats*"))
