"""The neutral model between a foreign file and our sessions.

A reader produces a `ParsedHistory`; `importers.saving` saves it. Weights are kilograms to 0.01, distances metres
to 0.01, durations whole seconds. A weight has the sign that the file prints: apps print assistance as a negative
weight, or as a positive one on an exercise whose name says so. What it means, and that its absolute value is
stored, is decided by `importers.tracking`, once the exercise's real tracking is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal, Protocol, TypeVar

SetType = Literal["normal", "warmup", "drop", "failure"]
Tracking = Literal[
    "weight_reps",
    "bodyweight_reps",
    "assisted_reps",
    "reps_only",
    "duration",
    "distance_duration",
    "weight_duration",
    "weight_distance",
]

T = TypeVar("T", covariant=True)

_HUNDREDTH = Decimal("0.01")

# The most that save_session_v5 takes. A set beyond it would cost the whole session, so readers skip the row.
MAX_WEIGHT_KG = Decimal("9999.99")
MAX_REPS = 1_000_000
MAX_DISTANCE_M = Decimal(10_000_000)
MAX_DURATION_SECONDS = 7 * 24 * 60 * 60


NOT_A_SET = "a rest timer or a note, not a set"
"""The reason of every row that apps print between the sets: no set is lost with it."""


def hundredths(value: Decimal) -> Decimal:
    """Return `value` rounded half up (away from zero) to 0.01, as weights and distances are stored."""
    return value.quantize(_HUNDREDTH, rounding=ROUND_HALF_UP)


@dataclass(frozen=True, slots=True)
class ImportedSet:
    """One set as the file tells it; `line` is where it stands. What is left out or printed as 0 is None."""

    line: int
    set_type: SetType = "normal"
    weight_kg: Decimal | None = None
    reps: int | None = None
    distance_m: Decimal | None = None
    duration_seconds: int | None = None
    rpe: Decimal | None = None
    is_completed: bool = True


def performed_set(
    line: int,
    set_type: SetType,
    *,
    weight_kg: Decimal | None,
    reps: int | None,
    distance_m: Decimal | None,
    duration_seconds: int | None,
    rpe: Decimal | None = None,
) -> ImportedSet:
    """Return a set that is completed unless it has neither reps nor distance nor time: added, but not done."""
    is_completed = not (reps is None and distance_m is None and duration_seconds is None)
    return ImportedSet(line, set_type, weight_kg, reps, distance_m, duration_seconds, rpe, is_completed)


def has_numbers(a_set: ImportedSet) -> bool:
    """Tell whether anything of `a_set` was measured."""
    return any(
        number is not None
        for number in (a_set.weight_kg, a_set.reps, a_set.distance_m, a_set.duration_seconds)
    )


@dataclass(frozen=True, slots=True)
class ImportedBlock:
    """Consecutive sets of one exercise; the same exercise may stand in several blocks of a session.

    Blocks of a session that have the same `superset` (1, 2, ... in the order in which they begin) were done in turn.
    """

    exercise: str
    notes: str | None
    sets: tuple[ImportedSet, ...]
    superset: int | None = None


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """One workout. `source_ref` is the same in every export of the same workout.

    `started_at_local` is the time as printed, without a zone (None where the format has no time of day).
    """

    source_ref: str
    session_date: date
    started_at_local: datetime | None
    title: str | None
    duration_seconds: int | None
    notes: str | None
    blocks: tuple[ImportedBlock, ...]

    def sets(self) -> Iterator[ImportedSet]:
        """Yield the sets of all blocks in order."""
        for block in self.blocks:
            yield from block.sets


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A data row that is not taken, and why."""

    line: int
    reason: str

    @property
    def is_set(self) -> bool:
        """Tell whether it may have been a set; rest timers and notes are none."""
        return self.reason != NOT_A_SET


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a row that *is* taken and that a person should know."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Typo:
    """A set that is taken as printed though it can't be, such as 877,777 reps; `text` says what, of which exercise."""

    line: int
    text: str


class Listed(Protocol[T]):
    """What can be counted and gone through as often as it takes; it need not be in memory."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[T]: ...


@dataclass(frozen=True, slots=True)
class ParsedHistory:
    """A whole file, read before anything is written. Each data row is a set of a session or skipped."""

    sessions: Listed[ImportedSession]
    skipped: Listed[SkippedRow]
    data_rows: int
    tracking: Mapping[str, Tracking]
    """How each exercise name is tracked: shown by the file, or known to whoever made the history."""
    remarks: Listed[Remark] = ()
    typos: Listed[Typo] = ()

    def __post_init__(self) -> None:
        """Raise ValueError where a row got lost or counted twice: a reader's bug, never the file's."""
        if self.taken + len(self.skipped) != self.data_rows:
            raise ValueError(
                f"taken {self.taken} + skipped {len(self.skipped)} is not the {self.data_rows} data rows"
            )

    @property
    def taken(self) -> int:
        """Count the sets of all sessions."""
        return sum(1 for session in self.sessions for _ in session.sets())
