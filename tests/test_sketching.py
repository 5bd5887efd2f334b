"""Maps with sketches of their places: photos are compared with them, and nothing else changes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from memory import peak_bytes
from PIL import Image
from serving import asking, served

from displace import PlaceMap, build, images, verbs
from displace.descriptors.extraction import extract
from displace.descriptors.store import DescriptorStore
from displace.errors import FormatError, ImageError, InputError
from displace.geo import Positions
from displace.manifest.table import Manifest
from displace.maps import file, place_sketches, sketching
from displace.maps.place_sketches import AMONG, SECOND, PlaceSketches
from displace.maps.sketching import LEAST, level_of, sketches_of, with_sketches
from displace.maps.updating import STILL_SKETCHED
from displace.matches import Matches, joined
from displace.models import frame_of, get_model
from displace.places import Places
from displace.sketches import COLUMNS, PACKED, ROWS, fit, fused, packed, sketch_of, unpacked
from displace.truth import Truth

PLACES, SEEN = 16, ("sun", "rain", "dusk")


def judged(town, confidence, places, pictures):
    """Confidence of photos that were located with one place each."""
    found = Matches(np.asarray(places)[:, None], np.ones((len(places), 1)), np.asarray(confidence, float))
    return town.compared(found, pictures).confidence


def drawn(folder, names=(*SEEN, "query"), places=PLACES, seed=0):
    """Pictures of places, each traversal in a light of its own; returns the manifest of all but the query."""
    rng, rows = np.random.default_rng(seed), []
    for place in range(places):
        coarse = Image.fromarray(rng.integers(0, 256, (9, 12, 3), np.uint8))
        base = np.asarray(coarse.resize((160, 120), Image.Resampling.BICUBIC), float)
        for light, name in zip((1.0, 0.8, 0.5, 0.7, 0.6), names, strict=False):
            (folder / name).mkdir(parents=True, exist_ok=True)
            noisy = np.clip(light * base + rng.normal(0, 8, base.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / name / f"{place:02d}.png")
            if name != "query":
                rows.append((f"{name}/{place:02d}.png", f"{place:02d}", name))
    return Manifest(*map(list, zip(*rows, strict=True)), folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    drawn(folder).write(folder / "route.csv")
    extract(Manifest.read(folder / "route.csv"), get_model("hog"), folder / "route.desc")
    verbs.build(folder / "route.desc", folder / "town.displace")
    return folder


@pytest.fixture(scope="module")
def town(folder):
    return PlaceMap.load(folder / "town.displace")


@pytest.fixture(scope="module")
def queries(folder):
    return sorted((folder / "query").glob("*.png"))


def test_a_map_of_a_store_has_a_sketch_of_each_place(town, folder):
    assert town.compares_pictures
    sketches = town.state.sketches.packed
    assert sketches.shape == (PLACES, PACKED)
    for place in (0, 7):
        own = [sketch_of(np.asarray(Image.open(folder / name / f"{place:02d}.png"))) for name in SEEN]
        np.testing.assert_array_equal(sketches[place], packed(fused(np.stack(own))[None])[0])
    assert town.state.sketches.level >= LEAST
    python = build(folder / "route.desc")
    np.testing.assert_array_equal(python.state.sketches.packed, sketches)
    assert python.state.sketches.level == town.state.sketches.level
    assert not build(DescriptorStore(folder / "route.desc").references(), model="hog").compares_pictures


def test_photos_of_a_place_become_surer_and_photos_that_do_not_fit_less_sure(town, queries):
    vectors = town.describe(queries)
    seen, plain = town.locate(queries), town.locate(vectors)
    np.testing.assert_array_equal(seen.places, plain.places)
    np.testing.assert_array_equal(seen.scores, plain.scores)
    assert seen.confidence.min() > 0.99
    half = np.full(len(queries), 0.5)
    own = judged(town, half, plain.places[:, 0], queries)
    others = judged(town, half, plain.places[:, 0], queries[5:] + queries[:5])
    assert own.min() > others.max()
    assert own.min() > 0.8
    assert np.median(others) < 0.4


def documented(known, confidence, fits, usual):
    """Confidence of photos by the formula of docs/confidence.md."""
    level = 0.6 * known.level + 0.4 * usual + 0.33
    by_descriptors = np.maximum(np.log(confidence / (1 - confidence)), -2)
    odds = np.where(by_descriptors < 0, 0.85, 0.65) * by_descriptors + 4 * np.clip(fits - level, -0.9, 2)
    return 1 / (1 + np.exp(-6 * np.tanh(np.where(odds < 0, 0.85, 4) * odds / 6)))


def test_the_log_odds_follow_the_fit_as_documented(town, queries):
    plain, known = town.locate(town.describe(queries), k=AMONG), town.state.sketches
    rows = town.places.rows_of(plain.places)
    shown = sketches_of(frame_of(town.model), queries)
    fits = fit(shown, unpacked(known.packed[rows[:, 0]]))
    others = [fit(shown, unpacked(known.packed[rows[:, j]]), zooms=(1.0,)) for j in range(1, AMONG)]
    expected = documented(known, plain.confidence, fits, np.median(others, axis=0))
    np.testing.assert_allclose(town.locate(queries).confidence, expected, rtol=1e-6)
    assert expected.min() > 0.9
    # Of one place alone it is not known what else the photo fits: the level is 0.15 above that of the map.
    again = judged(town, plain.confidence, plain.places[:, 0], queries)
    alone = documented(known, plain.confidence, fits, known.level - 0.45)
    np.testing.assert_allclose(again, alone, rtol=1e-6)
    # What descriptors hold against a match counts in part; a confidence of 0 says that there is nothing to compare.
    hardly, never = (judged(town, np.full(16, p), plain.places[:, 0], queries) for p in (1e-6, 0.0))
    least = documented(known, np.full(16, 1e-6), fits, known.level - 0.45)
    np.testing.assert_allclose(hardly, least, rtol=1e-6)
    assert not never.any()
    # Photos of other places fit none: they are refused, with the odds that lie below even ones softened.
    wrong = documented(known, np.full(16, 0.5), np.full(16, 2.0), np.full(16, 2.0))
    assert (wrong < 0.5).all()


def test_what_fits_other_places_as_well_is_not_believed(town, queries, monkeypatch):
    """The level of a photo rises with what its other places fit, as for a picture that fits anywhere."""
    plain = town.locate(town.describe(queries), k=AMONG)
    own = town.places.rows_of(plain.places[:, 0])
    found = []
    for others in (2.0, 2.9):
        monkeypatch.setattr(place_sketches, "fit", lambda one, other: np.full(len(one), 3.0))
        among = iter(np.where(town.places.rows_of(plain.places) == own[:, None], 3.0, others))
        monkeypatch.setattr(place_sketches, "fit_to_each", lambda one, every, among=among: next(among))
        found.append(town.compared(replace(plain, confidence=np.full(16, 0.5)), queries).confidence)
    clear, anywhere = found
    assert (clear > anywhere + 0.1).all()


def taken_for(plain, column):
    """Matches as if descriptors took each photo's first place for the one in a column, and that for the first."""
    places = plain.places.copy()
    places[:, [0, column]] = places[:, [column, 0]]
    return replace(plain, places=places)


