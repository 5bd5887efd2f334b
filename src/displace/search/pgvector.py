"""Search in PostgreSQL with pgvector: maps shared by many machines and larger than their memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from displace.arrays import Indices, Vectors, blocks
from displace.errors import DatabaseError, InputError
from displace.files.reading import PathLike
from displace.geo import Area, Positions, radii_at
from displace.progress import Stage
from displace.search._database import Address, Database, migrate, schema_version
from displace.search._top import best_rows
from displace.search.base import GOAL, SAMPLE, Index, as_rows, checked_queries, noisy_sample

WIDEST_HNSW = 4000
"""Dimensions of halfvec that pgvector's HNSW takes."""
WIDEST = 16000
PLAIN_UP_TO = 3900
"""Dimensions that fit on a page: stored in the row itself they are scanned twice as fast."""
EFFORTS = (100, 200, 400, 800)
"""hnsw.ef_search: rows that a walk keeps, tried in turn."""
COPY_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"


class PgVector(Index):
    """Rows in a table of halfvec; one table for each version of a map, whose row of ``displace.maps`` is the record.

    ``float16`` scans all rows in the server, ``hnsw`` walks pgvector's index. An area, or given rows, are selected
    first and searched exactly, whatever the kind: pgvector filters after searching its index, which may leave fewer
    than k rows.
    """

    kinds = ("float16", "hnsw")
    takes_areas = True

    def __init__(self, database: Database, record: dict[str, Any]) -> None:
        self.database = database
        self.map_id, self.version, self.degrees = int(record["id"]), int(record["version"]), record["degrees"]
        self.kind, self.n_rows, self.dim = record["kind"], int(record["n_rows"]), int(record["dim"])
        self.recall, self.effort = record["recall"], record["effort"]

    @classmethod
    def build(cls, rows: Vectors, kind: str = "", uri: str = "", *, progress: Stage | None = None) -> Self:
        """Load rows as a new version of the map named by `uri`, which replaces the old one at the end."""
        return cls.load(rows, uri, kind, progress=progress)

    @classmethod
    def load(
        cls,
        rows: Vectors,
        uri: PathLike,
        kind: str = "",
        *,
        places: Indices | None = None,
        positions: Positions | None = None,
        head: bytes | None = None,
        progress: Stage | None = None,
    ) -> Self:
        """Load a map and its index in one transaction, at ``postgresql://…#name``.

        The previous version stays until the next load, for those who have it open; earlier ones are dropped. `places`
        (R,) is the number of each row's place, by default the row's own; `positions` of the rows are for searches in an
        area; `head` is what else belongs to the map.
        """
        kind = cls.chosen_kind(kind, rows)
        _check_width(rows.shape[1], kind)
        database = Database(Address.parse(uri))
        name = database.address.name
        with database.writing() as connection:  # separate, because its lock excludes every other loader
            migrate(connection)
        with database.writing() as connection:
            _be_the_only_loader(connection, name)
            degrees = None if positions is None else positions.degrees
            created = connection.execute(
                "INSERT INTO displace.maps (name, version, kind, n_rows, dim, degrees, head) VALUES (%(name)s, "
                "1 + coalesce((SELECT max(version) FROM displace.maps WHERE name = %(name)s), 0), "
                "%(kind)s, %(n)s, %(dim)s, %(degrees)s, %(head)s) RETURNING id",
                {
                    "name": name,
                    "kind": kind,
                    "n": len(rows),
                    "dim": rows.shape[1],
                    "degrees": degrees,
                    "head": head,
                },
                binary=True,
            )
            (map_id,) = created.fetchone()
            _create_table(connection, map_id, rows.shape[1])
            numbers = np.arange(len(rows)) if places is None else places
            _copy(connection, map_id, rows, numbers, positions, progress)
            made = cls(database, _record(connection, name, map_id))
            made._index_rows(connection, rows, positions is not None)
            _put_in_place(connection, name, map_id)
        return made

    @classmethod
    def open(cls, uri: PathLike) -> Self:
        """Open the present version of a map."""
        database = Database(Address.parse(uri))
        return cls(database, database.read(lambda connection: _record(connection, database.address.name)))

    def head(self) -> bytes | None:
        """What else was loaded with the map."""
        query = "SELECT head FROM displace.maps WHERE id = %s"
        found = self.database.read(lambda c: c.execute(query, [self.map_id], binary=True).fetchone())
        if found is None:
            raise DatabaseError(
                f"{self.database.address}: the map was replaced twice since it was opened: open it again"
            )
        return None if found[0] is None else bytes(found[0])

    def search(
        self, queries: Vectors, k: int, among: Indices | Area | None = None
    ) -> tuple[Indices, Vectors]:
        """Return the best rows of each query and their scores; `among` may be an `Area`."""
        queries = checked_queries(queries, self.dim)
        if isinstance(among, Area):
            where, values = self._inside(among)
        elif among is not None:
            where, values = "number = ANY(%(rows)s)", {"rows": as_rows(among, self.n_rows).tolist()}  # type: ignore[union-attr]
        else:
            where, values = "", {}
        return self.database.read(lambda connection: self._search(connection, queries, k, where, values))

    def save(self, uri: PathLike) -> None:
        """Load the same rows as another map."""
        type(self).load(self.rows(), uri, self.kind).database.close()

    def rows(self) -> NDArray[np.float16]:
        """All rows, (R, n), as stored."""
        return self._copied("")

    def rows_at(self, rows: Indices) -> NDArray[np.float16]:
        """Some of the rows, (r, n), in the given order; a row may be repeated."""
        numbers, back = np.unique(np.asarray(rows, np.intp), return_inverse=True)
        if len(numbers) == 0:
            return np.empty((0, self.dim), np.float16)
        return self._copied(f"WHERE number = ANY('{{{','.join(map(str, numbers.tolist()))}}}')")[back]

    def _copied(self, where: str) -> NDArray[np.float16]:
        """Rows that fulfil a condition, in order of their number."""
        query = f"COPY (SELECT vec FROM {self._table} {where} ORDER BY number) TO STDOUT (FORMAT BINARY)"

        def read(connection: Any) -> bytes:
            with connection.cursor().copy(query) as copy:
                return b"".join(copy)

        layout = np.dtype([("head", ">i2"), ("size", ">i4"), ("dims", ">i2", 2), ("vec", ">f2", self.dim)])
        data = self.database.read(read)
        n_rows = (len(data) - len(COPY_SIGNATURE) - len(COPY_END)) // layout.itemsize
        rows = np.frombuffer(data, layout, n_rows, offset=len(COPY_SIGNATURE))
        return np.ascontiguousarray(rows["vec"], np.float16)

    @property
    def _table(self) -> str:
        return f"displace.rows_{self.map_id}"

    def _search(
        self, connection: Any, queries: Vectors, k: int, where: str, values: dict[str, Any]
    ) -> tuple[Indices, Vectors]:
        vector = f"%(query)s::halfvec({self.dim})"
        if where:
            # MATERIALIZED: the rows are selected first, then compared, so that no index can lose any of them.
            query = (
                f"WITH inside AS MATERIALIZED (SELECT number, vec FROM {self._table} WHERE {where}) "
                f"SELECT number, -(vec <#> {vector}) FROM inside ORDER BY vec <#> {vector}, number LIMIT %(k)s"
            )
        else:
            # A second key would keep the server from using its index.
            order = "" if self.kind == "hnsw" else ", number"
            query = (
                f"SELECT number, -(vec <#> {vector}) FROM {self._table} "
                f"ORDER BY vec <#> {vector}{order} LIMIT %(k)s"
            )
        found = []
        with connection.transaction():
            if self.kind == "hnsw" and not where:
                _set_effort(connection, max(k, self.effort or EFFORTS[0]))
            for text in map(_as_text, queries):
                found.append(connection.execute(query, {"query": text, "k": k, **values}).fetchall())
        width = min(map(len, found), default=0)
        rows = np.array([[row for row, _ in some[:width]] for some in found], np.intp)
        scores = np.array([[score for _, score in some[:width]] for some in found], np.float32)
        return rows.reshape(len(found), width), scores.reshape(len(found), width)

    def _inside(self, area: Area) -> tuple[str, dict[str, Any]]:
        """Return the condition on rows inside an area: by the index on a box around it, then by distance."""
        if self.degrees is None:
            raise InputError("the map has no positions: it cannot be searched near a point")
        area.check(self.degrees)
        first, second = area.near
        values: dict[str, Any] = {"x": first, "y": second, "radius": area.radius}
        if not self.degrees:
            values |= {"x0": first - area.radius, "x1": first + area.radius}
            values |= {"y0": second - area.radius, "y1": second + area.radius}
            box, away = (
                "box(point(%(x0)s, %(y0)s), point(%(x1)s, %(y1)s))",
                _hypot("at[0] - %(x)s", "at[1] - %(y)s"),
            )
            return f"at <@ {box} AND {away} <= %(radius)s", values
        east, north = radii_at(first)
        values |= {"east": east, "north": north}
        tall = np.degrees(area.radius / north) * 1.001
        wide = min(360.0, float(np.degrees(area.radius / max(east, 1e-6))) * 1.001)
        values |= {"x0": first - tall, "x1": first + tall, "y0": second - wide, "y1": second + wide}
        turns = " OR ".join(
            f"at <@ box(point(%(x0)s, %(y0)s + {turn}), point(%(x1)s, %(y1)s + {turn}))"
            for turn in (0, -360, 360)
        )
        # The short way across the date line, as displace.geo.local_metres takes it.
        across = "(radians(at[1] - %(y)s) - 2 * pi() * round((at[1] - %(y)s)::numeric / 360)::float8)"
        away = _hypot(f"{across} * %(east)s", "radians(at[0] - %(x)s) * %(north)s")
        return f"({turns}) AND {away} <= %(radius)s", values

    def _index_rows(self, connection: Any, rows: Vectors, has_positions: bool) -> None:
        """Make the indexes, and measure what an approximate one finds."""
        if has_positions:
            connection.execute(f"CREATE INDEX ON {self._table} USING gist (at)")
        if self.kind == "hnsw":
            connection.execute(f"CREATE INDEX ON {self._table} USING hnsw (vec halfvec_ip_ops)")
        connection.execute(f"ANALYZE {self._table}")
        queries = noisy_sample(rows, SAMPLE)
        exact = best_rows(queries, rows, 1)[0]
        for effort in EFFORTS if self.kind == "hnsw" else (None,):
            self.effort = effort
            found = self._search(connection, queries, 1, "", {})[0]
            self.recall = float((found[:, :1] == exact).mean()) if len(queries) else 1.0
            if self.recall >= GOAL:
                break
        update = "UPDATE displace.maps SET effort = %s, recall = %s WHERE id = %s"
        connection.execute(update, [self.effort, self.recall, self.map_id])


