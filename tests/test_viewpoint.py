"""Drives in another lane: pictures that are moved against each other, lined up and located all the same."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from displace import ReferenceSet, build
from displace.errors import InputError
from displace.maps.place_map import PlaceMap
from displace.maps.remarks import moved
from displace.models import get_model, grid_of
from displace.sequence.alignment import align, least_gain
from displace.sequence.following import Follower
from displace.sequence.viewpoint import LEAST_VIEW_FRAMES, common_view, moved_by
from displace.verbs.align import align as align_verb
from displace.verbs.extract import extract
from displace.verbs.manifest import manifest as list_images

GRID = (6, 11, 8)
PLACES = 100


def seen(
    seed: int, row: int = 0, column: int = 0, *, noise: float = 0.5, n: int = PLACES, condition: int = 0
) -> np.ndarray:
    """Descriptors of a route's places: a window of what is around, moved by some cells."""
    rng = np.random.default_rng(seed)
    around = rng.standard_normal((n + 2, GRID[0] + 12, GRID[1] + 12, GRID[2])).astype(np.float32)
    around = around[:-2] * 0.5 + around[1:-1] + around[2:] * 0.5  # neighbours are alike
    window = around[:, 6 - row : 6 - row + GRID[0], 6 - column : 6 - column + GRID[1]]
    other = np.random.default_rng([seed, condition, row + 9, column + 9])
    vectors = (window + noise * other.standard_normal(window.shape)).reshape(n, -1)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def naive_moved(vector: np.ndarray, row: int, column: int, usual: np.ndarray) -> np.ndarray:
    """Cell by cell."""
    old, mean, new = vector.reshape(GRID), usual.reshape(GRID), np.empty(GRID)
    for r in range(GRID[0]):
        for c in range(GRID[1]):
            inside = 0 <= r + row < GRID[0] and 0 <= c + column < GRID[1]
            new[r, c] = old[r + row, c + column] if inside else mean[r, c]
    return new.ravel()