def test_the_place_that_a_photo_shows_comes_first(town, queries):
    plain = town.locate(town.describe(queries), k=AMONG + 2)
    for column in (1, AMONG - 1):
        mistaken = taken_for(plain, column)
        found = town.compared(mistaken, queries)
        np.testing.assert_array_equal(found.places[:, 0], plain.places[:, 0])
        expected = mistaken.led_by(np.full(len(queries), column))
        np.testing.assert_array_equal(found.places, expected.places)
        np.testing.assert_array_equal(found.scores, expected.scores)
        assert (found.scores[:, 0] < found.scores[:, 1]).all()
        # By descriptors it was not the first: that counts against it, but less than how well it fits counts for it.
        one_each = judged(town, np.minimum(plain.confidence, SECOND), found.places[:, 0], queries)
        np.testing.assert_allclose(found.confidence, one_each, rtol=1e-6)
        assert found.confidence.min() > 0.5
    beyond = town.compared(taken_for(plain, AMONG), queries)
    assert not (beyond.places[:, 0] == plain.places[:, 0]).any()


def test_photos_that_were_located_with_fewer_places_than_others_are_compared_as_by_themselves(town, queries):
    few, many = (town.locate(town.describe(queries), k=k) for k in (4, AMONG))
    mistaken = taken_for(few, 2)
    expected, found = town.compared(mistaken, queries), town.compared(joined([mistaken, many]), queries * 2)
    assert (expected.places[:, 0] == few.places[:, 0]).all()
    np.testing.assert_array_equal(found.places[: len(queries), :4], expected.places)
    np.testing.assert_allclose(found.confidence[: len(queries)], expected.confidence, rtol=1e-9)


