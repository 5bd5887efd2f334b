"""Locating in detail: areas, what counts as an image, backends' answers, limits of confidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

from displace import DisPlace, ReferenceSet, build
from displace.errors import ImageError, InputError, ModelMismatchError
from displace.geo import Positions
from displace.images import read_image
from displace.interop._points import locations_table
from displace.manifest.table import Manifest
from displace.maps import state
from displace.maps.located import Located, check_limit
from displace.maps.questions import as_images, check_same_model, is_image
from displace.maps.refusals import of_refusals
from displace.maps.remarks import (
    LACKING,
    REFUSED,
    STALE,
    UNCALIBRATED,
    UNJUDGED,
    UNLEARNED,
    UNTOLD,
    WEAKER,
    of_confidence,
    of_missing_stretches,
    remarks,
    rounding_loss,
)
from displace.maps.samples import Samples
from displace.maps.state import _best_of_each
from displace.maps.witness import Witness
from displace.matches import Matches, joined
from displace.models import model_name
from displace.places import Places
from displace.sequence.following import RULE, DriveCalibration
from displace.synthetic import make_route

LINE = np.stack([np.arange(30.0) * 10, np.zeros(30)], axis=1)


@pytest.fixture(scope="module")
def route():
    return make_route(n_places=30, n_traversals=3, dim=8, seed=1)


@pytest.fixture(scope="module")
def town(route):
    return build(route.references, "hops", positions=Positions(LINE))


class TestAreas:
    def test_both_or_none(self, town, route):
        for half in ({"near": (0, 0)}, {"radius": 5}):
            with pytest.raises(InputError, match="go together"):
                town.locate(route.queries, **half)

    def test_only_places_inside_are_found_and_the_whole_map_is_not_changed(self, town, route):
        near = town.locate(route.queries, k=9, near=(100, 0), radius=20)
        assert set(near.places.ravel().tolist()) == {8, 9, 10, 11, 12}
        assert near.places.shape == (30, 5)
        assert town.within((100, 0), 20).locate(route.queries).places.shape == (30, 5)
        assert town.locate(route.queries, k=9).places.shape == (30, 9)

    def test_drives_are_not_followed_in_one(self, town, route):
        """They were, along the whole route: places outside of the area were found."""
        near = town.within((100, 0), 20)
        for follow in (near.follow, lambda: near.smooth(route.queries), lambda: near.smoothed(route.queries)):
            with pytest.raises(InputError, match="along the whole route"):
                follow()

    def test_of_several_rows_a_place_too(self, route):
        pooled = build(route.references, "pooling", positions=Positions(LINE), calibration=False)
        whole = pooled.locate(route.queries, k=30)
        near = pooled.locate(route.queries, k=2, near=(100, 0), radius=20)
        for row in range(30):
            inside = [place for place in whole.places[row].tolist() if 8 <= place <= 12]
            assert near.places[row].tolist() == inside[:2]

    @pytest.mark.parametrize("degrees", [False, True])
    def test_nothing_near_says_how_far_it_is(self, route, degrees):
        points = LINE / 111_195 if degrees else LINE  # about ten metres of latitude
        own = build(route.references, "hops", positions=Positions(points, degrees), calibration=False)
        at = (400 / 111_195, 0) if degrees else (400, 0)
        with pytest.raises(InputError, match=r"within radius=50 m .* the nearest is 1(09|10) m away"):
            own.locate(route.queries, near=at, radius=50)

    def test_adaptation_is_of_the_whole_map(self, town, route):
        with pytest.raises(InputError, match="compares the queries with the whole map"):
            town.locate(route.queries, near=(100, 0), radius=20, adapt="batch")
        assert (
            town.locate(np.tile(route.queries, (5, 1)), near=(0, 0), radius=20, adapt="auto").places.max()
            <= 2
        )

    @pytest.mark.parametrize(
        ("near", "radius"), [((1, 2, 3), 5), ("1,2", 5), (5, 5), ((1, None), 5), ((1, 2), "far")]
    )
    def test_what_is_no_area_is_named(self, town, route, near, radius):
        with pytest.raises(InputError, match="must be two numbers, such as"):
            town.locate(route.queries, near=near, radius=radius)

    def test_a_map_without_positions_has_no_areas(self, route):
        with pytest.raises(InputError, match="the map has no positions"):
            build(route.references, "hops", calibration=False).locate(route.queries, near=(0, 0), radius=1)

    def test_one_place_inside_is_enough_and_indexes_are_shared(self, town, route):
        near = town.within((100.0, 0.0), 4)
        assert near.locate(route.queries, k=5).places.tolist() == [[10]] * 30
        assert near.state._indexes is town.state._indexes

    def test_what_does_not_depend_on_the_area_is_made_once(self, town, route, monkeypatch):
        town.locate(route.queries[:1], near=(100, 0), radius=20)
        made = []
        monkeypatch.setattr(Witness, "__init__", lambda *_: made.append("a witness"))
        for name in ("_cohort", "_unscaling", "_offset"):
            monkeypatch.setattr(getattr(Witness, name), "func", lambda _, name=name: made.append(name))
        again = town.locate(route.queries[:1], near=(50, 0), radius=20)
        assert again.confidence is not None
        assert made == []

    def test_images_near_a_point_are_described_by_the_model_that_is_open(self, town, monkeypatch):
        asked = []
        monkeypatch.setattr(town, "_described", lambda images, model: asked.append(model) or np.ones((1, 8)))
        town.locate("photo.jpg", near=(100, 0), radius=20)
        assert asked == [None]

    def test_by_itself_a_batch_adapts_to_the_whole_map_and_not_to_an_area(self, route):
        bare = build(route.references, "hops", positions=Positions(LINE), calibration=False)
        many = np.tile(route.queries, (4, 1)) + 0.01 * np.arange(8)
        plain = bare.locate(many, k=3)
        assert not np.allclose(bare.locate(many, k=3, adapt="auto").scores, plain.scores)
        np.testing.assert_array_equal(
            bare.locate(many, k=3, adapt="auto").scores, bare.locate(many, k=3, adapt="batch").scores
        )
        everywhere = {"near": (0.0, 0.0), "radius": 1e6}
        np.testing.assert_allclose(
            bare.locate(many, k=3, adapt="auto", **everywhere).scores, plain.scores, atol=1e-6
        )

    def test_rows_of_half_precision_are_searched_by_faiss_where_they_fit_twice(self, route, monkeypatch):
        pytest.importorskip("faiss")
        for dtype, room, backend in (
            ("float16", 2 * 480, "faiss"),
            ("float16", 2 * 480 - 1, "exact"),
            ("float32", 1e12, "exact"),
            ("int8", 1e12, "exact"),
        ):
            monkeypatch.setattr(state, "physical_memory", lambda room=room: room)
            own = build(route.references, "hops", dtype=dtype, calibration=False).state
            assert own._best_backend == backend


class TestProjecting:
    def test_one_large_number_is_enough_to_be_computed_in_float64(self, route):
        town = build(
            route.references, DisPlace(ridge=1.0, center=True), dtype="float32", calibration=False
        ).state
        queries = route.queries[:2].astype(np.float32).copy()
        queries[1, 3] = 2e38
        found = town.project(queries)
        exact = (queries.astype(np.float64) - town.mean) @ town.projection
        exact /= np.linalg.norm(exact, axis=1, keepdims=True)
        np.testing.assert_allclose(found, exact, atol=1e-5)


class TestQueries:
    def test_what_countsas_images(self):
        pixels = np.zeros((4, 5, 3), np.uint8)
        for single in ("a.jpg", Path("a.jpg"), b"bytes"):
            assert as_images(single) == [single]
        assert len(as_images(pixels)) == 1
        assert len(as_images(np.stack([pixels, pixels]))) == 2
        assert as_images(["a.jpg", Path("b.jpg")]) == [Path("a.jpg"), Path("b.jpg")]
        assert as_images([pixels])[0] is pixels
        for vectors in (
            np.zeros((2, 3)),
            np.zeros((2, 3), np.uint8),
            [[0.0, 1.0]],
            ["a.jpg", 1.0],
            [np.zeros(3)],
        ):
            assert as_images(vectors) is None
        assert as_images(np.zeros((2, 3, 3))) is None

    def test_images_of_pillow_are_pixels(self):
        """A follower took them, and `locate` called them descriptors of a wrong shape."""
        picture = Image.new("RGB", (5, 4), "red")
        for given in (picture, [picture], (picture, "a.jpg")):
            np.testing.assert_array_equal(as_images(given)[0], np.full((4, 5, 3), (255, 0, 0), np.uint8))

    def test_images_of_pillow_are_as_their_files_are(self, tmp_path):
        """A phone's photo that Pillow had opened lay on its side; grey ones, and others, were refused."""
        shown = np.random.default_rng(0).integers(0, 256, (6, 5, 3), np.uint8)
        turned, exif = Image.fromarray(np.rot90(shown)), Image.Exif()
        exif[0x112] = 6  # turn it clockwise to see it upright
        turned.save(tmp_path / "phone.png", exif=exif)
        kinds = {mode: Image.fromarray(shown).convert(mode) for mode in ("L", "P", "RGBA", "CMYK")}
        for mode, picture in kinds.items():
            picture.save(tmp_path / f"{mode}.{'tif' if mode == 'CMYK' else 'png'}")
        files = sorted(tmp_path.iterdir())
        for file in files:
            with Image.open(file) as picture:
                assert is_image(picture)
                np.testing.assert_array_equal(as_images(picture)[0], read_image(file))
        with Image.open(files[-1]) as picture:
            np.testing.assert_array_equal(as_images(picture)[0], shown)
        with pytest.raises(ImageError, match="the image given has floating-point pixels"):
            as_images(Image.fromarray(np.zeros((4, 5), np.float32)))

    def test_pictures_that_are_no_rgb_bytes_are_not_called_descriptors(self, town):
        """A grey frame had "320 dimensions", as if another model had described it."""
        grey = np.zeros((24, 32), np.uint8)
        for wrong in (
            grey,
            np.zeros((24, 32, 3)),
            np.zeros((24, 32, 3), np.uint16),
            np.zeros((2, 24, 32, 3)),
        ):
            for ask in (town.locate, town.follow().step):
                with pytest.raises(
                    InputError, match=r"nor a picture: give pixels: uint8, shape .*, RGB; of a grey"
                ):
                    ask(wrong)
        assert len(town.describe(np.zeros((3, town.dim), np.uint8))) == 3

    @pytest.mark.parametrize(
        ("odd", "what"),
        [
            (np.zeros((4, 5, 3)), r"float64, shape \(4, 5, 3\)"),
            (np.zeros((4, 5), np.uint8), r"uint8, shape \(4, 5\)"),
            (np.zeros((1, 8), np.float32), r"float32, shape \(1, 8\)"),
        ],
    )
    def test_pixels_of_another_kind_are_named(self, town, odd, what):
        message = rf"pixels: uint8, shape \(height, width, 3\), RGB; .*\(q, D\)\. Got a list with {what}"
        for given in ([odd], ["a.jpg", odd]):
            with pytest.raises(InputError, match=message):
                town.locate(given)

    def test_what_can_be_read_once_only_is_named(self, town):
        with pytest.raises(
            InputError, match="queries must be an array or a list; got a generator: make a list"
        ):
            town.locate(query for query in np.zeros((1, 8)))

    def test_dimensions_are_checked(self, town):
        with pytest.raises(InputError, match="queries have 7 dimensions; the map has 8"):
            town.locate(np.zeros((1, 7)))

    def test_ways_to_adapt_are_checked(self, town, route):
        for call, known in (
            (lambda: town.locate(route.queries, adapt="often"), "none, batch, online, auto"),
            (lambda: town.follow(adapt="batch"), "online, none"),
            (lambda: town.smooth(route.queries, adapt="online"), "auto, batch, none"),
        ):
            with pytest.raises(InputError, match=f"must be one of {known}"):
                call()

    def test_by_itself_a_map_adapts_where_it_can_say_how_sure_it_is(self, town):
        ways, n = ("none", "batch", "auto"), 1000
        for own, auto in (
            (town.changed(driving=None), "none"),
            (town.changed(driving=DriveCalibration(2.0, n_frames=100)), "none"),
            (town.changed(driving=DriveCalibration(2.0, batch=RULE, n_frames=100)), "batch"),
            (town.changed(driving=DriveCalibration(2.0)), "batch"),
            (town.changed(driving=None, calibration=None), "batch"),
        ):
            assert [own.adapts(way, n) for way in ways] == ["none", "batch", auto]
            assert own.adapts("auto", 1) == "none"

    def test_five_places_by_default(self, town, route):
        assert town.locate(route.queries).places.shape == (30, 5)
        assert town.smoothed(route.queries).places.shape == (30, 5)
        for k in (0, 1.5):
            with pytest.raises(InputError, match="k="):
                town.smoothed(route.queries, k=k)

    def test_adapted_matches_are_judged_where_the_map_can(self, route):
        for places in (None, Positions(LINE)):
            bare = build(route.references, "hops", calibration=False, positions=places)
            adapted = bare.locate(np.tile(route.queries, (4, 1)), k=3, adapt="auto")
            assert adapted.places.shape == (120, 3)
            assert adapted.confidence is None
            assert (adapted.positions is None) == (places is None)
            if places is not None:
                np.testing.assert_array_equal(adapted.positions.points, LINE[adapted.places[:, 0]])

    def test_smoothed_places_are_in_the_order_of_the_route(self):
        route = make_route(n_places=30, n_traversals=3, dim=32, noise=0.1, nuisance=0.1)
        refs = route.references
        frames = np.random.default_rng(0).permutation(30)
        mixed = ReferenceSet(
            refs.vectors,
            refs.places,
            refs.traversals,
            info=Places(np.arange(30), Positions(LINE), frames=frames),
        )
        town = build(mixed, "hops", calibration=False, tolerance="exact")
        order = np.argsort(frames)
        found = town.smoothed(route.queries[order], adapt="none")
        assert np.mean(found.places[:, 0] == order) > 0.5
        np.testing.assert_array_equal(found.positions.points, LINE[found.places[:, 0]])
        np.testing.assert_allclose(
            np.concatenate(list(town.scores(route.queries))),
            build(refs, "hops", calibration=False).state.scores(town.project(route.queries))[:, order],
            atol=1e-5,
        )


