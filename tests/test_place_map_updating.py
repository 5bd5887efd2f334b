"""Adding traversals to a map and removing them: the map of a rebuild, and nothing that should be refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from displace import DisPlace, PlaceMap, ReferenceSet, build, get_fusion
from displace.arrays import l2_normalize
from displace.errors import ConditioningWarning, InputError, SingularScatterError
from displace.fusion.base import VectorFusion
from displace.fusion.solver.scatter import Scatter
from displace.geo import Positions
from displace.maps.rounding import in_stable_basis
from displace.maps.updating import moved
from displace.places import Places
from displace.synthetic import make_route


class Summed(VectorFusion):
    """A fusion of somebody else's, with statistics as DisPlace has them and no setting of its own."""

    title = "sums"

    def statistics(self, refs):
        return Scatter.of(refs.vectors, refs.places)

    def from_statistics(self, statistics, refs=None):
        self.place_ids_, self.n_features_in_ = statistics.place_ids, statistics.means.shape[1]
        self.place_vectors_ = l2_normalize(statistics.means)
        return self

    def _fit(self, X, index, traversals):
        raise NotImplementedError


def replace_info(refs: ReferenceSet, info: Places) -> ReferenceSet:
    """The same references, of whose places this is known."""
    info = info.take(info.rows_of(refs.place_ids))
    return ReferenceSet(refs.vectors, refs.places, refs.traversals, info=info)


UPDATABLE = ["displace", "hops", "pooling", "dmat_avg"]
DTYPES = ["float16", "float32", "int8"]


@pytest.fixture(scope="module")
def route():
    return make_route(n_places=60, n_traversals=4, dim=24, drop=0.15, seed=4)


def all_scores(matches):
    """Scores (q, N) in the order of the place ids."""
    return np.take_along_axis(matches.scores, np.argsort(matches.places, axis=1), axis=1)


def exact_scores(town, queries):
    """Scores (q, N) before rows are rounded: of the rows that the statistics make."""
    fusion = get_fusion(town.fusion)(**town.settings)
    kept = town.statistics.loaded().arrays
    fusion.from_statistics(fusion.restored_statistics(kept, town.rows(), town.place_ids[town.row_places]))
    return town.project(queries) @ in_stable_basis(fusion.rows()).vectors.T


def assert_close(a, b, atol=1e-4):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def rebuilt_like(town, refs):
    """A build from all references with the resolved settings of the map."""
    fusion = get_fusion(town.fusion)(**town.settings)
    return build(refs, fusion, dtype=town.vectors.dtype.name, calibration=False)


@pytest.mark.parametrize("change", ["add", "remove"])
def test_what_is_within_an_area_is_not_updated(change):
    """It was, and only the places inside had been compared with the new traversal."""
    refs = make_route(n_places=20, n_traversals=3, dim=16).references
    away = np.column_stack([100.0 * np.arange(20), np.zeros(20)])
    town = build(refs.only("t0", "t1"), positions=Positions(away, degrees=False), keep_references=True)
    nearby = town.within((500.0, 0.0), 250.0)
    with pytest.raises(InputError, match="an update changes the whole map"):
        getattr(nearby, change)(refs.only("t2") if change == "add" else "t1")
    assert [*nearby.traversals] == ["t0", "t1"]


