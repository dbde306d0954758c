"""A database of an earlier schema step, with data: after `migrate` it is like a new one, and nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from uuid import uuid4

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from conftest import Database
from reckoning.compare import assert_account_equals_reckoning
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool
from support.app import Stages
from support.schema import describe
from support.servers import LOGIN, TestServer, administrator, create_login

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


@pytest.mark.parametrize("upgraded", [step for step in STEPS[:-1] if step < "0004"], indirect=True)
def test_budgets_that_outlast_a_task_are_lowered(upgraded):
    migrated, _ = upgraded
    assert migrated.admin(
        "select claim_budget_ms, compute_budget_ms, publish_budget_ms, maintenance_budget_ms, lease_seconds"
        " from public.stats_projection_worker_settings"
    ) == [(80000, 80000, 5000, 80000, 300)]
