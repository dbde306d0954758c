"""The Postgres that the tests run on: an embedded one, or one that is already there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy import URL, Engine, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from core.config import database_url
from embedded.postgres import FAST, PostgresServer, stack_password
from sql.roles import API_ROLES, OWNER

LOGIN = "stats_refresh_worker"
"""The login of workers and backends in the tests: may take on the API roles, owns nothing."""
SERVER_VARIABLE = "STATS_REFRESH_TEST_SERVER"
"""A superuser's URL of a running server, to run the SQL tests on it in databases of their own."""


class TestServer(Protocol):
    """What the fixtures need of a server."""

    __test__ = False

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return the URL of `database` as `user`."""
        ...


class RunningServer:
    """A server that is not ours: nothing but our own databases and roles is touched."""

    def __init__(self, url: str) -> None:
        self._url = database_url(url)

    def url(self, database: str = "postgres", user: str | None = None) -> str:
        url = self._url.set(database=database, username=user or self._url.username)
        return url.render_as_string(hide_password=False)


@contextmanager
def test_server() -> Iterator[TestServer]:
    """Yield the server that the environment names, else an embedded one of our own."""
    if named := os.environ.get(SERVER_VARIABLE):
        yield RunningServer(named)
        return
    server = PostgresServer(settings={**FAST, "max_connections": "120"})
    server.start()
    try:
        yield server
    finally:
        server.stop()


def administrator(server: TestServer) -> Engine:
    """Return an engine outside any transaction, as `create database` needs it."""
    return create_engine(server.url(), isolation_level="AUTOCOMMIT", poolclass=NullPool)


def create_login(server: TestServer) -> None:
    """Create the login role where a neighbour has not done so."""
    with administrator(server).connect() as connection:
        try:
            connection.execute(
                text(f"create role {LOGIN} login {password(server)} in role {', '.join(API_ROLES)}")
            )
        except DBAPIError as error:
            if getattr(error.orig, "pgcode", None) not in ("42710", "23505"):
                raise


def password(server: TestServer) -> str:
    """Return the clause that lets a new login in with the URLs of `server`; "" where no password is asked for."""
    found = login_password(make_url(server.url()))
    return "" if found is None else f"password '{found}'"


def login_password(url: URL) -> str | None:
    """Return the password of every login of the stack at `url`; None where none is asked for."""
    return stack_password(url.render_as_string(hide_password=False)) if "passfile" in url.query else None


def drop_roles_of_the_tests() -> None:
    """Leave a server that is not ours without our roles; keeps those that somebody else's databases use."""
    if (named := os.environ.get(SERVER_VARIABLE)) is None:
        return
    with administrator(RunningServer(named)).connect() as connection:
        for role in (LOGIN, *API_ROLES, OWNER):
            try:
                connection.execute(text(f"drop role if exists {role}"))
            except DBAPIError as error:
                if getattr(error.orig, "pgcode", None) != "2BP01":
                    raise


def server_name() -> str:
    """Return what to call the server in the report's header."""
    named = os.environ.get(SERVER_VARIABLE)
    return "embedded Postgres" if named is None else make_url(named).render_as_string(hide_password=True)
