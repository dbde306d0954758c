"""Backups with PostgreSQL's own programs, restored in each of the usual ways: one `migrate` puts the rest right."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Database
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool
from support.app import AppAccount, Stages
from support.servers import LOGIN, TestServer, administrator

from core.config import libpq_url
from core.errors import OperatorError
from embedded.postgres import FAST, PostgresServer, find_binaries, major_version
from ops.migrate import ensure_migrated, migrate, migrate_without_rows
from ops.stack import create_worker_role
from sql.migrate import needs_migration
from sql.restore import SEEDED
from sql.roles import OWNER
from tasks.transaction import service, transaction

_numbers = itertools.count(1)

# Whatever a session of an API role could do there, and who would do it.
RIGHTS = """
select p.oid::regprocedure::text, p.proowner::regrole::text, array(
    select case a.grantee when 0 then 'public' else a.grantee::regrole::text end || ' ' || a.privilege_type
    from pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) a order by 1)
from pg_catalog.pg_proc p where p.pronamespace in ('public'::regnamespace, 'stats_private'::regnamespace)
union all
select c.oid::regclass::text, c.relowner::regrole::text, array(
    select case a.grantee when 0 then 'public' else a.grantee::regrole::text end || ' ' || a.privilege_type
    from pg_catalog.aclexplode(coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))) a order by 1)
from pg_catalog.pg_class c
where c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'stats_private'::regnamespace)
union all
select n.nspname, n.nspowner::regrole::text, array(
    select case a.grantee when 0 then 'public' else a.grantee::regrole::text end || ' ' || a.privilege_type
    from pg_catalog.aclexplode(coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))) a order by 1)
from pg_catalog.pg_namespace n where n.nspname = 'stats_private'
order by 1, 2
"""


@pytest.fixture(scope="session")
def binaries(postgres_server: TestServer) -> Path:
    """PostgreSQL's programs of the server's own version: a later pg_restore says what this server can't read."""
    with administrator(postgres_server).connect() as connection:
        version = int(connection.scalar(text("show server_version_num"))) // 10_000
    candidates = [find_binaries(), Path(f"/usr/lib/postgresql/{version}/bin")]
    return next(path for path in candidates if path.exists() and major_version(path) == version)


