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
from support.servers import LOGIN, TestServer, administrator, password

from core.errors import OperatorError
from embedded.postgres import FAST, PostgresServer, stack_password
from embedded.valkey import ValkeyServer
from ops.cli import main
from ops.discovery import StackUrls

if TYPE_CHECKING:
    from conftest import Database

ROOT = Path(__file__).resolve().parents[2]
READERS = (("status",), ("history",), ("jobs", "list"), ("verify",), ("settings", "show"), ("pause", "all"))


def stats_refresh(*arguments: str, timeout: float = 60, **settings: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STATS_REFRESH_")}
    configured = {f"STATS_REFRESH_{name.upper()}": value for name, value in settings.items()}
    return subprocess.run(
        [sys.executable, "-m", "ops.cli", *arguments],
        env=inherited | configured,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
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


@pytest.mark.parametrize("migrated", [True, False])
def test_migrate_by_a_login_that_may_not(
    migrated: bool, postgres_server: TestServer, database: Database, empty_database: str
) -> None:
    url = database.url if migrated else postgres_server.url(empty_database, LOGIN)
    line = the_line(stats_refresh("migrate", database_url=url))
    assert line.startswith(f"stats-refresh: {LOGIN} may not migrate the database (")
    assert line.endswith("run stats-refresh migrate as a superuser, or as the role that migrated it before\n")


@pytest.mark.parametrize("command", ["up", "demo"])
@pytest.mark.parametrize("migrated", [True, False])
def test_a_stack_on_a_database_that_is_behind_with_a_login_that_may_not_migrate(
    command: str, migrated: bool, postgres_server: TestServer, database: Database, empty_database: str
) -> None:
    database.admin(
        "update stats_private.applied_sql_files set sha256 = 'old' where name = 'pipeline/claim.sql'"
    )
    url = database.url if migrated else postgres_server.url(empty_database, LOGIN)
    ran = stats_refresh(command, database_url=url, flower_port="0", http_port="0")
    line = the_line(ran)
    assert line.startswith(
        f"stats-refresh: the database is not at this release: {LOGIN} may not migrate the database ("
    )
    assert line.endswith("run stats-refresh migrate as a superuser, or as the role that migrated it before\n")
    assert "started" not in ran.stdout


def test_a_stack_on_a_database_of_a_later_release(database: Database) -> None:
    database.admin("update public.stats_refresh_schema_version set version_num = '9999'")
    ran = stats_refresh("up", database_url=database.url, flower_port="0", http_port="0")
    assert "the database is at schema step 9999, which this release does not know" in the_line(ran)
    assert "started" not in ran.stdout


@pytest.mark.parametrize("command", [("status",), ("up",)], ids=" ".join)
def test_a_login_that_is_no_worker(
    command: tuple[str, ...], postgres_server: TestServer, database: Database
) -> None:
    outsider = f"{make_url(database.url).database}_outsider"
    with administrator(postgres_server).connect() as connection:
        connection.execute(text(f"create role {outsider} login {password(postgres_server)}"))
        try:
            url = make_url(database.url).set(username=outsider).render_as_string(hide_password=False)
            line = the_line(stats_refresh(*command, database_url=url, flower_port="0", http_port="0"))
        finally:
            connection.execute(text(f"drop role {outsider}"))
    assert line == (
        'stats-refresh: permission denied to set role "service_role": '
        "grant service_role, authenticated, anon to the login in STATS_REFRESH_DATABASE_URL\n"
    )


def test_migrate_where_another_role_owns_what_it_would_replace(
    postgres_server: TestServer, empty_database: str
) -> None:
    url = postgres_server.url(empty_database)
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(
            text(
                "create function public.get_pr_overview(date, uuid) returns jsonb language sql as 'select null::jsonb'"
            )
        )
    line = the_line(stats_refresh("migrate", database_url=url))
    assert line.startswith(
        "stats-refresh: stats_refresh_owner, as which a migration acts, is refused "
        "(must be owner of function get_pr_overview): nothing was changed; give what this names to stats_refresh_owner"
    )


def test_migrate_beside_a_transaction_that_never_ends(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ops.migrate import migrate

    monkeypatch.setattr("sql.migrate._ATTEMPTS", 2)
    database.admin("delete from stats_private.applied_sql_files where name = 'access/policies.sql'")
    with database.admin_engine.connect() as dump:
        dump.execute(text("select count(*) from public.workout_sessions"))
        with pytest.raises(OperatorError) as refused:
            migrate(database.admin_url)
    assert str(refused.value) == (
        "a long transaction, such as pg_dump's, holds a table that the migration alters "
        "(canceling statement due to lock timeout): nothing was changed, run stats-refresh migrate again when it has "
        "ended"
    )


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


def test_the_demo_on_a_migrated_database_needs_a_workers_login_and_says_first_where_it_writes(
    postgres_server: TestServer, database: Database
) -> None:
    secret = stack_password(postgres_server.url()) if password(postgres_server) else "secret"
    url = make_url(database.url).set(drivername="postgresql", password=secret)
    ran = stats_refresh("demo", database_url=url.render_as_string(hide_password=False), timeout=180)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    first = ran.stdout.partition("\n")[0]
    assert first.startswith(f"Postgres: postgresql://{LOGIN}:***@")
    assert f"{url.database}?" in first
    assert " (STATS_REFRESH_DATABASE_URL); Redis: an embedded one; writes the demo account " in first
    assert first.endswith(", which stays there")
    [[user, fresh]] = database.admin(
        "select user_id::text, applied_version = requested_version from public.user_stats_refresh_state"
    )
    assert f"writes the demo account {user}," in first
    assert fresh


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
