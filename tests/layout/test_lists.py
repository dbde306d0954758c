"""Lists that Python and the database both have: each stands once in Python, and the database has the same."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from conftest import Database
from sqlalchemy.exc import DBAPIError

from core.stages import STAGES
from importers.history import Tracking
from ops.stack import WORKERS
from schedules.entries import ENTRIES, STAGE_ENTRIES

UPSERT = "select public.upsert_exercise_v1(:name, :tracking, :user)"


def words(source: str) -> set[str]:
    """Return the quoted words of an SQL text."""
    return set(re.findall(r"'([a-z_-]+)'", source))


def constraint(database: Database, name: str) -> str:
    [[definition]] = database.admin(
        "select pg_catalog.pg_get_constraintdef(oid) from pg_catalog.pg_constraint where conname = :name",
        name=name,
    )
    return definition


def test_the_stages(database: Database) -> None:
    assert words(constraint(database, "stats_projection_worker_settings_stages_known")) == set(STAGES)
    pause = "select public.pause_stats_stages_v1(cast(:stages as text[]), true)"
    assert database.as_service().value(pause, stages=list(STAGES)) == sorted(STAGES)
    with pytest.raises(DBAPIError) as refused:
        database.as_service().value(pause, stages=["another"])
    assert f"must be of {', '.join(STAGES)}" in str(refused.value.orig)


def test_the_ways_of_tracking(database: Database, app_account) -> None:
    known = get_args(Tracking)
    assert words(constraint(database, "exercises_tracking_known")) == set(known)
    for tracking in known:
        app_account.call(UPSERT, name=tracking, tracking=tracking, user=app_account.user_id)
    [[stored]] = database.admin("select array_agg(tracking) from public.exercises where name = tracking")
    assert set(stored) == set(known)


def test_the_beats_whose_history_is_kept_for_less_time_are_those_of_every_second(database: Database) -> None:
    [[source]] = database.admin(
        "select prosrc from pg_catalog.pg_proc where proname = 'purge_run_history'"
        " and pronamespace = 'stats_private'::regnamespace"
    )
    assert words(source) & {entry.name for entry in ENTRIES} == {entry.name for entry in STAGE_ENTRIES}


def test_every_queue_that_a_beat_fills_has_a_worker() -> None:
    assert set(WORKERS) == {entry.queue for entry in ENTRIES}