def test_the_first_place_is_chosen_as_documented(town, queries):
    """The largest of its score's share between first and last, and the fit at the same size, clipped."""
    plain = town.locate(town.describe(queries), k=AMONG)
    close = replace(plain, scores=np.linspace(0.9, 0.2, AMONG) * np.ones((len(queries), 1)))
    rows, known = town.places.rows_of(plain.places), town.state.sketches
    shown = np.stack([sketch_of(np.asarray(Image.open(query))) for query in queries[5:] + queries[:5]])
    fits = [fit(shown, unpacked(known.packed[rows[:, j]]), zooms=(1.0,)) for j in range(AMONG)]
    value = np.linspace(1, 0, AMONG) + 2.5 * np.clip(np.transpose(fits), 1.8, 3.5)
    columns, _ = known.judged(rows, close.scores, plain.confidence, shown)
    np.testing.assert_array_equal(columns, value.argmax(axis=1))
    assert len({*columns.tolist()}) > 2  # these pictures show none of the places: any may be chosen


def test_positions_are_those_of_the_place_that_comes_first(town, queries):
    points = np.stack([np.arange(PLACES), np.zeros(PLACES)], axis=1)
    placed = town.changed(places=replace(town.places, positions=Positions(points, degrees=False)))
    plain = placed.locate(placed.describe(queries), k=AMONG)
    mistaken = taken_for(plain, 3)
    mistaken = replace(mistaken, positions=placed.places.positions_of(mistaken.places[:, 0]))
    found = placed.compared(mistaken, queries)
    assert not (mistaken.positions.points == plain.positions.points).all()
    np.testing.assert_array_equal(found.positions.points, plain.positions.points)


def test_as_many_places_as_asked_for_are_returned(town, queries, monkeypatch):
    monkeypatch.setattr(place_sketches, "fit", lambda one, other: np.full(len(one), 2.0))
    monkeypatch.setattr(place_sketches, "fit_to_each", lambda one, others: np.full(len(others), 2.0))
    for k in (1, 3, AMONG, PLACES):
        assert town.locate(queries[:2], k=k).places.shape == (2, k)
        assert town.locate(queries * 7, k=k, adapt="auto").places.shape == (7 * PLACES, k)


def test_every_way_to_give_a_picture_is_one(town, queries):
    path = queries[3]
    pixels = np.asarray(Image.open(path))
    expected = town.locate(path).confidence
    for query in (str(path), path.read_bytes(), pixels, Image.open(path)):
        np.testing.assert_array_equal(town.locate(query).confidence, expected)
    given = town.locate(town.describe(path), pictures=[path]).confidence
    np.testing.assert_array_equal(given, expected)
    half = np.array([0.5])
    told = judged(town, half, town.place_ids[[3]], [path])
    for picture in (
        path,
        str(path),
        path.read_bytes(),
        pixels,
        Image.open(path),
        [Image.open(path)],
        pixels[None],
    ):
        given = town.locate(town.describe(path), pictures=picture).confidence
        np.testing.assert_array_equal(given, expected)
        np.testing.assert_array_equal(judged(town, half, town.place_ids[[3]], picture), told)


def test_what_is_no_picture_of_each_query_is_refused(town, queries):
    path, half = queries[3], np.array([0.5])
    vectors, ids = town.describe(path), town.place_ids[[3]]
    with pytest.raises(InputError, match="pictures has 2 images, queries has 1"):
        town.locate(vectors, pictures=[path, path])
    with pytest.raises(InputError, match="pictures has 2 images, matches has 1"):
        judged(town, half, ids, [path, path])
    pixels = np.asarray(Image.open(path))
    for wrong in ([None], [pixels[..., 0]], [pixels[..., :1]], [pixels[:0]], [pixels / 255]):
        with pytest.raises(InputError, match="images"):
            town.locate(vectors, pictures=wrong)
        with pytest.raises(InputError, match="images"):
            judged(town, half, ids, wrong)


def test_at_a_place_that_is_not_in_the_map_nothing_is_told(town, queries):
    last = queries[-1]
    assert judged(town, [0.5], town.place_ids[-1:], [last]) > 0.8
    assert judged(town, [0.5], ["nowhere"], [last]) == 0.5


