"""`migrate`: from nothing, again, from two processes at once, on a database in use, and never backwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool
from support.servers import TestServer, administrator

from ops.embedded.process import wait_until
from sql.functions import sql_files
from sql.migrate import DatabaseTooNew, migrate
from sql.roles import API_ROLES, OWNER
from tasks.transaction import service, transaction


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


def test_an_existing_auth_schema_is_used_and_left_alone(empty_database: Engine):
    with empty_database.begin() as connection:
        connection.execute(text("create schema auth"))
        connection.execute(
            text(
                "create function auth.uid() returns uuid language sql stable as 'select null::uuid -- theirs'"
            )
        )
        connection.execute(
            text("create function auth.jwt() returns jsonb language sql stable as 'select null::jsonb'")
        )
    migrate(empty_database)
    [[source]] = rows(empty_database, "select prosrc from pg_proc where oid = 'auth.uid()'::regprocedure")
    assert "theirs" in source
    assert rows(
        empty_database, "select nspowner::regrole::text from pg_namespace where nspname = 'auth'"
    ) == [("postgres",)]


def test_a_login_that_is_no_superuser_migrates_and_then_works(postgres_server: TestServer, database):
    """A hosted database has a login that may create roles and databases, and nothing more."""
    name = f"stats_refresh_test_{os.getpid()}_hosted"
    with administrator(postgres_server).connect() as connection:
        connection.execute(text(f"create role {name} login createrole createdb"))
        # The roles are there already (another test's database): whoever made them has to lend them.
        connection.execute(text(f"grant {OWNER}, {', '.join(API_ROLES)} to {name} with admin option"))
        connection.execute(text(f"create database {name} owner {name}"))
        try:
            engine = create_engine(postgres_server.url(name, name), poolclass=NullPool)
            migrate(engine)
            with transaction(engine, service()) as worker:
                assert (
                    worker.scalar(text("select public.stats_projection_claim_v1('test')"))["response"]
                    == "idle"
                )
        finally:
            connection.execute(text(f"drop database {name} with (force)"))
            connection.execute(text(f"drop role {name}"))
