"""A projection is planned once a connection: the plan has to be right whatever the tables held then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from bench.accounts import INCIDENT, Size, make_account

TINY = Size("tiny", 1, 6)
PROJECTIONS = (
    "select stats_private.project(%(run)s, %(user)s, (select p from public.stats_projection_policy p), '-infinity',"
    " array(select stats_private.candidate_exercises(%(user)s, '{}')), '{}', stats_private.utc_today())",
    "select stats_private.project_account(%(run)s, %(user)s, (select p from public.stats_projection_policy p),"
    " '-infinity')",
)
# More than a step may look at. Without triggers, which are seconds of work; the setting makes the server forget plans,
# so that it has to come before them.
CATALOG = (
    "set local session_replication_role = replica",
    "insert into public.exercises (owner_user_id, name, tracking)"
    " select gen_random_uuid(), 'Squat', 'weight_reps' from generate_series(1, 70000)",
    "set local session_replication_role = origin",
)
OTHERS = (
    "insert into public.user_exercise_daily_rollups (user_id, exercise_id, day, sessions, sets, working_sets, reps,"
    " volume_kg, duration_seconds, distance_m)"
    " select gen_random_uuid(), 'Squat', current_date, 1, 1, 1, 1, 1, 0, 0 from generate_series(1, 70000)"
)
EXPLAIN = (
    "load 'auto_explain'",
    "set auto_explain.log_nested_statements = on",
    "set auto_explain.log_analyze = on",
    "set auto_explain.log_timing = off",
    "set auto_explain.log_format = json",
    # What writes outputs is thousands of times more; the rest would push it out of the client's list.
    "set auto_explain.log_min_duration = 2",
    "set client_min_messages = log",
)


@pytest.fixture
def connection(database) -> Iterator[Connection]:
    with database.admin_engine.connect() as connection:
        yield connection
        connection.rollback()


@pytest.mark.parametrize("planned", ["on empty tables", "on tiny tables", "on full tables"])
def test_no_step_looks_at_more_rows_than_a_few_for_each_set(connection, planned):
    if planned == "on full tables":
        _run(connection, *CATALOG)
        make_account(connection, uuid4(), INCIDENT)
    elif planned == "on tiny tables":
        make_account(connection, uuid4(), TINY)
    if planned != "on empty tables":
        _run(connection, "analyze")
    _project(connection, TINY)
    _run(connection, OTHERS, *EXPLAIN)

    plans = _project(connection, INCIDENT)

    assert {_written(plan) for plan in plans} >= {"stats_output_pr_summaries", "stats_output_calendar"}
    assert max(rows for plan in plans for rows in _rows(plan)) < 4 * INCIDENT.sets


def _run(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement)


def _project(connection: Connection, size: Size) -> list[dict[str, Any]]:
    """Project a new account of that size; return the plans that the server told of meanwhile."""
    user, run = uuid4(), uuid4()
    make_account(connection, user, size)
    # The driver itself: SQLAlchemy forgets what the server says.
    driver = connection.connection.driver_connection
    driver.notices.clear()
    with driver.cursor() as cursor:
        for statement in PROJECTIONS:
            cursor.execute(statement, {"user": str(user), "run": str(run)})
    return [json.loads(said[said.index("{") :])["Plan"] for said in driver.notices if " plan:" in said]


def _written(plan: dict[str, Any]) -> str | None:
    return plan.get("Relation Name") if plan["Node Type"] == "ModifyTable" else None


def _rows(plan: dict[str, Any]) -> Iterator[float]:
    """Yield how many rows each step of the plan looked at."""
    looked_at = plan["Actual Rows"] + sum(
        rows for name, rows in plan.items() if name.startswith("Rows Removed by")
    )
    yield looked_at * plan["Actual Loops"]
    for step in plan.get("Plans", ()):
        yield from _rows(step)
