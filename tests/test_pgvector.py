from __future__ import annotations

import logging
import threading

import numpy as np
import pytest

from displace.errors import DatabaseError, InputError
from displace.geo import Area, Positions
from displace.search import _database
from displace.search._top import best_rows
from displace.search.base import noisy_sample

psycopg = pytest.importorskip("psycopg", reason="needs 'psycopg': pip install 'displace[pgvector]'")
pgvector = pytest.importorskip("displace.search.pgvector")
PgVector, Address = pgvector.PgVector, _database.Address

SECRET = "open-sesame-42"


def unit_rows(n, dim=12, seed=0):
    rows = np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """No wait for a server that runs is too long; return what sets it for one that does not."""
    monkeypatch.setattr(_database, "PATIENCE", 600.0)
    return lambda seconds: monkeypatch.setattr(_database, "PATIENCE", seconds)


def test_a_new_version_takes_the_old_ones_place_while_it_is_searched(postgres):
    uri = f"{postgres.address}#swap"
    PgVector.load(unit_rows(40), uri)
    reader = PgVector.open(uri)
    during = []

    def search_meanwhile(done, total):
        during.append(PgVector.open(uri).search(unit_rows(1, seed=5), 1)[0].tolist())

    PgVector.load(unit_rows(60, seed=1), uri, progress=search_meanwhile)
    before = best_rows(unit_rows(1, seed=5), unit_rows(40), 1)[0].tolist()
    assert during == [before]
    assert (reader.n_rows, reader.search(unit_rows(1, seed=5), 1)[0].tolist()) == (40, before)
    assert (PgVector.open(uri).n_rows, PgVector.open(uri).version) == (60, 2)


def test_a_version_that_was_replaced_twice_says_so(postgres):
    uri = f"{postgres.address}#twice"
    PgVector.load(unit_rows(5), uri)
    reader = PgVector.open(uri)
    for _ in range(2):
        PgVector.load(unit_rows(5), uri)
    with pytest.raises(DatabaseError, match=r"open it again"):
        reader.search(unit_rows(1), 1)


