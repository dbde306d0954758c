"""A server of its own that counts statements: the embedded Postgres and each older one that is installed here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Database
from sqlalchemy import NullPool, create_engine, text
from support.servers import LOGIN, administrator, create_login

from embedded.postgres import FAST, PostgresServer, find_binaries
from sql.migrate import migrate

from .counting import SETTINGS, start_counting

_OLDEST = Path("/usr/lib/postgresql/15/bin")
SERVERS = {"embedded": None, "PostgreSQL 15": _OLDEST}


@pytest.fixture(scope="module", params=SERVERS)
def counting_database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A migrated database on a server that has pg_stat_statements loaded, with the tests' login."""
    binaries = SERVERS[request.param] or find_binaries()
    if not (binaries.parent / "lib" / "pg_stat_statements.so").exists():
        pytest.skip(f"no pg_stat_statements in {binaries.parent}")
    with PostgresServer(binaries=binaries, settings={**FAST, **SETTINGS}) as server:
        with administrator(server).connect() as connection:
            connection.execute(text("create database counting"))
        migrate(create_engine(server.url("counting"), poolclass=NullPool))
        create_login(server)
        database = Database(server.url("counting", LOGIN), server.url("counting"))
        start_counting(database)
        yield database
        database.engine.dispose()