class TestModels:
    own: ClassVar = {"model": "hog", "variant": "", "dim": 8}

    def test_one_that_is_not_known_is_taken(self):
        check_same_model(None, self.own)
        check_same_model(self.own, None)
        check_same_model(None, None)
        check_same_model(self.own, dict(self.own))
        with pytest.raises(
            ModelMismatchError, match=r"described by hog:x, .* by hog; they differ in\n  variant: 'x'"
        ):
            check_same_model(self.own, {**self.own, "variant": "x"})

    def test_a_store_of_another_model_is_not_located(self, town):
        store = SimpleNamespace(model={**self.own, "variant": "x"})
        with pytest.raises(ModelMismatchError, match="described by hog:x"):
            Located.of_store(town.changed(model=self.own), store)

    def test_names(self, town):
        assert model_name({"model": "a", "variant": "b"}) == "a:b"
        assert model_name({"model": "a", "variant": ""}) == "a"
        assert town.model_name == "None"
        with pytest.raises(InputError, match="it knows no model"):
            town.open_model()


class TestWhatAMapTells:
    def test_bytes(self, route):
        for dtype, size in (("float32", 4), ("float16", 2)):
            own = build(route.references, "hops", dtype=dtype, calibration=False)
            assert own.nbytes == 30 * 8 * size
        whole = build(route.references, dtype="int8", calibration=False)
        n = whole.vectors.shape[1]
        mean = 0 if whole.mean is None else 4 * 8
        assert whole.nbytes == 30 * n + 30 * 4 + 8 * n * 4 + mean

    def test_whether_places_have_positions_and_an_order(self, town, route):
        assert (town.has_positions, town.has_order) == (True, town.places.order is not None)
        bare = build(route.references, "hops", calibration=False)
        assert (bare.has_positions, bare.has_order) == (False, False)
        numbered = Places(route.references.place_ids, frames=np.arange(30.0))
        assert bare.changed(places=numbered).has_order

    def test_a_stale_confidence(self, town, route):
        assert not town.calibration_is_stale
        assert town.changed(calibrated_on={"t0": 1}).calibration_is_stale
        assert not build(route.references, "hops", calibration=False).calibration_is_stale

    def test_a_record(self, town, route):
        record = town.to_json()
        assert record["has_positions"] is True
        assert record["calibration"] is not None
        assert record["statistics_bytes"] > 0
        bare = build(route.references, "single", calibration=False).to_json()
        assert (bare["has_positions"], bare["calibration"], bare["statistics_bytes"]) == (False, None, None)

    def test_what_is_missing(self, town, route):
        """A map of three traversals with an order and a model has nothing to add."""
        bare = list(remarks(town))
        assert [("bare vectors" in line, "no order" in line) for line in bare][-1] == (True, False)
        whole = town.changed(model={"model": "hog"})
        told = " ".join(remarks(whole))
        assert "one traversal" not in told
        assert "bare vectors" not in told
        assert STALE not in told
        assert STALE in list(remarks(town.changed(calibrated_on={})))
        assert UNCALIBRATED in list(remarks(town.changed(calibration=None, calibrated_on=None)))
        assert UNLEARNED in list(remarks(town.changed(calibration=None)))
        assert not {UNCALIBRATED, UNLEARNED} & {*bare}
        ordered = Places(route.references.place_ids, frames=np.arange(30.0))
        unordered = Places(route.references.place_ids)
        assert not any("no order" in line for line in remarks(town.changed(places=ordered)))
        assert any("no order" in line for line in remarks(town.changed(places=unordered)))
        weaker = town.changed(calibration=replace(town.calibration, basis="two traversals"))
        assert f"the confidence: {WEAKER['two traversals']}" in list(remarks(weaker))
        assert any(
            line.startswith("one traversal shows") for line in remarks(town.changed(traversals={"a": 1}))
        )
        assert not any(line.startswith("one traversal shows") for line in bare)

    def test_a_confidence_that_tells_nothing_is_called_so(self, town):
        curve = [[0.5, 0.5, 10]]
        for auc, seen, said in ((0.64, curve, [UNTOLD]), (0.65, curve, []), (0.5, [], [UNJUDGED])):
            told = list(of_confidence(replace(town.calibration, auc=auc, curve=seen)))
            assert told == said
        alone = replace(town.calibration, auc=0.5, curve=[], basis="one traversal")
        assert list(of_confidence(alone)) == [WEAKER["one traversal"]]

    def test_right_matches_that_were_refused_are_told(self, town):
        """62 of 162 right ones are 38 %; 20 of 120 are too few to speak of."""
        for low, said in (([0.1, 0.62, 100], [REFUSED.format(share=62 / 162)]), ([0.1, 0.2, 100], [])):
            told = list(of_confidence(replace(town.calibration, auc=0.9, curve=[low, [0.9, 1.0, 100]])))
            assert told == said
        assert "38%" in REFUSED.format(share=62 / 162)

    def test_stretches_that_a_map_lacks_and_accepts_are_told(self, town):
        """Of 40 images three in four are sure, or one in five: what is rare is not said."""
        learned = replace(town.calibration, farthest=None)
        for n_sure, said in ((30, [LACKING.format(half=0.75, sure=0.75)]), (8, [])):
            evidence = np.repeat([learned.highest, learned.lowest], (n_sure, 40 - n_sure), axis=0)
            evidence[:, 3] = np.repeat([learned.lowest[3], learned.highest[3]], (n_sure, 40 - n_sure))
            samples = Samples(evidence, np.full(40, -1, np.int8), np.zeros(40, np.int32), ["a"])
            told = list(of_missing_stretches(town.changed(calibration=learned, samples=samples)))
            assert told == said
        assert not list(of_missing_stretches(town.changed(samples=None)))
        assert not list(of_missing_stretches(town.changed(calibration=None)))
        few = Samples(evidence[:19], np.full(19, -1, np.int8), np.zeros(19, np.int32), ["a"])
        assert not list(of_missing_stretches(town.changed(calibration=learned, samples=few)))

    def test_what_rounding_costs(self, town):
        told = rounding_loss(town.changed(notes={"recall_at_1": {"float16": 50.0}, "n_queries": 1234}))
        assert told == "R@1 of 1,234 held-out queries (within 25 m): 50.00 % as float16"
        assert rounding_loss(town.changed(notes={"same_top_match": 99.5})).endswith(
            "99.5 % of the rows with added noise"
        )
        assert rounding_loss(town.changed(notes={})) == ""

    def test_ranks_are_filled_from_enough_rows(self):
        places, scores = (
            np.array([[2, 2, 0, 2, 1], [1, 0, 0, 2, 2]]),
            np.array([[9, 8, 7, 6, 5.0], [9, 8, 7, 6, 5]]),
        )
        best, values = _best_of_each(places, scores, 2)
        assert best.tolist() == [[2, 0], [1, 0]]
        assert values.tolist() == [[9, 7], [9, 8]]


