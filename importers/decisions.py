"""What becomes of a workout of the file that is a stored session already."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from importers.fingerprints import single
from importers.matching import Stored
from importers.workouts import Fitting


@dataclass(frozen=True, slots=True)
class Age:
    """How the file stands to those that were imported before."""

    is_older: bool
    lacks_workouts: bool


@dataclass(frozen=True, slots=True)
class Left:
    """The workout is left out for this `reason`; rows whose sets are not `there` are so for what `differs` says."""

    reason: str
    differs: str | None = None
    there: tuple[str, ...] = ()
    is_remembered: bool = True


ALREADY = Left("already there")
DELETED = Left("deleted here: it stays deleted")
EDITED_MEANWHILE = Left(
    ALREADY.reason, "differs from what is stored here: edited while it was imported; that stays"
)
_NEWER = Left("already there, in a newer version: this file is older than the last one", is_remembered=False)
_MORE = Left(
    "already there, with more sets: this file has fewer workouts than the last one", is_remembered=False
)


def decide(stored: Stored, workout: Fitting, age: Age, *, keep: bool) -> Left | None:
    """Return why `workout` is left out, as `stored` is there; None where it replaces `stored`."""
    if stored.is_deleted:
        return DELETED if not age.is_older else Left(DELETED.reason, is_remembered=False)
    if not stored.is_as_left:
        return _beside_what_stays(stored, workout, age)
    if _is_the_same(stored, workout):
        return ALREADY
    if age.is_older:
        return _NEWER
    if keep:
        return _differing(
            stored, workout, "differs from what is stored here: that stays (--keep)", remember=False
        )
    if age.lacks_workouts and _has_fewer(stored, workout):
        return _MORE
    if not workout.in_use or not set(single(stored.sets)).isdisjoint(workout.misfit_sets):
        # To replace it would lose sets that are in the file, and whose exercise does not allow them any more.
        return Left(ALREADY.reason, is_remembered=False)
    return None


def _beside_what_stays(stored: Stored, workout: Fitting, age: Age) -> Left:
    remember = not age.is_older
    if stored.sets in workout.fingerprints():
        return Left(_already_there_from(stored, workout), is_remembered=remember)
    if stored.is_own and stored.content is None and stored.imported_sets:
        whose = f"from {stored.source}"
    else:
        whose = "edited here"
    return _differing(
        stored, workout, f"differs from what is stored here, {whose}: that stays", remember=remember
    )


def _differing(stored: Stored, workout: Fitting, differs: str, *, remember: bool) -> Left:
    there = tuple(single(stored.sets))
    if Counter(fingerprint for fingerprint, _ in workout.lines()) <= Counter(there):
        return Left(ALREADY.reason, is_remembered=remember)
    return Left(ALREADY.reason, differs, there, remember)


def _already_there_from(stored: Stored, workout: Fitting) -> str:
    if stored.is_own and stored.content is not None:
        return ALREADY.reason
    if stored.started_at is None or workout.started_at is None:
        return f"the same sets of the same day are already there from {stored.source}"
    return f"the same workout is already there from {stored.source}{_apart(stored.started_at, workout.started_at)}"


def _apart(one: datetime, other: datetime) -> str:
    minutes = round(abs(one - other).total_seconds() / 60 / 15) * 15
    if not minutes:
        return ""
    hours, minutes = divmod(minutes, 60)
    printed = [f"{hours} h"] if hours else []
    printed += [f"{minutes} min"] if minutes else []
    return f", {' '.join(printed)} apart"


def _is_the_same(stored: Stored, workout: Fitting) -> bool:
    """Tell whether an import would save what is there."""
    if stored.content is not None:
        return stored.content == workout.content()
    # Imported by an earlier release, which kept less to compare.
    return (
        stored.sets in workout.fingerprints()
        and stored.day == workout.session.session_date
        and stored.started_at == workout.started_at
        and stored.title == workout.session.title
    )


def _has_fewer(stored: Stored, workout: Fitting) -> bool:
    """Tell whether all sets of `workout` are there, and more."""
    return Counter(fingerprint for fingerprint, _ in workout.lines()) < Counter(single(stored.sets))
