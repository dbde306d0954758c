"""A database of an earlier schema step, with data: after `migrate` it is like a new one, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from conftest import Database
from reckoning.compare import assert_account_equals_reckoning
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool
from support.app import Stages
from support.previous_release import no_history, previous_release
from support.schema import describe, describe_functions
from support.servers import LOGIN, TestServer, administrator, create_login

from sql.functions import apply_functions, sql_files
from sql.migrate import alembic_config, migrate
from sql.roles import OWNER, create_roles

STEPS = sorted(
    step.revision
    for step in ScriptDirectory.from_config(alembic_config(None)).walk_revisions()  # type: ignore[arg-type]
)

# One account that has never been published, and two that an earlier release has published. One of these has exhausted
# its job over a date that has no timestamp.
DATA = """
insert into public.exercises (id, name, tracking) values ('squat', 'Squat', 'weight_reps');
with sessions as (
    insert into public.workout_sessions (user_id, session_date, duration_seconds)
    select u.id, current_date - n, 3600
    from unnest(array[cast(:new as uuid), :published, :exhausted]) u (id), generate_series(0, 9) n
    returning id, user_id
),
parts as (
    insert into public.session_exercise_part (session_id, user_id, exercise_id, position)
    select s.id, s.user_id, 'squat', 1 from sessions s
    returning id
)
insert into public.session_sets (part_id, set_no, weight_kg, reps)
select p.id, n, 100 + n, 5 from parts p, generate_series(1, 3) n;
insert into public.user_stats_refresh_state (user_id, requested_version) values (:new, 1);
insert into public.user_exercise_stats_refresh_jobs (user_id, event_type, requested_version)
values (:new, 'session_created', 1);
insert into public.user_stats_refresh_state (
    user_id, requested_version, applied_version, applied_policy_version, published_anchor)
values (:published, 1, 1, 1, current_date), (:exhausted, 2, 1, 1, current_date);
insert into public.user_exercise_stats_refresh_jobs (
    user_id, event_type, requested_version, from_date, status, attempts)
