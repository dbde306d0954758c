"""user_training_period_stats and user_calendar_day_summaries: all training of a day, and of longer periods."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from .daily_rollups import daily_rollups
from .records import records
from .rows import Account, Policy, Session

Periods = dict[tuple[str, date], dict[str, Any]]
CalendarDays = dict[tuple[date], dict[str, Any]]


def training_periods(account: Account, policy: Policy) -> Periods:
    """The rows by (grain, period_start), for every period with a session."""
    starts: dict[str, Callable[[date], date]] = {
        "day": lambda day: day,
        "week": lambda day: start_of_week(day, policy.week_start),
        "month": lambda day: day.replace(day=1),
        "quarter": lambda day: date(day.year, 1 + (day.month - 1) // 3 * 3, 1),
        "year": lambda day: date(day.year, 1, 1),
    }
    rollups = daily_rollups(account, policy)
    beaten = [day for (_, _, day), row in records(account, policy).items() if not row["is_baseline"]]
    found: Periods = {}
    for grain, start_of in starts.items():
        for period_start in {start_of(session.session_date) for session in account.sessions}:
            sessions = [one for one in account.sessions if start_of(one.session_date) == period_start]
            work = {key: row for key, row in rollups.items() if start_of(key[1]) == period_start}
            found[grain, period_start] = {
                "sessions": len(sessions),
                "active_days": len({session.session_date for session in sessions}),
                "duration_seconds": _seconds(sessions),
                "exercises": len({exercise_id for exercise_id, _ in work}),
                **{
                    column: sum(row[column] for row in work.values())
                    for column in ("working_sets", "reps", "volume_kg", "distance_m")
                },
                "record_count": len([day for day in beaten if start_of(day) == period_start]),
            }
    return found


def calendar_days(account: Account, policy: Policy) -> CalendarDays:
    """The rows by (day,), for every day with a session."""
    found: CalendarDays = {}
    for (grain, day), row in training_periods(account, policy).items():
        if grain == "day":
            columns = ("sessions", "exercises", "working_sets", "volume_kg", "duration_seconds", "record_count")
            found[(day,)] = {"titles": _titles(account, day)} | {column: row[column] for column in columns}
    return found


def start_of_week(day: date, week_start: int) -> date:
    """The latest day up to `day` that is the ISO day `week_start`."""
    while day.isoweekday() != week_start:
        day -= timedelta(days=1)
    return day


def _titles(account: Account, day: date) -> list[str]:
    """The titles that the day's sessions have, by start (nulls last) and id."""
    of_day = [session for session in account.sessions if session.session_date == day]
    never = datetime.max.replace(tzinfo=UTC)
    of_day.sort(key=lambda one: (one.started_at is None, one.started_at or never, one.id))
    return [session.title for session in of_day if session.title is not None]


def _seconds(sessions: list[Session]) -> int:
    return sum(session.duration_seconds or 0 for session in sessions)
