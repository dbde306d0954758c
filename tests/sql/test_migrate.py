"""`migrate`: from nothing, again, from two processes at once, on a database in use, and never backwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import UUID

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.pool import NullPool
from support.servers import TestServer, administrator, password

from core.processes import wait_until
from sql.functions import apply_functions, sql_files
from sql.migrate import DatabaseTooNew, migrate, needs_migration
from sql.roles import API_ROLES, OWNER, AuthSchemaClosed
from tasks.transaction import account, service, transaction


@pytest.fixture
def empty_database(postgres_server: TestServer) -> Iterator[Engine]:
    name = f"stats_refresh_test_{os.getpid()}_empty"
    with administrator(postgres_server).connect() as connection:
        connection.execute(text(f"create database {name}"))
        yield create_engine(postgres_server.url(name), poolclass=NullPool)
        connection.execute(text(f"drop database {name} with (force)"))


def rows(engine: Engine, statement: str) -> list[tuple]:
    with engine.begin() as connection:
        return [tuple(row) for row in connection.execute(text(statement))]


def test_a_second_run_changes_nothing(empty_database: Engine):
    first = migrate(empty_database)
    second = migrate(empty_database)
    assert first.before is None
    assert first.functions == [file.name for file in sql_files()]
    assert (second.before, second.after) == (first.after, first.after)
    assert second.functions == []


def test_two_processes_at_once_both_succeed_and_one_does_the_work(empty_database: Engine):
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: migrate(empty_database), range(2)))
    assert sorted(bool(result.functions) for result in results) == [False, True]


def test_a_later_release_is_refused_and_nothing_changes(empty_database: Engine):
    migrate(empty_database)
    with empty_database.begin() as connection:
        connection.execute(text("update public.stats_refresh_schema_version set version_num = '9999'"))
        connection.execute(text("delete from stats_private.applied_sql_files"))
    with pytest.raises(DatabaseTooNew, match="9999"):
        migrate(empty_database)
    assert rows(empty_database, "select count(*) from stats_private.applied_sql_files") == [(0,)]


def test_settings_and_policy_survive(database):
    database.admin("update public.stats_projection_worker_settings set publish_budget_ms = 5000")
    database.admin("update public.stats_projection_policy set e1rm_formula = 'epley', policy_version = 7")
    database.admin("delete from stats_private.applied_sql_files")
    assert migrate(database.admin_engine).functions
    assert database.admin("select publish_budget_ms from public.stats_projection_worker_settings") == [
        (5000,)
    ]
    assert database.admin("select e1rm_formula, policy_version from public.stats_projection_policy") == [
        ("epley", 7)
    ]


def test_it_waits_for_a_busy_table_in_short_turns_and_then_succeeds(database):
    """A long transaction on a table that `migrate` alters neither fails it nor makes others queue behind it."""
    database.admin("delete from stats_private.applied_sql_files")
    with ThreadPoolExecutor(1) as pool, database.admin_engine.connect() as compute:
        compute.execute(text("select count(*) from public.workout_sessions"))
        turns: list[float] = []
        migrating = pool.submit(migrate, database.admin_engine, turns.append)
        assert wait_until(lambda: bool(turns), 20), "migrate never gave way"
        compute.rollback()
        assert migrating.result(30).functions


@pytest.mark.parametrize("upgrade", [False, True], ids=["first", "upgrade"])
def test_tables_and_views_of_other_roles_stand_beside_ours_and_stay_theirs(
    upgrade: bool, empty_database: Engine
):
    if upgrade:
        migrate(empty_database)
    with empty_database.begin() as connection:
        connection.execute(text("create table public.app_users (id int)"))
        connection.execute(text("create view public.app_view as select 1 as id"))
        connection.execute(text("create materialized view public.app_summary as select 1 as id"))
        if upgrade:
            connection.execute(text("delete from stats_private.applied_sql_files"))
    assert migrate(empty_database).functions == [file.name for file in sql_files()]
    assert rows(
        empty_database,
        "select relname::text, relowner::regrole::text, relacl::text from pg_class where relname like 'app\\_%'"
        " order by 1",
    ) == [(name, "postgres", None) for name in ("app_summary", "app_users", "app_view")]


def test_a_changed_reader_waits_for_no_table(database):
    """Beside a reader of hours, pg_dump say, a release of functions goes in at once."""
    database.admin(
        "update stats_private.applied_sql_files set sha256 = '' where name like 'readers/get_pr_o%'"
    )
    turns: list[float] = []
    with database.admin_engine.connect() as reader:
        for [table] in database.admin("select polrelid::regclass::text from pg_policy group by 1"):
            reader.execute(text(f"select count(*) from {table}"))
        migrated = migrate(database.admin_engine, turns.append)
    assert turns == []
    assert migrated.functions == ["readers/get_pr_overview.sql", "access/grants.sql"]


def test_a_new_schema_step_applies_policies_and_grants_again(database):
    with database.admin_engine.begin() as connection:
        connection.execute(text(f"set local role {OWNER}"))
        assert apply_functions(connection, schema_changed=True) == [
            "access/grants.sql",
            "access/owner_policies.sql",
            "access/policies.sql",
        ]


def as_signed_in(engine: Engine, statement: str) -> object:
    with transaction(engine, account(UUID(int=7))) as connection:
        return connection.scalar(text(statement))


def test_an_existing_auth_schema_is_used_and_left_alone(empty_database: Engine):
    """It has auth.uid() alone, and nobody but its owner may use it."""
    with empty_database.begin() as connection:
        connection.execute(text("create schema auth"))
        connection.execute(
            text(
                "create function auth.uid() returns uuid language sql stable as"
                " 'select ''00000000-0000-0000-0000-000000000007''::uuid -- theirs'"
            )
        )
    migrate(empty_database)
    assert rows(
        empty_database, "select prosrc like '%theirs' from pg_proc where pronamespace = 'auth'::regnamespace"
    ) == [(True,)]
    assert rows(
        empty_database, "select nspowner::regrole::text from pg_namespace where nspname = 'auth'"
    ) == [("postgres",)]
    assert rows(empty_database, f"select has_schema_privilege('{OWNER}', 'auth', 'create')") == [(False,)]
    assert_accounts_are_served(empty_database)


def test_an_auth_schema_without_uid_gets_it(empty_database: Engine):
    with empty_database.begin() as connection:
        connection.execute(text("create schema auth"))
    migrate(empty_database)
    assert rows(
        empty_database,
        "select proname::text, proowner::regrole::text from pg_proc where pronamespace = 'auth'::regnamespace",
    ) == [("uid", OWNER)]
    assert_accounts_are_served(empty_database)


def assert_accounts_are_served(engine: Engine) -> None:
    """Assert that functions and policies know who is signed in."""
    as_signed_in(
        engine,
        "select public.upsert_exercise_v1('Squat', 'weight_reps', '00000000-0000-0000-0000-000000000007')",
    )
    assert as_signed_in(engine, "select array_agg(name) from public.exercises") == ["Squat"]


@contextmanager
def hosted_database(server: TestServer) -> Iterator[Engine]:
    """Yield a database as the login of a hosted one, which may create roles and databases, and nothing more."""
    name = f"stats_refresh_test_{os.getpid()}_hosted"
    with administrator(server).connect() as connection:
        connection.execute(text(f"create role {name} login {password(server)} createrole createdb"))
        # The roles are there already (another test's database): whoever made them has to lend them.
        connection.execute(text(f"grant {OWNER}, {', '.join(API_ROLES)} to {name} with admin option"))
        connection.execute(text(f"create database {name} owner {name}"))
        try:
            yield create_engine(server.url(name, name), poolclass=NullPool)
        finally:
            connection.execute(text(f"drop database {name} with (force)"))
            connection.execute(text(f"drop role {name}"))


def test_a_login_that_is_no_superuser_migrates_and_then_works(postgres_server: TestServer, database):
    with hosted_database(postgres_server) as engine:
        migrate(engine)
        with transaction(engine, service()) as worker:
            claimed = worker.scalar(text("select public.stats_projection_claim_v1('test')"))
        assert claimed["response"] == "idle"


@pytest.mark.parametrize("open_to_login", [False, True])
@pytest.mark.parametrize(("has_uid", "missing"), [(True, "usage"), (False, "usage, create")])
def test_an_auth_schema_that_the_login_may_not_open_is_refused_with_the_grant_that_opens_it(
    has_uid: bool, missing: str, open_to_login: bool, postgres_server: TestServer, database
):
    """The platform's schema, of which a hosted login has nothing, or what it has it may not pass on."""
    with hosted_database(postgres_server) as engine:
        platform = create_engine(postgres_server.url(engine.url.database), poolclass=NullPool)
        with platform.begin() as connection:
            connection.execute(text("create schema auth"))
            if has_uid:
                connection.execute(
                    text("create function auth.uid() returns uuid language sql as 'select null::uuid'")
                )
            if open_to_login:
                connection.execute(text(f"grant usage, create on schema auth to {engine.url.username}"))
        grant = f"grant {missing} on schema auth to {OWNER}"
        with pytest.raises(AuthSchemaClosed, match=f"run `{grant}` as postgres or a superuser"):
            migrate(engine)
        with platform.begin() as connection:
            connection.execute(text(grant))
        assert migrate(engine).functions


@pytest.fixture
def worker(database) -> Iterator[Connection]:
    with transaction(database.engine, service()) as connection:
        yield connection


def test_the_workers_login_can_tell_that_a_migrated_database_needs_nothing(worker: Connection):
    assert needs_migration(worker) is False


@pytest.mark.parametrize(
    "behind",
    [
        "update stats_private.applied_sql_files set sha256 = '' where name = 'numbers/e1rm.sql'",
        "delete from stats_private.applied_sql_files where name = 'access/policies.sql'",
        "delete from stats_private.applied_sql_files",
        "update public.stats_refresh_schema_version set version_num = '0001'",
    ],
)
def test_the_workers_login_can_tell_that_a_database_is_behind(behind: str, worker: Connection, database):
    database.admin(behind)
    assert needs_migration(worker) is True


def test_the_workers_login_can_tell_that_a_later_release_was_there(worker: Connection, database):
    database.admin("update public.stats_refresh_schema_version set version_num = '9999'")
    with pytest.raises(DatabaseTooNew, match="9999"):
        needs_migration(worker)
