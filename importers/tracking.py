"""How an exercise is tracked, as its sets show it, and which sets contradict a tracking."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from importers.exercise_names import says_assisted
from importers.history import ImportedSet, Tracking

# The database refuses a weight on these, and with it the whole session; so the row is left out before.
_WITHOUT_WEIGHT: frozenset[Tracking] = frozenset({"reps_only", "duration", "distance_duration"})


class ShownTracking:
    """What the rows of a file, seen one by one, show about the tracking of each exercise."""

    def __init__(self) -> None:
        # Of sets that have the same numbers, whatever these are, one shows all that the others do.
        self._sets: dict[str, dict[tuple[bool, ...], ImportedSet]] = {}

    def see(self, exercise: str, a_set: ImportedSet) -> None:
        """Take `a_set` of `exercise` into account."""
        numbers = (
            bool(a_set.weight_kg),
            _is_assistance(a_set),
            bool(a_set.reps),
            bool(a_set.distance_m),
            bool(a_set.duration_seconds),
        )
        self._sets.setdefault(exercise, {}).setdefault(numbers, a_set)

    def __bool__(self) -> bool:
        return bool(self._sets)

    def has_reps(self, exercise: str) -> bool:
        """Tell whether any set of `exercise` has repetitions."""
        return any(a_set.reps for a_set in self._sets[exercise].values())

    def by_exercise(self) -> dict[str, Tracking]:
        """Return the tracking of every exercise seen."""
        return {exercise: infer_tracking(exercise, sets.values()) for exercise, sets in self._sets.items()}


def infer_tracking(exercise: str, sets: Iterable[ImportedSet]) -> Tracking:
    """Return the tracking that all `sets` of `exercise` show together; the richest set decides.

    A name that says so makes assisted_reps, unless times or distances are all that there is. Negative weights are
    assistance too: they make assisted_reps where no lift carries a real load, and are no evidence of a loaded
    duration or distance. Reps without weight may get a belt later. Where nothing was done the answer is
    weight_reps, which hardly anything contradicts later.
    """
    sets = list(sets)
    if says_assisted(exercise) and not _is_timed_alone(sets):
        return "assisted_reps"
    lifts = [a_set for a_set in sets if a_set.reps and a_set.weight_kg]
    if lifts:
        return "assisted_reps" if all(_is_assistance(lift) for lift in lifts) else "weight_reps"
    loaded = [a_set for a_set in sets if a_set.weight_kg and not _is_assistance(a_set)]
    if any(a_set.reps for a_set in sets) and not any(_is_timed(a_set) for a_set in loaded):
        return "bodyweight_reps"
    # A load that stands alone was planned and not done; it belongs to what the other sets show.
    timed = [a_set for a_set in loaded if _is_timed(a_set)] or sets
    if any(a_set.distance_m for a_set in timed):
        return "weight_distance" if loaded else "distance_duration"
    if any(a_set.duration_seconds for a_set in timed):
        return "weight_duration" if loaded else "duration"
    return "weight_reps"


def _is_timed_alone(sets: list[ImportedSet]) -> bool:
    return any(_is_timed(a_set) for a_set in sets) and not any(
        a_set.reps or a_set.weight_kg for a_set in sets
    )


def _is_timed(a_set: ImportedSet) -> bool:
    return bool(a_set.distance_m or a_set.duration_seconds)


def contradiction(a_set: ImportedSet, exercise: str, tracking: Tracking) -> str | None:
    """Return why `a_set` cannot be stored for `exercise`, and the remedy, or None where it can.

    On an assisted exercise every weight is assistance, whatever its sign.
    """
    if not a_set.weight_kg or tracking == "assisted_reps":
        return None
    if _is_assistance(a_set):
        return (
            f'a negative weight (assistance) on "{exercise}", which is tracked as {tracking}: give assisted sets'
            " an exercise of their own in the app, or correct the sign, and import again"
        )
    if tracking in _WITHOUT_WEIGHT:
        return (
            f'a weight on "{exercise}", which is tracked as {tracking}: change that with upsert_exercise_v1 and'
            " import again"
        )
    return None


def stored_weight(a_set: ImportedSet) -> Decimal | None:
    """Return the weight in kilograms as it is stored: never negative (assistance by its absolute value)."""
    return None if a_set.weight_kg is None else abs(a_set.weight_kg)


def _is_assistance(a_set: ImportedSet) -> bool:
    return a_set.weight_kg is not None and a_set.weight_kg < 0