def test_a_photo_that_is_described_and_compared_is_decoded_once(town, queries, tmp_path, monkeypatch):
    """Of 12 megapixels, decoding is most of the work."""
    decoded, open_image = [], images.open_image
    monkeypatch.setattr(images, "open_image", lambda source: decoded.append(source) or open_image(source))
    town.locate(queries[3])
    town.locate(queries[3].read_bytes())
    assert len(decoded) == 2
    (tmp_path / "damaged.png").write_bytes(queries[3].read_bytes()[:99])
    with pytest.raises(ImageError, match=r"cannot read image .*damaged\.png"):
        town.locate(tmp_path / "damaged.png")


def test_the_command_and_the_library_say_the_same(town, folder, queries):
    located = verbs.locate(folder / "town.displace", queries)
    np.testing.assert_array_equal(located.matches.confidence, town.locate(queries, adapt="auto").confidence)


def test_many_photos_are_compared_too(town, queries):
    many = queries * 7
    vectors = town.describe(many)
    for adapt in ("none", "auto"):
        seen, plain = town.locate(many, adapt=adapt), town.locate(vectors, adapt=adapt)
        np.testing.assert_array_equal(seen.places, plain.places)
        expected = judged(town, plain.confidence, plain.places[:, 0], many)
        np.testing.assert_allclose(seen.confidence, expected, rtol=1e-6)
        assert seen.compared
        assert not plain.compared
    assert town.locate(many, adapt="batch").confidence is None  # there is none to judge anew


def test_sketches_of_many_photos_are_not_held_at_once(town, queries, monkeypatch):
    monkeypatch.setattr(place_sketches, "fit", lambda one, other: np.abs(one).sum(axis=(1, 2)) / 20)
    monkeypatch.setattr(
        place_sketches, "fit_to_each", lambda one, others: np.full(len(others), np.abs(one).sum() / 20)
    )
    small = [np.asarray(Image.open(query).resize((16, 12))) for query in queries]
    places, half = town.place_ids, np.full(len(small), 0.5)
    expected = np.tile(judged(town, half, places, small), 190)
    held = []

    def counted(frame, images, progress):
        held.append(len(images))
        return sketches_of(frame, images, progress)

    monkeypatch.setattr(sketching, "sketches_of", counted)
    found = judged(town, np.tile(half, 190), np.tile(places, 190), small * 190)
    np.testing.assert_array_equal(found, expected)
    assert (sum(held), max(held) < 2000) == (16 * 190, True)