def _record(connection: Any, name: str, map_id: int | None = None) -> dict[str, Any]:
    """Return the row of a map: of its present version, or of one that is being loaded."""
    columns = ("id", "version", "kind", "n_rows", "dim", "degrees", "effort", "recall")
    if map_id is None and schema_version(connection) == 0:
        raise DatabaseError(
            "the database has no maps of displace (or its schema may not be read); load one with: displace export MAP "
            "--to postgresql://… --name NAME"
        )
    wanted = (
        "id = %(id)s"
        if map_id is not None
        else "id = (SELECT map_id FROM displace.current WHERE name = %(name)s)"
    )
    query = f"SELECT {', '.join(columns)} FROM displace.maps WHERE {wanted}"
    found = connection.execute(query, {"id": map_id, "name": name}).fetchone()
    if found is None:
        names = connection.execute("SELECT name FROM displace.current ORDER BY name LIMIT 20").fetchall()
        listed = ", ".join(name for (name,) in names) or "(none)"
        raise DatabaseError(f"the database has no map {name!r}; it has {listed}")
    return dict(zip(columns, found, strict=True))


def _be_the_only_loader(connection: Any, name: str) -> None:
    query = "SELECT pg_try_advisory_xact_lock(hashtext('displace map'), hashtext(%s))"
    if not connection.execute(query, [name]).fetchone()[0]:
        raise DatabaseError(f"another process is loading the map {name!r}; wait for it, then run again")


