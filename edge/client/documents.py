"""What writes take, as plain dictionaries. The service's own document of its routes has every rule.

Annotations are evaluated here: NotRequired can't be told at run time from one that is a text.
"""

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, NotRequired, TypedDict
from uuid import UUID

Grain = Literal["day", "week", "month", "quarter", "year"]
Tracking = Literal[
    "weight_reps", "bodyweight_reps", "assisted_reps", "reps_only", "duration", "distance_duration",
    "weight_duration", "weight_distance",
]  # fmt: skip


class Set(TypedDict, total=False):
    """One set."""

    set_type: Literal["normal", "warmup", "drop", "failure"] | None
    weight_kg: float | Decimal | None
    reps: int | None
    distance_m: float | Decimal | None
    duration_seconds: int | None
    rpe: float | Decimal | None
    is_completed: bool | None


class Block(TypedDict):
    """One exercise of a session with its sets."""

    exercise_id: str
    sets: list[Set]
    notes: NotRequired[str | None]
    superset: NotRequired[int | None]


class Session(TypedDict):
    """A completed session, the whole of it."""

    session_date: date | str
    exercises: list[Block]
    title: NotRequired[str | None]
    started_at: NotRequired[datetime | str | None]
    duration_seconds: NotRequired[int | None]
    notes: NotRequired[str | None]
    source: NotRequired[str | None]
    source_ref: NotRequired[str | None]
    expected_updated_at: NotRequired[datetime | str | None]
    """Where a session is replaced: `updated_at` of the receipt that the edit began from."""


def encoded(document: object) -> bytes:
    """Return JSON. Raises ValueError for NaN and infinity, TypeError for what has no JSON."""
    return json.dumps(document, default=_plain, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: object) -> str | float:
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no JSON")
