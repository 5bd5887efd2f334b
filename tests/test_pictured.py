"""Drives whose frames are compared with the pictures of the places."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from drawn import copy_drawn
from PIL import Image
from serving import asking, served

from displace import PlaceMap, verbs
from displace.errors import InputError
from displace.maps.located import along_drives
from displace.sequence import pictured
from displace.sequence.engine import Blocks
from displace.sequence.following import smooth_fixes
from displace.sequence.pictured import AMONG, BY_CHANCE, GAIN, MOST, OF_ALL, RoutePictures
from displace.sketches import COLUMNS, ROWS, fit, packed, sketch_of, unpacked

PLACES = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drives")
    copy_drawn(folder / "town", PLACES)
    verbs.extract(folder / "town" / "manifest.csv", folder / "town.desc", model="hog")
    verbs.build(folder / "town.desc", folder / "town.displace", exclude=["night"], tolerance="1 frames")
    return folder


@pytest.fixture(scope="module")
def place_map(folder):
    return PlaceMap.load(folder / "town.displace")


@pytest.fixture(scope="module")
def frames(folder):
    return sorted((folder / "town" / "night").glob("*.jpg"))


def right(fixes):
    """Share of fixes at the place of their number, or next to it."""
    found = np.array([int(fix.place) for fix in fixes])
    return np.mean(np.abs(found - np.arange(len(found))) <= 1)


def sketches(seeds):
    """Sketches of blurred noise."""
    noise = [np.random.default_rng(seed).integers(0, 256, (12, 16, 3), np.uint8) for seed in seeds]
    return np.stack(
        [
            sketch_of(np.asarray(Image.fromarray(one).resize((320, 240), Image.Resampling.BICUBIC)))
            for one in noise
        ]
    )


def test_similarity_grows_as_documented():
    """Of the best places alone, by the fit beyond chance, in deviations of the frame's similarities."""
    places = sketches(range(12))
    route, frame = RoutePictures(packed(places)), places[3]
    similarity = np.random.default_rng(0).standard_normal(12).astype(np.float32)
    similarity[3] = similarity.max() - 0.2
    found = route.heeded(similarity, frame)
    best = np.argsort(-similarity)[:AMONG]
    assert 3 in best
    for place in range(12):
        (fits,) = fit(frame[None], unpacked(route.packed[[place]]), zooms=(1.0,))
        gain = GAIN * similarity.std() * np.clip(fits - BY_CHANCE, 0, MOST) if place in best else 0
        assert found[place] == pytest.approx(similarity[place] + gain, abs=1e-5)
    assert found.argmax() == 3 != similarity.argmax()
    blank = np.zeros((ROWS, COLUMNS), np.complex64)
    np.testing.assert_array_equal(route.heeded(similarity, blank), similarity)
    unknown = RoutePictures(np.zeros_like(route.packed))
    np.testing.assert_array_equal(unknown.heeded(similarity, frame), similarity)


def test_a_whole_drive_is_heeded_frame_by_frame():
    places = sketches(range(9))
    route = RoutePictures(packed(places))
    similarity = np.random.default_rng(1).standard_normal((40, 9)).astype(np.float32)
    at = np.random.default_rng(2).integers(0, 9, 40)
    asked = []

    def shown(rows):
        asked.append(rows)
        return places[at[rows]]

    found = route.heeded_by_all(Blocks.of(similarity), shown)
    followed = np.stack([route.heeded(one, places[place]) for one, place in zip(similarity, at, strict=True)])
    expected = similarity + OF_ALL / GAIN * (followed - similarity)
    assert (expected > similarity).any()
    np.testing.assert_allclose(found.whole(), expected, atol=1e-6)
    np.testing.assert_allclose(found.block(slice(7, 20)), expected[7:20], atol=1e-6)
    assert len(asked) > 1  # sketches of a long drive are not held at once
    assert similarity.max() <= found.whole().max()


def test_frames_are_located_better_by_their_pictures(place_map, frames):
    vectors = place_map.describe(frames)
    plain, seen = place_map.follow(), place_map.follow()
    by_descriptors = [plain.step(vector) for vector in vectors]
    by_pictures = [seen.step(frame) for frame in frames]
    assert right(by_pictures[:20]) >= right(by_descriptors[:20])
    assert right(by_pictures) >= right(by_descriptors) > 0.7
    beliefs = [np.stack([fix.belief for fix in fixes]) for fixes in (by_descriptors, by_pictures)]
    assert not np.allclose(*beliefs, atol=1e-3)
    assert right(place_map.smooth(frames)) >= 0.95


