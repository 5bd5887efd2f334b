"""Eastings and northings to degrees, against PROJ."""

from __future__ import annotations

import numpy as np
import pytest

from displace.errors import InputError
from displace.geo import Positions
from displace.interop._utm import Zone, as_degrees

KNOWN = [  # EPSG code, easting, northing; latitude and longitude by PROJ 9
    (32630, 620021.1, 5734795.4, 51.75118627781, -1.26127017108),  # Oxford
    (32617, 585001.5, 4476504.1, 40.43483906352, -79.99781860408),  # Pittsburgh
    (32756, 334786.25, 6252080.5, -33.85865944832, 151.21402565613),  # Sydney
    (32760, 313784.0, 5427057.0, -41.28646282767, 174.77623625217),  # Wellington
    (32633, 833000.0, 120000.5, 1.08419152423, 17.99175057351),  # the edge of a zone
    (32735, 180000.0, 9000000.0, -9.03501055097, 24.0895507539),
    (32606, 466013.25, 9300000.0, 83.74096694044, -149.79330586445),  # near the northern end
    (32601, 166100.0, 10.0, 9.034837e-05, -179.99929500261),  # near the date line
    (32632, 500000.0, 5500000.0, 49.65254292245, 9.0),  # on the central meridian
]


@pytest.mark.parametrize(("code", "easting", "northing", "latitude", "longitude"), KNOWN)
def test_known_points(code, easting, northing, latitude, longitude):
    found = Zone.parse(f"EPSG:{code}").to_degrees(np.array([[easting, northing]]))
    np.testing.assert_allclose(found, [[latitude, longitude]], rtol=0, atol=2e-11)  # 2 µm


def test_etrs89_is_wgs84_to_a_tenth_of_a_millimetre():
    found = Zone.parse("epsg:25832").to_degrees(np.array([[395201.31, 5673135.24]]))
    np.testing.assert_allclose(found, [[51.1999999941, 7.49999999474]], rtol=0, atol=2e-9)


def test_across_the_date_line_longitudes_stay_within_180():
    west_of_it = Zone(1).to_degrees(np.array([[160000.0, 10.0]]))[0, 1]
    assert 179.9 < west_of_it < 180


def test_unknown_positions_stay_unknown():
    found = Zone(30).to_degrees(np.array([[np.nan, np.nan], [620021.1, 5734795.4]]))
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


@pytest.mark.parametrize(
    "crs", ["30N", "EPSG:4326", "EPSG:32600", "EPSG:32661", "EPSG:32761", "EPSG:25827", ""]
)
def test_other_systems_are_refused_with_an_example(crs):
    with pytest.raises(InputError, match=r"EPSG:326zz .* EPSG:32630"):
        Zone.parse(crs)


@pytest.mark.parametrize(("point", "what"), [([12.5, 5e6], "easting 12.5"), ([5e5, -3.0], "northing -3")])
def test_metres_of_a_local_system_are_refused(point, what):
    with pytest.raises(InputError, match=f"{what} is outside"):
        Zone(30).to_degrees(np.array([[6e5, 5e6], point]))


def test_metres_without_a_zone_are_refused_and_degrees_need_none():
    points = np.array([[620021.1, 5734795.4]])
    with pytest.raises(InputError, match="which UTM zone"):
        as_degrees(Positions(points), None)
    degrees = np.array([[51.0, -1.0]])
    np.testing.assert_array_equal(as_degrees(Positions(degrees, degrees=True), None), degrees)
