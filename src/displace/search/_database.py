"""PostgreSQL: addresses without passwords, connections, migrations, and explained errors."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import unquote

from displace.errors import DatabaseError, DisplaceError, InputError
from displace.files.reading import PathLike
from displace.registry import import_extra

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds to wait for a connection, such as while the server restarts."""
STATEMENT_TIMEOUT = 30
"""Seconds after which the server ends a query, unless the address has options of its own."""
CONNECTIONS = 4
ATTEMPTS = 3


@dataclass(frozen=True)
class Address:
    """Where a map is: a database, and the map's name in it.

    It never contains a password, which would show in process lists, shell histories and logs; PostgreSQL's client takes
    passwords from ``PGPASSFILE`` (``~/.pgpass``), ``PGPASSWORD`` or a service file.
    """

    server: str
    """``postgresql://…`` without a fragment."""
    name: str
    """The map."""

    @classmethod
    def parse(cls, uri: PathLike) -> Address:
        """Read ``postgresql://user@host/database#name``."""
        server, _, name = os.fspath(uri).partition("#")
        name = unquote(name)
        if not is_address(server):
            raise InputError("a database's address looks like postgresql://user@host/database#name")
        if not name or not name.isprintable() or len(name) > 200:
            raise InputError(f"the address needs the name of a map: postgresql://…#name; got {name!r}")
        psycopg = _psycopg()
        try:
            parts = psycopg.conninfo.conninfo_to_dict(server)
        except psycopg.Error:  # its message contains the address, perhaps with a password
            raise InputError(
                "the database's address cannot be read; it looks like postgresql://user@host/database#name"
            ) from None
        if parts.pop("password", ""):
            raise InputError(
                "the address of the database holds a password, which everyone on this machine can read in the process "
                "list: leave it out, and give it by PGPASSFILE (~/.pgpass) or PGPASSWORD"
            )
        return cls(psycopg.conninfo.make_conninfo("", **parts), name)

    def __str__(self) -> str:
        """Database, user and host, for messages."""
        parts = _psycopg().conninfo.conninfo_to_dict(self.server)
        user, host = parts.get("user", ""), parts.get("host", "")
        server = f"{user}@{host}" if user else f"{host}"
        return f"postgresql://{server}/{parts.get('dbname', '')}#{self.name}"


def is_address(uri: PathLike) -> bool:
    """Whether `uri` is the address of a PostgreSQL database rather than a path."""
    return os.fspath(uri).startswith(("postgresql://", "postgres://"))


