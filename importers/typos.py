"""Sets that can't be: nothing of them is changed, but a person should see them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from importers.exercise_names import says_bodyweight, says_machine
from importers.history import ImportedSet, Tracking, hundredths
from importers.units import KG_PER_UNIT

HOW_TO_CORRECT = "correct it in the app and import again, or correct the session here"
"""What the report says after "looks like a typo"; the set is taken as it is printed."""

_MOST_REPS = 1000
_MOST_LIFTED_KG = 500
_MOST_MOVED_KG = 1000
_MOST_E1RM_KG = 600
# Brzycki's formula is the default policy's; with more repetitions there is no estimate.
_MOST_REPS_OF_E1RM = 12
_SECONDS_PER_DAY = 24 * 60 * 60


def typo(a_set: ImportedSet, exercise: str, tracking: Tracking) -> str | None:
    """Return what looks like a typo in `a_set`, or None where it can be."""
    return "; ".join(_impossible(a_set, exercise, tracking)) or None


def _impossible(a_set: ImportedSet, exercise: str, tracking: Tracking) -> Iterator[str]:
    if a_set.reps is not None and a_set.reps > _MOST_REPS:
        yield f'{a_set.reps} reps of "{exercise}"'
    if a_set.weight_kg is not None:
        yield from _impossible_weight(abs(a_set.weight_kg), a_set.reps, exercise, tracking)
    if a_set.duration_seconds is not None and a_set.duration_seconds >= _SECONDS_PER_DAY:
        yield f'a set of {a_set.duration_seconds / 3600:.4g} h of "{exercise}"'


def _impossible_weight(
    weight_kg: Decimal, reps: int | None, exercise: str, tracking: Tracking
) -> Iterator[str]:
    is_machine = says_machine(exercise)
    moves_more = is_machine or tracking == "bodyweight_reps" or says_bodyweight(exercise)
    e1rm = None if is_machine or tracking == "assisted_reps" else _e1rm(weight_kg, reps)
    if weight_kg > (_MOST_MOVED_KG if moves_more else _MOST_LIFTED_KG):
        yield f'{_kg_and_lb(weight_kg)} on "{exercise}"'
    elif e1rm is not None and e1rm > _MOST_E1RM_KG:
        yield f'{_kg_and_lb(weight_kg)} x {reps} on "{exercise}", an e1RM of {e1rm} kg'


def _e1rm(weight_kg: Decimal, reps: int | None) -> Decimal | None:
    if not reps or reps > _MOST_REPS_OF_E1RM:
        return None
    return hundredths(36 * weight_kg / (37 - reps))


def _kg_and_lb(weight_kg: Decimal) -> str:
    # The app may print pounds, and that is where the number has to be found again.
    return f"{weight_kg} kg ({weight_kg / KG_PER_UNIT['lb']:.1f} lb)"
