"""user_exercise_records: every day on which a running best was beaten."""

from __future__ import annotations

from datetime import date
from typing import Any

from .daily_rollups import daily_rollups
from .performed import (
    Performed,
    assistance,
    by_exercise_and_day,
    distance,
    duration,
    e1rm,
    performed_sets,
    reps,
    volume,
    weight,
)
from .rows import Account, Policy

KINDS = ("weight", "e1rm", "set_volume", "day_volume", "reps", "duration", "distance", "least_assistance")

Records = dict[tuple[str, str, date], dict[str, Any]]


def records(account: Account, policy: Policy) -> Records:
    """The rows by (exercise_id, kind, day): the day's best, where it is strictly better than all before."""
    found: Records = {}
    running_bests: dict[tuple[str, str], Any] = {}
    bests = _bests_of_days(account, policy)
    for exercise_id, kind, day in sorted(bests, key=lambda key: key[2]):
        value, session_id = bests[exercise_id, kind, day]
        running_best = running_bests.get((exercise_id, kind))
        if running_best is None or _is_better(kind, value, running_best):
            found[exercise_id, kind, day] = {
                "value": value,
                "previous_value": running_best,
                "is_baseline": running_best is None,
                "session_id": session_id,
            }
            running_bests[exercise_id, kind] = value
    return found


def _bests_of_days(account: Account, policy: Policy) -> dict[tuple[str, str, date], tuple[Any, str]]:
    """Each day's best of each kind, with the session that reached it first."""
    bests: dict[tuple[str, str, date], tuple[Any, str]] = {}
    for (exercise_id, day), sets_of_day in by_exercise_and_day(performed_sets(account)).items():
        for performed in sets_of_day:
            for kind in KINDS:
                value = _measure(kind, performed, policy)
                if value is None:
                    continue
                key = (exercise_id, kind, day)
                if key not in bests or _is_better(kind, value, bests[key][0]):
                    bests[key] = (value, performed.session_id)
    for (exercise_id, day), rollup in daily_rollups(account, policy).items():
        if rollup["volume_kg"] > 0:
            bests[exercise_id, "day_volume", day] = (rollup["volume_kg"], rollup["first_session_id"])
    return bests


def _measure(kind: str, performed: Performed, policy: Policy) -> Any:
    """What the set alone is worth in records of the kind."""
    if kind == "weight":
        return weight(performed)
    if kind == "e1rm":
        return e1rm(performed, policy)
    if kind == "set_volume":
        return volume(performed)
    if kind == "day_volume":
        return None  # the day's, not a set's
    if kind == "reps":
        return reps(performed)
    if kind == "duration":
        return duration(performed)
    if kind == "distance":
        return distance(performed)
    if kind == "least_assistance":
        return assistance(performed)
    raise ValueError(f"unknown kind of record {kind!r}")


def _is_better(kind: str, value: Any, best: Any) -> bool:
    return bool(value < best) if kind == "least_assistance" else bool(value > best)
