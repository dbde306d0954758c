"""user_pr_exercise_summary_snapshots: how an exercise stood at the end of a day."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

from .daily_rollups import daily_rollups
from .records import records
from .rows import Account, ManualRecord, Policy

Summaries = dict[tuple[date, str], dict[str, Any]]


def pr_summaries(account: Account, policy: Policy, as_of_dates: Iterable[date]) -> Summaries:
    """The rows by (as_of_date, exercise_id), for exercises done or with a manual 1RM by that day."""
    all_rollups: dict[str, dict[date, dict[str, Any]]] = {}
    for (exercise_id, day), row in daily_rollups(account, policy).items():
        all_rollups.setdefault(exercise_id, {})[day] = row
    all_records: dict[str, dict[tuple[str, date], dict[str, Any]]] = {}
    for (exercise_id, kind, day), row in records(account, policy).items():
        all_records.setdefault(exercise_id, {})[kind, day] = row
    exercise_ids = all_rollups.keys() | {manual.exercise_id for manual in account.manual_records}
    summaries: Summaries = {}
    for as_of in as_of_dates:
        for exercise_id in exercise_ids:
            rollups = {day: row for day, row in all_rollups.get(exercise_id, {}).items() if day <= as_of}
            past_records = {
                (kind, day): row
                for (kind, day), row in all_records.get(exercise_id, {}).items()
                if day <= as_of
            }
            manuals = [
                manual
                for manual in account.manual_records
                if manual.exercise_id == exercise_id and manual.achieved_on <= as_of
            ]
            if rollups or manuals:
                summaries[as_of, exercise_id] = _summary(as_of, rollups, past_records, manuals)
    return summaries


def _summary(
    as_of: date,
    rollups: dict[date, dict[str, Any]],
    past_records: dict[tuple[str, date], dict[str, Any]],
    manuals: list[ManualRecord],
) -> dict[str, Any]:
    """One row, from what the exercise has up to as_of and not later."""
    last_30 = _thirty_days_to(as_of)
    last_year = _thirty_days_to(one_year_before(as_of))
    best_weight = _standing_best("weight", past_records)
    best_e1rm = _standing_best("e1rm", past_records)
    return {
        "best_weight_kg": best_weight["value"],
        "best_weight_on": best_weight["day"],
        "best_weight_session_id": best_weight["session_id"],
        "best_e1rm_kg": best_e1rm["value"],
        "best_e1rm_on": best_e1rm["day"],
        "best_e1rm_session_id": best_e1rm["session_id"],
        **_one_rm(manuals, best_e1rm),
        "weight_30d_kg": _largest_of("top_weight_kg", rollups, last_30),
        "e1rm_30d_kg": _largest_of("best_e1rm_kg", rollups, last_30),
        "weight_30d_last_year_kg": _largest_of("top_weight_kg", rollups, last_year),
        "e1rm_30d_last_year_kg": _largest_of("best_e1rm_kg", rollups, last_year),
        "last_performed_on": max(rollups, default=None),
        "sessions_30d": sum(row["sessions"] for day, row in rollups.items() if day in last_30),
        "records_30d": len(
            [1 for (_, day), row in past_records.items() if day in last_30 and not row["is_baseline"]]
        ),
    }


def _standing_best(kind: str, past_records: dict[tuple[str, date], dict[str, Any]]) -> dict[str, Any]:
    """The latest record of the kind: its value, day and session, all null where there is none."""
    days = [day for k, day in past_records if k == kind]
    if not days:
        return {"value": None, "day": None, "session_id": None}
    row = past_records[kind, max(days)]
    return {"value": row["value"], "day": max(days), "session_id": row["session_id"]}


def _one_rm(manuals: list[ManualRecord], best_e1rm: dict[str, Any]) -> dict[str, Any]:
    """The greater of the latest manual 1RM (the highest of its day) and the best estimate; equal: manual."""
    manual = max(manuals, key=lambda one: (one.achieved_on, one.one_rm_kg), default=None)
    estimate = best_e1rm["value"]
    if manual is not None and (estimate is None or manual.one_rm_kg >= estimate):
        return {"one_rm_kg": manual.one_rm_kg, "one_rm_source": "manual", "one_rm_on": manual.achieved_on}
    if estimate is not None:
        return {"one_rm_kg": estimate, "one_rm_source": "estimate", "one_rm_on": best_e1rm["day"]}
    return {"one_rm_kg": None, "one_rm_source": None, "one_rm_on": None}


def _thirty_days_to(last_day: date) -> set[date]:
    return {last_day - timedelta(days=back) for back in range(30)}


def one_year_before(day: date) -> date:
    """The same day a year earlier; 29 February becomes 28 February."""
    if (day.month, day.day) == (2, 29):
        return date(day.year - 1, 2, 28)
    return date(day.year - 1, day.month, day.day)


def _largest_of(column: str, rollups: dict[date, dict[str, Any]], days: set[date]) -> Any:
    values = [row[column] for day, row in rollups.items() if day in days and row[column] is not None]
    return max(values, default=None)