class TestEqualsARebuild:
    @pytest.mark.parametrize("name", UPDATABLE)
    @pytest.mark.parametrize("saved", [True, False], ids=["from the file", "in memory"])
    def test_adding(self, route, tmp_path, name, saved):
        refs = route.references
        town = build(refs.without("t3"), name, dtype="float32", calibration=False)
        if saved:
            town.save(tmp_path / "town.displace")
            town = PlaceMap.load(tmp_path / "town.displace")
        update = town.add(refs.only("t3"))
        rebuilt = rebuilt_like(town, refs)
        assert update.n_references == len(refs.only("t3"))
        assert update.n_places == len(refs.place_ids) - len(refs.without("t3").place_ids)
        assert update.traversals == ["t3"]
        np.testing.assert_array_equal(town.place_ids, rebuilt.place_ids)
        assert town.traversals == rebuilt.traversals
        assert town.statistics.digests == rebuilt.statistics.digests
        assert_close(*(all_scores(m.locate(route.queries, k=60)) for m in (town, rebuilt)))

    @pytest.mark.parametrize("name", ["displace", "hops", "dmat_avg"])
    @pytest.mark.parametrize("dtype", DTYPES)
    @settings(max_examples=12)
    @given(seed=st.integers(0, 10_000))
    def test_before_rounding_whatever_the_dtype(self, name, dtype, seed):
        route = make_route(n_places=60, n_traversals=3, dim=20, drop=0.2, seed=seed)
        refs = route.references
        town = build(refs.without("t2"), name, dtype=dtype, calibration=False)
        town.add(refs.only("t2"))
        assert_close(*(exact_scores(m, route.queries) for m in (town, rebuilt_like(town, refs))))
        town.remove(refs.only("t0"))
        rebuilt = rebuilt_like(town, refs.without("t0"))
        assert_close(*(exact_scores(m, route.queries) for m in (town, rebuilt)))

    @pytest.mark.parametrize("name", UPDATABLE)
    @settings(max_examples=12)
    @given(seed=st.integers(0, 10_000))
    def test_float16_rows_are_a_neighbour_at_most(self, name, seed):
        route = make_route(n_places=60, n_traversals=3, dim=20, drop=0.2, seed=seed)
        refs = route.references
        town = build(refs.without("t2"), name, calibration=False)
        town.add(refs.only("t2"))
        rebuilt = rebuilt_like(town, refs)
        a, b = (m.vectors[np.lexsort((m.vectors[:, 0], m.row_places))] for m in (town, rebuilt))
        a, b = a.astype(np.float64), b.astype(np.float64)
        unit = np.spacing(np.maximum(np.abs(a), np.abs(b)).astype(np.float16)).astype(np.float64)
        assert (
            np.abs(a - b) <= np.maximum(unit, 1e-5)
        ).all()  # in small numbers float32 statistics weigh more

    @pytest.mark.parametrize("name", UPDATABLE)
    @pytest.mark.parametrize("seed", range(4))
    def test_float16_scores_at_the_width_of_real_maps(self, name, seed):
        route = make_route(n_places=400, n_traversals=3, dim=160, drop=0.2, seed=seed)
        refs = route.references
        town = build(refs.without("t2"), name, calibration=False)
        town.add(refs.only("t2"))
        assert town.vectors.shape[1] >= 100
        rebuilt = rebuilt_like(town, refs)
        assert_close(*(all_scores(m.locate(route.queries, k=400)) for m in (town, rebuilt)))
        town.remove(refs.only("t1"))
        rebuilt = rebuilt_like(town, refs.without("t1"))
        assert_close(*(all_scores(m.locate(route.queries, k=400)) for m in (town, rebuilt)))

    @pytest.mark.parametrize("name", UPDATABLE)
    @pytest.mark.parametrize("dtype", DTYPES)
    @settings(max_examples=12)
    @given(seed=st.integers(0, 10_000))
    def test_removing_undoes_adding(self, name, dtype, seed):
        route = make_route(n_places=60, n_traversals=3, dim=20, drop=0.2, seed=seed)
        refs = route.references
        before = build(refs.without("t1"), name, dtype=dtype, calibration=False)
        town = rebuilt_like(before, refs.without("t1"))
        town.add(refs.only("t1"))
        town.remove(refs.only("t1"))
        np.testing.assert_array_equal(town.place_ids, before.place_ids)
        assert town.traversals == before.traversals
        assert town.statistics.digests == before.statistics.digests
        if name != "pooling":
            assert_close(*(exact_scores(m, route.queries) for m in (town, before)))
        # In few dimensions a rounded number may be its neighbour: a unit in the last place of the largest numbers.
        tolerance = {"float32": 1e-4, "float16": 4e-4, "int8": 4e-3}[dtype]
        assert_close(*(all_scores(m.locate(route.queries, k=60)) for m in (town, before)), tolerance)


class TestKeptReferences:
    @pytest.mark.parametrize("name", UPDATABLE)
    def test_a_traversal_is_removed_by_name_also_after_an_update(self, route, tmp_path, name):
        refs = route.references
        town = build(refs.without("t3"), name, dtype="float32", calibration=False, keep_references=True)
        path = tmp_path / "town.displace"
        town.save(path)
        for verb, what in (("add", refs.only("t3")), ("remove", "t2"), ("remove", "t3")):
            town = PlaceMap.load(path)
            getattr(town, verb)(what)
            town.save(path)
        left = refs.only("t0", "t1")
        assert_close(*(all_scores(m.locate(route.queries, k=60)) for m in (town, rebuilt_like(town, left))))
        assert town.statistics.references.traversal_ids.tolist() == ["t0", "t1"]

    def test_pooling_stores_no_means(self, route, tmp_path):
        build(route.references, "pooling", calibration=False).save(tmp_path / "town.displace")
        statistics = PlaceMap.load(tmp_path / "town.displace").statistics
        assert statistics.nbytes < 2000
        assert statistics.loaded().arrays == {}