def test_the_level_of_a_map_of_many_places_is_found_in_blocks_of_references(monkeypatch):
    ids = np.array([f"{place:05d}" for place in range(20_000)])
    places = Places(ids, Positions(np.stack([9.0 * np.arange(len(ids)), np.zeros(len(ids))], axis=1)))
    scores = np.linspace(1, 0, len(ids), dtype=np.float32)
    state = SimpleNamespace(
        places=places,
        truth=Truth.of(places, "10m"),
        project=lambda vectors: vectors,
        scores=lambda queries: np.tile(scores, (len(queries), 1)),
    )
    compared = []

    def fits(one, other):
        compared.append(other.any(axis=(1, 2)))
        return np.full(len(one), 3.0)

    monkeypatch.setattr(sketching, "fit", fits)
    bits = np.zeros((len(ids), PACKED), np.uint8)
    bits[[2, 3, 0], : PACKED // 2] = 255
    at = np.repeat([0, 1, 7], 70)  # the best places that are not theirs are 2, 3 and 0
    blank = np.zeros((len(at), ROWS, COLUMNS), np.complex64)

    def level():
        return level_of(state, bits, np.zeros((len(at), 4), np.float32), blank, at)

    assert peak_bytes(level) < 150e6
    assert level() == 3 + sketching.ABOVE
    assert np.concatenate(compared).all()


def test_a_map_of_too_many_places_gets_no_sketches_of_some(town, folder, monkeypatch):
    bare = town.changed(sketches=None).state
    own = DescriptorStore(folder / "route.desc")
    some = SimpleNamespace(
        places=own.places[:3], traversals=own.traversals[:3], manifest=own.manifest, vectors=own.vectors
    )
    assert with_sketches(bare, [some]).sketches is not None
    monkeypatch.setattr(sketching, "MOST", PLACES - 1)
    assert with_sketches(bare, [some]).sketches is None
    assert with_sketches(town.state, [some]).sketches is not None


def test_a_picture_that_shows_nothing_stays_at_no_place(town):
    assert town.locate(np.zeros((120, 160, 3), np.uint8)).confidence.tolist() == [0]


def test_a_place_without_a_sketch_is_judged_by_descriptors(town, queries):
    blank = town.state.sketches.packed.copy()
    blank[3] = 0
    without = town.changed(sketches=PlaceSketches(blank, town.state.sketches.level))
    plain = town.locate(town.describe(queries))
    found = without.locate(queries)
    np.testing.assert_array_equal(found.places[:, 0], plain.places[:, 0])
    assert found.confidence[3] == plain.confidence[3]
    np.testing.assert_allclose(found.confidence[4:], town.locate(queries).confidence[4:], rtol=1e-9)


def test_a_map_without_confidence_or_with_several_rows_has_none(folder):
    store = DescriptorStore(folder / "route.desc")
    assert not build(store, calibration=False).compares_pictures
    pooled = build(store, "pooling")
    assert len(pooled.row_places) > len(pooled.place_ids)
    assert not pooled.compares_pictures


def test_images_that_are_gone_are_no_failure(folder, tmp_path, caplog):
    shutil.copytree(folder, tmp_path / "moved")
    for name in SEEN[:2]:
        shutil.rmtree(tmp_path / "moved" / name)
    some = build(tmp_path / "moved" / "route.desc")
    dusk = sketch_of(np.asarray(Image.open(folder / "dusk" / "05.png")))
    np.testing.assert_array_equal(some.state.sketches.packed[5], packed(dusk[None])[0])
    shutil.rmtree(tmp_path / "moved" / "dusk")
    assert not build(tmp_path / "moved" / "route.desc").compares_pictures
    assert "not where its manifest says" in caplog.text


def test_an_update_of_images_that_are_gone_says_that_they_are_not_in_the_sketches(folder, tmp_path, caplog):
    town = tmp_path / "town.displace"
    verbs.build(folder / "route.desc", town, exclude=["dusk"])
    before = PlaceMap.load(town).state.sketches.packed
    shutil.copytree(folder / "route.desc", tmp_path / "route.desc")
    verbs.update(town, add=tmp_path / "route.desc", traversals=["dusk"])
    assert "no sketches of places can be made of them" in caplog.text
    np.testing.assert_array_equal(PlaceMap.load(town).state.sketches.packed, before)


def test_traversals_that_are_left_out_are_not_in_the_sketches(folder, tmp_path):
    verbs.build(folder / "route.desc", tmp_path / "two.displace", exclude=["dusk"])
    found = PlaceMap.load(tmp_path / "two.displace").state.sketches.packed[2]
    own = [sketch_of(np.asarray(Image.open(folder / name / "02.png"))) for name in SEEN[:2]]
    np.testing.assert_array_equal(found, packed(fused(np.stack(own))[None])[0])


def test_an_update_keeps_the_sketches_and_adds_those_of_new_places(folder, tmp_path, queries):
    rows = [(f"query/{p:02d}.png", f"{p:02d}" if p < 8 else f"9{p}", "query") for p in range(PLACES)]
    Manifest(*map(list, zip(*rows, strict=True)), folder).write(folder / "new.csv")
    verbs.extract(folder / "new.csv", tmp_path / "new.desc", model="hog")
    shutil.copy(folder / "town.displace", tmp_path)
    shutil.copy(folder / "town.displace-stats", tmp_path)
    before = PlaceMap.load(tmp_path / "town.displace").state.sketches
    verbs.update(tmp_path / "town.displace", add=tmp_path / "new.desc", check_looks=False)
    after = PlaceMap.load(tmp_path / "town.displace")
    assert after.state.sketches.level == before.level
    new = after.places.rows_of(np.array(["98"]))
    shown = sketch_of(np.asarray(Image.open(queries[8])))
    np.testing.assert_array_equal(after.state.sketches.packed[new], packed(shown[None]))
    untouched = after.places.rows_of(np.array(["12"]))
    np.testing.assert_array_equal(after.state.sketches.packed[untouched], before.packed[[12]])
    # Without images the sketches stay, and new places have none.
    by_vectors = PlaceMap.load(folder / "town.displace")
    by_vectors.add(DescriptorStore(tmp_path / "new.desc").references(), check_looks=False)
    np.testing.assert_array_equal(by_vectors.state.sketches.packed[:PLACES], before.packed)
    assert not by_vectors.state.sketches.packed[by_vectors.places.rows_of(np.array(["98"]))].any()


def test_known_sketches_weigh_as_much_as_the_traversals_that_they_are_of(folder, tmp_path):
    new = ("dusk", "query")
    rows = [(f"{name}/{p:02d}.png", f"{p:02d}", name) for name in new for p in range(PLACES)]
    Manifest(*map(list, zip(*rows, strict=True)), folder).write(folder / "both.csv")
    verbs.extract(folder / "both.csv", tmp_path / "both.desc", model="hog")
    verbs.build(folder / "route.desc", tmp_path / "town.displace", traversals=SEEN[:2])
    before = PlaceMap.load(tmp_path / "town.displace").state.sketches.packed
    verbs.update(tmp_path / "town.displace", add=tmp_path / "both.desc", check_looks=False)
    after = PlaceMap.load(tmp_path / "town.displace").state.sketches.packed
    for place in range(PLACES):
        own = [sketch_of(np.asarray(Image.open(folder / name / f"{place:02d}.png"))) for name in new]
        expected = packed(fused(np.stack(own), unpacked(before[[place]])[0], 2)[None])
        np.testing.assert_array_equal(after[[place]], expected)


def test_a_traversal_that_is_removed_leaves_the_sketches_where_the_images_of_the_others_are_given(
    folder, tmp_path
):
    town, seen = tmp_path / "town.displace", []
    for name in ("town.displace", "town.displace-stats"):
        shutil.copy(folder / name, tmp_path)
    done = verbs.update(
        town, remove="dusk", references=folder / "route.desc", progress=lambda *call: seen.append(call)
    )
    assert done.traversals == ["dusk"]
    assert STILL_SKETCHED not in done.advice
    assert seen[-1] == ("sketching", 2 * PLACES, 2 * PLACES)
    verbs.build(folder / "route.desc", tmp_path / "two.displace", exclude=["dusk"])
    found, expected = (PlaceMap.load(tmp_path / name).state.sketches for name in (town, "two.displace"))
    np.testing.assert_array_equal(found.packed, expected.packed)
    assert found.level == pytest.approx(expected.level, abs=0.5)


@pytest.mark.parametrize("lacking", ["traversals", "images", "some images"])
def test_a_traversal_that_is_removed_stays_in_the_sketches_else_and_this_is_said(folder, tmp_path, lacking):
    route = Path(shutil.copytree(folder, tmp_path / "route"))
    store, gone = route / "route.desc", []
    if lacking == "traversals":
        Manifest.read(route / "route.csv").select_traversals(["rain", "dusk"]).write(route / "some.csv")
        verbs.extract(route / "some.csv", store := route / "some.desc", model="hog")
    else:
        gone = [route / name / f"{p:02d}.png" for name in SEEN for p in range(PLACES)]
    for path in gone if lacking == "images" else gone[::PLACES]:
        path.unlink()
    before = PlaceMap.load(route / "town.displace").state.sketches
    done = verbs.update(route / "town.displace", remove="dusk", references=store)
    assert STILL_SKETCHED in done.advice
    after = PlaceMap.load(route / "town.displace").state.sketches
    np.testing.assert_array_equal(after.packed, before.packed)
    assert after.level == before.level


def test_an_update_says_how_many_images_it_has_read_for_sketches(folder, tmp_path):
    verbs.build(folder / "route.desc", tmp_path / "town.displace", exclude=["dusk"])
    seen = []
    verbs.update(
        tmp_path / "town.displace",
        add=folder / "route.desc",
        traversals=["dusk"],
        progress=lambda *call: seen.append(call),
    )
    assert seen == [("sketching", n, PLACES) for n in range(1, PLACES + 1)]


def test_a_map_that_an_update_leaves_without_a_confidence_compares_nothing(folder, tmp_path, queries):
    verbs.build(folder / "route.desc", tmp_path / "town.displace", traversals=["sun"])
    assert PlaceMap.load(tmp_path / "town.displace").compares_pictures
    verbs.update(tmp_path / "town.displace", add=folder / "route.desc", traversals=SEEN[1:])
    after = PlaceMap.load(tmp_path / "town.displace")
    assert after.calibration is None
    assert after.locate(queries).confidence is None
    assert not after.compares_pictures
    assert not after.to_json()["compares_pictures"]


def test_damaged_sketches_are_refused_and_maps_without_any_are_read(town, tmp_path):
    header, arrays = file.packed(town.state)
    assert file.unpacked(header, arrays, "it")["sketches"].level == town.state.sketches.level
    for wrong in (arrays["sketches"][:5], arrays["sketches"].astype(np.int16), arrays["sketches"][:, :7]):
        with pytest.raises(FormatError, match="sketches are"):
            file.unpacked(header, arrays | {"sketches": wrong}, "it")
    for level in ("high", None, float("nan"), -1.0):
        with pytest.raises(FormatError, match="damaged"):
            file.unpacked(header | {"sketch_level": level}, arrays, "it")
    coarse = np.zeros((PLACES, 600), np.uint8)  # as in the first maps that had any
    assert file.unpacked(header, arrays | {"sketches": coarse}, "it")["sketches"] is None
    del arrays["sketches"]
    assert file.unpacked(header, arrays, "it")["sketches"] is None


def test_a_mask_whose_image_is_not_at_hand_leaves_the_map_as_it_is(town, folder):
    masked = town.changed(model={**town.model, "mask_sha256": "0" * 64}, sketches=None).state
    assert with_sketches(masked, [DescriptorStore(folder / "route.desc")]) is masked


@pytest.fixture(scope="module")
def doubtful(town, queries, tmp_path_factory):
    """Pictures of two places at once, of which descriptors alone are not so sure."""
    folder, shown = tmp_path_factory.mktemp("doubtful"), [np.asarray(Image.open(query)) for query in queries]
    paths = [folder / query.name for query in queries[1:]]
    for path, one, other in zip(paths, shown[1:], shown, strict=False):
        Image.fromarray(one // 2 + other // 2).save(path)
    told = town.locate(paths).confidence - town.locate(town.describe(paths)).confidence
    assert np.median(np.abs(told)) > 0.05
    return paths


@pytest.fixture
def server(folder):
    with served(folder / "town.displace") as server:
        yield server


@pytest.fixture
def remote(server):
    return asking(server)


@pytest.mark.parametrize(("times", "adapt"), [(1, "none"), (1, "auto"), (7, "auto")])
def test_a_server_says_what_the_library_says(town, remote, doubtful, times, adapt):
    many = doubtful * times
    vectors = np.tile(remote.described(doubtful, {}), (times, 1))
    found, plain = remote.locate(vectors, adapt=adapt, pictures=many), remote.locate(vectors, adapt=adapt)
    expected = town.locate(many, adapt=adapt)
    np.testing.assert_array_equal(found.places, expected.places)
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-4)
    np.testing.assert_allclose(plain.confidence, town.locate(vectors, adapt=adapt).confidence, atol=1e-4)
    assert np.abs(found.confidence - plain.confidence).max() > 0.05


def test_a_server_says_what_the_library_says_of_one_place(town, folder, queries, tmp_path):
    """Of a map whose places have each other's sketches, so that photos show another place than descriptors say."""
    known = town.state.sketches
    odd = town.changed(sketches=replace(known, packed=np.roll(known.packed, 5, axis=0)))
    odd.save(tmp_path / "odd.displace")
    expected = odd.locate(queries, k=1)
    assert (expected.places != odd.locate(odd.describe(queries), k=1).places).any()
    with served(tmp_path / "odd.displace") as server:
        form = [("image", (path.name, path.read_bytes(), "image/png")) for path in queries]
        records = server.post("/v1/locate?k=1", files=form).json()["results"]
        assert [record["places"] for record in records] == expected.places.tolist()
        np.testing.assert_allclose([r["confidence"] for r in records], expected.confidence, atol=1e-4)
        remote = asking(server)
        found = remote.locate(remote.described(queries, {}), k=1, pictures=queries)
        np.testing.assert_array_equal(found.places, expected.places)
        np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-4)