def test_every_way_to_give_a_frame_is_one(place_map, frames):
    vectors = place_map.describe(frames[:8])
    ways = [place_map.follow() for _ in range(4)]
    for frame, vector in zip(frames, vectors, strict=False):
        pixels = np.asarray(Image.open(frame))
        fixes = [
            ways[0].step(frame),
            ways[1].step(vector, frame),
            ways[2].step(pixels),
            ways[3].step(vector, frame.read_bytes()),
        ]
        for fix in fixes[1:]:
            assert (fix.place, fix.off_map) == (fixes[0].place, pytest.approx(fixes[0].off_map, abs=1e-6))
            assert fix.probability == pytest.approx(fixes[0].probability, abs=1e-6)
            np.testing.assert_allclose(fix.belief, fixes[0].belief, atol=1e-6)
    all_vectors = place_map.describe(frames)
    images, given = place_map.smooth(frames), place_map.smooth(all_vectors, pictures=frames)
    assert [fix.place for fix in images] == [fix.place for fix in given]
    plain = place_map.smooth(all_vectors)
    assert not np.allclose([fix.off_map for fix in plain], [fix.off_map for fix in images], atol=1e-6)


def test_what_is_no_picture_of_a_frame_is_refused(place_map, frames):
    vector = place_map.describe(frames[0])[0]
    for wrong, why in (
        ([frames[0], frames[1]], "pictures has 2 images, a step has 1"),
        (vector, "must be images"),
    ):
        with pytest.raises(InputError, match=why):
            place_map.follow().step(vector, wrong)
    with pytest.raises(InputError, match="pictures has 1 images, queries has 2"):
        place_map.smooth(np.stack([vector, vector]), pictures=[frames[0]])


def test_until_the_order_is_trusted_a_frame_is_located_as_a_photo(place_map, frames):
    photos = place_map.locate(frames[:6], k=1)
    follower = place_map.follow()
    for row, frame in enumerate(frames[:6]):
        fix = follower.step(frame)
        assert follower.order < 0.5
        assert fix.place == photos.places[row, 0]
        assert fix.probability <= photos.confidence[row] + 1e-6
        assert fix.probability <= 1 - fix.off_map + 1e-6


def test_frames_in_no_order_are_located_as_photos(place_map, frames):
    """A camera that jumps: the drive is never worse than its frames by themselves."""
    order = np.random.default_rng(0).permutation(len(frames))
    jumping = [frames[row] for row in order]
    photos = place_map.locate(jumping, k=1)
    fixes = place_map.smooth(jumping, adapt="none")
    np.testing.assert_array_equal([fix.place for fix in fixes], photos.places[:, 0])
    assert all(fix.probability <= sure + 1e-6 for fix, sure in zip(fixes, photos.confidence, strict=True))
    matches = place_map.smoothed(jumping, 3, adapt="none")
    np.testing.assert_array_equal(matches.places[:, 0], photos.places[:, 0])
    assert all(len({*row}) == 3 for row in matches.places.tolist())
    follower = place_map.follow(adapt="none")
    followed = np.array([int(follower.step(frame).place) for frame in jumping])
    alone = photos.places[:, 0].astype(int)
    assert np.mean(np.abs(followed - order) <= 1) >= np.mean(np.abs(alone - order) <= 1) - 0.01
    late, later = place_map.follow(adapt="none", lag=5), []
    for frame in jumping:
        late.step(frame)
        later.append(late.ago(5).place if len(later) >= 5 else None)
    later = np.array(later[5:], int)
    assert np.mean(np.abs(later - order[:-5]) <= 1) >= np.mean(np.abs(alone - order)[:-5] <= 1) - 0.01


def test_a_map_without_sketches_follows_by_descriptors(place_map, frames):
    bare = place_map.changed(sketches=None)
    vectors = bare.describe(frames[:12])
    images, plain = bare.follow(), bare.follow()
    for frame, vector in zip(frames, vectors, strict=False):
        np.testing.assert_allclose(images.step(vector, frame).belief, plain.step(vector).belief)
    np.testing.assert_array_equal(
        [fix.place for fix in bare.smooth(frames[:12])], [fix.place for fix in bare.smooth(vectors)]
    )


def test_a_frame_that_cannot_be_decoded_again_is_judged_by_its_descriptor(place_map, frames, tmp_path):
    (tmp_path / "damaged.jpg").write_bytes(frames[0].read_bytes()[:200])
    vector = place_map.describe(frames[0])[0]
    damaged, plain = place_map.follow(), place_map.follow()
    np.testing.assert_allclose(
        damaged.step(vector, tmp_path / "damaged.jpg").belief, plain.step(vector).belief, atol=1e-7
    )


def test_a_drive_with_pictures_can_be_copied_and_pickled(place_map, frames):
    follower = place_map.follow(lag=3)
    for frame in frames[:10]:
        follower.step(frame)
    for again in (deepcopy(follower), pickle.loads(pickle.dumps(follower))):
        fix, expected = again.step(frames[10]), deepcopy(follower).step(frames[10])
        np.testing.assert_allclose(fix.belief, expected.belief, atol=1e-6)