class TestViews:
    """Places seen from several sides: the statistics are the references, and the confidence is learned from them."""

    @staticmethod
    def seen(names, groups=True):
        rng = np.random.default_rng(0)
        sides = rng.normal(size=(60, 3, 48))
        parts = {
            name: sides + 0.3 * np.random.default_rng(int(name[1:])).normal(size=sides.shape)
            for name in names
        }
        places = np.tile(np.repeat(np.arange(60), 3), len(names))
        kinds = np.tile(np.arange(3), 60 * len(names)) if groups else None
        vectors = np.concatenate([part.reshape(-1, 48) for part in parts.values()]).astype(np.float32)
        info = Places(np.arange(60), frames=np.arange(60.0))
        return ReferenceSet(vectors, places, np.repeat(names, 180), groups=kinds, info=info)

    @pytest.mark.parametrize("groups", [True, False])
    @pytest.mark.parametrize("keep", [True, False])
    def test_an_update_learns_the_confidence_that_a_build_gives(self, tmp_path, groups, keep):
        town = build(self.seen(["t1", "t2"], groups), keep_references=keep)
        assert len(town.vectors) > 60
        queries = self.seen(["t9"]).vectors
        for verb, name in (("add", "t3"), ("remove", "t1")):
            update = getattr(town, verb)(self.seen([name], groups))
            assert "learned again from the references" in update.confidence
            town.save(tmp_path / "town.displace")
            town = PlaceMap.load(tmp_path / "town.displace")
            names = list(town.traversals)
            again = build(self.seen(names, groups), get_fusion(town.fusion)(**town.settings))
            assert_close(town.locate(queries).confidence, again.locate(queries).confidence, 1e-3)
            assert (town.state.driving is None) == (again.state.driving is None)