def _create_table(connection: Any, map_id: int, dim: int) -> None:
    storage = "PLAIN" if dim <= PLAIN_UP_TO else "EXTERNAL"
    connection.execute(
        f"CREATE TABLE displace.rows_{map_id} (number integer PRIMARY KEY, place integer NOT NULL, at point, "
        f"vec halfvec({dim}) STORAGE {storage} NOT NULL)"
    )


def _put_in_place(connection: Any, name: str, map_id: int) -> None:
    """Let the name mean the new version, and drop those before the last."""
    connection.execute(
        "INSERT INTO displace.current (name, map_id) VALUES (%s, %s) "
        "ON CONFLICT (name) DO UPDATE SET map_id = excluded.map_id",
        [name, map_id],
    )
    query = "SELECT id FROM displace.maps WHERE name = %s ORDER BY version DESC OFFSET 2"
    for (old,) in connection.execute(query, [name]).fetchall():
        connection.execute(f"DROP TABLE displace.rows_{old}")
        connection.execute("DELETE FROM displace.maps WHERE id = %s", [old])


def _copy(
    connection: Any,
    map_id: int,
    rows: Vectors,
    places: Indices,
    positions: Positions | None,
    progress: Stage | None,
) -> None:
    """Send all rows in PostgreSQL's binary form, a block at a time."""
    query = f"COPY displace.rows_{map_id} (number, place, at, vec) FROM STDIN (FORMAT BINARY)"
    with connection.cursor().copy(query) as copy:
        copy.write(COPY_SIGNATURE)
        for block in blocks(len(rows), 4 * rows.shape[1], 2**23):
            numbers = np.arange(block.start, block.stop)
            points = None if positions is None else positions.points[block]
            for part in _tuples(numbers, places[block], points, np.asarray(rows[block], np.float16)):
                copy.write(part)
            if progress:
                progress(block.stop, len(rows))
        copy.write(COPY_END)