def test_a_server_that_says_no_confidence_is_sent_no_pictures(town, remote, queries):
    vectors, many = town.describe(queries * 7), [Path("not there")] * 7 * PLACES
    remote.client.compare = None
    found = remote.locate(
        vectors, adapt="batch", pictures=many
    )  # as what is known of drives judges none here
    assert found.confidence is town.locate(vectors, adapt="batch").confidence is None


def test_a_server_compares_one_image_with_a_place_of_the_map(town, server, doubtful):
    def asked(content, place="03", **others):
        sent = {"place": place, "score": 0.9, "confidence": 0.5} | others
        return server.post("/v1/compare", params=sent, content=content, headers={"content-type": "image/png"})

    image = doubtful[2].read_bytes()
    (expected,) = judged(town, [0.5], ["03"], [image])
    assert asked(image).json()["confidence"] == pytest.approx(expected, abs=1e-6)
    assert asked(image, "nowhere").json()["confidence"] == 0.5
    assert asked(image, confidence=2).status_code == 422
    assert "there is no such parameter" in asked(image, k=3).json()["error"]["message"]
    assert asked(b"none").status_code == 415
    descriptors = {"descriptors": [[0.0] * town.dim]}
    refused = server.post("/v1/compare?place=03&score=0.9&confidence=0.5", json=descriptors)
    assert "one image is compared at a time" in refused.json()["error"]["message"]
    assert server.post("/v1/compare", content=image).status_code == 422