class TestPlaces:
    def test_new_places_come_with_position_heading_and_image(self, route):
        refs = route.references
        points = Positions(np.arange(120.0).reshape(60, 2), heading=np.arange(60.0))
        images = np.array([f"{p}.jpg" for p in range(60)])
        old = refs.select((refs.places < 50) & (refs.traversals != "t2"))
        town = build(
            old,
            positions=points.take(old.place_ids),
            images=images[old.place_ids].tolist(),
            calibration=False,
        )
        new = refs.select((refs.places >= 45) & (refs.traversals == "t2"))
        town.add(new, points.take(new.place_ids), ["new/" + name for name in images[new.place_ids]])
        assert set(town.place_ids) == {*old.place_ids.tolist(), *new.place_ids.tolist()}
        np.testing.assert_array_equal(town.positions.points, points.points[town.place_ids])
        np.testing.assert_array_equal(town.positions.heading, points.heading[town.place_ids])
        known = old.place_ids.tolist()
        assert town.images == [f"{p}.jpg" if p in known else f"new/{p}.jpg" for p in town.place_ids.tolist()]

    def test_what_is_not_known_of_a_new_place_stays_open(self, route):
        refs = route.references
        old, new = refs.select(refs.traversals == "t0"), refs.only("t1")
        with pytest.warns(ConditioningWarning, match="plain retrieval"):
            town = build(
                old,
                positions=Positions(np.zeros((len(old.place_ids), 2))),
                images=["a.jpg"] * len(old.place_ids),
            )
        town.add(new)
        fresh = ~np.isin(town.place_ids, old.place_ids)
        assert fresh.any()
        assert np.isnan(town.positions.points[fresh]).all()
        assert not np.isnan(town.positions.points[~fresh]).any()
        assert {image for image, is_new in zip(town.images, fresh, strict=True) if is_new} == {""}

    def test_headings_begin_where_only_the_new_recording_has_them(self, route):
        refs = route.references
        old, new = refs.select(refs.places < 40), ReferenceSet(refs.vectors[:2], [3, 70], ["new", "new"])
        town = build(old, positions=Positions(np.zeros((40, 2))), calibration=False)
        town.add(new, Positions(np.zeros((2, 2)), heading=np.array([5.0, 90.0])))
        np.testing.assert_array_equal(town.positions.heading, [*[np.nan] * 40, 90.0])

    def test_an_update_tells_what_the_map_did_not_know_of_its_places(self, route):
        refs, ids = route.references, np.unique(route.references.places)
        points = np.arange(2.0 * len(ids)).reshape(-1, 2)
        known = Places(ids, Positions(points), [f"{p}.jpg" for p in ids], np.arange(float(len(ids))))
        some, numbers = points.copy(), np.arange(float(len(ids)))
        some[5:9], numbers[20:22] = np.nan, np.nan
        gaps = Places(ids, Positions(some), ["", *known.images[1:]], numbers)
        for before in (gaps, Places(ids)):
            town = build(replace_info(refs.without("t3"), before), "hops", calibration=False)
            town.add(replace_info(refs.only("t3"), known), check_looks=False)
            told = np.isin(town.place_ids, refs.only("t3").place_ids)
            asked = np.flatnonzero(told)
            np.testing.assert_array_equal(
                town.positions.points[asked], points[ids.searchsorted(town.place_ids[asked])]
            )
            assert [town.images[row] for row in asked] == [f"{p}.jpg" for p in town.place_ids[asked]]
            assert np.isfinite(town.places.frames[asked]).all()

    def test_a_recording_that_counts_from_its_own_start_is_numbered_along_the_route(self):
        refs = make_route(n_places=60, n_traversals=3, dim=24).references
        numbered = Places(refs.place_ids, frames=np.arange(60.0))
        part = refs.only("t2").select(refs.only("t2").places >= 20)
        first = refs.without("t2").select(refs.without("t2").places < 40)
        town = build(replace_info(first, numbered), "hops", calibration=False)
        counted = Places(part.place_ids, frames=np.arange(40.0))
        town.add(replace_info(part, counted))
        assert town.places.frames.tolist() == list(range(60))
        for others in (np.arange(40.0)[::-1].copy(), 3 * np.arange(40.0)):
            town = build(replace_info(first, numbered), "hops", calibration=False)
            with pytest.raises(
                InputError, match="20 new places are not numbered along the route as the map's are"
            ):
                town.add(replace_info(part, Places(part.place_ids, frames=others)))
        # Of places that the map has, its own numbers count.
        known = part.select(part.places < 40)
        town.add(replace_info(known, Places(known.place_ids, frames=np.arange(20.0)[::-1].copy())))
        assert town.places.frames.tolist() == list(range(40))

    @pytest.mark.parametrize("name", UPDATABLE)
    def test_a_recording_that_is_there_under_another_name_is_refused(self, route, name):
        refs = route.references
        town = build(refs.only("t0", "t1", "t2"), name, calibration=False)
        again = refs.only("t1").select(np.arange(len(refs.only("t1")))[::-1])
        copy = ReferenceSet(again.vectors, again.places, ["copy"] * len(again))
        with pytest.raises(InputError, match="the references of copy are in the map already, as t1"):
            town.add(copy)
        town.remove(refs.only("t1"))
        town.add(copy)
        assert list(town.traversals) == ["t0", "t2", "copy"]

    def test_degrees_for_a_map_in_metres_are_refused(self, route):
        refs = route.references
        old, new = refs.without("t3"), refs.only("t3")
        town = build(old, positions=Positions(np.zeros((len(old.place_ids), 2))), calibration=False)
        with pytest.raises(InputError, match="new positions are latitude and longitude, the map's easting"):
            town.add(new, Positions(np.zeros((len(new.place_ids), 2)), degrees=True))

    @pytest.mark.parametrize("degrees", [False, True])
    @pytest.mark.parametrize(
        ("shift", "tolerance", "fits"), [(9000, 25, 0), (40, 25, 1), (60, 25, 0), (60, 80, 1)]
    )
    def test_a_recording_of_somewhere_else_is_refused(self, route, degrees, shift, tolerance, fits):
        refs = route.references
        old, new = refs.without("t3"), refs.only("t3")
        metre = 1 / 111_320 if degrees else 1.0

        def positions(ids, north):
            return Positions(np.column_stack([(ids * 5.0 + north) * metre, np.zeros(len(ids))]), degrees)

        town = build(old, positions=positions(old.place_ids, 0), tolerance=tolerance, calibration=False)
        if fits:
            town.add(new, positions(new.place_ids, shift))
        else:
            message = (
                r"lie (8,9\d\d|9,0\d\d|59|60) m from them .*limit 50 m.*displace manifest NEW --against MAP"
            )
            with pytest.raises(InputError, match=message):
                town.add(new, positions(new.place_ids, shift))

    def test_a_few_stray_positions_do_not_matter(self, route):
        refs = route.references
        old, new = refs.without("t3"), refs.only("t3")
        town = build(old, positions=Positions(np.zeros((len(old.place_ids), 2))), calibration=False)
        points = np.zeros((len(new.place_ids), 2))
        points[:5], points[5:10] = 1e5, np.nan
        town.add(new, Positions(points))


