"""How an exercise is tracked, as its sets show it, and which sets contradict a tracking."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from ops.importers.history import ImportedSet, Tracking

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

    def by_exercise(self) -> dict[str, Tracking]:
        """Return the tracking of every exercise seen."""
        return {exercise: infer_tracking(sets.values()) for exercise, sets in self._sets.items()}


def infer_tracking(sets: Iterable[ImportedSet]) -> Tracking:
    """Return the tracking that all `sets` of one exercise show together; the richest set decides.

    Negative weights are assistance: they make assisted_reps only where no set carries a real load, and are no
    evidence of a loaded duration or distance. Where nothing was done the answer is weight_reps, which hardly
    anything contradicts later.
    """
    sets = list(sets)
    lifts = [a_set for a_set in sets if a_set.reps and a_set.weight_kg]
    if lifts:
        return "assisted_reps" if all(_is_assistance(lift) for lift in lifts) else "weight_reps"
    loaded = [a_set for a_set in sets if a_set.weight_kg and not _is_assistance(a_set)]
    if any(a_set.distance_m for a_set in loaded):
        return "weight_distance"
    if any(a_set.duration_seconds for a_set in loaded):
        return "weight_duration"
    return _unloaded_tracking(sets)


def _unloaded_tracking(sets: list[ImportedSet]) -> Tracking:
    if any(a_set.reps for a_set in sets):
        return "reps_only"
    if any(a_set.distance_m for a_set in sets):
        return "distance_duration"
    if any(a_set.duration_seconds for a_set in sets):
        return "duration"
    return "weight_reps"


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
