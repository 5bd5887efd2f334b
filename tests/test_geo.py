"""Positions against spherical trigonometry and hand-made tracks."""

from __future__ import annotations

import numpy as np
import pytest

from displace.errors import InputError
from displace.geo import Positions, as_seconds, at_times, heading_difference, local_metres, radii_at


def haversine(a: np.ndarray, b: np.ndarray) -> float:
    (lat1, lon1), (lat2, lon2) = np.radians(a), np.radians(b)
    h = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return float(2 * 6371008.8 * np.arcsin(np.sqrt(h)))


@pytest.mark.parametrize("origin", [(0.0, 0.0), (51.75, -1.26), (-33.9, 151.2), (67.3, 179.999)])
def test_local_metres_agree_with_the_sphere(origin):
    rng = np.random.default_rng(0)
    points = np.asarray(origin) + rng.uniform(-0.02, 0.02, (20, 2))
    metres = local_metres(points, origin)
    for point, (east, north) in zip(points, metres, strict=True):
        # The sphere itself is off the ellipsoid by up to 0.6 %.
        assert np.hypot(east, north) == pytest.approx(haversine(np.asarray(origin), point), rel=0.008)


@pytest.mark.parametrize("kind", [list, np.int32, np.float32, ">f8"])
def test_positions_are_numbers_of_any_kind(kind):
    """Lists ended in a traceback, whole headings could not be saved, and the bytes of others were mixed up."""
    points, heading = [[4, 2], [3, 7]], [90, 180]
    if kind is not list:
        points, heading = np.array(points, kind), np.array(heading, kind)
    positions = Positions(points, heading=heading)
    assert positions.points.dtype == positions.heading.dtype == np.float64
    assert (positions.points.tolist(), positions.heading.tolist()) == ([[4, 2], [3, 7]], [90, 180])


@pytest.mark.parametrize(
    ("points", "heading", "message"),
    [
        ([4.0, 2.0], None, r"points must have shape \(m, 2\), .*got shape \(2,\)"),
        (np.ones((5, 3)), None, r"points .*got shape \(5, 3\)"),
        (np.ones((5, 2)), np.ones(4), r"heading must have shape \(5,\), one for each point; got \(4,\)"),
        ([["north", "east"]], None, "points must be numbers, NaN where unknown"),
    ],
)
def test_what_is_no_position_is_refused(points, heading, message):
    with pytest.raises(InputError, match=message):
        Positions(points, heading=heading)


@pytest.mark.parametrize("latitude", [-89.9, -33.9, 0.0, 40.4, 59.9, 89.999])
@pytest.mark.parametrize("longitude", [-180.0, -1.26, 179.9999])
def test_distances_in_space_are_metres_wherever_they_are(latitude, longitude):
    here, north, east = Positions(
        [[latitude, longitude], [latitude + 0.0001, longitude], [latitude, longitude + 0.0002]], degrees=True
    ).in_space()
    east_radius, north_radius = radii_at(latitude)
    assert np.linalg.norm(north - here) == pytest.approx(np.radians(0.0001) * north_radius, rel=1e-5)
    assert np.linalg.norm(east - here) == pytest.approx(np.radians(0.0002) * east_radius, rel=1e-5)
    assert np.isnan(Positions([[np.nan, np.nan]], degrees=True).in_space()).all()


def test_local_metres_across_the_date_line():
    east, _ = local_metres(np.array([[0.0, -179.999]]), (0.0, 179.999))[0]
    assert east == pytest.approx(0.002 * 111319.49, rel=1e-3)


def test_positions_on_both_sides_of_the_date_line_lie_together():
    track = Positions(np.array([[-17.0, 179.999], [np.nan, np.nan], [-17.0, -179.999]]), degrees=True)
    assert track.origin == pytest.approx((-17.0, 180.0))
    first, _, last = track.metres()
    assert np.linalg.norm(first - last) == pytest.approx(213, abs=1)
    assert track.points[2, 1] == -179.999, "what was given stays"


def test_the_origin_elsewhere_is_the_plain_mean():
    points = np.random.default_rng(0).uniform((-80, -85), (80, 85), (50, 2))
    assert Positions(points, degrees=True).origin == tuple(points.mean(axis=0).tolist())


def test_heading_difference():
    np.testing.assert_allclose(heading_difference([0, 359, 90, -170], [180, 1, 90, 170]), [180, 2, 0, 20])
    assert np.isnan(heading_difference(np.nan, 3))


@pytest.mark.parametrize("factor", [1, 1e3, 1e6, 1e9])
def test_seconds_from_any_unit(factor):
    np.testing.assert_allclose(as_seconds(np.array([1.4e9, 1.4e9 + 7]) * factor), [1.4e9, 1.4e9 + 7])


def test_small_times_stay():
    np.testing.assert_array_equal(as_seconds([0.0, 12.5]), [0.0, 12.5])
    assert as_seconds([]).shape == (0,)


def test_positions_at_times():
    track = Positions(
        np.array([[20.0, 0], [0, 0], [np.nan, 0], [10, 5]]), heading=np.array([90.0, 10, 0, 50])
    )
    clock = np.array([2.0, 0.0, 0.5, 1.0])
    found = at_times(track, clock, np.array([0.25, 1.75, 3.0, 9.0]), max_gap=1.5)
    np.testing.assert_allclose(found.points[:3], [[2.5, 1.25], [17.5, 1.25], [20, 0]])
    assert found.known.tolist() == [True, True, True, False]
    np.testing.assert_array_equal(found.heading, [10, 90, 90, np.nan])


def test_beyond_its_ends_a_track_tells_no_more_than_the_usual_time_between_fixes():
    """A car was left standing at the last fix for as long as `max_gap`, which may bridge a tunnel."""
    track = Positions(np.array([[0.0, 0], [14, 0], [28, 0], [300, 0]]), heading=np.full(4, 90.0))
    clock, asked = np.array([0.0, 1.0, 2.0, 20.0]), np.array([-1.1, -0.9, 11.0, 20.9, 21.1])
    found = at_times(track, clock, asked, max_gap=10.0)
    np.testing.assert_allclose(found.points[:, 0], [np.nan, 0, 164, 300, np.nan])
    np.testing.assert_array_equal(found.heading, [np.nan, 90, 90, 90, np.nan])
    assert at_times(track, clock, asked, max_gap=0.5).known.tolist() == [False] * 5
    alone = at_times(track.take(np.array([0])), clock[:1], np.array([1.5, 2.5]))
    assert alone.known.tolist() == [True, False]


def test_positions_at_times_across_the_date_line():
    track = Positions(np.array([[0, 179.9], [0, -179.9]]), degrees=True)
    found = at_times(track, np.array([0.0, 1.0]), np.array([0.75]))
    np.testing.assert_allclose(found.points, [[0, -179.95]])


def test_a_longitude_between_equal_ones_is_that_longitude():
    """It was -1.2580000000000098 in a manifest."""
    track = Positions(np.array([[51.75, -1.258], [51.76, -1.258]]), degrees=True)
    found = at_times(track, np.array([0.0, 1.0]), np.array([0.5]))
    assert found.points[0, 1] == -1.258


def test_no_fix_at_all():
    with pytest.raises(InputError, match="no position"):
        at_times(Positions(np.full((2, 2), np.nan)), np.zeros(2), np.zeros(1))


@pytest.mark.parametrize("time", [np.inf, -np.inf])
@pytest.mark.usefixtures("not_for_ever")
def test_an_infinite_time_is_refused(time):
    with pytest.raises(InputError, match="a time stamp is infinite"):
        as_seconds([1.0, time])
