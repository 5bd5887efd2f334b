"""The place map: what is built, saved, located with and updated."""

from __future__ import annotations

import copy
import pickle

import cv2
import numpy as np
import pytest
from memory import set_block_bytes

import displace
from displace import DisPlace, PlaceMap, ReferenceSet, build, get_fusion
from displace.errors import FormatError, ImageError, InputError, ModelMismatchError, UnknownNameError
from displace.geo import Positions
from displace.images import read_image
from displace.maps.rounding import rounded
from displace.models import get_model
from displace.places import Places
from displace.synthetic import make_route
from displace.truth import Tolerance

UPDATABLE = ["displace", "hops", "pooling", "dmat_avg"]
HELD = ["displace", "hops", "pooling", "single", "dmat_avg"]


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
        assert (again.images, again.tolerance, again.notes) == (
            town.images,
            Tolerance("metres", 40.0),
            town.notes,
        )
    assert again.vectors.dtype == dtype


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
@pytest.mark.parametrize("verify", [True, False])
def test_a_map_that_was_used_can_be_copied_and_sent_to_another_process(route, tmp_path, copied, verify):
    names = list(route.references.traversal_ids)
    build(route.references.only(*names[:2])).save(tmp_path / "town.displace")
    town = PlaceMap.load(tmp_path / "town.displace", verify=verify)
    town.add(route.references.only(names[2]))
    before = town.locate(route.queries)
    other = copied(town)
    np.testing.assert_array_equal(other.locate(route.queries).scores, before.scores)
    other.add(route.references.only(*names[3:]))
    assert len(other.traversals) == 4
    assert len(town.traversals) == 3


def test_integer_place_ids_stay_integers(route, tmp_path):
    build(route.references, calibration=False).save(tmp_path / "m.displace")
    assert PlaceMap.load(tmp_path / "m.displace").locate(route.queries[:1]).places.dtype == np.int64


@pytest.mark.parametrize("name", HELD)
def test_fewer_bits_cost_little(route, name):
    exact = build(route.references, name, dtype="float32", calibration=False).locate(route.queries, k=60)
    for dtype, tolerance in (("float16", 5e-4), ("int8", 1e-2)):
        town = build(route.references, name, dtype=dtype, calibration=False)
        np.testing.assert_allclose(
            all_scores(town.locate(route.queries, k=60)), all_scores(exact), atol=tolerance
        )
        assert town.notes["same_top_match"] > 95


def test_eight_bits_are_the_nearest_and_not_the_next_lower(route):
    rows = build(route.references, "hops", dtype="float32", calibration=False).rows()
    error = np.abs(rounded(rows, "int8") - rows).max(axis=1)
    half_a_step = np.abs(rows).max(axis=1) / 127 / 2
    assert (error <= half_a_step * (1 + 1e-5)).all()
    assert error.mean() > 0.8 * half_a_step.mean()


@pytest.mark.parametrize("name", UPDATABLE)
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_the_loss_by_fewer_bits_is_a_difference_in_recall_on_held_out_traversals(route, name, dtype):
    refs = route.references
    notes = build(refs, name, dtype=dtype).notes
    recalls, n = notes["recall_at_1"], notes["n_queries"]
    assert list(recalls) == ["float32", dtype]
    assert 0 < recalls["float32"] < 100
    # Each fold asks for the places of a held-out traversal that are left; recalls come in steps of one query.
    assert 100 < n < len(refs)
    assert abs(recalls["float32"] * n / 100 - round(recalls["float32"] * n / 100)) < 0.01
    assert abs(recalls["float32"] - recalls[dtype]) < 3
    assert build(refs, name, dtype="float32").notes.keys() <= {"spectrum"}


