"""user_exercise_rep_maxes: the best weight done for at least so many reps."""

from __future__ import annotations

from typing import Any

from .performed import loaded_reps, performed_sets
from .rows import Account

RepMaxes = dict[tuple[str, int], dict[str, Any]]

MOST_REPS = 12


def rep_maxes(account: Account) -> RepMaxes:
    """The rows by (exercise_id, reps): strictly heavier only, so the earliest holds a tie."""
    found: RepMaxes = {}
    for performed in performed_sets(account):
        loaded = loaded_reps(performed)
        if loaded is None:
            continue
        weight_kg, done = loaded
        for reps in range(1, min(done, MOST_REPS) + 1):
            holder = found.get((performed.exercise_id, reps))
            if holder is None or weight_kg > holder["weight_kg"]:
                found[performed.exercise_id, reps] = {
                    "weight_kg": weight_kg,
                    "achieved_on": performed.day,
                    "session_id": performed.session_id,
                }
    return found
