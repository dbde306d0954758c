"""Fixtures on real parts: an embedded Postgres for each pytest process, and a migrated database for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.pool import NullPool
from support.app import AppAccount, Stages
from support.servers import (
    LOGIN,
    TestServer,
    administrator,
    create_login,
    drop_roles_of_the_tests,
    server_name,
    test_server,
)
from twins import apply_twin

from sql.migrate import migrate
from tasks.transaction import Identity, account, service, transaction

_numbers = itertools.count(1)


@dataclass
class Database:
    """One migrated database. `engine` logs in as the workers do, `admin_engine` as the superuser."""

    url: str
    admin_url: str
    engine: Engine = field(init=False)
    admin_engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        self.engine = create_engine(self.url, pool_size=40)
        self.admin_engine = create_engine(self.admin_url, poolclass=NullPool)

    def as_account(self, user_id: UUID, *, admin: bool = False) -> _Caller:
        return _Caller(self.engine, account(user_id, admin=admin))

    def as_service(self) -> _Caller:
        return _Caller(self.engine, service())

    def admin(self, statement: str, **parameters: object) -> list[tuple]:
        """Run one statement as the superuser and return its rows."""
        with self.admin_engine.begin() as connection:
            return _rows(connection, statement, parameters)


@dataclass(frozen=True)
class _Caller:
    """Runs statements as one identity, each in a transaction of its own."""

    engine: Engine
    identity: Identity

    def __call__(self, statement: str, **parameters: object) -> list[tuple]:
        with transaction(self.engine, self.identity) as connection:
            return _rows(connection, statement, parameters)

    def value(self, statement: str, **parameters: object):
        """Return the one value of the one row."""
        [[value]] = self(statement, **parameters)
        return value


def _rows(connection: Connection, statement: str, parameters: dict[str, object]) -> list[tuple]:
    result = connection.execute(text(statement), parameters)
    return [tuple(row) for row in result] if result.returns_rows else []


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[TestServer]:
    with test_server() as server:
        yield server


@pytest.fixture(scope="session")
def template_database(postgres_server: TestServer) -> Iterator[str]:
    """A migrated database that nobody connects to, to be copied for each test."""
    name = _database_name("template")
    with administrator(postgres_server).connect() as connection:
        connection.execute(text(f"create database {name}"))
        migrate(create_engine(postgres_server.url(name), poolclass=NullPool))
        apply_twin(create_engine(postgres_server.url(name), poolclass=NullPool))
        create_login(postgres_server)
        yield name
        connection.execute(text(f"drop database {name} with (force)"))


@pytest.fixture
def database(postgres_server: TestServer, template_database: str) -> Iterator[Database]:
    """A migrated database of the test's own."""
    name = _database_name(str(next(_numbers)))
    with administrator(postgres_server).connect() as connection:
        connection.execute(text(f"create database {name} template {template_database}"))
    made = Database(postgres_server.url(name, LOGIN), postgres_server.url(name))
    try:
        yield made
    finally:
        made.engine.dispose()
        with administrator(postgres_server).connect() as connection:
            connection.execute(text(f"drop database {name} with (force)"))


def _database_name(suffix: str) -> str:
    # Parallel processes may share a server.
    return f"stats_refresh_test_{os.getpid()}_{suffix}"


def pytest_report_header() -> str:
    return f"database: {server_name()}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        drop_roles_of_the_tests()


@pytest.fixture
def app_account(database: Database) -> AppAccount:
    """A new account of the test's database."""
    return AppAccount(database)


@pytest.fixture
def stages(database: Database) -> Stages:
    """The pipeline's stages on the test's database."""
    return Stages(database)
