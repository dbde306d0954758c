"""What two workouts are compared by: a fingerprint of each set, one after the other.

It holds the exercise's name, weight, reps, distance and duration, where 0 is the same as nothing. What is stored is
printed by sql/functions/imports/fingerprints.sql in the same way.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from hashlib import md5

from importers.history import ImportedSet, hundredths
from importers.tracking import stored_weight

_LENGTH = 12


def set_fingerprint(exercise: str, a_set: ImportedSet) -> str:
    """Return the fingerprint of `a_set` of the exercise that is named `exercise` here."""
    printed = "|".join(
        (
            exercise,
            _decimal(stored_weight(a_set)),
            str(a_set.reps or ""),
            _decimal(a_set.distance_m),
            str(a_set.duration_seconds or ""),
        )
    )
    return md5(printed.encode(), usedforsecurity=False).hexdigest()[:_LENGTH]


def in_common(sets: str, others: str) -> int:
    """Return how many sets two workouts have in common, whatever their order."""
    return (Counter(single(sets)) & Counter(single(others))).total()


def are_mostly_common(sets: str, others: str) -> bool:
    """Tell whether two workouts have most sets in common, whichever is longer."""
    return 2 * in_common(sets, others) > max(set_count(sets), set_count(others))


def set_count(sets: str) -> int:
    """Return how many sets a workout has."""
    return len(sets) // _LENGTH


def single(sets: str) -> list[str]:
    """Return the fingerprints that `sets` is made of."""
    return [sets[place : place + _LENGTH] for place in range(0, len(sets), _LENGTH)]


def _decimal(value: Decimal | None) -> str:
    return f"{hundredths(value):f}" if value else ""