def test_a_server_of_a_map_whose_places_are_numbers_says_what_the_library_says(town, doubtful, tmp_path):
    numbered = town.changed(places=replace(town.places, ids=town.place_ids.astype(int)))
    numbered.save(tmp_path / "numbered.displace")
    with served(tmp_path / "numbered.displace") as server:
        remote = asking(server)
        found = remote.locate(remote.described(doubtful, {}), pictures=doubtful)
        told = {"score": 0.9, "confidence": 0.5}
        image = {"content": doubtful[0].read_bytes(), "headers": {"content-type": "image/png"}}
        refused = server.post("/v1/compare", params={"place": "barn", **told}, **image)
    expected = numbered.locate(doubtful)
    np.testing.assert_array_equal(found.places, expected.places)
    assert found.places.dtype == expected.places.dtype
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-4)
    assert (refused.status_code, "whole numbers" in refused.text) == (422, True)


def test_a_server_says_whether_a_compared_image_is_in_the_map(remote, doubtful):
    image, vectors = doubtful[2], remote.described(doubtful[2:3], {})
    (record,) = remote.client.locate(vectors, 8)["results"]
    told = remote.client.compare(image, record)["confidence"]
    for limit in (told - 1e-4, told + 1e-4):
        assert remote.client.compare(image, record, min_confidence=limit)["in_map"] is bool(told >= limit)
    assert remote.client.compare(image, {**record, "in_map": None})["in_map"] is bool(told >= 0.5)


