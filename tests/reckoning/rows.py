"""The canonical rows a reckoning starts from, as the database keeps them.

Ids of sessions and parts are the uuid's lower-case text, whose order is the database's order of uuids.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal


@dataclass(frozen=True)
class Exercise:
    """A row of exercises."""

    id: str
    tracking: str


@dataclass(frozen=True)
class Session:
    """A row of workout_sessions; session_date is the account's own calendar day."""

    id: str
    session_date: date
    started_at: datetime | None = None
    title: str | None = None
    duration_seconds: int | None = None


@dataclass(frozen=True)
class Part:
    """A row of session_exercise_part; one exercise may stand in several parts of a session."""

    id: str
    session_id: str
    exercise_id: str
    position: int


@dataclass(frozen=True)
class Set:
    """A row of session_sets."""

    part_id: str
    set_no: int
    set_type: str = "normal"
    weight_kg: Decimal | None = None
    reps: int | None = None
    distance_m: Decimal | None = None
    duration_seconds: int | None = None
    is_completed: bool = True


@dataclass(frozen=True)
class ManualRecord:
    """A row of user_manual_pr_records."""

    exercise_id: str
    achieved_on: date
    one_rm_kg: Decimal


@dataclass(frozen=True)
class Account:
    """Everything canonical of one account, in no particular order."""

    exercises: tuple[Exercise, ...] = ()
    sessions: tuple[Session, ...] = ()
    parts: tuple[Part, ...] = ()
    sets: tuple[Set, ...] = ()
    manual_records: tuple[ManualRecord, ...] = ()


@dataclass(frozen=True)
class Policy:
    """The columns of stats_projection_policy on which the read models depend; week_start is an ISO day."""

    e1rm_formula: str = "brzycki"
    e1rm_max_reps: int = 12
    week_start: int = 1