class Database:
    """A pool of connections to the database of an address."""

    def __init__(self, address: Address) -> None:
        psycopg, pool = _psycopg(), _pool()
        self.address, self.psycopg = address, psycopg
        settings: dict[str, Any] = {"application_name": "displace", "connect_timeout": int(max(2, PATIENCE))}
        if "options" not in psycopg.conninfo.conninfo_to_dict(address.server):
            settings["options"] = f"-c statement_timeout={STATEMENT_TIMEOUT}s"
        with self.explained("open"):  # fails at once with the reason; the pool would retry until its timeout
            psycopg.connect(address.server, **settings).close()
        self._pool = pool.ConnectionPool(
            address.server,
            kwargs=settings,
            min_size=0,
            max_size=CONNECTIONS,
            reconnect_timeout=PATIENCE,
            check=pool.ConnectionPool.check_connection,
            open=True,
        )
        self.close = weakref.finalize(self, self._pool.close)
        """Close all connections."""

    def read(self, work: Callable[[Any], T]) -> T:
        """Run `work` with a connection; retry if the connection was lost, as when the server restarts."""
        psycopg = self.psycopg
        lost = (psycopg.errors.AdminShutdown, psycopg.errors.CrashShutdown, psycopg.InterfaceError)
        with self.explained("read"):
            for attempt in range(ATTEMPTS):
                try:
                    with self._pool.connection(PATIENCE) as connection:
                        result = work(connection)
                    return result
                except psycopg.OperationalError as error:
                    cut = error.sqlstate is None or isinstance(error, lost)
                    if not cut or isinstance(error, _pool().PoolTimeout) or attempt == ATTEMPTS - 1:
                        raise
        raise AssertionError("unreachable")

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Run one transaction, without a time limit."""
        with (
            self.explained("load"),
            self._pool.connection(PATIENCE) as connection,
            connection.transaction(),
        ):
            connection.execute("SET LOCAL statement_timeout = 0")
            yield connection

    @contextmanager
    def explained(self, doing: str) -> Iterator[None]:
        """Turn the database's errors into a `DatabaseError` with a way out."""
        try:
            yield
        except self.psycopg.Error as error:
            raise self._explanation(error, doing) from None

    def _explanation(self, error: Exception, doing: str) -> DisplaceError:
        errors = self.psycopg.errors
        after = " Nothing was changed: a map that was there is as it was." if doing == "load" else ""
        if isinstance(error, errors.InsufficientPrivilege):
            return DatabaseError(f"{self.address}: {_first_line(error)}.{after} {self._what_to_grant(doing)}")
        if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
            return DatabaseError(
                f"{self.address}: there is no such map, or it was replaced twice since it was opened "
                f"({_first_line(error)}); open it again, or load it with: "
                "displace export MAP --to postgresql://… --name NAME"
            )
        if isinstance(error, errors.QueryCanceled):
            return DatabaseError(
                f"{self.address}: {_first_line(error)}. Queries may take {STATEMENT_TIMEOUT} s; an index (kind hnsw), "
                "an area, or ?options=-c%20statement_timeout%3D120s in the address gives them less to do or more time"
            )
        if isinstance(error, self.psycopg.OperationalError):
            return DatabaseError(
                f"cannot reach {self.address}: {_first_line(error)}.{after} Check that the server runs and the "
                "address is right, then run the same command again"
            )
        return DatabaseError(f"{self.address}: {_first_line(error)}.{after}")

    def _what_to_grant(self, doing: str) -> str:
        role = _psycopg().conninfo.conninfo_to_dict(self.address.server).get("user") or "ROLE"
        if doing == "load":
            return (
                "Loading needs, once, by an administrator: CREATE EXTENSION vector; CREATE SCHEMA displace; "
                f'GRANT USAGE, CREATE ON SCHEMA displace TO "{role}"'
            )
        return (
            f'Reading needs: GRANT USAGE ON SCHEMA displace TO "{role}"; GRANT SELECT ON ALL TABLES IN SCHEMA displace '
            f'TO "{role}"; and, by the role that loads: ALTER DEFAULT PRIVILEGES IN SCHEMA displace GRANT SELECT ON '
            f'TABLES TO "{role}"'
        )


def migrate(connection: Any) -> None:
    """Upgrade the schema to this version of the package, one process at a time; a later schema is an error."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('displace migrations'))")
    done = schema_version(connection)
    for version, text in migrations().items():
        if version > done:
            connection.execute(text)
            connection.execute("INSERT INTO displace.migrations (version) VALUES (%s)", [version])


def schema_version(connection: Any) -> int:
    """Version of the schema in the database; 0 without one."""
    if connection.execute("SELECT to_regclass('displace.migrations')").fetchone()[0] is None:
        return 0
    found = connection.execute("SELECT max(version) FROM displace.migrations").fetchone()[0] or 0
    if found > max(migrations()):
        raise DatabaseError(
            f"the database's maps have schema version {found}; this is displace with version {max(migrations())}: "
            "pip install -U displace"
        )
    return int(found)


def migrations() -> dict[int, str]:
    """SQL of each version, in order."""
    folder = files("displace.search").joinpath("migrations")
    scripts = sorted((file.name, file) for file in folder.iterdir() if file.name.endswith(".sql"))
    return {int(name.split("_")[0]): file.read_text("utf-8") for name, file in scripts}


def _first_line(error: Exception) -> str:
    """First line of the server's message, without the password."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    secret = os.environ.get("PGPASSWORD")
    return text.replace(secret, "…") if secret else text


def _psycopg() -> Any:
    return import_extra("psycopg", "pgvector")


def _pool() -> Any:
    psycopg_pool = import_extra("psycopg_pool", "pgvector")
    # Without a handler, Python would print the pool's warnings to stderr.
    logger = logging.getLogger("psycopg.pool")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return psycopg_pool