values (:exhausted, 'manual_refresh', 2, '300000-01-01', 'failed', 3);
update public.stats_projection_worker_settings set publish_budget_ms = 5000
"""

BUDGETS_THAT_OUTLAST_A_TASK = """
update public.stats_projection_worker_settings
set claim_budget_ms = 80001, compute_budget_ms = 200000, maintenance_budget_ms = 2147483
"""


# What the step 0004 did for it: later ones find no such date.
DATE_MENDED = (
    "update public.user_exercise_stats_refresh_jobs set status = 'pending', attempts = 0, from_date = null"
)


@pytest.fixture
def upgraded(request, postgres_server: TestServer) -> Iterator[tuple[Database, dict]]:
    """A database that stood at the step `request.param`, migrated, and its accounts."""
    name = f"stats_refresh_test_{os.getpid()}_at_{request.param}"
    users = {"new": uuid4(), "published": uuid4(), "exhausted": uuid4()}
    create_login(postgres_server)
    with administrator(postgres_server).connect() as connection:
        connection.execute(text(f"create database {name}"))
        database = Database(postgres_server.url(name, LOGIN), postgres_server.url(name))
        try:
            with database.admin_engine.begin() as earlier:
                stand_at(earlier, request.param)
                for statement in DATA.split(";"):
                    earlier.execute(
                        text(statement), {key: user for key, user in users.items() if f":{key}" in statement}
                    )
                earlier.execute(text(BUDGETS_THAT_OUTLAST_A_TASK if request.param < "0004" else DATE_MENDED))
            migrate(database.admin_engine)
            yield database, users
        finally:
            database.engine.dispose()
            connection.execute(text(f"drop database {name} with (force)"))


def stand_at(connection: Connection, step: str) -> None:
    create_roles(connection)
    connection.execute(text(f"set local role {OWNER}"))
    command.upgrade(alembic_config(connection), step)
    connection.execute(text("reset role"))


@pytest.mark.parametrize("upgraded", STEPS[:-1], indirect=True)
def test_an_earlier_step_becomes_this_release_and_every_account_right(upgraded, database):
    migrated, users = upgraded
    with (
        migrated.admin_engine.connect() as one,
        create_engine(database.admin_engine.url, poolclass=NullPool).connect() as other,
    ):
        assert describe(one) == describe(other)
        assert describe_functions(one) == describe_functions(other)
    assert migrated.admin("select publish_budget_ms from public.stats_projection_worker_settings") == [
        (5000,)
    ]
    assert migrated.admin("select count(*) from public.session_sets") == [(90,)]

    stages = Stages(migrated)
    stages.drain()  # what was asked for before
    assert migrated.admin(
        "select requested_version, applied_version from public.user_stats_refresh_state where user_id = :user",
        user=users["exhausted"],
    ) == [(2, 2)]
    # What an earlier release has published lacks what this one publishes: a walk, or repair, asks for it.
    for page in ("run_stats_catalog_walk_v1(100)", "run_user_exercise_stats_backfill_scan_cron(25)"):
        migrated.as_service()(f"select public.{page}")
    stages.drain()

    for user in users.values():
        with migrated.admin_engine.connect() as connection:
            assert_account_equals_reckoning(connection, user)
    due = migrated.admin("select user_id from public.user_pr_overview_rollover_state")
    assert {user for (user,) in due} == set(users.values())


def test_the_release_before_becomes_this_one(postgres_server: TestServer, database):
    """With the functions that it had; what a step alone leaves behind has those of this release."""
    if (reason := no_history()) is not None:
        pytest.skip(reason)
    name = f"stats_refresh_test_{os.getpid()}_before"
    create_login(postgres_server)
    with administrator(postgres_server).connect() as connection:
        connection.execute(text(f"create database {name}"))
        try:
            url = postgres_server.url(name)
            subprocess.run([sys.executable, "-c", _MIGRATE, url], cwd=previous_release(), check=True)
            engine = create_engine(url, poolclass=NullPool)
            assert migrate(engine).functions
            with engine.connect() as one, database.admin_engine.connect() as other:
                assert describe(one) == describe(other)
                assert describe_functions(one) == describe_functions(other)
        finally:
            connection.execute(text(f"drop database {name} with (force)"))


_MIGRATE = """
import sys
from sqlalchemy import NullPool, create_engine
from sql.migrate import migrate
migrate(create_engine(sys.argv[1], poolclass=NullPool))
"""


def test_private_functions_that_answered_something_else_are_replaced(database):
    """As a function of an earlier release may have, which CREATE OR REPLACE refuses to change."""
    with as_owner(database) as connection:
        before = describe_functions(connection)
        private = connection.execute(text(_FREE_PRIVATE_FUNCTIONS)).all()
        assert len(private) > 150
        for signature, name, arguments in private:
            connection.execute(text(f"drop function {signature}"))
            connection.exec_driver_sql(
                f"create function {name}({arguments}) returns bit language sql as 'select null::bit'"
            )
        connection.execute(text("update stats_private.applied_sql_files set sha256 = ''"))
        apply_functions(connection)
        assert describe_functions(connection) == before


_FREE_PRIVATE_FUNCTIONS = """
    select p.oid::regprocedure::text, p.oid::regproc::text, pg_catalog.oidvectortypes(p.proargtypes)
    from pg_catalog.pg_proc p
    where p.pronamespace = 'stats_private'::regnamespace
        and not exists (
            select from pg_catalog.pg_depend d
            where d.refclassid = 'pg_catalog.pg_proc'::regclass and d.refobjid = p.oid)
"""
"""Those that no trigger and no policy needs."""


def test_any_one_file_may_change_alone(database):
    """A function may have signatures in several files; those of an unchanged one stay."""
    for file in sql_files():
        # Each in a transaction of its own: what the one before created counts as made anew.
        with as_owner(database) as connection:
            before = describe_functions(connection)
            connection.execute(
                text("update stats_private.applied_sql_files set sha256 = '' where name = :name"),
                {"name": file.name},
            )
            assert file.name in apply_functions(connection)
            assert describe_functions(connection) == before, file.name


@contextmanager
def as_owner(database: Database) -> Iterator[Connection]:
    """Yield a connection that acts as the owner, and roll back what it did."""
    with database.admin_engine.connect() as connection:
        connection.execute(text(f"set local role {OWNER}"))
        yield connection


@pytest.mark.parametrize("upgraded", [step for step in STEPS[:-1] if step < "0004"], indirect=True)
def test_budgets_that_outlast_a_task_are_lowered(upgraded):
    migrated, _ = upgraded
    assert migrated.admin(
        "select claim_budget_ms, compute_budget_ms, publish_budget_ms, maintenance_budget_ms, lease_seconds"
        " from public.stats_projection_worker_settings"
    ) == [(80000, 80000, 5000, 80000, 300)]