@pytest.mark.parametrize("cells", [(0, 0), (1, 0), (0, 3), (-2, 1), (2, -4), (-1, -1)])
def test_moved_back_cell_by_cell(cells: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    vectors, usual = rng.standard_normal((3, int(np.prod(GRID)))), rng.standard_normal(int(np.prod(GRID)))
    expected = [naive_moved(vector, *cells, usual) for vector in vectors]
    np.testing.assert_allclose(moved_by(vectors, GRID, cells, usual), expected, rtol=1e-6)


@pytest.mark.parametrize("cells", [(0, 0), (0, 3), (1, -2), (-2, 4), (2, 0)])
def test_the_order_of_the_route_tells_how_far_pictures_are_moved(cells: tuple[int, int]) -> None:
    recordings = {"own": seen(1), "moved": seen(1, *cells, condition=1)[20:]}
    cut, offsets = common_view(recordings, GRID, least_gain)
    assert offsets == {"own": (0, 0), "moved": cells}
    size = (GRID[0] - abs(cells[0])) * (GRID[1] - abs(cells[1])) * GRID[2]
    assert {vectors.shape[1] for vectors in cut.values()} == {size}


def test_what_is_cut_shows_the_same() -> None:
    recordings = {
        "own": seen(1, noise=0.0),
        "down": seen(1, 1, -3, noise=0.0),
        "right": seen(1, 0, 2, noise=0.0),
    }
    cut, offsets = common_view(recordings, GRID, least_gain)
    turned = {name: tuple(np.subtract(at, offsets["own"]).tolist()) for name, at in offsets.items()}
    assert turned == {"own": (0, 0), "down": (1, -3), "right": (0, 2)}
    for name in ("down", "right"):
        cosines = (cut["own"] * cut[name]).sum(axis=1)
        lengths = np.linalg.norm(cut["own"], axis=1) * np.linalg.norm(cut[name], axis=1)
        np.testing.assert_allclose(cosines, lengths, rtol=1e-5)


def test_recordings_that_only_a_moved_one_resembles_are_reached_by_it() -> None:
    """Five columns are too many to be looked for, but three and two are not."""
    columns = {"far": 5, "near": 0, "again": 0, "between": 3}
    recordings = {name: seen(1, 0, column, condition=c) for c, (name, column) in enumerate(columns.items())}
    _, offsets = common_view(recordings, GRID, least_gain)
    assert {name: offsets[name][1] - offsets["near"][1] for name in recordings} == columns


def test_recordings_moved_far_apart_keep_a_common_part() -> None:
    recordings = {"own": seen(1), "left": seen(1, -2, -4, condition=1), "right": seen(1, 2, 4, condition=2)}
    cut, offsets = common_view(recordings, GRID, least_gain)
    apart = np.ptp(list(offsets.values()), axis=0)
    assert (apart <= (4, 6)).all()
    assert {vectors.shape[1] for vectors in cut.values()} == {int(np.prod(GRID[:2] - apart)) * GRID[2]}


def test_different_routes_are_not_moved() -> None:
    recordings = {"own": seen(1), "other": seen(2)}
    _, offsets = common_view(recordings, GRID, least_gain)
    assert offsets == {"own": (0, 0), "other": (0, 0)}
    with pytest.raises(
        InputError, match=r"different routes.* tell more, and so does a network .*: --model efficientnet_lite"
    ):
        align(recordings, grid=GRID)


def test_recordings_of_two_lanes_are_lined_up_by_what_both_see() -> None:
    at = np.sort(np.random.default_rng(3).choice(PLACES, 75, replace=False))
    recordings = {"near": seen(1), "far": seen(1, 0, 3, condition=1)[at]}
    with pytest.raises(InputError, match="different routes"):
        align(recordings, anchor="near")
    found = align(recordings, anchor="near", grid=GRID)
    places = found.tracks["far"].places
    on = places >= 0
    assert on.mean() > 0.95
    assert (np.abs(places[on] - at[on]) <= 2).all()
    assert found.notes[0] == (
        "far: its pictures are moved against those of near by about 27% of their width (another lane, or a camera "
        "mounted otherwise); lined up by what both see"
    )


def test_recordings_of_one_lane_are_lined_up_as_without_a_grid() -> None:
    recordings = {"sun": seen(1), "rain": seen(1, condition=1)[10:]}
    with_grid, without = align(recordings, grid=GRID), align(recordings)
    assert with_grid.anchor == without.anchor
    assert with_grid.notes == without.notes
    for name, track in without.tracks.items():
        np.testing.assert_array_equal(with_grid.tracks[name].places, track.places)


@pytest.fixture(scope="module")
def place_map(pictures: dict[str, np.ndarray]) -> PlaceMap:
    traversals = {name: pictures[name] for name in ("sun", "rain", "dusk")}
    return build(ReferenceSet.from_traversals(traversals), model=get_model("hog").fingerprint())


@pytest.fixture(scope="module")
def pictures() -> dict[str, np.ndarray]:
    return {
        "sun": drawn(1, 0),
        "rain": drawn(1, 1),
        "dusk": drawn(1, 2),
        "own lane": drawn(1, 3),
        "other lane": drawn(1, 4, column=36),
        "other mount": drawn(1, 5, row=-12),
        "other route": drawn(2, 0, column=24),
    }


@pytest.mark.parametrize(
    ("name", "cells"),
    [("own lane", (0, 0)), ("other lane", (0, 3)), ("other mount", (-1, 0)), ("other route", (0, 0))],
)
def test_how_far_pictures_are_moved(
    place_map: PlaceMap, pictures: dict[str, np.ndarray], name: str, cells: tuple[int, int]
) -> None:
    assert place_map.view_of(pictures[name]) == cells


def test_pictures_of_one_spot_are_not_moved(place_map: PlaceMap, pictures: dict[str, np.ndarray]) -> None:
    """A standing camera: what its pictures differ by is noise, which fits some offset best."""
    noise = 0.003 * np.random.default_rng(81).standard_normal((150, place_map.dim)).astype(np.float32)
    for spot in pictures["own lane"][[0, 27, 54, 81]]:
        assert place_map.view_of(spot + noise) == (0, 0)


def test_drives_in_another_lane_are_located(place_map: PlaceMap, pictures: dict[str, np.ndarray]) -> None:
    queries, truth = pictures["other lane"], place_map.places.ids
    alone = place_map.locate(queries).places[:, 0]
    moved_back = place_map.locate(queries, adapt="auto").places[:, 0]
    assert (alone == truth).mean() < 0.5
    assert (moved_back == truth).mean() > 0.9
    smoothed = [fix.place for fix in place_map.smooth(queries)]
    assert np.mean(np.array(smoothed) == truth) > 0.9


def test_what_was_moved_is_said(place_map: PlaceMap, pictures: dict[str, np.ndarray]) -> None:
    matches = place_map.locate(pictures["other lane"], adapt="auto")
    assert matches.view == matches.take(np.arange(3)).view == (0, 3)
    assert place_map.smoothed(pictures["other mount"]).view == (-1, 0)
    assert (
        place_map.locate(pictures["other lane"]).view
        == place_map.locate(pictures["own lane"], adapt="auto").view
    )
    assert moved(place_map, (0, 3)).startswith(
        "the pictures are shifted by about 27% of their width against the map"
    )
    assert moved(place_map, (-1, 1)).startswith(
        "the pictures are shifted by about 12% of their height and 9% of their"
    )


def test_a_drive_under_way_is_moved_back_as_told(
    place_map: PlaceMap, pictures: dict[str, np.ndarray]
) -> None:
    queries = pictures["other lane"]
    told = place_map.follow(adapt="none", view=place_map.view_of(queries))
    plain = place_map.follow(adapt="none")
    right = dict.fromkeys(("told", "plain"), 0)
    for query, truth in zip(queries, place_map.places.ids, strict=True):
        right["told"] += told.step(query).place == truth
        right["plain"] += plain.step(query).place == truth
    assert right["told"] > 0.9 * len(queries) > 2 * right["plain"]


def followed(follower: Follower, queries: np.ndarray) -> np.ndarray:
    return np.array([follower.step(query).place for query in queries])


@pytest.mark.parametrize("lag", [0, 110])
def test_a_drive_under_way_finds_out_how_far_it_is_moved(
    place_map: PlaceMap, pictures: dict[str, np.ndarray], lag: int
) -> None:
    queries, truth = pictures["other lane"], np.asarray(place_map.places.ids)
    follower, plain = place_map.follow(lag=lag), place_map.follow(view=(0, 0))
    first = LEAST_VIEW_FRAMES - 1
    before, after = followed(follower, queries[:first]), followed(follower, queries[first:])
    as_it_is = followed(plain, queries)
    np.testing.assert_array_equal(before, as_it_is[:first])
    assert (follower.view, plain.view) == ((0, 3), (0, 0))
    assert (after == truth[first:]).mean() > 0.9
    assert (as_it_is[first:] == truth[first:]).mean() < 0.7
    told = place_map.follow(view=(0, 3))
    np.testing.assert_array_equal(followed(told, queries)[first:], after)
    if lag:  # the frames before are known as well
        assert [follower.ago(lag - n).place for n in range(5)] == list(truth[-1 - lag : 4 - lag])


def test_a_drive_that_was_copied_or_kept_finds_its_view_too(
    place_map: PlaceMap, pictures: dict[str, np.ndarray]
) -> None:
    queries, follower = pictures["other lane"], place_map.follow()
    followed(follower, queries[: LEAST_VIEW_FRAMES - 5])
    others = copy.deepcopy(follower), pickle.loads(pickle.dumps(follower))
    expected = followed(follower, queries[LEAST_VIEW_FRAMES - 5 :])
    for other in others:
        np.testing.assert_array_equal(followed(other, queries[LEAST_VIEW_FRAMES - 5 :]), expected)
        assert other.view == follower.view == (0, 3)


def test_a_drive_that_changes_lanes_remembers_as_many_frames_as_before(
    place_map: PlaceMap, pictures: dict[str, np.ndarray]
) -> None:
    truth = np.asarray(place_map.places.ids)
    follower = place_map.follow(lag=180)
    followed(follower, pictures["own lane"][:100])
    assert follower.view == (0, 0)
    followed(follower, pictures["other lane"][:99])
    fix = follower.step(pictures["other lane"][99])
    assert (follower.view, fix.place) == ((0, 3), truth[99])
    assert follower.ago(180).belief.shape == fix.belief.shape


def test_a_drive_that_finds_its_view_remembers_black_frames(
    place_map: PlaceMap, pictures: dict[str, np.ndarray]
) -> None:
    """They were left out, and every frame before them was taken for a later one."""
    truth, queries = np.asarray(place_map.places.ids), pictures["other lane"][: LEAST_VIEW_FRAMES + 2].copy()
    queries[-7:-5] = 0
    follower = place_map.follow(lag=12)
    followed(follower, queries)
    assert follower.view == (0, 3)
    assert [follower.ago(frames).place for frames in (4, 7, 9)] == truth[
        LEAST_VIEW_FRAMES + 1 - np.array([4, 7, 9])
    ].tolist()


def test_a_drive_that_goes_back_to_its_lane_is_no_longer_moved(
    place_map: PlaceMap, pictures: dict[str, np.ndarray]
) -> None:
    follower = place_map.follow()
    followed(follower, pictures["other lane"][:LEAST_VIEW_FRAMES])
    assert follower.view == (0, 3)
    followed(follower, pictures["own lane"][LEAST_VIEW_FRAMES:])
    assert follower.view == (0, 0)


def test_short_clips_from_another_lane_are_smoothed(
    place_map: PlaceMap, pictures: dict[str, np.ndarray]
) -> None:
    some = slice(40, 40 + LEAST_VIEW_FRAMES)
    found = place_map.smoothed(pictures["other lane"][some])
    assert found.view == (0, 3)
    assert (found.places[:, 0] == np.asarray(place_map.places.ids)[some]).mean() > 0.9
    assert place_map.smoothed(pictures["other lane"][some][1:]).view == (0, 0)
    assert place_map.smoothed(pictures["own lane"][some]).view == (0, 0)


def test_an_offset_of_few_frames_must_be_surely_better_than_none(
    place_map: PlaceMap, pictures: dict[str, np.ndarray]
) -> None:
    """Of 15 frames beside the lane and 10 in it, an offset fits best by chance; of all 25 beside it, surely."""
    beside = pictures["other lane"][40:65]
    mixed = np.concatenate([beside[:15], pictures["own lane"][55:65]])
    for frames, told in ((beside, (0, 3)), (mixed, None), (pictures["own lane"][40:65], (0, 0))):
        assert place_map._view_of(place_map.state, frames, least=0) == told


@pytest.mark.parametrize("noise", [0.0, 0.003])
def test_pictures_of_a_standing_camera_tell_no_offset(
    place_map: PlaceMap, pictures: dict[str, np.ndarray], noise: float
) -> None:
    rng = np.random.default_rng(0)
    for spot in pictures["other route"][::10]:
        frames = np.tile(spot, (LEAST_VIEW_FRAMES, 1))
        frames += rng.normal(0, noise, frames.shape).astype(np.float32)
        assert place_map._view_of(place_map.state, frames, least=0) is None


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("own lane", {}),
        ("other route", {}),
        ("other lane", {"adapt": "none"}),
        ("other lane", {"view": (0, 0)}),
    ],
)
def test_a_drive_under_way_stays_as_it_is(
    place_map: PlaceMap, pictures: dict[str, np.ndarray], name: str, options: dict[str, Any]
) -> None:
    follower = place_map.follow(**options)
    followed(follower, pictures[name])
    assert follower.view == (0, 0)


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ("x", "two whole numbers"),
        ((0, 1, 2), "two whole numbers"),
        ((0.5, 0), "two whole"),
        ((0, 11), "out of sight"),
    ],
)
def test_offsets_that_pictures_cannot_have_are_refused(place_map: PlaceMap, view: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        place_map.follow(view=view)


def test_few_photos_are_not_moved(place_map: PlaceMap, pictures: dict[str, np.ndarray]) -> None:
    assert place_map.view_of(pictures["other lane"][:99]) == (0, 0)


def test_adapting_to_nothing_moves_nothing(place_map: PlaceMap, pictures: dict[str, np.ndarray]) -> None:
    queries = pictures["other lane"]
    one_by_one = np.concatenate([place_map.locate(query[None]).scores for query in queries])
    np.testing.assert_allclose(place_map.locate(queries, adapt="none").scores, one_by_one, atol=1e-6)


def test_descriptors_that_are_no_grid_are_not_moved(pictures: dict[str, np.ndarray]) -> None:
    bare = build(ReferenceSet.from_traversals({name: pictures[name] for name in ("sun", "rain")}))
    assert bare.view_of(pictures["other lane"]) == (0, 0)
    with pytest.raises(InputError, match="no grid over the picture; leave it out"):
        bare.follow(view=(0, 1))


def test_models_that_are_not_installed_have_no_grid() -> None:
    assert grid_of({"model": "somebody's own"}) is None
    assert grid_of(None) is None
    assert grid_of({"model": "hog"}) == get_model("hog").grid
    assert int(np.prod(get_model("hog").grid)) == get_model("hog").dim  # type: ignore[arg-type]


def test_a_store_of_two_lanes_is_lined_up(tmp_path: Path) -> None:
    for name, column in (("near", 0), ("far", 36)):
        (tmp_path / "drives" / name).mkdir(parents=True)
        frames = range(0, 70) if name == "near" else [*range(0, 70, 2), *range(1, 12, 2)]
        for number, place in enumerate(sorted(frames)):
            picture = scene(1, place, condition=column, column=column)
            cv2.imwrite(str(tmp_path / "drives" / name / f"{number:04d}.png"), picture)
    list_images([tmp_path / "drives"], tmp_path / "route.csv")
    extract(tmp_path / "route.csv", tmp_path / "route.desc", model="hog")
    found = align_verb(tmp_path / "route.desc", anchor="near").alignment
    truth = np.array(sorted([*range(0, 70, 2), *range(1, 12, 2)]))
    places = found.tracks["far"].places
    on = places >= 0
    assert on.mean() > 0.9
    assert (np.abs(places[on] - truth[on]) <= 2).mean() > 0.95
    assert any("27% of their width" in note for note in found.notes)


def drawn(route: int, condition: int, *, row: int = 0, column: int = 0) -> np.ndarray:
    """Descriptors of drawn pictures of a route, taken by a camera that is moved by some pixels of 144 × 108."""
    model = get_model("hog")
    return np.stack(
        [
            model.prepare(np.repeat(scene(route, place, condition, row, column)[..., None], 3, axis=2))
            for place in range(120)
        ]
    )


def scene(route: int, place: int, condition: int = 0, row: int = 0, column: int = 0) -> np.ndarray:
    """One grey picture of 144 × 108: shapes around a place, and the noise of a condition."""
    around = np.random.default_rng([route, place]).uniform(0, 255, (18, 24)).astype(np.float32)
    wide = cv2.resize(around, (288, 216), interpolation=cv2.INTER_CUBIC)
    window = wide[54 - row : 162 - row, 72 - column : 216 - column]
    noise = np.random.default_rng([route, place, condition]).normal(0, 12, window.shape)
    return np.clip(window + noise, 0, 255).astype(np.uint8)
