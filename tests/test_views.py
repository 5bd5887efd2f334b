"""Views of a place: groups given or found, rows for each, and nothing learned where nothing can be known."""

from __future__ import annotations

import numpy as np
import pytest

import displace
from displace import DisPlace, ReferenceSet, get_fusion
from displace.descriptors.imported import references_of, write_store
from displace.descriptors.store import Queries
from displace.errors import ConditioningWarning, InputError, ManifestError
from displace.evaluation.studies.task import budgets
from displace.fusion.solver.views import frames_of_one_drive, group_views, merged
from displace.manifest.table import Manifest
from displace.places import Places
from displace.references import heading_groups

N, VIEWS, D = 24, 3, 48


def make_views(n_traversals=2, drop=0.0, seed=0):
    """Places with three views each, in traversals that add a condition of their own; and queries of another one."""
    rng = np.random.default_rng(seed)
    looks = rng.normal(size=(N * VIEWS, D))
    directions = np.linalg.qr(rng.normal(size=(D, 8)))[0].T
    vectors, places, names, views = [], [], [], []
    for number in range(n_traversals + 1):
        condition = (rng.normal(size=(N * VIEWS, 8)) * 2 + rng.normal(size=8) * 2) @ directions
        kept = np.flatnonzero(rng.random(N * VIEWS) >= drop)
        vectors.append((looks + condition + 0.1 * rng.normal(size=looks.shape))[kept])
        places.append(kept // VIEWS)
        views.append(kept % VIEWS)
        names.append(np.full(len(kept), f"t{number}"))
    refs = ReferenceSet(
        np.concatenate(vectors[:-1]).astype(np.float32),
        np.concatenate(places[:-1]),
        np.concatenate(names[:-1]),
    )
    return refs, np.concatenate(views[:-1]), vectors[-1].astype(np.float32), places[-1]


def fit(fusion, refs, groups=None):
    return fusion.fit(refs.vectors, refs.places, refs.traversals, groups)


def recall(fusion, queries, places):
    return 100 * np.mean(fusion.predict(queries) == places)


class TestGroups:
    def test_the_same_view_is_found_in_other_traversals_also_with_missing_ones(self):
        refs, views, *_ = make_views(n_traversals=3, drop=0.15)
        found = group_views(refs.vectors, refs.places, refs.traversals)
        assert found.kind == "found"
        together = found.index[:, None] == found.index[None, :]
        np.fill_diagonal(together, False)
        true = (refs.places * VIEWS + views)[:, None] == (refs.places * VIEWS + views)[None, :]
        assert np.mean(true[together]) > 0.97  # pairs that were made and are right
        assert np.mean(together[true & ~np.eye(len(true), dtype=bool)]) > 0.9  # pairs that were found
        assert not (together & (refs.traversals[:, None] == refs.traversals[None, :])).any()

    def test_groups_follow_the_places_in_order(self):
        refs, *_ = make_views()
        found = group_views(refs.vectors, refs.places, refs.traversals)
        np.testing.assert_array_equal(found.places[found.index], refs.places)
        assert np.all(np.diff(found.places) >= 0)

    def test_the_order_of_references_does_not_matter(self):
        refs, _, queries, _ = make_views(n_traversals=3, drop=0.1)
        order = np.random.default_rng(5).permutation(len(refs))
        a, b = fit(DisPlace(), refs), fit(DisPlace(), refs.select(order))
        np.testing.assert_array_equal(a.predict(queries), b.predict(queries))

    def test_views_that_are_not_seen_again_stay_apart(self):
        rng = np.random.default_rng(1)
        vectors = rng.normal(size=(4 * 30, 32))
        places, names = np.tile(np.repeat(np.arange(30), 2), 2), np.repeat(["a", "b"], 60)
        views = group_views(vectors, places, names)
        assert views.kind == "apart"
        assert "not seen again" in views.reason

    def test_panoramas_whose_views_are_called_traversals_stay_apart(self):
        """Six views of a panorama, of which neighbours overlap, each a "traversal"."""
        rng = np.random.default_rng(2)
        around = rng.normal(size=(60, 6, 32))
        views = around + np.roll(around, 1, axis=1)
        places, names = np.repeat(np.arange(60), 6), np.tile([f"yaw{v}" for v in range(6)], 60)
        fusion = DisPlace().fit(views.reshape(360, 32), places, names)
        assert "pooling, because it is ahead with leave-one-traversal-out" in fusion.explain()
        assert np.bincount(fusion.row_places_).tolist() == [6] * 60

    @pytest.mark.parametrize("n_traversals", [2, 3, 5])
    def test_conditions_that_drown_the_places_are_what_displace_is_for(self, n_traversals):
        """Images of a place are hardly more alike than those of two places, until the projection has seen why."""
        rng = np.random.default_rng(0)
        own, directions = rng.normal(size=(400, 64)), 2 * rng.normal(size=(16, 64))
        seen = [
            own + 0.3 * rng.normal(size=own.shape) + rng.normal(size=(400, 16)) @ directions
            for _ in range(n_traversals + 1)
        ]
        places, names = np.tile(np.arange(400), n_traversals), np.repeat(np.arange(n_traversals), 400)
        fusion = DisPlace().fit(np.concatenate(seen[:-1]), places, names)
        pooling = get_fusion("pooling")().fit(np.concatenate(seen[:-1]), places, names)
        assert np.mean(pooling.predict(seen[-1]) == np.arange(400)) < 0.3
        assert np.mean(fusion.predict(seen[-1]) == np.arange(400)) > 0.9

    def test_headings_are_binned_around_what_a_place_has(self):
        rng = np.random.default_rng(0)
        true = np.tile(np.arange(12), 40)
        places, names = np.repeat(np.arange(20), 24), np.tile(np.repeat(["a", "b"], 12), 20)
        starts = rng.uniform(0, 360, 20)
        degrees = starts[places] + 30 * true + rng.uniform(-6, 6, len(true))
        bins = heading_groups(degrees, places, names)
        for place in range(20):
            pairs = set(zip(bins[places == place].tolist(), true[places == place].tolist(), strict=True))
            assert len(pairs) == 12

    @pytest.mark.parametrize(
        "degrees",
        [[10.0, np.nan, 10.0, 100.0], [10.0, 12.0, 11.0, 13.0]],
        ids=["unknown", "along the way"],
    )
    def test_headings_that_tell_nothing_give_no_groups(self, degrees):
        assert heading_groups(degrees, [0, 0, 0, 0], ["a", "a", "b", "b"]) is None


def test_cameras_of_a_manifest_are_views_of_the_map(tmp_path):
    """A car with three cameras: a map from the store groups by camera, not by what images look like."""
    n, cameras = 12, 3
    rows = [(place, camera, name) for name in ("a", "b") for place in range(n) for camera in range(cameras)]
    vectors = np.random.default_rng(0).standard_normal((len(rows), 16)).astype(np.float32)
    images = [f"{name}/{place}_{camera}.jpg" for place, camera, name in rows]
    (tmp_path / "route.csv").write_text(
        "image,place,traversal,camera\n"
        + "".join(
            f"{image},{row[0]:02d},{row[2]},{row[1]}\n" for image, row in zip(images, rows, strict=True)
        )
    )
    manifest = Manifest.read(tmp_path / "route.csv")
    manifest.write(tmp_path / "again.csv")
    assert Manifest.read(tmp_path / "again.csv").camera.tolist() == [row[1] for row in rows]
    read = Queries(vectors, manifest.places, manifest)
    store = write_store(read, tmp_path / "route.desc", "mine")
    for refs in (store.references(), references_of(read)):
        assert refs.groups.tolist() == [row[1] for row in rows]
    assert len(displace.build(store, DisPlace(views=True)).vectors) == n * cameras


def test_a_camera_that_is_no_number_says_what_to_write(tmp_path):
    (tmp_path / "route.csv").write_text("image,place,traversal,camera\n0.jpg,0,a,front\n")
    with pytest.raises(ManifestError, match=r"camera 'front' is not a number: number a car's cameras"):
        Manifest.read(tmp_path / "route.csv")


class TestOneDrive:
    def frames(self, k, n=40, seed=0):
        """Frames of a drive, each like its neighbours, cut into places of k."""
        rng = np.random.default_rng(seed)
        walk = np.cumsum(rng.normal(size=(n * k, 64)), axis=0)
        walk -= np.array([walk[max(0, i - 12) : i + 12].mean(axis=0) for i in range(n * k)])
        return walk, np.arange(n * k) // k, np.arange(n * k) % k

    @pytest.mark.parametrize("k", [3, 4, 8])
    def test_frames_called_traversals_are_seen_through(self, k):
        vectors, places, frames = self.frames(k)
        assert frames_of_one_drive(vectors, places, frames)
        fusion = DisPlace().fit(vectors, places, [f"frame {f}" for f in frames])
        assert "consecutive frames of one drive" in fusion.explain()
        assert len(fusion.place_vectors_) == len(vectors)

    def test_real_traversals_are_not(self):
        walk, _, _ = self.frames(1, n=60)
        rng = np.random.default_rng(3)
        traversals = [walk + rng.normal(size=64) + 0.5 * rng.normal(size=walk.shape) for _ in range(4)]
        places, names = np.tile(np.arange(60), 4), np.repeat(np.arange(4), 60)
        assert not frames_of_one_drive(np.concatenate(traversals), places, names)

    def test_without_labels_references_count_as_conditions(self):
        vectors, places, _ = self.frames(4)
        assert len(DisPlace().fit(vectors, places).views_.places) == 40


class TestDefault:
    def test_one_traversal_is_pooling_and_says_why(self):
        refs, _, queries, _ = make_views(n_traversals=1)
        fusion = fit(DisPlace(), refs)
        pooling = get_fusion("pooling")().fit(refs.vectors, refs.places)
        np.testing.assert_array_equal(fusion.rank(queries).places, pooling.rank(queries).places)
        assert fusion.nbytes_ == pooling.nbytes_
        assert fusion.explain() == (
            "P = I, up to 3 rows a place: one traversal, so nothing is known about how conditions change"
        )

    def test_within_views_is_ahead_of_within_places_and_of_both_baselines(self):
        refs, _, queries, places = make_views(n_traversals=2)
        grouped = recall(fit(DisPlace(), refs), queries, places)
        rivals = [fit(DisPlace(views=False), refs)]
        rivals += [get_fusion(name)().fit(refs.vectors, refs.places) for name in ("hops", "pooling")]
        assert grouped > max(recall(rival, queries, places) for rival in rivals)

    def test_given_groups_do_what_found_ones_do(self):
        refs, views, queries, places = make_views(n_traversals=3)
        given = fit(DisPlace(), refs, views)
        assert "72 views of 24 places as given" in given.explain()
        found = fit(DisPlace(), refs)
        assert abs(recall(given, queries, places) - recall(found, queries, places)) < 5

    def test_one_view_a_place_is_untouched(self):
        refs, views, queries, _ = make_views(n_traversals=3)
        one = refs.select(views == 0)
        with_labels = fit(DisPlace(), one)
        assert with_labels.views_.kind == "one"
        assert len(with_labels.place_vectors_) == N
        by_place = fit(DisPlace(views=False), one)
        np.testing.assert_array_equal(with_labels.rank(queries).scores, by_place.rank(queries).scores)

    def test_the_paper_s_setting_knows_no_views(self):
        refs, *_ = make_views(n_traversals=6)
        paper = fit(DisPlace(ridge=0.0, center=False), refs)
        plain = DisPlace(ridge=0.0, center=False).fit(refs.vectors, refs.places)
        np.testing.assert_array_equal(paper.projection_, plain.projection_)
        assert paper.place_vectors_.shape[0] == N

    def test_held_out_traversals_decide_the_rows(self):
        refs, _, queries, places = make_views(n_traversals=4)
        fusion = fit(DisPlace(), refs)
        assert "leave-one-traversal-out over 4 traversals" in fusion.explain()
        assert recall(fusion, queries, places) >= recall(fit(DisPlace(n_rows=1), refs), queries, places)


class TestRows:
    @pytest.mark.parametrize("most", [1, 2, 3])
    def test_views_are_merged_down_to_the_budget(self, most):
        refs, *_ = make_views(n_traversals=2)
        fusion = fit(DisPlace(n_rows=most), refs)
        counts = np.bincount(fusion.row_places_)
        assert counts.max() <= most
        assert len(counts) == N
        np.testing.assert_allclose(np.linalg.norm(fusion.place_vectors_, axis=1), 1, atol=1e-5)

    def test_one_traversal_has_a_budget_too(self):
        refs, *_ = make_views(n_traversals=1)
        fusion = fit(DisPlace(n_rows=2), refs)
        assert np.bincount(fusion.row_places_).tolist() == [2] * N
        one = fit(DisPlace(n_rows=1), refs)
        hops = get_fusion("hops")().fit(refs.vectors, refs.places)
        np.testing.assert_allclose(one.place_vectors_, hops.place_vectors_, atol=1e-6)

    def test_merging_takes_the_nearest_first(self):
        rows = np.array([[1, 0, 0], [0, 1, 0], [0.96, 0.28, 0], [0, 0, 1]], float)
        kept, places = merged(rows, np.zeros(4, np.intp), 3)
        assert places.tolist() == [0, 0, 0]
        np.testing.assert_allclose(kept[0], (rows[0] + rows[2]) / np.linalg.norm(rows[0] + rows[2]))

    @pytest.mark.parametrize(
        "wrong", [{"n_rows": 0}, {"n_rows": "some"}, {"views": "no"}, {"project": 3}], ids=str
    )
    def test_wrong_parameters_are_refused(self, wrong):
        with pytest.raises(InputError, match=next(iter(wrong))):
            DisPlace(**wrong).fit(np.eye(3), [0, 1, 1])


class TestMaps:
    def test_a_map_of_views_is_updated_as_if_built_anew(self, tmp_path):
        refs, _, queries, _ = make_views(n_traversals=3)
        first, third = refs.only("t0", "t1"), refs.only("t2")
        place_map = displace.build(first, calibration=False)
        assert place_map.settings["views"]
        place_map.save(tmp_path / "a.displace")
        place_map = displace.PlaceMap.load(tmp_path / "a.displace")
        place_map.add(third)
        anew = displace.build(refs, DisPlace(**place_map.settings), calibration=False)
        np.testing.assert_array_equal(place_map.locate(queries).places, anew.locate(queries).places)
        place_map.remove(third)
        before = displace.build(first, DisPlace(**place_map.settings), calibration=False)
        np.testing.assert_array_equal(place_map.locate(queries).places, before.locate(queries).places)

    def test_a_second_traversal_shows_which_views_belong_together(self):
        refs, _, queries, _ = make_views(n_traversals=2)
        place_map = displace.build(refs.only("t0"), calibration=False)
        assert "one traversal" in place_map.reason
        assert place_map.projection is None
        update = place_map.add(refs.only("t1"))
        assert "found across 2 traversals" in update.decided
        assert place_map.projection is not None
        whole = displace.build(refs, calibration=False)
        np.testing.assert_array_equal(place_map.locate(queries).places, whole.locate(queries).places)

    def test_rows_of_a_map_are_the_fusion_s(self):
        refs, _, queries, _ = make_views(n_traversals=3)
        fusion = fit(DisPlace(), refs)
        place_map = displace.build(refs, dtype="float32")
        assert len(place_map.row_places) == len(fusion.place_vectors_)
        np.testing.assert_array_equal(place_map.locate(queries).places, fusion.rank(queries).places)
        assert place_map.calibration is not None

    def test_a_map_keeps_references_also_when_an_update_leaves_one_view_a_place(self):
        refs, views, *_ = make_views(n_traversals=3)
        place_map = displace.build(refs.only("t0"), calibration=False)
        place_map.add(refs.only("t1"))
        place_map.add(refs.select((refs.traversals == "t2") & (views == 0)))
        place_map.remove(refs.only("t0"))
        assert place_map.settings["views"] is True
        with pytest.warns(ConditioningWarning, match="no place has more than one reference"):
            place_map.remove(refs.only("t1"))
        assert place_map.settings["views"] is True
        place_map.add(refs.only("t0"))

    def test_groups_travel_with_references(self):
        refs, views, *_ = make_views()
        grouped = ReferenceSet(refs.vectors, refs.places, refs.traversals, groups=views)
        assert grouped.only("t1").groups.tolist() == views[refs.traversals == "t1"].tolist()
        assert "as given" in displace.build(grouped, calibration=False).reason

    @pytest.mark.parametrize("keep_references", [True, False])
    def test_another_tolerance_is_learned_with_the_views_that_were_given(self, tmp_path, keep_references):
        """A map that was read had forgotten them, and without `keep_references` it said that it keeps no references."""
        refs, views, *_ = make_views(n_traversals=3)
        mixed = np.random.default_rng(0).permutation(VIEWS)[views]
        mixed[::5] = VIEWS - 1 - mixed[::5]  # groups that would not be found
        info = Places(np.arange(N), frames=np.arange(N))
        grouped = ReferenceSet(refs.vectors, refs.places, refs.traversals, groups=mixed, info=info)
        grouped = grouped.select(np.argsort(refs.places, kind="stable"))  # as a map keeps them
        displace.build(grouped, keep_references=keep_references).save(tmp_path / "town.displace")
        town = displace.PlaceMap.load(tmp_path / "town.displace").with_tolerance("1 frames")
        fusion = get_fusion("displace")(**town.settings)
        assert town.calibration == displace.build(grouped, fusion, tolerance="1 frames").calibration


def test_the_study_of_storage_has_budgets_of_rows_where_places_have_several_views():
    refs, *_ = make_views(n_traversals=1)
    assert [method.parameters for method in budgets(refs)] == [{"n_rows": 1}, {"n_rows": 2}]
    one = refs.select(np.unique(refs.places, return_index=True)[1])
    assert budgets(one) == []
