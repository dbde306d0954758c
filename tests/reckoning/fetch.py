"""Reads one account's canonical rows, and its published ones, by plain SELECTs.

A connection is a psycopg2 one or a SQLAlchemy one with psycopg2 below; it must see the account's rows past
row security. Nothing here begins or ends a transaction: with workers about, hand in a REPEATABLE READ one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg2.extensions

from .rows import Account, Exercise, ManualRecord, Part, Policy, Session, Set

Published = dict[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class RefreshState:
    """What user_stats_refresh_state says about the published rows."""

    requested_version: int
    applied_version: int
    published_anchor: date | None


def fetch_account(connection: Any, user_id: UUID | str) -> Account:
    """The account's sessions, parts, sets and manual records, and the exercises that the parts name."""
    exercises = _select(
        connection,
        """
        select id, tracking
          from public.exercises
         where id in (select part.exercise_id
                        from public.session_exercise_part part
                        join public.workout_sessions session on session.id = part.session_id
                       where session.user_id = cast(%(user_id)s as uuid))
        """,
        user_id,
    )
    sessions = _select(
        connection,
        """
        select id, session_date, started_at, title, duration_seconds
          from public.workout_sessions
         where user_id = cast(%(user_id)s as uuid)
        """,
        user_id,
    )
    parts = _select(
        connection,
        """
        select part.id, part.session_id, part.exercise_id, part.position
          from public.session_exercise_part part
          join public.workout_sessions session on session.id = part.session_id
         where session.user_id = cast(%(user_id)s as uuid)
        """,
        user_id,
    )
    sets = _select(
        connection,
        """
        select one_set.part_id, one_set.set_no, one_set.set_type, one_set.weight_kg, one_set.reps,
               one_set.distance_m, one_set.duration_seconds, one_set.is_completed
          from public.session_sets one_set
          join public.session_exercise_part part on part.id = one_set.part_id
          join public.workout_sessions session on session.id = part.session_id
         where session.user_id = cast(%(user_id)s as uuid)
        """,
        user_id,
    )
    manual_records = _select(
        connection,
        """
        select exercise_id, achieved_on, one_rm_kg
          from public.user_manual_pr_records
         where user_id = cast(%(user_id)s as uuid)
        """,
        user_id,
    )
    return Account(
        exercises=tuple(Exercise(**row) for row in exercises),
        sessions=tuple(Session(**row) for row in sessions),
        parts=tuple(Part(**row) for row in parts),
        sets=tuple(Set(**row) for row in sets),
        manual_records=tuple(ManualRecord(**row) for row in manual_records),
    )


def fetch_policy(connection: Any) -> Policy:
    """The one row of the policy."""
    (row,) = _select(
        connection, "select e1rm_formula, e1rm_max_reps, week_start from public.stats_projection_policy"
    )
    return Policy(**row)


def fetch_refresh_state(connection: Any, user_id: UUID | str) -> RefreshState | None:
    """The account's generations, None where it has none yet."""
    rows = _select(
        connection,
        """
        select requested_version, applied_version, published_anchor
          from public.user_stats_refresh_state
         where user_id = cast(%(user_id)s as uuid)
        """,
        user_id,
    )
    return RefreshState(**rows[0]) if rows else None


def fetch_daily_rollups(connection: Any, user_id: UUID | str) -> Published:
    """The published user_exercise_daily_rollups by (exercise_id, day)."""
    rows = _select(
        connection,
        """
        select exercise_id, day, sessions, sets, working_sets, reps, volume_kg, top_weight_kg,
               top_weight_reps, best_e1rm_kg, best_set_volume_kg, max_reps, duration_seconds, distance_m,
               first_session_id
          from public.user_exercise_daily_rollups
         where user_id = cast(%(user_id)s as uuid)
        """,
        user_id,
    )
    return _keyed_by(("exercise_id", "day"), rows)