class TestRefused:
    @pytest.mark.parametrize("name", ["displace", "hops", "pooling"])
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda town, refs: town.remove("t1"), "built without --keep-references"),
            (lambda town, refs: town.remove("fog"), "no traversal 'fog'; it has t0, t1, t2, t3"),
            (
                lambda town, refs: town.remove(ReferenceSet(refs.vectors[:1], [0], ["fog"])),
                "no traversal 'fog'",
            ),
            (
                lambda town, refs: town.remove(refs.only("t1").select(np.arange(9))),
                r"'t1' has 9 references here and \d+ in the map; give all of them",
            ),
            (
                lambda town, refs: town.remove(
                    ReferenceSet(
                        refs.only("t1").vectors + 1, refs.only("t1").places, refs.only("t1").traversals
                    )
                ),
                "given for traversal 't1' are not those in the map: places or vectors differ",
            ),
            (
                lambda town, refs: town.remove(
                    ReferenceSet(
                        refs.only("t1").vectors, refs.only("t1").places[::-1], refs.only("t1").traversals
                    )
                ),
                "given for traversal 't1' are not those in the map: places or vectors differ",
            ),
            (lambda town, refs: town.remove(refs), "remove every reference"),
            (lambda town, refs: town.remove(7), "no traversal '7'; it has t0, t1, t2, t3"),
            (lambda town, refs: town.remove(refs.vectors), "takes a ReferenceSet; got ndarray"),
            (lambda town, refs: town.add(refs.vectors, refs.places), "takes a ReferenceSet; got ndarray"),
            (lambda town, refs: town.remove(refs.only()), "no references to update the map with"),
            (lambda town, refs: town.add(refs.only()), "no references to update the map with"),
            (lambda town, refs: town.add(refs.only("t1")), "already has references of t1"),
            (
                lambda town, refs: town.add(ReferenceSet(np.ones((1, 7)), [0])),
                "have 7 dimensions; the map has 24",
            ),
            (lambda town, refs: town.add(ReferenceSet(np.ones((1, 24)), ["a"])), "use one kind"),
            (
                lambda town, refs: town.add(ReferenceSet(np.ones((1, 24)), [0], ["n"]), images=["a", "b"]),
                "images has 2 entries; the references have 1 places",
            ),
        ],
    )
    def test_it_is_said_and_changes_nothing(self, route, name, change, message):
        refs = route.references
        town = build(refs, name, calibration=False)
        before = town.locate(route.queries)
        with pytest.raises(InputError, match=message):
            change(town, refs)
        np.testing.assert_array_equal(town.locate(route.queries).scores, before.scores)
        assert town.traversals.keys() == {"t0", "t1", "t2", "t3"}

    def test_a_traversal_that_is_a_number_is_removed_by_it(self, route):
        refs = ReferenceSet(route.references.vectors, route.references.places)
        town = build(refs, "hops", calibration=False, keep_references=True)
        town.remove(1)
        assert town.traversals.keys() == {"0", "2", "3"}

    def test_the_order_of_references_does_not_matter(self, route):
        refs = route.references
        town = build(refs, "hops", calibration=False)
        gone = refs.only("t1")
        town.remove(gone.select(np.arange(len(gone))[::-1]))
        assert town.traversals.keys() == {"t0", "t2", "t3"}

    def test_a_map_of_a_single_traversal(self, route):
        with pytest.raises(InputError, match="keeps no statistics"):
            build(route.references, "single").add(ReferenceSet(np.ones((1, 24)), [0], ["new"]))

    def test_a_recording_of_another_route_under_equal_ids_is_refused_unless_asked_for(self, route):
        """Without positions only the looks tell."""
        refs = route.references
        town = build(refs.without("t3"), "hops", calibration=False)
        other = make_route(n_places=60, n_traversals=1, dim=24, seed=9).references
        elsewhere = ReferenceSet(other.vectors, other.places, ["elsewhere"] * len(other))
        before = town.rows().copy()
        with pytest.raises(
            InputError, match=r"'elsewhere' does not look like the map's places: .*check_looks=False"
        ):
            town.add(elsewhere)
        np.testing.assert_array_equal(town.rows(), before)
        assert town.add(elsewhere, check_looks=False).n_references == len(elsewhere)

    def test_a_recording_at_the_right_positions_that_looks_elsewhere_is_told_of(self, route):
        """It may be night, and is not refused; it may have been driven the other way, too."""
        refs = route.references
        at = 10.0 * np.arange(len(refs.place_ids))
        info = Places(refs.place_ids, positions=Positions(np.column_stack([at, at])))
        town = build(replace_info(refs, info).without("t3"), "hops", calibration=False)
        own = replace_info(refs.only("t3"), info)
        back = ReferenceSet(own.vectors[::-1], own.places, ["back"] * len(own), info=own.info)
        advice = town.add(back).advice
        assert advice[0].startswith("directions: traversal 'back' does not look like the map's places")
        assert not any("look like" in sentence for sentence in town.add(own).advice)

    def test_a_recording_named_as_the_places_is_to_get_them_by_sight(self, route):
        """Equal names had given it its places: to assign it once more in the same way would change nothing."""
        refs = route.references.without("t3")
        info = Places(refs.place_ids, frames=np.arange(len(refs.place_ids)))
        town = build(replace_info(refs, info), "hops", calibration=False)
        backwards = ReferenceSet(refs.vectors[::-1], np.sort(refs.places), ["backwards"] * len(refs))
        with pytest.raises(InputError, match="displace manifest NEW --against MAP --layout sight"):
            town.add(backwards)