def test_a_server_knows_no_position_of_a_place_that_is_not_in_the_map(town, queries, tmp_path):
    points = np.stack([np.arange(PLACES) * 100.0, np.zeros(PLACES)], axis=1)
    headings = np.arange(PLACES) * 10.0
    placed = town.changed(places=replace(town.places, positions=Positions(points, heading=headings)))
    placed.save(tmp_path / "placed.displace")
    found = placed.places.positions_of(np.array(["03", "nowhere"]))
    np.testing.assert_array_equal(found.points, [[300, 0], [np.nan, np.nan]])
    np.testing.assert_array_equal(found.heading, [30, np.nan])
    with served(tmp_path / "placed.displace") as server:
        told = {"place": "nowhere", "score": 0.9, "confidence": 0.5}
        image = {"content": queries[0].read_bytes(), "headers": {"content-type": "image/png"}}
        answer = server.post("/v1/compare", params=told, **image).json()
        assert (answer["easting"], answer["northing"], answer["places"]) == (None, None, ["nowhere"])
        for odd in ("nan", "inf", "1e400"):
            assert server.post("/v1/compare", params={**told, "score": odd}, **image).status_code == 422


@pytest.mark.parametrize("adapt", ["none", "auto"])
def test_a_server_compares_the_photos_of_a_form_in_its_own_threads(
    town, server, doubtful, adapt, monkeypatch
):
    expected = town.locate(doubtful, adapt=adapt).confidence
    monkeypatch.setattr(sketching, "ThreadPoolExecutor", None)  # as many for each request would be too many
    form = [("image", (query.name, query.read_bytes(), "image/png")) for query in doubtful]
    records = server.post(f"/v1/locate?adapt={adapt}", files=form).json()["results"]
    np.testing.assert_allclose([record["confidence"] for record in records], expected, atol=1e-4)


def test_photos_that_are_gone_after_a_server_has_described_them_are_judged_by_descriptors(
    town, remote, doubtful, tmp_path
):
    some = [Path(shutil.copy(query, tmp_path)) for query in doubtful[:3]]
    vectors = remote.described(some, {})
    some[1].unlink()
    found = remote.locate(vectors, pictures=some)
    expected = town.locate(vectors, pictures=some)
    np.testing.assert_array_equal(found.places, expected.places)
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-4)