def test_groups_with_fewer_places_are_joined_and_what_is_missing_is_no_place():
    frames = Matches(np.array([["a", "b"]]), np.array([[0.6, 0.4]]), np.array([0.6]))
    photos = Matches(np.array([["b", "c", "a"]]), np.array([[0.9, 0.8, 0.7]]))
    both = joined([frames, photos])
    assert both.places.shape == both.scores.shape == (2, 3)
    assert [record["places"] for record in both.to_json()] == [["a", "b"], ["b", "c", "a"]]
    assert [record["scores"] for record in both.to_json()] == [[0.6, 0.4], [0.9, 0.8, 0.7]]
    counted = joined([replace(each, places=np.arange(each.places.size)[None]) for each in (frames, photos)])
    manifest = Manifest(["a", "b"], ["", ""], ["t", "t"], Path())
    table = locations_table(Located(None, manifest, counted), places=3)
    assert table.columns["place_3"] == [None, 2]
    assert table.columns["score_3"] == [None, 0.7]


class TestLimits:
    def located(self, town, confidence, min_confidence=None):
        manifest = Manifest(["a", "b", "c"], ["", "", ""], ["t", "t", "t"], Path())
        matches = Matches(np.array([[0], [1], [2]]), np.array([[0.9], [0.5], [np.nan]]), confidence)
        return Located(town, manifest, matches, min_confidence=min_confidence)

    def test_what_is_in_the_map(self, town):
        sure = np.array([0.5, 0.4999, np.nan])
        assert self.located(town, sure).in_map == [True, False, False]
        assert self.located(town, sure, 0.4).in_map == [True, True, False]
        assert self.located(town, sure, 0.0).in_map == [True, True, False]
        assert self.located(town, None).in_map == [None, None, False]
        assert self.located(town, sure).reached.tolist() == [True, True, False]
        assert self.located(town, sure, 0.5).reached.tolist() == [True, False, False]
        assert self.located(town, None, 0.0).in_map == [None, None, False]
        assert self.located(town, None, 0.0).reached.tolist() == [True, True, False]
        assert self.located(town, np.array([0.9, np.nan, np.nan])).in_map == [True, None, False]
        assert self.located(town, sure).accepted().tolist() == [True, True, False]
        assert self.located(town, np.ones(3)).accepted().tolist() == [True, True, False]

    def test_what_is_not_known_is_not_refused(self):
        """As photos beside a video are on a map without a confidence."""
        one = build(make_route(n_places=9, n_traversals=1, dim=8).references, "hops", calibration=False)
        assert of_refusals(self.located(one, np.full(3, np.nan))) == ""
        assert of_refusals(self.located(one, np.full(3, 0.1))) != ""

    def test_limits_are_probabilities_that_the_map_knows(self, town):
        for limit in (-0.01, 1.01, np.nan):
            with pytest.raises(InputError, match=r"min.confidence"):
                check_limit(limit, known=True)
        for limit in (0, 1):
            check_limit(limit, known=True)
        check_limit(0, known=False)
        with pytest.raises(InputError):
            check_limit(0.1, known=False)
        with pytest.raises(InputError, match="one for each is needed"):
            Located(
                town, Manifest(["a"], [""], ["t"], Path()), Matches(np.zeros((2, 1), int), np.zeros((2, 1)))
            )

    def test_records(self, town):
        records = self.located(town, np.array([0.5, 0.1, np.nan])).to_json()
        assert [record["in_map"] for record in records] == [True, False, False]
        assert all("confidence_is_stale" not in record for record in records)
        timed = Manifest(["a", "b"], ["", ""], ["t", "t"], Path(), timestamp=[1.23456789, np.nan])
        matches = Matches(np.array([[0], [1]]), np.array([[0.9], [0.5]]), np.array([0.9, 0.1]))
        told = Located(town, timed, matches).to_json()
        assert [record["timestamp"] for record in told] == [1.234568, None]
        assert all("frame" not in record for record in (*told, *records))
        stale = self.located(town.changed(calibrated_on={}), np.array([0.5, 0.1, np.nan])).to_json()
        assert all(record["confidence_is_stale"] is True for record in stale)