class TestReport:
    def test_how_far_the_projection_moved_and_what_to_redo(self, route):
        refs = route.references
        town = build(refs.without("t3"))
        assert town.notes
        assert not town.calibration_is_stale
        update = town.add(refs.only("t3"))
        assert 0 < update.moved < 100
        assert update.sampling_ratio[1] < update.sampling_ratio[0]
        assert "learned again" in update.confidence
        assert town.notes.keys() == {"spectrum", "settings_chosen_at"}  # the loss was that of other rows
        two = build(refs.only("t0", "t1"))
        assert any("settings" in advice for advice in two.add(refs.only("t2", "t3")).advice)

    def test_a_stale_calibration_is_kept_in_the_file_and_undone_with_the_update(self, route, tmp_path):
        """That of the first release, which cannot be learned again from what such a map keeps."""
        refs = route.references
        town = build(refs.without("t3"))
        three: dict[str, list[float]] = {"weights": [1.0] * 3, "offsets": [0.0] * 3, "scales": [1.0] * 3}
        first = {"lowest": [], "highest": [], "farthest": None, **three}
        town = town.changed(calibration=replace(town.calibration, **first), anchors=None, samples=None)
        assert "as it was before" in town.add(refs.only("t3")).confidence
        assert town.calibration_is_stale
        town.save(tmp_path / "town.displace")
        again = PlaceMap.load(tmp_path / "town.displace")
        assert again.calibration_is_stale
        again.remove(refs.only("t3"))
        assert not again.calibration_is_stale

    def test_a_fusion_of_your_own_needs_no_ridge(self, route):
        refs = route.references
        town = build(refs.only("t0", "t1"), Summed(), calibration=False)
        update = town.add(refs.only("t2", "t3"))
        assert not update.sampling_ratio[1] / update.sampling_ratio[0] >= 0.5
        assert update.advice == []

    def test_a_third_traversal_halves_the_sampling_ratio_and_is_told(self):
        refs = make_route(n_places=35, n_traversals=3, dim=24).references
        town = build(refs.only("t0", "t1"), DisPlace(views=False), calibration=False)
        assert any("the ridge" in advice for advice in town.add(refs.only("t2")).advice)

    @pytest.mark.parametrize("saved", [True, False])
    def test_settings_are_outgrown_by_updates_one_after_the_other(self, tmp_path, saved):
        refs = make_route(n_places=35, n_traversals=7, dim=24).references
        town = build(refs.only("t0", "t1", "t2"), DisPlace(views=False), calibration=False)
        chosen_at = 24 / 70
        told = []
        for name in ("t3", "t4", "t5", "t6"):
            told.append(town.add(refs.only(name)).advice)
            if saved:
                town.save(tmp_path / "town.displace")
                town = PlaceMap.load(tmp_path / "town.displace")
        assert [len(advice) for advice in told] == [0, 1, 1, 1]
        assert f"was chosen at γ = {chosen_at:.3g}, which is now {24 / 210:.3g}" in told[-1][0]
        assert "settings_chosen_at" not in town.to_json()["storage"]
        for name in ("t6", "t5", "t4", "t3"):
            advice = town.remove(refs.only(name)).advice
        assert advice == []

    def test_settings_of_plain_retrieval_are_not_outgrown(self, route):
        refs = route.references
        town = build(refs.only("t0", "t1"), DisPlace(project=False, views=False), calibration=False)
        assert town.add(refs.only("t2", "t3")).advice == []

    def test_a_span_that_grows_or_shrinks_has_moved(self):
        Q = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 10)))[0]
        assert moved(Q[:, :4], Q[:, :4] @ np.diag([1.0, 2, 3, 4])) == pytest.approx(0, abs=1e-9)
        assert moved(Q[:, :4], Q[:, :5]) == pytest.approx(20)
        assert moved(Q[:, :5], Q[:, :4]) == pytest.approx(20)
        assert moved(Q[:, :3], Q[:, 3:6]) == pytest.approx(100)
        assert moved(Q, Q[:, :4]) == pytest.approx(60)
        assert moved(None, Q) == 0

    @pytest.mark.parametrize("saved", [True, False])
    def test_settings_that_one_traversal_left_open_are_decided(self, tmp_path, saved):
        """More dimensions than deviations: without a ridge there would be no solution."""
        route = make_route(n_places=40, n_traversals=3, dim=64)
        refs = route.references
        with pytest.warns(ConditioningWarning, match="plain retrieval"):
            town = build(refs.only("t0"), dtype="float32")
        assert (town.settings["ridge"], town.settings["center"]) == ("auto", "auto")
        if saved:
            town.save(tmp_path / "town.displace")
            town = PlaceMap.load(tmp_path / "town.displace")
        update = town.add(refs.only("t1"))
        assert "ridge by rule from γ = 1.6" in update.decided
        assert not any("settings" in advice for advice in update.advice)
        by_rule = build(refs.only("t0", "t1"), dtype="float32")
        assert town.settings == by_rule.settings
        assert_close(*(all_scores(m.locate(route.queries, k=40)) for m in (town, by_rule)))
        again = town.add(refs.only("t2"))
        assert again.decided == ""
        assert town.settings == by_rule.settings

    def test_settings_that_were_given_are_kept_and_the_way_out_is_named(self):
        refs = make_route(n_places=40, n_traversals=2, dim=64).references
        with pytest.warns(ConditioningWarning, match="plain retrieval"):
            town = build(refs.only("t0"), DisPlace(ridge=0.0, center=False))
        with pytest.raises(
            SingularScatterError, match=r"settings it was built with.*ridge=0 cannot mend it.*Build it anew"
        ):
            town.add(refs.only("t1"))


