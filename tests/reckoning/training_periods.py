"""user_training_period_stats and user_calendar_day_summaries: all training of a day, and of longer periods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
        sessions_of = _grouped(account.sessions, lambda session, of=start_of: of(session.session_date))
        work_of = _grouped(rollups, lambda key, of=start_of: of(key[1]))
        beaten_of = _grouped(beaten, start_of)
        for period_start, sessions in sessions_of.items():
            work = work_of.get(period_start, [])
            found[grain, period_start] = {
                "sessions": len(sessions),
                "active_days": len({session.session_date for session in sessions}),
                "duration_seconds": sum(session.duration_seconds or 0 for session in sessions),
                "exercises": len({exercise_id for exercise_id, _ in work}),
                **{
                    column: sum(rollups[key][column] for key in work)
                    for column in ("working_sets", "reps", "volume_kg", "distance_m")
                },
                "record_count": len(beaten_of.get(period_start, [])),
            }
    return found


def calendar_days(account: Account, policy: Policy) -> CalendarDays:
    """The rows by (day,), for every day with a session."""
    found: CalendarDays = {}
    sessions_of = _grouped(account.sessions, lambda session: session.session_date)
    for (grain, day), row in training_periods(account, policy).items():
        if grain == "day":
            columns = (
                "sessions",
                "exercises",
                "working_sets",
                "volume_kg",
                "duration_seconds",
                "record_count",
            )
            found[(day,)] = {"titles": _titles(sessions_of[day])} | {
                column: row[column] for column in columns
            }
    return found


def start_of_week(day: date, week_start: int) -> date:
    """The latest day up to `day` that is the ISO day `week_start`."""
    while day.isoweekday() != week_start:
        day -= timedelta(days=1)
    return day


def _titles(sessions: list[Session]) -> list[str]:
    """The titles that a day's sessions have, by start (nulls last) and id."""
    never = datetime.max.replace(tzinfo=UTC)
    in_order = sorted(sessions, key=lambda one: (one.started_at is None, one.started_at or never, one.id))
    return [session.title for session in in_order if session.title is not None]


def _grouped(things: Iterable[Any], start_of: Callable[[Any], date]) -> dict[date, list[Any]]:
    groups: dict[date, list[Any]] = {}
    for thing in things:
        groups.setdefault(start_of(thing), []).append(thing)
    return groups
