"""user_exercise_daily_rollups: what an account did of an exercise on a day."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from .performed import (
    Performed,
    by_exercise_and_day,
    distance,
    duration,
    e1rm,
    is_working,
    performed_sets,
    reps,
    volume,
    weight,
)
from .rows import Account, Policy

Rollups = dict[tuple[str, date], dict[str, Any]]


def daily_rollups(account: Account, policy: Policy) -> Rollups:
    """The rows by (exercise_id, day), for every day with a working set of the exercise."""
    rollups: Rollups = {}
    for key, sets_of_day in by_exercise_and_day(performed_sets(account)).items():
        if any(is_working(one) for one in sets_of_day):
            rollups[key] = _rollup(sets_of_day, policy)
    return rollups


def _rollup(sets_of_day: list[Performed], policy: Policy) -> dict[str, Any]:
    working = [one for one in sets_of_day if is_working(one)]
    top_weight_kg = _largest(weight(one) for one in working)
    at_top_weight = [one for one in working if top_weight_kg is not None and weight(one) == top_weight_kg]
    return {
        "sessions": len({one.session_id for one in working}),
        "sets": len([one for one in sets_of_day if one.set.is_completed]),
        "working_sets": len(working),
        "reps": _total(reps(one) for one in working),
        "volume_kg": _total(volume(one) for one in working),
        "top_weight_kg": top_weight_kg,
        "top_weight_reps": _largest(reps(one) for one in at_top_weight),
        "best_e1rm_kg": _largest(e1rm(one, policy) for one in working),
        "best_set_volume_kg": _largest(volume(one) for one in working),
        "max_reps": _largest(reps(one) for one in working),
        "duration_seconds": _total(duration(one) for one in working),
        "distance_m": _total(distance(one) for one in working),
        "first_session_id": working[0].session_id,
    }


def _largest(values: Iterable[Any]) -> Any:
    """The largest of the values that are there; a best of nothing is null."""
    return max((value for value in values if value is not None), default=None)


def _total(values: Iterable[Any]) -> Any:
    """The sum of the values that are there; a sum of nothing is 0."""
    return sum(value for value in values if value is not None)