def fetch_records(connection: Any, user_id: UUID | str) -> Published:
    """The published user_exercise_records by (exercise_id, kind, day)."""
    rows = _select(
        connection,
        """
        select exercise_id, kind, day, value, previous_value, is_baseline, session_id
          from public.user_exercise_records
         where user_id = cast(%(user_id)s as uuid)
        """,
        user_id,
    )
    return _keyed_by(("exercise_id", "kind", "day"), rows)


def fetch_pr_summaries(connection: Any, user_id: UUID | str) -> Published:
    """The published user_pr_exercise_summary_snapshots by (as_of_date, exercise_id)."""
    rows = _select(
        connection,
        """
        select as_of_date, exercise_id, best_weight_kg, best_weight_on, best_weight_session_id, best_e1rm_kg,
               best_e1rm_on, best_e1rm_session_id, one_rm_kg, one_rm_source, one_rm_on, weight_30d_kg,
               e1rm_30d_kg, weight_30d_last_year_kg, e1rm_30d_last_year_kg, last_performed_on, sessions_30d,
               records_30d
          from public.user_pr_exercise_summary_snapshots
         where user_id = cast(%(user_id)s as uuid)
        """,
        user_id,
    )
    return _keyed_by(("as_of_date", "exercise_id"), rows)


def fetch_rep_maxes(connection: Any, user_id: UUID | str) -> Published:
    """The published user_exercise_rep_maxes by (exercise_id, reps)."""
    rows = _select(
        connection,
        """
        select exercise_id, reps, weight_kg, achieved_on, session_id
          from public.user_exercise_rep_maxes
         where user_id = cast(%(user_id)s as uuid)
        """,
        user_id,
    )
    return _keyed_by(("exercise_id", "reps"), rows)


def fetch_training_periods(connection: Any, user_id: UUID | str) -> Published:
    """The published user_training_period_stats by (grain, period_start)."""
    rows = _select(
        connection,
        """
        select grain, period_start, sessions, active_days, duration_seconds, exercises, working_sets, reps,
               volume_kg, distance_m, record_count
          from public.user_training_period_stats
         where user_id = cast(%(user_id)s as uuid)
        """,
        user_id,
    )
    return _keyed_by(("grain", "period_start"), rows)


def fetch_calendar_days(connection: Any, user_id: UUID | str) -> Published:
    """The published user_calendar_day_summaries by (day,)."""
    rows = _select(
        connection,
        """
        select day, sessions, titles, exercises, working_sets, volume_kg, duration_seconds, record_count
          from public.user_calendar_day_summaries
         where user_id = cast(%(user_id)s as uuid)
        """,
        user_id,
    )
    return _keyed_by(("day",), rows)


def _keyed_by(key_columns: tuple[str, ...], rows: list[dict[str, Any]]) -> Published:
    """Rows by their key, the key's columns taken out; two rows of one key are a fault of the table."""
    keyed: Published = {}
    for row in rows:
        key = tuple(row.pop(column) for column in key_columns)
        if key in keyed:
            raise AssertionError(f"two published rows of {key}")
        keyed[key] = row
    return keyed


def _select(connection: Any, statement: str, user_id: UUID | str | None = None) -> list[dict[str, Any]]:
    parameters = {"user_id": str(user_id)}
    if hasattr(connection, "exec_driver_sql"):
        result = connection.exec_driver_sql(statement, parameters)
        names, rows = list(result.keys()), result.fetchall()
    else:
        with connection.cursor(cursor_factory=psycopg2.extensions.cursor) as cursor:
            cursor.execute(statement, parameters)
            names, rows = [column.name for column in cursor.description], cursor.fetchall()
    return [dict(zip(names, map(_plain, row), strict=True)) for row in rows]


def _plain(value: Any) -> Any:
    """A uuid as its text, a float as a Decimal; a numeric is a Decimal already."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, float):
        return Decimal(str(value))
    return value