def test_a_load_that_fails_leaves_nothing_behind(postgres):
    uri = f"{postgres.address}#broken"
    PgVector.load(unit_rows(30), uri)
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'displace'"
    before = postgres.execute(tables)

    def fail(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PgVector.load(unit_rows(50, seed=1), uri, progress=fail)
    assert postgres.execute(tables) == before
    assert (PgVector.open(uri).n_rows, PgVector.open(uri).version) == (30, 1)


def restart(postgres):
    postgres.stop()
    postgres.start()


def test_a_server_that_restarts_in_the_middle_of_a_load_keeps_the_old_map(postgres):
    uri = f"{postgres.address}#stopped"
    PgVector.load(unit_rows(30), uri)
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'displace'"
    before = postgres.execute(tables)
    with pytest.raises(DatabaseError, match=r"Nothing was changed.*run the same command again"):
        PgVector.load(unit_rows(50, seed=1), uri, progress=lambda done, total: restart(postgres))
    assert postgres.execute(tables) == before
    assert PgVector.open(uri).n_rows == 30
    PgVector.load(unit_rows(50, seed=1), uri)
    assert PgVector.open(uri).n_rows == 50


def test_a_query_that_a_restart_cuts_off_is_asked_again(postgres):
    uri = f"{postgres.address}#restarted"
    rows = unit_rows(30)
    reader = PgVector.load(rows, uri)
    expected = reader.search(rows[:2], 3)[0]
    restart(postgres)  # between two queries: the pool holds a dead connection
    np.testing.assert_array_equal(reader.search(rows[:2], 3)[0], expected)
    asked = []

    def restart_and_ask(connection):
        asked.append(connection)
        if len(asked) == 1:
            restart(postgres)
        return connection.execute("SELECT 7").fetchone()

    assert reader.database.read(restart_and_ask) == (7,)
    assert len(asked) == 2


def test_a_server_that_is_down_is_named_and_queries_go_on_when_it_is_back(postgres, patience):
    rows = unit_rows(30)
    reader = PgVector.load(rows, f"{postgres.address}#down")
    expected = reader.search(rows[:2], 3)[0]
    postgres.stop()
    try:
        patience(0.1)
        with pytest.raises(
            DatabaseError, match=r"cannot reach postgresql://postgres@.*Check that the server runs"
        ):
            reader.search(rows[:2], 3)
    finally:
        postgres.start()
    patience(600.0)
    np.testing.assert_array_equal(reader.search(rows[:2], 3)[0], expected)


def test_two_loaders_of_one_map_do_not_mix(postgres):
    uri = f"{postgres.address}#contended"
    messages = []

    def load_too(done, total):
        try:
            PgVector.load(unit_rows(9), uri)
        except DatabaseError as error:
            messages.append(str(error))
        PgVector.load(unit_rows(9), f"{postgres.address}#neighbour")

    PgVector.load(unit_rows(20), uri, progress=load_too)
    assert messages == ["another process is loading the map 'contended'; wait for it, then run again"]
    assert PgVector.open(uri).n_rows == 20
    assert PgVector.open(f"{postgres.address}#neighbour").n_rows == 9


def test_loaders_that_start_together_create_the_tables_once(postgres):
    postgres.execute("DROP DATABASE IF EXISTS fresh", "CREATE DATABASE fresh")
    server = postgres.address.replace("/postgres?", "/fresh?")
    failures = []

    def load(name):
        try:
            PgVector.load(unit_rows(9), f"{server}#{name}").database.close()
        except DatabaseError as error:
            failures.append(error)

    threads = [threading.Thread(target=load, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [PgVector.open(f"{server}#{name}").n_rows for name in ("a", "b", "c")] == [9, 9, 9]


def test_a_role_without_rights_is_told_what_to_grant(postgres):
    PgVector.load(unit_rows(9), f"{postgres.address}#granted")
    postgres.execute("DROP OWNED BY guest" if _has_role(postgres, "guest") else "CREATE ROLE guest LOGIN")
    address = f"{postgres.address_for('guest')}#granted"
    with pytest.raises(
        DatabaseError, match=r'GRANT USAGE ON SCHEMA displace TO "guest"; GRANT SELECT ON ALL TABLES'
    ):
        PgVector.open(address)
    with pytest.raises(DatabaseError, match=r'GRANT USAGE, CREATE ON SCHEMA displace TO "guest"'):
        PgVector.load(unit_rows(3), address)
    postgres.execute(
        "GRANT USAGE ON SCHEMA displace TO guest",
        "GRANT SELECT ON ALL TABLES IN SCHEMA displace TO guest",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA displace GRANT SELECT ON TABLES TO guest",
    )
    assert PgVector.open(address).search(unit_rows(1), 1)[0].shape == (1, 1)
    PgVector.load(unit_rows(12), f"{postgres.address}#granted")
    assert PgVector.open(address).search(unit_rows(1), 12)[0].shape == (1, 12)


def test_a_role_that_may_create_in_the_schema_can_load(postgres):
    postgres.execute("DROP DATABASE IF EXISTS theirs", "CREATE DATABASE theirs")
    if not _has_role(postgres, "loader"):
        postgres.execute("CREATE ROLE loader LOGIN")
    with psycopg.connect(postgres.address.replace("/postgres?", "/theirs?"), autocommit=True) as admin:
        admin.execute("CREATE EXTENSION vector")
        admin.execute("CREATE SCHEMA displace")
        admin.execute("GRANT USAGE, CREATE ON SCHEMA displace TO loader")
    uri = f"{postgres.address_for('loader').replace('/postgres?', '/theirs?')}#own"
    assert PgVector.load(unit_rows(9), uri, "hnsw").search(unit_rows(1), 3)[0].shape == (1, 3)


@pytest.mark.parametrize("kind", PgVector.kinds)
def test_an_area_is_searched_exactly_and_gives_all_inside(postgres, kind):
    rng = np.random.default_rng(3)
    rows = unit_rows(400)
    positions = Positions(rng.uniform(0, 1000, (400, 2)))
    positions.points[7] = np.nan
    index = PgVector.load(rows, f"{postgres.address}#area_{kind}", kind, positions=positions)
    queries = noisy_sample(rows, 4)
    for radius, k in ((40, 5), (120, 5), (2000, 5), (1, 5)):
        area = Area((500.0, 500.0), float(radius))
        inside = area.inside(positions)
        expected, scores = best_rows(queries, rows, k, inside)
        found, got = index.search(queries, k, among=area)
        assert found.shape == (4, min(k, len(inside)))
        np.testing.assert_array_equal(found[:, :1], expected[:, :1])
        np.testing.assert_allclose(got, scores, atol=5e-3)


def test_an_area_of_degrees_reaches_across_the_date_line(postgres):
    rng = np.random.default_rng(4)
    points = np.column_stack(
        [rng.uniform(-17.1, -16.9, 300), (179.9 + rng.uniform(0, 0.2, 300) + 180) % 360 - 180]
    )
    rows, positions = unit_rows(300), Positions(points, degrees=True)
    index = PgVector.load(rows, f"{postgres.address}#degrees", positions=positions)
    for near in ((-17.0, 179.99), (-17.0, -179.99), (-17.05, 180.0)):
        area = Area(near, 3000.0)
        inside = area.inside(positions)
        assert len(inside) > 5
        assert sorted(index.search(rows[:1], 300, among=area)[0][0].tolist()) == inside.tolist()


def test_a_map_without_positions_has_no_areas(postgres):
    index = PgVector.load(unit_rows(5), f"{postgres.address}#nowhere")
    with pytest.raises(InputError, match=r"no positions"):
        index.search(unit_rows(1), 1, among=Area((0.0, 0.0), 5.0))


def test_what_belongs_to_a_map_is_kept_with_it(postgres):
    uri = f"{postgres.address}#headed"
    PgVector.load(unit_rows(5), uri, head=b"\x00\xffsettings")
    assert PgVector.open(uri).head() == b"\x00\xffsettings"


def test_queries_have_a_limit_that_the_address_can_change(postgres):
    def limit(uri):
        database = _database.Database(Address.parse(uri))
        return database.read(lambda connection: connection.execute("SHOW statement_timeout").fetchone()[0])

    assert limit(f"{postgres.address}#slow") == "30s"
    assert limit(f"{postgres.address}&options=-c%20statement_timeout%3D120s#slow") == "2min"


def test_a_query_that_takes_too_long_is_ended(postgres):
    def sleep(connection):
        connection.execute("SET LOCAL statement_timeout = '100ms'")
        connection.execute("SELECT pg_sleep(600)")

    with pytest.raises(DatabaseError, match=r"statement timeout.*statement_timeout%3D120s"):
        _database.Database(Address.parse(f"{postgres.address}#slow")).read(sleep)


def test_an_absent_map_is_named_with_those_there_are(postgres):
    PgVector.load(unit_rows(5), f"{postgres.address}#present")
    with pytest.raises(DatabaseError, match=r"no map 'absent'; it has .*present"):
        PgVector.open(f"{postgres.address}#absent")


def test_a_database_without_maps_says_how_to_load_one(postgres):
    postgres.execute("DROP DATABASE IF EXISTS bare", "CREATE DATABASE bare")
    with pytest.raises(DatabaseError, match=r"no maps of displace.*displace export"):
        PgVector.open(f"{postgres.address.replace('/postgres?', '/bare?')}#city")


def test_a_later_schema_is_refused(postgres):
    postgres.execute("DROP DATABASE IF EXISTS later", "CREATE DATABASE later")
    server = postgres.address.replace("/postgres?", "/later?")
    PgVector.load(unit_rows(3), f"{server}#city")
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("INSERT INTO displace.migrations (version) VALUES (99)")
    with pytest.raises(DatabaseError, match=r"schema version 99.*pip install -U displace"):
        PgVector.open(f"{server}#city")


@pytest.mark.parametrize(
    "uri",
    [
        f"postgresql://me:{SECRET}@localhost/maps#city",
        f"postgresql://me@localhost/maps?password={SECRET}#city",
        f"postgresql://me:{SECRET}@localhost:notaport/maps?x=%zz#city",
        f"postgresql://me:{SECRET}@localhost/maps",
    ],
)
def test_a_password_in_an_address_is_refused_without_being_shown(uri):
    with pytest.raises(InputError) as caught:
        Address.parse(uri)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_password_from_the_environment_is_never_shown(postgres, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("PGPASSWORD", SECRET)
    index = PgVector.load(unit_rows(5), f"{postgres.address}#quiet")
    texts = [str(index.database.address), repr(index.database.address)]
    for uri in ("postgresql://me@127.0.0.1:1/maps#city", f"{postgres.address}#absent"):
        with pytest.raises(DatabaseError) as caught:
            PgVector.open(uri)
        texts.append(str(caught.value))
    assert SECRET not in "".join(texts) + caplog.text


def test_a_server_that_does_not_answer_is_named_at_once_with_the_reason(capfd):
    with pytest.raises(DatabaseError, match=r"cannot reach postgresql://me@127.0.0.1/maps#city: .*refused"):
        PgVector.open("postgresql://me@127.0.0.1:1/maps#city")
    assert capfd.readouterr() == ("", "")


def test_an_unknown_role_is_named(postgres):
    with pytest.raises(DatabaseError, match=r'role "stranger" does not exist'):
        PgVector.open(f"{postgres.address_for('stranger')}#city")


@pytest.mark.parametrize(
    "uri", ["city.displace", "postgresql://localhost/maps", "postgresql://localhost/maps#"]
)
def test_an_address_has_a_database_and_a_name(uri):
    with pytest.raises(InputError, match=r"postgresql://"):
        Address.parse(uri)


def test_rows_too_wide_for_the_index_are_refused_before_anything_is_loaded():
    with pytest.raises(InputError, match=r"4001 dimensions are too wide.*4000"):
        PgVector.load(np.zeros((2, 4001), np.float32), "postgresql://localhost/maps#wide", "hnsw")


def _has_role(postgres, name):
    return bool(postgres.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{name}'"))
