"""What an operator reads where the database or Redis refuses: one line that says what to do, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool
from support.servers import LOGIN, TestServer, administrator

from ops.cli import main
from ops.discovery import StackUrls
from ops.embedded.postgres import FAST, PostgresServer
from ops.embedded.valkey import ValkeyServer

if TYPE_CHECKING:
    from conftest import Database

ROOT = Path(__file__).resolve().parents[2]
READERS = (("status",), ("history",), ("jobs", "list"), ("verify",), ("settings", "show"), ("pause", "all"))


def stats_refresh(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STATS_REFRESH_")}
    configured = {f"STATS_REFRESH_{name.upper()}": value for name, value in settings.items()}
    return subprocess.run(
        [sys.executable, "-m", "ops.cli", *arguments],
        env=inherited | configured,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def the_line(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert ran.stderr.startswith("stats-refresh: ")
    assert ran.stderr.count("\n") == 1, ran.stderr
    return ran.stderr


@pytest.fixture
def empty_database(postgres_server: TestServer, database: Database) -> Iterator[str]:
    """The name of a database that was never migrated, on a server whose roles exist."""
    name = f"{make_url(database.url).database}_empty"
    with administrator(postgres_server).connect() as connection:
        connection.execute(text(f"create database {name}"))
        yield name
        connection.execute(text(f"drop database {name} with (force)"))


@pytest.mark.parametrize("command", ["migrate", "up", "demo"])
@pytest.mark.parametrize("migrated", [True, False])
def test_a_login_that_may_not_migrate(
    command: str, migrated: bool, postgres_server: TestServer, database: Database, empty_database: str
) -> None:
    url = database.url if migrated else postgres_server.url(empty_database, LOGIN)
    ran = stats_refresh(command, database_url=url, flower_port="0")
    line = the_line(ran)
    assert line.startswith(f"stats-refresh: {LOGIN} may not migrate the database (")
    assert "name a superuser, or the role that migrated it before, in STATS_REFRESH_DATABASE_URL" in line
    assert "started valkey" not in ran.stdout


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_a_database_that_was_never_migrated(
    command: tuple[str, ...], postgres_server: TestServer, empty_database: str
) -> None:
    line = the_line(stats_refresh(*command, database_url=postgres_server.url(empty_database)))
    assert line.startswith("stats-refresh: the database is not at this release (")
    assert line.endswith("): run stats-refresh migrate\n")


def test_a_server_that_was_never_migrated() -> None:
    with PostgresServer(settings=FAST) as server:
        line = the_line(stats_refresh("status", database_url=server.url()))
    assert line.startswith("stats-refresh: the database is not at this release (")
    assert line.endswith("): run stats-refresh migrate\n")


def test_an_error_that_nobody_foresaw_has_its_sqlstate(database: Database) -> None:
    database.admin(
        "create or replace function public.stats_projection_worker_status_v1() returns jsonb language plpgsql"
        " as $$ begin raise exception 'out of plates' using errcode = 'XX001'; end $$"
    )
    line = the_line(stats_refresh("status", database_url=database.url))
    assert line == "stats-refresh: Postgres refuses with SQLSTATE XX001: out of plates\n"


def test_a_defect_keeps_its_traceback(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a defect of ours nor one that only the driver notices is dressed up as a refusal."""
    from ops import status

    def unsuitable(*_: object) -> None:
        with create_engine(database.url, poolclass=NullPool).connect() as connection:
            connection.execute(text("select :value"), {"value": object()})

    def broken(*_: object) -> None:
        raise TypeError("seven is no list")

    monkeypatch.setattr(sys, "argv", ["stats-refresh", "status"])
    urls = StackUrls(database.url, database.url, None)
    monkeypatch.setattr("ops.discovery.connection_urls", lambda: urls)
    for defect, message in ((unsuitable, "can't adapt"), (broken, "seven is no list")):
        monkeypatch.setattr(status, "show", defect)
        with pytest.raises(Exception, match=message):
            main()


def test_the_demo_says_first_where_it_writes(database: Database) -> None:
    url = make_url(database.url).set(drivername="postgresql", password="secret")
    ran = stats_refresh("demo", database_url=url.render_as_string(hide_password=False))
    the_line(ran)
    first = ran.stdout.partition("\n")[0]
    assert first.startswith(f"Postgres: postgresql://{LOGIN}:***@")
    assert f"{url.database}?" in first
    assert " (STATS_REFRESH_DATABASE_URL); Redis: an embedded one; writes the demo account " in first
    assert first.endswith(", which stays there")


# ---------------------------------------------------------------- Redis


@pytest.fixture(scope="module")
def guarded() -> Iterator[ValkeyServer]:
    """A Valkey that asks for a password."""
    with ValkeyServer() as server:
        with redis.Redis.from_url(server.redis_url) as client:
            client.config_set("requirepass", "secret")
        yield server


@pytest.mark.parametrize(
    ("login", "database", "problem"),
    [
        ("", "0", "already authenticated"),
        (":wrong@", "0", "invalid username-password pair"),
        (":secret@", "99", "DB index is out of range"),
    ],
)
def test_a_redis_that_refuses(guarded: ValkeyServer, login: str, database: str, problem: str) -> None:
    url = guarded.redis_url.replace("unix://", f"unix://{login}").replace("db=0", f"db={database}")
    line = the_line(
        stats_refresh("schedule", "list", database_url="postgresql://nobody@nowhere/none", redis_url=url)
    )
    assert line.startswith("stats-refresh: Redis refuses (")
    assert problem in line
    assert "STATS_REFRESH_REDIS_URL" in line