def test_settings_that_are_numbers_of_numpy_are_saved(route, tmp_path):
    """As a search over np.arange or scikit-learn's best parameters give them: the map could not be saved."""
    refs = route.references
    given = {"n_components": np.int64(5), "tau": np.float32(0.5), "center": np.bool_(True)}
    built = build(refs.only("t0", "t1"), DisPlace(**given))
    assert (built.settings["n_components"], built.settings["tau"], built.settings["center"]) == (5, 0.5, True)
    built.save(tmp_path / "town.displace")
    loaded = PlaceMap.load(tmp_path / "town.displace")
    loaded.add(refs.only("t2"))
    loaded.save(tmp_path / "town.displace")
    assert PlaceMap.load(tmp_path / "town.displace").settings == loaded.settings


def test_a_map_keeps_references_of_its_own(route):
    """Where the caller used the array for another recording, a traversal could no longer be removed."""
    refs = route.references
    vectors = refs.vectors.copy()
    town = build(ReferenceSet(vectors, refs.places, refs.traversals), calibration=False, keep_references=True)
    vectors[:] = vectors[::-1].copy()
    town.remove("t3")
    rebuilt = rebuilt_like(town, refs.without("t3"))
    assert_close(exact_scores(town, route.queries), exact_scores(rebuilt, route.queries))