def _tuples(
    numbers: Indices, places: Indices, points: NDArray[np.float64] | None, vectors: NDArray[np.float16]
) -> Iterator[bytes]:
    """Rows as PostgreSQL sends them: with a position, and those without."""
    known = np.zeros(len(numbers), bool) if points is None else np.isfinite(points).all(axis=1)
    dim = vectors.shape[1]
    for has in (True, False):
        rows = np.flatnonzero(known == has)
        point = [("point_size", ">i4"), ("point", ">f8", 2)] if has else [("point_size", ">i4")]
        layout = np.dtype(
            [
                *[("fields", ">i2"), ("number_size", ">i4"), ("number", ">i4"), ("place_size", ">i4")],
                *[("place", ">i4"), *point, ("vec_size", ">i4"), ("dim", ">i2"), ("unused", ">i2")],
                ("vec", ">f2", dim),
            ]
        )
        tuples = np.zeros(len(rows), layout)
        tuples["fields"], tuples["number_size"], tuples["place_size"] = 4, 4, 4
        tuples["number"], tuples["place"] = numbers[rows], places[rows]
        tuples["point_size"], tuples["vec_size"], tuples["dim"] = 16 if has else -1, 4 + 2 * dim, dim
        tuples["vec"] = vectors[rows]
        if has and points is not None:
            tuples["point"] = points[rows]
        yield tuples.tobytes()


def _set_effort(connection: Any, effort: int) -> None:
    connection.execute("SELECT set_config('hnsw.ef_search', %s, true)", [str(min(1000, effort))])
    # Beyond ef_search rows the walk goes on, in order, until there are enough.
    connection.execute("SELECT set_config('hnsw.iterative_scan', 'strict_order', true)")


def _check_width(dim: int, kind: str) -> None:
    limit = WIDEST_HNSW if kind == "hnsw" else WIDEST
    if dim > limit:
        raise InputError(
            f"rows of {dim} dimensions are too wide for pgvector's halfvec with kind={kind!r}, which takes {limit}; "
            "build the map with a fusion that projects (displace), or with fewer components"
        )


def _hypot(a: str, b: str) -> str:
    return f"sqrt(power({a}, 2) + power({b}, 2))"


def _as_text(query: Vectors) -> str:
    return "[" + ",".join(map(repr, query.astype(np.float16).astype(float).tolist())) + "]"
