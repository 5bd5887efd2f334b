"""GeoJSON and CSV of located images and of places, read back with json and csv alone."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from interop_route import N_PLACES, make_town

from displace.errors import InputError, WriteError
from displace.interop import export
from displace.manifest.table import Manifest
from displace.maps.located import Located


@pytest.fixture(scope="module")
def case():
    return make_town()


@pytest.fixture(scope="module")
def metric():
    return make_town(degrees=False)


def features(path):
    collection = json.loads(path.read_text("utf-8"))
    assert collection["type"] == "FeatureCollection"
    assert set(collection) == {"type", "features"}
    for feature in collection["features"]:
        assert feature["type"] == "Feature"
        assert set(feature) == {"type", "geometry", "properties"}
    return collection["features"]


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_located_images_are_points_with_longitude_first(case, tmp_path):
    assert export("geojson", case.locations, tmp_path / "night.geojson") == [tmp_path / "night.geojson"]
    found = features(tmp_path / "night.geojson")
    matches = case.locations.matches
    assert len(found) == N_PLACES
    for row, feature in enumerate(found):
        place = matches.places[row, 0]
        properties = feature["properties"]
        assert properties["image"] == f"night/{row:03d}.jpg"
        assert properties["place"] == place
        assert properties["score"] == pytest.approx(matches.scores[row, 0], abs=1e-6)
        assert properties["confidence"] == pytest.approx(matches.confidence[row], abs=1e-4)
        assert properties["timestamp"] == 1.7e9 + row / 4
        if int(place) < N_PLACES - 1:
            assert feature["geometry"] == {
                "type": "Point",
                "coordinates": [-1.26, pytest.approx(51.75 + int(place) * 9e-5, abs=1e-8)],
            }
            assert properties["heading"] == (90 if int(place) < 20 else None)
        else:
            assert feature["geometry"] is None


def test_doubtful_images_have_neither_place_nor_point(case, tmp_path):
    limit = float(np.median(case.locations.matches.confidence))
    export("geojson", case.locations, tmp_path / "a.geojson", min_confidence=limit)
    export("csv", case.locations, tmp_path / "a.csv", min_confidence=limit)
    doubtful = case.locations.matches.confidence < limit
    assert 0 < doubtful.sum() < N_PLACES
    for no, feature, row in zip(
        doubtful, features(tmp_path / "a.geojson"), rows(tmp_path / "a.csv"), strict=True
    ):
        assert (feature["properties"]["place"] is None) == no == (row["place"] == "")
        assert not no or (feature["geometry"] is None and row["latitude"] == row["heading"] == "")
        assert float(row["confidence"]) == feature["properties"]["confidence"]


def test_places_of_a_map(case, tmp_path):
    export("geojson", case.town, tmp_path / "places.geojson")
    found = features(tmp_path / "places.geojson")
    assert [feature["properties"]["place"] for feature in found] == [f"{i:03d}" for i in range(N_PLACES)]
    assert found[3]["properties"]["image"] == "sun/003.jpg"
    assert found[3]["geometry"]["coordinates"] == [-1.26, 51.75027]
    assert found[-1]["geometry"] is None


def test_metres_need_their_zone_and_are_converted(metric, tmp_path):
    with pytest.raises(InputError, match="which UTM zone"):
        export("geojson", metric.town, tmp_path / "places.geojson")
    assert not list(tmp_path.iterdir())
    export("geojson", metric.town, tmp_path / "places.geojson", crs="EPSG:32630")
    longitude, latitude = features(tmp_path / "places.geojson")[2]["geometry"]["coordinates"]
    # PROJ 9 for 620020, 5734795.25
    assert (latitude, longitude) == pytest.approx((51.75118516541, -1.2612861505), abs=6e-9)


def test_csv_keeps_metres_and_adds_degrees_when_the_zone_is_given(metric, tmp_path):
    export("csv", metric.town, tmp_path / "plain.csv")
    export("csv", metric.town, tmp_path / "both.csv", crs="EPSG:32630")
    plain, both = rows(tmp_path / "plain.csv"), rows(tmp_path / "both.csv")
    assert list(plain[0]) == ["place", "image", "easting", "northing", "heading"]
    assert plain[7] == {
        "place": "007",
        "image": "sun/007.jpg",
        "easting": "620070",
        "northing": "5734795.25",
        "heading": "90",
    }
    assert plain[-1]["easting"] == both[-1]["latitude"] == ""
    assert list(both[0]) == ["place", "image", "easting", "northing", "heading", "latitude", "longitude"]
    assert float(both[2]["latitude"]) == pytest.approx(51.75118516541, abs=6e-9)


def test_csv_of_located_images_is_a_table_of_numbers(metric, tmp_path):
    export("csv", metric.locations, tmp_path / "night.csv")
    found = rows(tmp_path / "night.csv")
    matches = metric.locations.matches
    assert [row["place"] for row in found] == matches.places[:, 0].tolist()
    np.testing.assert_allclose([float(row["score"]) for row in found], matches.scores[:, 0], atol=1e-6)
    np.testing.assert_allclose([float(row["frame"]) for row in found], np.arange(N_PLACES))
    at = [int(row["place"]) for row in found]
    eastings = [float(row["easting"] or "nan") for row in found]
    np.testing.assert_allclose(eastings, [620000 + 10 * i if i < N_PLACES - 1 else np.nan for i in at])


def test_frames_are_whole_numbers(case, tmp_path):
    """They were written as 5.0."""
    export("geojson", case.locations, tmp_path / "night.geojson")
    found = json.loads((tmp_path / "night.geojson").read_text("utf-8"))["features"]
    assert repr([feature["properties"]["frame"] for feature in found]) == repr(list(range(N_PLACES)))


def test_a_map_without_positions_has_csv_but_no_points(tmp_path):
    bare = make_town(positions=False, images=False, calibration=False)
    with pytest.raises(InputError, match="no positions"):
        export("geojson", bare.town, tmp_path / "a.geojson")
    export("csv", bare.locations, tmp_path / "a.csv")
    assert list(rows(tmp_path / "a.csv")[0]) == ["image", "place", "score", "frame", "timestamp"]
    with pytest.raises(InputError, match="needs a map with a confidence"):
        export("csv", bare.locations, tmp_path / "a.csv", min_confidence=0.5)


def test_names_with_quotes_commas_and_umlauts_survive(case, tmp_path):
    names = ['a "b", c.jpg', "straße/ü.jpg", *(f"{i}.jpg" for i in range(2, N_PLACES))]
    manifest = Manifest(names, [""] * N_PLACES, ["x"] * N_PLACES)
    locations = replace(case.locations, manifest=manifest)
    export("csv", locations, tmp_path / "a.csv")
    export("geojson", locations, tmp_path / "a.geojson")
    assert [row["image"] for row in rows(tmp_path / "a.csv")] == names
    assert [feature["properties"]["image"] for feature in features(tmp_path / "a.geojson")] == names


def test_a_name_that_is_no_text_is_refused_and_leaves_the_old_file(case, tmp_path):
    names = ["\udcff.jpg", *(f"{i}.jpg" for i in range(1, N_PLACES))]
    locations = replace(case.locations, manifest=Manifest(names, [""] * N_PLACES, ["x"] * N_PLACES))
    (tmp_path / "a.csv").write_text("old")
    with pytest.raises(InputError, match="not valid text"):
        export("csv", locations, tmp_path / "a.csv")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.csv", "old")]


@pytest.mark.parametrize("limit", [-0.1, 1.5, float("nan")])
def test_a_confidence_is_a_probability(case, tmp_path, limit):
    with pytest.raises(InputError, match="must be a probability"):
        export("geojson", case.locations, tmp_path / "a.geojson", min_confidence=limit)


def test_as_many_images_as_matches(case):
    with pytest.raises(InputError, match="manifest has 39 images, matches has 40"):
        Located(case.town, case.locations.manifest.select(np.arange(39)), case.locations.matches)


def test_an_output_that_cannot_be_written_is_explained(case, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for output in (tmp_path / "file" / "a.csv", tmp_path / "folder"):
        with pytest.raises(WriteError, match=f"cannot write {tmp_path}/f"):
            export("csv", case.town, output)
    export("csv", case.town, tmp_path / "made" / "on the way" / "a.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "made"]