def test_a_crude_rounding_is_seen_in_the_recall(route, monkeypatch):
    """Rows of one bit: the note must say what they cost."""
    from displace.maps import rounding

    monkeypatch.setattr(
        rounding, "rounded", lambda rows, dtype: rows if dtype == "float32" else np.sign(rows)
    )
    recalls = build(route.references).notes["recall_at_1"]
    assert recalls["float16"] < recalls["float32"] - 3


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

    def town(self, folder, **options):
        from displace.descriptors.extraction import describe

        model = get_model("hog", **options)
        paths = [folder / f"{name}_{p:02d}.png" for name in ("a", "b") for p in range(12)]
        refs = ReferenceSet(describe(model, paths), np.tile(np.arange(12), 2), np.repeat(["a", "b"], 12))
        return build(refs, model=model.fingerprint())

    @pytest.mark.parametrize("model", ["hog", get_model("hog"), get_model("hog").fingerprint()])
    def test_a_model_is_named_given_or_given_as_its_fingerprint(self, route, model):
        assert build(route.references, model=model).model == get_model("hog").fingerprint()

    def test_a_model_of_another_kind_is_refused_in_words(self, route):
        with pytest.raises(
            InputError, match=r"model=3 must be the name of a model, such as 'hog', a DescriptorModel"
        ):
            build(route.references, model=3)
        with pytest.raises(UnknownNameError, match="unknown model 'hgo'; did you mean 'hog'"):
            build(route.references, model="hgo")

    def test_images_are_located_with_the_maps_own_model(self, folder):
        matches = self.town(folder).locate([folder / f"query_{p:02d}.png" for p in range(12)], k=3)
        np.testing.assert_array_equal(matches.places[:, 0], np.arange(12))
        assert (matches.confidence > 0.5).all()

    def test_the_crop_of_the_references_is_the_queries_too(self, folder):
        """Also from Python, where it was once ignored."""
        town = self.town(folder, crop=(0.3, 0.1, 0, 0))
        model = get_model("hog", crop=(0.3, 0.1, 0, 0))
        path = folder / "query_03.png"
        np.testing.assert_array_equal(town.describe([path]), town.describe([path], model=model))
        assert town.locate([path], k=1).places.tolist() == [[3]]

    def test_files_bytes_and_pixels_are_the_same_image(self, folder):
        town, path = self.town(folder), folder / "query_05.png"
        pixels = read_image(path)
        expected = town.describe([path])
        several = [str(path), path.read_bytes(), pixels]
        for query in (path, str(path), path.read_bytes(), pixels, pixels[None]):
            np.testing.assert_array_equal(town.describe(query), expected)
        np.testing.assert_array_equal(town.describe(several), np.repeat(expected, 3, axis=0))
        assert town.locate(several, k=1).places.tolist() == [[5]] * 3

    def test_bytes_that_are_no_image_are_named(self, folder):
        with pytest.raises(ImageError, match="the image given as bytes is not an image"):
            self.town(folder).locate(b"no image")

    def test_another_preprocessing_is_refused_and_both_are_named(self, folder):
        with pytest.raises(
            ModelMismatchError, match=r"described by hog, .*references by hog; they differ in\n  crop"
        ):
            self.town(folder).locate([folder / "query_00.png"], model=get_model("hog", crop=(0, 0, 0.2, 0)))

    def test_a_map_of_bare_vectors_knows_no_model(self, route, folder):
        with pytest.raises(InputError, match="knows no model"):
            build(route.references, calibration=False).locate([str(folder / "query_00.png")])


@pytest.mark.parametrize("name", ["displace", "pooling"])
def test_scores_are_those_of_locating_in_the_order_of_the_route(route, name, monkeypatch):
    refs = route.references
    numbers = np.random.default_rng(0).permutation(60).astype(np.float64)
    known = ReferenceSet(
        refs.vectors, refs.places, refs.traversals, info=Places(np.arange(60), frames=numbers)
    )
    town = build(known, name, dtype="float32", calibration=False)
    set_block_bytes(monkeypatch, 4 * 7 * (len(town.row_places) + 60))
    blocks = list(town.scores(route.queries))
    assert [len(block) for block in blocks] == [7] * 8 + [4]
    found = town.locate(route.queries, k=60)
    by_id = np.take_along_axis(found.scores, np.argsort(found.places, axis=1), axis=1)
    np.testing.assert_allclose(np.concatenate(blocks), by_id[:, np.argsort(numbers)], atol=1e-6)


def test_the_order_of_the_route_is_kept_in_the_file(route, tmp_path):
    refs = route.references
    numbers = np.r_[np.nan, np.arange(59.0)[::-1]]
    known = ReferenceSet(
        refs.vectors, refs.places, refs.traversals, info=Places(np.arange(60), frames=numbers)
    )
    town = build(known, tolerance="2 frames")
    town.save(tmp_path / "town.displace")
    again = PlaceMap.load(tmp_path / "town.displace")
    np.testing.assert_array_equal(again.places.frames, numbers)
    assert again.places.order.tolist() == [*range(59, 0, -1), 0]
    assert again.tolerance == Tolerance("frames", 2)
    assert build(refs, calibration=False).places.order is None
    with pytest.raises(InputError, match="needs the order of the places along the route"):
        build(refs, tolerance="2 frames")
    exact = build(known, tolerance="exact")
    assert town.calibration.n_correct > exact.calibration.n_correct