@pytest.fixture(scope="session")
def client(binaries: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run one of those programs."""

    def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [binaries / program, *arguments],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def lifter(database: Database) -> AppAccount:
    """An account with one published session, and one that is still to be published; settings of an operator's own."""
    account = AppAccount(database)
    account.save()
    Stages(database).drain()
    account.save(session_date="2026-03-12")
    database.as_service()("select public.update_stats_projection_settings_v1('{\"batch_size\": 77}')")
    return account


@pytest.fixture
def dump(database: Database, lifter: AppAccount, client, tmp_path: Path) -> Path:
    path = tmp_path / "dump"
    made = client("pg_dump", "-Fc", "-f", str(path), "-d", libpq_url(database.admin_url))
    assert (made.returncode, made.stderr) == (0, "")
    return path


@pytest.fixture
def target(postgres_server: TestServer) -> Iterator[Database]:
    """An empty database to restore into."""
    name = f"stats_refresh_test_{os.getpid()}_restored_{next(_numbers)}"
    with administrator(postgres_server).connect() as connection:
        connection.execute(text(f"create database {name}"))
        made = Database(postgres_server.url(name, LOGIN), postgres_server.url(name))
        try:
            yield made
        finally:
            made.engine.dispose()
            connection.execute(text(f"drop database {name} with (force)"))


def restore(client, dump: Path, target: Database, *options: str, **environment: str) -> None:
    url = libpq_url(target.admin_url)
    done = client("pg_restore", *options, "--exit-on-error", "-d", url, str(dump), **environment)
    assert (done.returncode, done.stderr) == (0, "")


def is_behind(target: Database) -> bool:
    with transaction(target.engine, service()) as connection:
        return needs_migration(connection)


def assert_as_before(target: Database, database: Database, lifter: AppAccount) -> None:
    """Assert that rights, owners and rows are those of the database that was dumped, and that the work goes on."""
    assert target.admin(RIGHTS) == database.admin(RIGHTS)
    assert not is_behind(target)
    assert target.admin("select batch_size from public.stats_projection_worker_settings") == [(77,)]
    lifter.database = target
    assert lifter.state() == (2, 1)
    assert [answer["response"] for answer in Stages(target).drain()] == ["published"]
    assert lifter.state() == (2, 2)
    lifter.save(session_date="2026-03-14")
    [(fence,)] = target.admin(
        "select tgenabled::text from pg_trigger where tgname = 'stats_projection_run_lease_fence_v1'"
    )
    assert fence == "A"


@pytest.mark.parametrize(
    "options",
    [(), ("--no-owner",), ("--no-privileges",), ("--no-owner", "--no-privileges")],
    ids=["all", "no owner", "no privileges", "neither"],
)
def test_one_migrate_puts_owners_and_grants_right(
    options: tuple[str, ...], dump: Path, target: Database, database: Database, lifter: AppAccount, client
) -> None:
    restore(client, dump, target, *options)

    migrate(target.admin_url)

    assert_as_before(target, database, lifter)
    assert migrate(target.admin_url).functions == []


def test_a_server_that_has_none_of_our_roles_gets_them(
    dump: Path, database: Database, lifter: AppAccount, client, binaries: Path
) -> None:
    """pg_restore reports what it could not set, and goes on without."""
    with PostgresServer(settings=FAST, binaries=binaries) as server:
        done = client("pg_restore", "-d", libpq_url(server.url()), str(dump))
        assert done.returncode == 1
        assert 'role "stats_refresh_owner" does not exist' in done.stderr
        migrate(server.url())
        create_worker_role(server.url())
        target = Database(server.url(user=LOGIN), server.url())
        try:
            assert_as_before(target, database, lifter)
        finally:
            target.engine.dispose()


def test_a_worker_does_not_start_on_a_restored_database_that_is_open(
    dump: Path, target: Database, client
) -> None:
    """Until migrate everybody may call everything, and functions act for whoever restored."""
    restore(client, dump, target, "--no-owner")
    assert is_behind(target)
    with pytest.raises(OperatorError, match="run stats-refresh migrate as a superuser"):
        ensure_migrated(target.url)


def test_what_a_login_may_not_give_is_named_all_at_once(
    dump: Path, target: Database, client, postgres_server: TestServer
) -> None:
    """Somebody gave some of it to a role of his own, which is not the migration's to take."""
    restore(client, dump, target, "--no-owner")
    migrate(target.admin_url)
    other = f"{make_url(target.url).database}_other"
    with administrator(postgres_server).connect() as connection:
        connection.execute(text(f"create role {other} nologin"))
    try:
        for one in (
            "table public.exercises",
            "table public.workout_sessions",
            "function public.get_pr_overview(date, uuid)",
        ):
            target.admin(f"alter {one} owner to {other}")
        target.admin("update stats_private.applied_sql_files set sha256 = '' where name like 'readers/%'")
        with pytest.raises(OperatorError) as refused:
            migrate(target.admin_url)
        _, statements = str(refused.value).split("What gives all of it: ")
        assert len(statements.strip("; ").split("; ")) == 3
        target.admin(statements)
        assert migrate(target.admin_url).functions
    finally:
        target.admin(f"reassign owned by {other} to {OWNER}")
        with administrator(postgres_server).connect() as connection:
            connection.execute(text(f"drop role {other}"))


def test_rows_alone_go_into_a_database_that_was_made_without(
    dump: Path, target: Database, database: Database, lifter: AppAccount, client
) -> None:
    migrate_without_rows(target.admin_url)
    migrate_without_rows_says_so(target)

    restore(client, dump, target, "--data-only", PGOPTIONS="-c session_replication_role=replica")
    migrate(target.admin_url)

    assert_as_before(target, database, lifter)


def migrate_without_rows_says_so(target: Database) -> None:
    """Assert that commands on it name what is missing, and change nothing."""
    for attempt in (lambda: migrate(target.admin_url), lambda: ensure_migrated(target.url)):
        with pytest.raises(OperatorError, match="no schema step: restore its rows"):
            attempt()


def test_rows_are_never_removed_from_a_database_that_has_some(database: Database, lifter: AppAccount) -> None:
    with pytest.raises(OperatorError, match="has rows: rows are restored into a database of their own"):
        migrate_without_rows(database.admin_url)
    assert lifter.state() == (2, 1)
    assert database.admin("select batch_size from public.stats_projection_worker_settings") == [(77,)]


def test_the_tables_that_a_migration_fills_are_those_that_it_can_leave_empty(database: Database) -> None:
    tables = database.admin(
        "select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where c.relkind = 'r' and n.nspname in ('public', 'stats_private')"
    )
    filled = [
        table for [table] in tables if database.admin(f"select exists (select from {table})") == [(True,)]
    ]
    assert sorted(filled) == sorted(SEEDED)


def test_objects_of_the_app_stay_the_apps(dump: Path, target: Database, client) -> None:
    target.admin("create table public.app_users (id int)")
    restore(client, dump, target, "--no-owner")
    target.admin("create function public.app_hello() returns text language sql as 'select ''hello'''")
    migrate(target.admin_url)
    with create_engine(target.admin_url, poolclass=NullPool).connect() as connection:
        me = connection.scalar(text("select current_user"))
    assert target.admin(
        "select c.relowner::regrole::text, p.proowner::regrole::text from pg_class c, pg_proc p"
        " where c.relname = 'app_users' and p.proname = 'app_hello'"
    ) == [(me, me)]
    assert me != OWNER
