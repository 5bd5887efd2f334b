"""The place map: what is built, saved, located with and updated."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import displace
from displace import PlaceMap, ReferenceSet, build, get_fusion
from displace.errors import FormatError, InputError, ModelMismatchError
from displace.geo import Positions
from displace.models import get_model
from displace.synthetic import make_route

HELD = ["displace", "hops", "pooling", "single", "dmat_avg"]
UPDATABLE = ["displace", "hops", "pooling", "dmat_avg"]


@pytest.fixture(scope="module")
def route():
    return make_route(n_places=60, n_traversals=4, dim=24, drop=0.15, seed=4)


def all_scores(matches):
    """Scores (q, N) in the order of the place ids."""
    return np.take_along_axis(matches.scores, np.argsort(matches.places, axis=1), axis=1)


@pytest.mark.parametrize("name", HELD)
def test_a_map_ranks_as_its_fusion_does(route, name):
    refs = route.references
    town = build(refs, name, dtype="float32", calibration=False)
    fusion = get_fusion(name)().fit(refs.vectors, refs.places, refs.traversals)
    located, ranked = town.locate(route.queries, k=60, search="exact"), fusion.rank(route.queries, k=60)
    np.testing.assert_array_equal(located.places, ranked.places)
    np.testing.assert_allclose(located.scores, ranked.scores, atol=1e-6)


@pytest.mark.parametrize("name", ["dmat_med", "dmat_min", "std_dmat_min", "bsf"])
def test_fusions_of_score_matrices_are_refused(route, name):
    with pytest.raises(InputError, match="needs whole score matrices and exists for evaluation only"):
        build(route.references, name)


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_what_is_saved_is_loaded(route, tmp_path, name, dtype):
    refs = route.references
    ids = np.array([f"lane/{p:03d}" for p in range(60)])
    named = ReferenceSet(refs.vectors, ids[refs.places], refs.traversals)
    points = Positions(np.random.default_rng(0).uniform(0, 500, (60, 2)), heading=np.linspace(0, 359, 60))
    model = {"model": "hog", "dim": 24}
    images = [f"sun/{p:03d}.jpg" for p in range(60)]
    town = build(named, name, model, positions=points, images=images, dtype=dtype, tolerance=40.0)
    town.save(tmp_path / "town.displace")
    for verify in (True, False):
        again = PlaceMap.load(tmp_path / "town.displace", verify)
        a, b = town.locate(route.queries), again.locate(route.queries)
        np.testing.assert_array_equal(a.places, b.places)
        np.testing.assert_array_equal(a.scores, b.scores)
        np.testing.assert_array_equal(a.positions.points, b.positions.points)
        if name != "single":
            np.testing.assert_array_equal(a.confidence, b.confidence)
        assert (again.model, again.settings, again.traversals) == (town.model, town.settings, town.traversals)
        assert (again.images, again.tolerance, again.notes) == (town.images, 40.0, town.notes)
    assert again.vectors.dtype == dtype


def test_integer_place_ids_stay_integers(route, tmp_path):
    build(route.references, calibration=False).save(tmp_path / "m.displace")
    assert PlaceMap.load(tmp_path / "m.displace").locate(route.queries[:1]).places.dtype == np.int64


@pytest.mark.parametrize("name", HELD)
def test_fewer_bits_cost_little(route, name):
    exact = build(route.references, name, dtype="float32", calibration=False).locate(route.queries, k=60)
    for dtype, tolerance in (("float16", 5e-4), ("int8", 2e-2)):
        town = build(route.references, name, dtype=dtype, calibration=False)
        np.testing.assert_allclose(
            all_scores(town.locate(route.queries, k=60)), all_scores(exact), atol=tolerance
        )
        assert town.notes["same_top_match"] > 95


@pytest.mark.parametrize("search", ["exact", "faiss"])
@pytest.mark.parametrize("name", HELD)
def test_backends_agree(route, name, search):
    if search == "faiss":
        pytest.importorskip("faiss", reason="needs 'faiss-cpu'")
    town = build(route.references, name, dtype="float32", calibration=False)
    expected = town.rows() @ town.project(route.queries).T
    best = np.array(
        [[expected[town.row_places == p, q].max() for p in range(len(town.place_ids))] for q in range(60)]
    )
    found = town.locate(route.queries, k=5, search=search)
    np.testing.assert_array_equal(
        found.places, town.place_ids[np.argsort(-best, axis=1, kind="stable")[:, :5]]
    )


class TestUpdate:
    @pytest.mark.parametrize("name", UPDATABLE)
    @pytest.mark.parametrize("saved", [True, False], ids=["from the file", "in memory"])
    def test_adding_equals_building_with_it(self, route, tmp_path, name, saved):
        refs = route.references
        town = build(refs.without("t3"), name, dtype="float32", calibration=False)
        if saved:
            town.save(tmp_path / "town.displace")
            town = PlaceMap.load(tmp_path / "town.displace")
        update = town.add(refs.only("t3"))
        rebuilt = build(refs, get_fusion(name)(**town.settings), dtype="float32", calibration=False)
        assert update.n_references == len(refs.only("t3"))
        assert update.n_places == len(refs.place_ids) - len(refs.without("t3").place_ids)
        np.testing.assert_array_equal(town.place_ids, rebuilt.place_ids)
        assert town.traversals == rebuilt.traversals
        np.testing.assert_allclose(
            all_scores(town.locate(route.queries, k=60)),
            all_scores(rebuilt.locate(route.queries, k=60)),
            atol=1e-4,
        )

    @pytest.mark.parametrize("name", UPDATABLE)
    @pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float16", 4e-4)])
    @settings(max_examples=6, deadline=None)
    @given(seed=st.integers(0, 1000))
    def test_removing_undoes_adding(self, name, dtype, tolerance, seed):
        route = make_route(n_places=60, n_traversals=3, dim=20, drop=0.2, seed=seed)
        refs = route.references
        before = build(refs.without("t1"), name, dtype=dtype, calibration=False)
        town = build(refs.without("t1"), get_fusion(name)(**before.settings), dtype=dtype, calibration=False)
        town.add(refs.only("t1"))
        town.remove(refs.only("t1"))
        np.testing.assert_array_equal(town.place_ids, before.place_ids)
        assert town.traversals == before.traversals
        # A float16 row may round to its neighbour: a unit in the last place of its largest number.
        np.testing.assert_allclose(
            all_scores(town.locate(route.queries, k=60)),
            all_scores(before.locate(route.queries, k=60)),
            atol=tolerance,
        )

    def test_new_places_come_with_their_positions(self, route):
        refs = route.references
        points = Positions(np.arange(120.0).reshape(60, 2))
        old = refs.select(refs.places < 50)
        town = build(old, positions=points.take(np.arange(50)), images=["x.jpg"] * 50, calibration=False)
        new = refs.select((refs.places >= 45) & (refs.traversals == "t2"))
        town.add(new, positions=points.take(new.place_ids))
        assert set(town.place_ids) == {*range(50), *new.place_ids.tolist()}
        np.testing.assert_array_equal(town.positions.points, points.points[town.place_ids])
        assert town.images[0] == "x.jpg"
        assert town.images[-1] == ""

    def test_a_traversal_can_be_removed_by_name_where_references_were_kept(self, route, tmp_path):
        refs = route.references
        town = build(refs, dtype="float32", calibration=False, keep_references=True)
        town.save(tmp_path / "town.displace")
        town = PlaceMap.load(tmp_path / "town.displace")
        town.remove("t2")
        rebuilt = build(
            refs.without("t2"), get_fusion("displace")(**town.settings), dtype="float32", calibration=False
        )
        np.testing.assert_allclose(
            all_scores(town.locate(route.queries, k=60)),
            all_scores(rebuilt.locate(route.queries, k=60)),
            atol=1e-4,
        )
        assert town.statistics.references.traversal_ids.tolist() == ["t0", "t1", "t3"]

    def test_it_says_how_far_the_projection_moved_and_what_to_redo(self, route):
        refs = route.references
        town = build(refs.without("t3"))
        update = town.add(refs.only("t3"))
        assert 0 < update.moved < 100
        assert update.sampling_ratio[1] < update.sampling_ratio[0]
        assert any("calibration" in advice for advice in update.advice)
        two = build(refs.only("t0", "t1"))
        assert any("settings" in advice for advice in two.add(refs.only("t2", "t3")).advice)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda town, refs: town.remove("t1"), "built without keep_references"),
            (
                lambda town, refs: town.remove(ReferenceSet(refs.vectors[:1], [99])),
                "places that are not there",
            ),
            (lambda town, refs: town.remove(refs), "remove every reference"),
            (
                lambda town, refs: town.add(ReferenceSet(np.ones((1, 7)), [0])),
                "have 7 dimensions; the map has 24",
            ),
            (lambda town, refs: town.add(ReferenceSet(np.ones((1, 24)), ["a"])), "use one kind"),
        ],
    )
    def test_what_cannot_be_done_is_said_and_changes_nothing(self, route, change, message):
        refs = route.references
        town = build(refs, calibration=False)
        before = town.locate(route.queries)
        with pytest.raises(InputError, match=message):
            change(town, refs)
        np.testing.assert_array_equal(town.locate(route.queries).scores, before.scores)

    def test_without_statistics_there_is_no_update(self, route, tmp_path):
        build(route.references, calibration=False).save(tmp_path / "town.displace")
        (tmp_path / "town.displace-stats").unlink()
        with pytest.raises(InputError, match="no statistics beside it"):
            PlaceMap.load(tmp_path / "town.displace").add(route.references)

    def test_statistics_of_another_map_are_not_used(self, route, tmp_path):
        refs = route.references
        build(refs, calibration=False).save(tmp_path / "a.displace")
        build(refs.without("t3"), calibration=False).save(tmp_path / "b.displace")
        (tmp_path / "b.displace-stats").replace(tmp_path / "a.displace-stats")
        assert PlaceMap.load(tmp_path / "a.displace").statistics is None


def test_a_killed_update_leaves_a_map_and_its_statistics(tmp_path):
    """SIGKILL at random points: the map is always one of the two, and can always be updated."""
    route = make_route(n_places=400, n_traversals=3, dim=48)
    refs = route.references
    path = tmp_path / "town.displace"
    build(refs.without("t2"), calibration=False).save(path)
    np.savez(tmp_path / "t2.npz", vectors=refs.only("t2").vectors, places=refs.only("t2").places)
    script = textwrap.dedent("""
        import sys, numpy as np
        from displace import PlaceMap, ReferenceSet
        path, new = sys.argv[1], np.load(sys.argv[2])
        refs = ReferenceSet(new["vectors"], new["places"], ["t2"] * len(new["places"]))
        print("ready", flush=True)
        while True:
            town = PlaceMap.load(path)
            town.remove(refs) if "t2" in town.traversals else town.add(refs)
            town.save(path)
    """)
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(8):
        arguments = [sys.executable, "-c", script, str(path), str(tmp_path / "t2.npz")]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(float(rng.uniform(0.0, 0.4)))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        town = PlaceMap.load(path)
        seen.add(len(town.traversals))
        assert len(town.traversals) in (2, 3)
        assert town.statistics is not None
        expected = len(refs) if len(town.traversals) == 3 else len(refs.without("t2"))
        assert town.statistics.loaded().scatter.n_references == expected
    assert seen == {2, 3}


class TestImages:
    @pytest.fixture
    def folder(self, tmp_path):
        folder = tmp_path
        rng = np.random.default_rng(0)
        for place in range(12):
            base = cv2.resize(
                rng.integers(0, 256, (6, 8, 3), np.uint8), (160, 120), interpolation=cv2.INTER_CUBIC
            )
            for name in ("a", "b", "query"):
                noisy = np.clip(base + rng.normal(0, 20, base.shape), 0, 255).astype(np.uint8)
                cv2.imwrite(str(folder / f"{name}_{place:02d}.png"), noisy)
        return folder

    def town(self, folder):
        from displace.descriptors.extraction import describe

        model = get_model("hog")
        paths = [folder / f"{name}_{p:02d}.png" for name in ("a", "b") for p in range(12)]
        refs = ReferenceSet(describe(model, paths), np.tile(np.arange(12), 2), np.repeat(["a", "b"], 12))
        return build(refs, model=model.fingerprint())

    def test_images_are_located_with_the_maps_own_model(self, folder):
        matches = self.town(folder).locate([folder / f"query_{p:02d}.png" for p in range(12)], k=3)
        np.testing.assert_array_equal(matches.places[:, 0], np.arange(12))
        assert matches.confidence is None  # two traversals

    def test_another_preprocessing_is_refused_and_both_are_named(self, folder):
        with pytest.raises(
            ModelMismatchError, match=r"described by hog, .*references by hog; they differ in\n  crop"
        ):
            self.town(folder).locate([folder / "query_00.png"], model=get_model("hog", crop=(0, 0, 0.2, 0)))

    def test_a_map_of_bare_vectors_knows_no_model(self, route, folder):
        with pytest.raises(InputError, match="knows no model"):
            build(route.references, calibration=False).locate([str(folder / "query_00.png")])


def test_queries_are_checked(route):
    town = build(route.references, calibration=False)
    with pytest.raises(InputError, match="queries have 3 dimensions; the map has 24"):
        town.locate(np.ones((2, 3)))
    with pytest.raises(InputError, match="k=0 must be at least 1"):
        town.locate(route.queries, k=0)
    assert town.locate(route.queries, k=500).places.shape == (60, len(town.place_ids))
    with pytest.raises(InputError, match="dtype='float8' must be one of"):
        build(route.references, dtype="float8")
    with pytest.raises(InputError, match="images has 3 entries; the references have 60 places"):
        build(route.references, images=["a", "b", "c"])


def test_maps_of_every_released_format_load(request):
    golden = sorted((request.path.parent / "golden").glob("*.displace"))
    assert golden, "golden maps are part of the repository"
    for path in golden:
        town = PlaceMap.load(path)
        answers = np.load(path.with_suffix(".npz"))
        matches = town.locate(answers["queries"], k=3)
        np.testing.assert_array_equal(matches.places, answers["places"])
        np.testing.assert_allclose(matches.scores, answers["scores"], atol=1e-5)
        np.testing.assert_allclose(matches.confidence, answers["confidence"], atol=1e-5)
        assert town.statistics.loaded().scatter.n_references == answers["n_references"]


def test_a_later_format_says_which_version_is_needed(route, tmp_path, monkeypatch):
    monkeypatch.setattr("displace.place_map.file.VERSION", 7)
    monkeypatch.setattr("displace.place_map.file.RELEASES", {1: "0.1", 7: "2.3"})
    build(route.references, calibration=False).save(tmp_path / "later.displace")
    monkeypatch.undo()
    with pytest.raises(FormatError, match=r"has format version 7; .* it needs displace 2.3 or later"):
        PlaceMap.load(tmp_path / "later.displace")


def test_the_public_names():
    assert displace.build is build
    assert displace.PlaceMap is PlaceMap