def test_a_stop_is_compared_once(place_map, frames, monkeypatch):
    compared = []
    original = pictured.fit_to_each

    def counted(one, others):
        compared.append(len(others))
        return original(one, others)

    monkeypatch.setattr(pictured, "fit_to_each", counted)
    standing = frames[:25] + [frames[25]] * 12 + frames[26:50]
    fixes = place_map.smooth(standing)
    assert len(fixes) == len(standing)
    assert len(compared) <= len(standing) - 10


def test_a_drive_with_a_stop_is_compared_frame_by_frame(place_map, frames):
    """Frames after a stop are compared with their own pictures, not with those of the stop."""
    standing = frames[:5] + [frames[5]] * 30 + frames[6:]
    vectors = place_map.describe(standing)
    asked = []
    original = place_map.describe(frames)
    shown = sketches_of_frames(place_map, frames)

    def by_number(rows):
        asked.extend(rows.tolist())
        number = np.array([np.abs(original - vectors[row]).sum(axis=1).argmin() for row in rows])
        return shown[number]

    place_map._smooth(place_map.state, vectors, "none", by_number)
    beyond = [row for row in asked if row >= 36]
    assert len(set(asked)) == len(asked) < len(standing) - 20
    assert beyond
    assert max(beyond) >= len(standing) - 3


def sketches_of_frames(place_map, frames):
    from displace.maps.sketching import sketches_of
    from displace.models import frame_of

    return sketches_of(frame_of(place_map.model), frames)


def test_a_server_is_sent_the_frames_themselves(place_map, frames, folder, tmp_path):
    """A drive over HTTP is compared with pictures as with the map's file; a frame that is gone counts by descriptor."""
    vectors = place_map.describe(frames[:12])
    follower = place_map.follow()
    expected = [follower.step(vector, frame) for vector, frame in zip(vectors, frames, strict=False)]
    with served(folder / "town.displace") as server:
        remote = asking(server)
        found = remote.smoothed(vectors, 1, pictures=frames[:12])
        by_descriptors = remote.smoothed(vectors, 1)
        gone = remote.smoothed(vectors, 1, pictures=[tmp_path / "gone.jpg"] * 12)
    np.testing.assert_array_equal(found.places[:, 0], [fix.place for fix in expected])
    np.testing.assert_allclose(found.confidence, [fix.probability for fix in expected], atol=1e-4)
    assert not np.allclose(found.confidence, by_descriptors.confidence, atol=1e-4)
    np.testing.assert_allclose(gone.confidence, by_descriptors.confidence, atol=1e-6)


def test_comparing_says_how_far_it_is(place_map, frames, folder):
    """Over frames of a drive and photos beside it, of those that could be read; in order, up to all of them."""
    vectors, told = place_map.describe(frames[:40]), []
    drives, good = {"night": range(5, 35)}, np.ones(40, bool)
    good[[3, 20]] = False
    along_drives(
        *(place_map, vectors, drives, 3, good),
        adapt="none",
        pictures=frames[:40],
        progress=lambda done, total: told.append((done, total)),
    )
    done, total = zip(*told, strict=True)
    assert {*total} == {38}
    assert done[-1] == 38
    assert max(done[: len(done) // 2]) < 38
    assert [*done] == sorted(done)
    for n in (17, 33):  # one frame more than a block, or two, of them
        told.clear()
        place_map.smooth(
            vectors[:n], pictures=frames[:n], progress=lambda done, total: told.append((done, total))
        )
        assert told[-1] == (n, n)
    told.clear()
    standing = [*frames[:20], *[frames[20]] * 9]  # of a stop, one frame is compared
    place_map.smooth(standing, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (29, 29)
    assert len(told) == len({*told}) < 29
    told.clear()
    place_map.locate(frames[:6], progress=lambda done, total: told.append((done, total)))
    assert told == [(n, 6) for n in range(1, 7)]
    with served(folder / "town.displace") as server:
        for way in (asking(server).locate, asking(server).smoothed):
            told.clear()
            way(vectors[:6], pictures=frames[:6], progress=lambda done, total: told.append((done, total)))
            assert told == [(n, 6) for n in range(1, 7)]


def test_whether_a_drive_is_along_the_route_is_judged_without_pictures(place_map):
    """Pictures that fit some path do not make it the route of a drive whose descriptors show another."""
    course = place_map._course(place_map.state)
    rng, n = np.random.default_rng(0), len(course.ids)
    plain = rng.standard_normal((120, n)).astype(np.float32)
    fitting = plain.copy()
    fitting[np.arange(120), np.arange(120) * n // 120] += 4.0
    along, _ = smooth_fixes(course, Blocks.of(fitting))
    elsewhere, _ = smooth_fixes(course, Blocks.of(fitting), Blocks.of(plain))
    assert np.mean([fix.off_map < 0.5 for fix in along]) > 0.9
    assert np.mean([fix.off_map > 0.5 for fix in elsewhere]) > 0.9
