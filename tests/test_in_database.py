"""Maps in a real PostgreSQL, from Python and from the command line; and areas, in every backend."""

from __future__ import annotations

import json

import numpy as np
import pytest
from postgres import address_of
from typer.testing import CliRunner

from displace import DisPlace, PlaceMap, ReferenceSet, build
from displace.cli import app
from displace.errors import DatabaseError, FormatError, InputError
from displace.geo import Positions
from displace.places import Places
from displace.synthetic import make_route

N = 80
SEARCHES = ["exact", "exact:int8", "faiss", "faiss:hnsw", "faiss:ivf"]


@pytest.fixture(scope="module")
def route():
    """A route in degrees, a place each 20 m northwards."""
    made = make_route(n_places=N, n_traversals=4, dim=24, seed=2)
    points = np.column_stack([51.75 + np.arange(N) * 20 / 111_265, np.full(N, -1.258)])
    info = Places(np.arange(N), Positions(points, degrees=True), [f"{i}.jpg" for i in range(N)])
    refs = made.references
    return ReferenceSet(refs.vectors, refs.places, refs.traversals, info=info), made.queries


@pytest.fixture(scope="module")
def place_map(route):
    return build(route[0], DisPlace(ridge=0.1, center=True))


@pytest.fixture(scope="module")
def file(place_map, tmp_path_factory):
    path = tmp_path_factory.mktemp("maps") / "town.displace"
    place_map.save(path)
    return path


@pytest.fixture(scope="module", params=["float16", "hnsw"])
def address(request, file):
    """Address of the map in the database, loaded from the command line."""
    uri = address_of(request, f"city {request.param}")
    server, _, name = uri.partition("#")
    command = ["export", str(file), "--to", server, "--name", name, "--kind", request.param]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert uri in result.stdout.splitlines()
    return uri


def test_a_map_in_a_database_locates_as_its_file(place_map, address, route):
    opened = PlaceMap.load(address)
    mine, its = opened.locate(route[1], k=3), place_map.locate(route[1], k=3)
    assert np.mean(mine.places[:, 0] == its.places[:, 0]) >= 0.98
    np.testing.assert_allclose(mine.scores[:, 0], its.scores[:, 0], atol=5e-3)
    np.testing.assert_allclose(mine.confidence, its.confidence, atol=0.05)
    np.testing.assert_array_equal(opened.places.ids, place_map.places.ids)
    assert opened.images == place_map.images
    assert opened.settings == place_map.settings
    assert repr(opened) == repr(place_map)


def test_a_map_in_a_database_can_be_saved_as_a_file(place_map, address, route, tmp_path):
    PlaceMap.load(address).save(tmp_path / "copy.displace")
    again = PlaceMap.load(tmp_path / "copy.displace")
    np.testing.assert_array_equal(again.vectors, place_map.vectors)
    np.testing.assert_array_equal(again.locate(route[1]).places, place_map.locate(route[1]).places)


def test_inspect_shows_a_map_in_a_database(address):
    shown = CliRunner().invoke(app, ["inspect", address])
    assert shown.exit_code == 0, shown.output
    assert f"{N}, with positions" in shown.stdout
    record = json.loads(CliRunner().invoke(app, ["inspect", address, "--json"]).stdout)
    assert (record["places"], record["file_bytes"]) == (N, None)


def test_a_map_in_a_database_says_how_to_update_it(address, route):
    with pytest.raises(InputError, match="export it again"):
        PlaceMap.load(address).add(route[0].only("t0"))


def test_places_near_a_point_are_found_exactly_in_the_database(place_map, address, route):
    near, radius = (51.755, -1.258), 130.0
    mine = PlaceMap.load(address).locate(route[1], k=5, near=near, radius=radius)
    its = place_map.locate(route[1], k=5, search="exact", near=near, radius=radius)
    np.testing.assert_array_equal(mine.places[:, 0], its.places[:, 0])
    assert mine.places.shape == its.places.shape == (N, 5)


def test_the_command_line_takes_addresses_and_never_shows_a_password(address):
    shown = CliRunner().invoke(app, ["inspect", address])
    assert shown.exit_code == 0, shown.output
    assert "80, with positions" in shown.output
    secret = address.replace("postgres@", "postgres:open-sesame@")
    for command in (["inspect", secret], ["locate", secret, "photo.jpg"]):
        refused = CliRunner().invoke(app, command)
        assert refused.exit_code != 0
        assert "open-sesame" not in refused.output
        assert "PGPASSFILE" in refused.output


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(("radius", "n_inside"), [(5, 1), (45, 5), (5000, N)])
def test_only_places_inside_are_found_and_all_of_them(place_map, route, search, radius, n_inside):
    if search.startswith("faiss"):
        pytest.importorskip("faiss", reason="needs 'faiss-cpu'")
    near = tuple(place_map.positions.points[40])
    found = place_map.locate(route[1][:6], k=9, search=search, near=near, radius=radius)
    assert found.places.shape == (6, min(9, n_inside))
    assert (np.abs(found.places - 40) <= radius / 20 + 1).all()
    scores = np.concatenate(list(place_map.scores(route[1][:6])))
    inside = np.abs(np.arange(N) - 40) <= radius / 20
    np.testing.assert_allclose(found.scores[:, 0], scores[:, inside].max(axis=1), atol=5e-3)


def test_places_with_several_rows_are_searched_in_an_area_too(route):
    pooled = build(route[0], "pooling", calibration=False)
    near = tuple(pooled.positions.points[10])
    found = pooled.locate(route[1][:4], k=9, near=near, radius=45)
    assert found.places.shape == (4, 5)
    assert sorted(found.places[0].tolist()) == [8, 9, 10, 11, 12]


def test_an_area_without_a_place_says_how_far_the_nearest_is(place_map, route):
    with pytest.raises(InputError, match=r"within radius=50 m .* nearest is 5\d\d m away"):
        place_map.locate(route[1][:1], near=(51.745, -1.258), radius=50)


@pytest.mark.parametrize(
    "area", [{"near": (51.75, -1.258)}, {"radius": 9.0}, {"near": (51.75, -1.258), "radius": -1.0}]
)
def test_half_an_area_is_refused(place_map, route, area):
    with pytest.raises(InputError, match="radius"):
        place_map.locate(route[1][:1], **area)


def test_a_map_without_positions_has_no_areas(route):
    bare = build(
        ReferenceSet(route[0].vectors, route[0].places, route[0].traversals), "hops", calibration=False
    )
    with pytest.raises(InputError, match="no positions"):
        bare.within((0.0, 0.0), 5.0)


def test_an_index_is_made_once_for_the_map_and_its_areas(place_map):
    one, two = (place_map.within((51.755, -1.258), radius) for radius in (100.0, 200.0))
    assert one.state.index("exact") is two.state.index("exact") is place_map.state.index("exact")


def test_rows_without_a_map_are_named(request):
    from displace.search.pgvector import PgVector

    uri = address_of(request, "rows only")
    PgVector.load(np.eye(3, dtype=np.float32), uri)
    with pytest.raises(FormatError, match="rows without a map"):
        PlaceMap.load(uri)


def test_an_absent_map_is_an_error_on_the_command_line(request, file):
    uri = address_of(request, "absent")
    with pytest.raises(DatabaseError, match="no map 'absent'"):
        PlaceMap.load(uri)
    result = CliRunner().invoke(app, ["export", str(file), "--to", uri.partition("#")[0]])
    assert result.exit_code != 0
    assert "--name" in result.output
