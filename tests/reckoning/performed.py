"""The sets of an account in the order in which they count, and what one set counts for.

Each measure of a set is a positive number, or None where the set has no such measure; only assistance may be
0, which is none at all. A weight of 0 or null is no load.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

from .e1rm import estimated_one_rm
from .rows import Account, Policy, Set

LOADED_REPS = ("weight_reps", "bodyweight_reps")
LOADED_OTHERWISE = ("weight_duration", "weight_distance")


@dataclass(frozen=True)
class Performed:
    """A set together with what its part, session and exercise say about it."""

    exercise_id: str
    tracking: str
    day: date
    started_at: datetime | None
    session_id: str
    position: int
    set: Set


def performed_sets(account: Account) -> list[Performed]:
    """Every set of the account, working or not, by day, start (nulls last), session, position and set_no."""
    exercises = {exercise.id: exercise for exercise in account.exercises}
    sessions = {session.id: session for session in account.sessions}
    parts = {part.id: part for part in account.parts}
    found = []
    for one_set in account.sets:
        part = parts[one_set.part_id]
        session = sessions[part.session_id]
        found.append(
            Performed(
                exercise_id=part.exercise_id,
                tracking=exercises[part.exercise_id].tracking,
                day=session.session_date,
                started_at=session.started_at,
                session_id=session.id,
                position=part.position,
                set=one_set,
            )
        )
    return sorted(found, key=_order)


def _order(performed: Performed) -> tuple[date, bool, datetime, str, int, int]:
    unknown_start = performed.started_at is None
    return (
        performed.day,
        unknown_start,
        performed.started_at or datetime.min.replace(tzinfo=UTC),
        performed.session_id,
        performed.position,
        performed.set.set_no,
    )


def by_exercise_and_day(performed: list[Performed]) -> dict[tuple[str, date], list[Performed]]:
    """The sets of each exercise and day, in their order."""
    groups: dict[tuple[str, date], list[Performed]] = {}
    for one in performed:
        groups.setdefault((one.exercise_id, one.day), []).append(one)
    return groups


def is_working(performed: Performed) -> bool:
    """Completed, not a warm-up, and it did something."""
    one_set = performed.set
    did_something = (
        (one_set.reps is not None and one_set.reps > 0)
        or (one_set.duration_seconds is not None and one_set.duration_seconds > 0)
        or (one_set.distance_m is not None and one_set.distance_m > 0)
    )
    return one_set.is_completed and one_set.set_type != "warmup" and did_something


def is_lift(performed: Performed) -> bool:
    """A working set with reps."""
    return is_working(performed) and performed.set.reps is not None and performed.set.reps > 0


def load(performed: Performed) -> Decimal | None:
    """The weight of the set where it is one; 0 is none."""
    weight_kg = performed.set.weight_kg
    if weight_kg is None or weight_kg <= 0:
        return None
    return weight_kg


def weight(performed: Performed) -> Decimal | None:
    """What the set can hold a weight record with: lifts where reps are tracked, else any working set."""
    if performed.tracking in LOADED_REPS and is_lift(performed):
        return load(performed)
    if performed.tracking in LOADED_OTHERWISE and is_working(performed):
        return load(performed)
    return None


def loaded_reps(performed: Performed) -> tuple[Decimal, int] | None:
    """Weight and reps of a lift with a load, where the exercise tracks the two together."""
    weight_kg, done = load(performed), reps(performed)
    if performed.tracking not in LOADED_REPS or weight_kg is None or done is None:
        return None
    return weight_kg, done


def volume(performed: Performed) -> Decimal | None:
    """Weight times reps, of a lift with a load."""
    loaded = loaded_reps(performed)
    return None if loaded is None else loaded[0] * loaded[1]


def e1rm(performed: Performed, policy: Policy) -> Decimal | None:
    """The estimate from a lift with a load."""
    loaded = loaded_reps(performed)
    return None if loaded is None else estimated_one_rm(*loaded, policy)


def reps(performed: Performed) -> int | None:
    """The reps of a lift, whatever the exercise tracks."""
    return performed.set.reps if is_lift(performed) else None


def duration(performed: Performed) -> int | None:
    """The seconds of a working set, whatever the exercise tracks."""
    seconds = performed.set.duration_seconds
    return seconds if is_working(performed) and seconds is not None and seconds > 0 else None


def distance(performed: Performed) -> Decimal | None:
    """The metres of a working set, whatever the exercise tracks."""
    metres = performed.set.distance_m
    return metres if is_working(performed) and metres is not None and metres > 0 else None


def assistance(performed: Performed) -> Decimal | None:
    """The weight that helped with an assisted lift; 0 is a lift without help, null an unknown one."""
    weight_kg = performed.set.weight_kg
    if performed.tracking != "assisted_reps" or not is_lift(performed):
        return None
    if weight_kg is None or weight_kg < 0:
        return None
    return weight_kg
