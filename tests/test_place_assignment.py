"""Places along a track and images for them, against plain loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from displace.errors import ManifestError
from displace.geo import Positions
from displace.manifest.place_assignment import (
    CHOSEN,
    NEAR,
    OFF_ROUTE,
    KnownPlaces,
    Rule,
    match_places,
    metres_together,
    places_of,
    space_places,
)
from displace.manifest.table import Manifest

points = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=25).map(
    lambda rows: np.array(rows, float).reshape(-1, 2)
)
seeds = st.integers(0, 2**32 - 1)


def angle(a: float, b: float) -> float:
    difference = abs(a - b) % 360
    return min(difference, 360 - difference)


def headings(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.2, np.nan, rng.choice([0.0, 30.0, 180.0, 350.0], n))


def agrees(a: float, b: float, limit: float) -> bool:
    return bool(np.isnan(a) or np.isnan(b) or angle(a, b) <= limit)


@settings(deadline=None)
@given(points, seeds)
def test_spacing(track, seed):
    rule, heading = Rule(spacing=6.0, max_heading=45), headings(len(track), seed)
    expected: list[int] = []
    for row in range(len(track)):
        same = [k for k in expected if agrees(heading[k], heading[row], 45)]
        if all(np.linalg.norm(track[k] - track[row]) >= 6 for k in same):
            expected.append(row)
    assert space_places(track, heading, rule).tolist() == expected


def test_spacing_skips_unknown_positions():
    track = np.array([[np.nan, 0], [0, 0], [9, 0]])
    assert space_places(track, None, Rule()).tolist() == [1, 2]


@settings(deadline=None)
@given(points, points, seeds)
def test_matching(places, images, seed):
    rule = Rule(spacing=3.0, radius=5.0, max_heading=45)
    own, other = headings(len(places), seed), headings(len(images), seed + 1)
    place, state = match_places(places, own, images, other, rule)
    pairs = [
        (float(np.linalg.norm(places[p] - images[i])), p, i)
        for p in range(len(places))
        for i in range(len(images))
        if agrees(own[p], other[i], 45)
    ]
    expected: dict[int, int] = {}
    for away, p, i in sorted(pairs):
        if away <= 5 and p not in expected.values() and i not in expected:
            expected[i] = p
    assert {i: int(p) for i, p in enumerate(place) if p >= 0} == expected
    near = {i for away, _, i in pairs if away <= 5}
    for i, found in enumerate(state):
        assert found == (CHOSEN if i in expected else NEAR if i in near else OFF_ROUTE)


def test_an_image_stands_for_one_place_only():
    """One image between two places goes to the nearer; the other place stays without."""
    places = np.array([[0.0, 0], [5, 0]])
    place, _ = match_places(places, None, np.array([[2.0, 0]]), None, Rule(radius=10))
    assert place.tolist() == [0]


def test_the_other_direction_is_off_the_route():
    rule = Rule(radius=10)
    place, state = match_places(np.zeros((1, 2)), np.array([90.0]), np.ones((1, 2)), np.array([270.0]), rule)
    assert (place.tolist(), state.tolist()) == ([-1], [OFF_ROUTE])


def test_nothing_to_match():
    nowhere = np.full((2, 2), np.nan)
    for places, images in (
        (np.empty((0, 2)), np.zeros((2, 2))),
        (np.zeros((1, 2)), nowhere),
        (nowhere, nowhere),
    ):
        place, state = match_places(places, None, images, None, Rule())
        assert place.tolist() == [-1] * len(images)
        assert state.tolist() == [OFF_ROUTE] * len(images)


def test_one_frame_for_all_tracks():
    a = Positions(np.array([[50.0, 8.0], [50.001, 8.0]]), degrees=True)
    b = Positions(np.array([[50.0, 8.0], [np.nan, np.nan]]), degrees=True)
    first, second = metres_together([a, b])
    np.testing.assert_allclose(first[0], second[0])
    with pytest.raises(ManifestError, match="no image has a position"):
        metres_together([Positions(np.full((1, 2), np.nan))])


def test_known_places_are_the_mean_of_their_images():
    manifest = Manifest(
        [f"{i}.jpg" for i in range(5)],
        ["b", "a", "b", "", "c"],
        ["t", "t", "u", "u", "u"],
        easting=[0, 7, 2, 99, np.nan],
        northing=[0, 7, 4, 99, np.nan],
        heading=[350, 5, 20, 9, np.nan],
    )
    assert places_of(manifest).ids.tolist() == ["a", "b", "c"]  # the blank is none
    assert places_of(manifest).images == ["1.jpg", "0.jpg", "4.jpg"]
    known = KnownPlaces.of(manifest)
    assert known.ids == ["b", "a", "c"]
    np.testing.assert_allclose(known.positions.points, [[1, 2], [7, 7], [np.nan, np.nan]])
    np.testing.assert_allclose(known.positions.heading, [5, 5, np.nan])
    assert known.names["3"] == ""


def test_places_on_the_date_line_are_where_their_images_are(tmp_path):
    longitude = [179.9999, -179.9998, -179.9997, 179.9998]
    manifest = Manifest(
        [f"{name}.jpg" for name in "abcd"],
        ["0", "0", "1", "1"],
        ["sun", "rain", "sun", "rain"],
        tmp_path,
        latitude=[-17.0] * 4,
        longitude=longitude,
    )
    found = places_of(manifest).positions.points[:, 1]
    np.testing.assert_allclose(found, [-179.99995, -179.99995], atol=1e-9)
    sun, rain = (
        Positions(np.column_stack([[-17.0] * 2, np.take(longitude, rows)]), degrees=True)
        for rows in ([0, 2], [1, 3])
    )
    away = np.concatenate(metres_together([sun, rain]))
    assert np.ptp(away[:, 0]) < 60