def test_queries_are_checked(route):
    town = build(route.references, calibration=False)
    with pytest.raises(InputError, match="queries have 3 dimensions; the map has 24"):
        town.locate(np.ones((2, 3)))
    with pytest.raises(InputError, match="k=0 must be a whole number of at least 1"):
        town.locate(route.queries, k=0)
    assert town.locate(route.queries, k=500).places.shape == (60, len(town.place_ids))
    with pytest.raises(InputError, match="dtype='float8' must be one of"):
        build(route.references, dtype="float8")
    with pytest.raises(InputError, match="images has 3 entries; the references have 60 places"):
        build(route.references, images=["a", "b", "c"])
    for fusion in (DisPlace, 3):
        with pytest.raises(InputError, match=r"fusion=.* must be a name or an estimator, such as 'displace'"):
            build(route.references, fusion)
    with pytest.raises(InputError, match="path=3 must be the file of a map"):
        PlaceMap.load(3)


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
        assert int(town.statistics.loaded().arrays["counts"].sum()) == answers["n_references"]


def test_maps_of_every_released_format_can_be_updated(request, tmp_path):
    for path in sorted((request.path.parent / "golden").glob("*.displace")):
        for name in (path.name, f"{path.name}-stats"):
            (tmp_path / name).write_bytes(path.with_name(name).read_bytes())
        town = PlaceMap.load(tmp_path / path.name)
        queries = np.load(path.with_suffix(".npz"))["queries"]
        town.add(ReferenceSet(queries, town.place_ids, ["new"] * len(queries)))
        assert town.calibration_is_stale
        town.save(tmp_path / path.name)
        again = PlaceMap.load(tmp_path / path.name)
        assert again.statistics.loaded().digests.keys() == {"new"}
        again.remove(ReferenceSet(queries, town.place_ids, ["new"] * len(queries)))
        np.testing.assert_allclose(
            all_scores(again.locate(queries, k=99)),
            all_scores(PlaceMap.load(path).locate(queries, k=99)),
            atol=1e-3,
        )


def test_a_later_format_says_which_version_is_needed(route, tmp_path, monkeypatch):
    monkeypatch.setattr("displace.maps.file.VERSION", 7)
    monkeypatch.setattr("displace.maps.file.RELEASES", {1: "0.1", 7: "2.3"})
    build(route.references, calibration=False).save(tmp_path / "later.displace")
    monkeypatch.undo()
    with pytest.raises(FormatError, match=r"has format version 7; .* it needs displace 2.3 or later"):
        PlaceMap.load(tmp_path / "later.displace")


def test_the_public_names():
    assert displace.build is build
    assert displace.PlaceMap is PlaceMap


@pytest.mark.parametrize(
    ("dtype", "backend"), [("float16", "faiss"), ("float32", "exact"), ("int8", "exact")]
)
def test_faiss_searches_float16_rows_where_it_is_installed(route, dtype, backend):
    pytest.importorskip("faiss", reason="needs the extra faiss")
    town = build(route.references, dtype=dtype, calibration=False)
    best = town.locate(route.queries)
    assert list(town.state._indexes) == [backend]
    np.testing.assert_array_equal(best.places[:, 0], town.locate(route.queries, search="exact").places[:, 0])


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_a_map_larger_than_memory_is_searched_in_its_file(tmp_path, monkeypatch, dtype):
    route = make_route(n_places=50, dim=16, seed=1)
    build(route.references, DisPlace(ridge=0.1, center=True), dtype=dtype).save(tmp_path / "town.displace")
    usual = PlaceMap.load(tmp_path / "town.displace").locate(route.queries, k=3)
    monkeypatch.setattr("displace.maps.state.physical_memory", lambda: 0)
    monkeypatch.setattr("displace.search.exact.MAPPED_ABOVE", 0)
    large = PlaceMap.load(tmp_path / "town.displace")
    index = large.state.index("auto")
    assert (type(index).__name__, index.kind) == ("Exact", dtype)
    assert np.shares_memory(index.codes, large.state.vectors), "no copy of the rows"
    found = large.locate(route.queries, k=3)
    np.testing.assert_array_equal(found.places[:, 0], usual.places[:, 0])
    np.testing.assert_allclose(found.scores, usual.scores, atol=1e-4)
