"""What calls return: the service's shapes as frozen dataclasses. Their lists are tuples: several callers share them.

Weights are kilograms, distances metres, durations seconds; *_30d: the thirty days up to the day of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal

from edge.client.decoding import NAME
from edge.client.errors import ContractError


def positive_generation(generation: object, name: str) -> int:
    """Return `generation` where it can be one: they begin with 1. Raises ContractError for anything else."""
    if not isinstance(generation, int) or isinstance(generation, bool) or generation < 1:
        raise ContractError(f"{name}: a generation is a positive integer, and this is {generation!r}")
    return generation


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What a write answers, the same each time that it is sent."""

    mutation_id: str
    operation: str
    stats_requested_version: int = field(metadata={NAME: "statsRequestedVersion"})
    """The generation that will have this write."""
    replayed: bool
    """Whether the write had been done before."""
    session_id: str | None = None
    manual_pr_id: str | None = None
    updated_at: datetime | None = None

    def __post_init__(self) -> None:
        positive_generation(self.stats_requested_version, "statsRequestedVersion")


@dataclass(frozen=True, kw_only=True)
class StoredExercise:
    """An exercise as it is stored now."""

    exercise_id: str
    name: str
    tracking: str
    is_global: bool = field(metadata={NAME: "global"})
    """Whether it is of the catalog."""
    created: bool
    stats_requested_version: int | None = field(metadata={NAME: "statsRequestedVersion"})
    """None where no number can change."""


@dataclass(frozen=True, kw_only=True)
class Archived:
    """An archived exercise."""

    exercise_id: str
    archived_at: datetime


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """How far the account's publication is."""

    requested_version: int
    """The newest generation that a write asked for."""
    applied_version: int
    """The published generation; 0 before the first."""
    stale: bool


@dataclass(frozen=True, kw_only=True)
class Refresh:
    """One page of a drain: what the scoped door did for the account."""

    processed_count: int
    completed_count: int
    failed_count: int
    deferred_count: int
    remaining_count: int
    """Pending and processing jobs of the account."""
    has_more: bool
    worker_timed_out: bool


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What every reader's answer begins with."""

    contract: int
    user_id: str
    as_of: date
    """The day that the answer is about."""
    generation: int
    """The published generation that all of the answer is of."""
    requested_version: int
    """The newest generation that a write asked for."""
    stale: bool
    """Whether newer writes wait, or `min_generation` is not there yet."""
    generated_at: datetime


@dataclass(frozen=True, kw_only=True)
class PrSummary:
    """One exercise of the board."""

    exercise_id: str
    best_weight_kg: float | None
    best_weight_on: date | None
    best_weight_session_id: str | None
    best_e1rm_kg: float | None
    best_e1rm_on: date | None
    best_e1rm_session_id: str | None
    one_rm_kg: float | None
    """The stated 1RM, else the best estimate."""
    one_rm_source: str | None
    """manual or estimate."""
    one_rm_on: date | None
    weight_30d_kg: float | None
    e1rm_30d_kg: float | None
    weight_30d_last_year_kg: float | None
    e1rm_30d_last_year_kg: float | None
    last_performed_on: date | None
    sessions_30d: int
    records_30d: int


@dataclass(frozen=True, kw_only=True)
class Period:
    """All training of one period. In an answer about one grain, `grain` stands beside the list."""

    period_start: date
    sessions: int
    active_days: int
    duration_seconds: int
    exercises: int
    working_sets: int
    reps: int
    volume_kg: float
    distance_m: float
    record_count: int
    grain: str | None = None


@dataclass(frozen=True, kw_only=True)
class CalendarDay:
    """A day with a session."""

    day: date
    sessions: int
    titles: tuple[str, ...]
    exercises: int
    working_sets: int
    volume_kg: float
    duration_seconds: int
    record_count: int


@dataclass(frozen=True, kw_only=True)
class Record:
    """A day on which an exercise reached a record."""

    kind: str
    day: date
    value: float
    previous_value: float | None
    is_baseline: bool
    session_id: str | None
    exercise_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExerciseDay:
    """One exercise on one day."""

    day: date
    sessions: int
    sets: int
    working_sets: int
    reps: int
    volume_kg: float
    top_weight_kg: float | None
    top_weight_reps: int | None
    best_e1rm_kg: float | None
    best_set_volume_kg: float | None
    max_reps: int | None
    duration_seconds: int
    distance_m: float
    first_session_id: str | None


@dataclass(frozen=True, kw_only=True)
class RepMax:
    """The best weight of at least that many repetitions."""

    reps: int
    weight_kg: float
    achieved_on: date
    session_id: str | None


@dataclass(frozen=True, kw_only=True)
class PrOverview(Frame):
    """The PR board."""

    exercises: tuple[PrSummary, ...]


@dataclass(frozen=True, kw_only=True)
class HomeOverview(Frame):
    """The home page."""

    periods: tuple[Period, ...]
    days: tuple[CalendarDay, ...]
    records: tuple[Record, ...]


@dataclass(frozen=True, kw_only=True)
class VolumeOverview(Frame):
    """The periods of one grain."""

    grain: str
    periods: tuple[Period, ...]


@dataclass(frozen=True, kw_only=True)
class PrDetail(Frame):
    """One exercise."""

    exercise_id: str
    days: tuple[ExerciseDay, ...]
    records: tuple[Record, ...]
    rep_maxes: tuple[RepMax, ...]


@dataclass(frozen=True, kw_only=True)
class CalendarMonth(Frame):
    """One month."""

    days: tuple[CalendarDay, ...]


@dataclass(frozen=True, kw_only=True)
class Drain:
    """How the refreshes of one flight ended."""

    outcome: Literal["drained", "left", "timed_out", "failed"]
    """drained: nothing of the account waits; left: the workers go on with what is left; timed_out: the same, after the
    statement's time was over twice; failed: the service refused or did not answer."""
    pages: int
    """How many refreshes were answered."""


@dataclass(frozen=True, kw_only=True)
class Reconciled:
    """The screens of one flight."""

    requested_version: int
    """The generation that was asked for."""
    home: HomeOverview
    pr: PrOverview
    volume: VolumeOverview
    detail: PrDetail | None
    drain: Drain

    @property
    def generation(self) -> int:
        """The oldest generation of its parts. They may differ where a publication came between two reads."""
        parts = (self.home, self.pr, self.volume, self.detail)
        return min(part.generation for part in parts if part is not None)

    @property
    def state(self) -> Literal["fresh", "terminal", "incomplete"]:
        """fresh: all of it has the generation; terminal: nothing waits any more, and the generation is not there, so
        that an operator has to look; incomplete: the workers are still at it."""
        if self.generation >= self.requested_version:
            return "fresh"
        return "terminal" if self.drain.outcome == "drained" else "incomplete"
