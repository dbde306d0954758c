"""What goes in and comes out, for the OpenAPI document: every field with its unit and rule, and an example.

The SQL functions decide what is valid and print the answers; tests hold these shapes to both.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from edge.service.problems import MEDIA_TYPE, TITLES
from edge.service.rules import Day

_ACCOUNT = "8f14e45f-ceea-467f-9575-5b2f3a1d0c11"
_SESSION = "3b1f7a52-6d0c-4a59-9a83-0f6b0b0f1c22"
_SQUAT = "5f0c6b0a-2f0e-4e57-8a0e-7b8a3f3c9d10"
_MOMENT = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.]\d{1,6})?)?(Z|[+-]\d{2}(:?\d{2})?)$"


class ProblemDetails(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "about:blank",
                "title": TITLES[409],
                "status": 409,
                "detail": "there is no published snapshot of 2026-03-10",
                "sqlstate": "55000",
                "hint": "The first refresh of this account is on its way: ask again.",
                "reason": "building",
                "request_id": "0f9f1e6e5d0b4a3f8f0f3a1f6c1d2e3f",
            }
        }
    )
    type: str = Field(description="Always about:blank: status and sqlstate say what it is.")
    title: str
    status: int
    detail: str = Field(description="For a person; a broken rule begins with the path of its field.")
    sqlstate: str | None = Field(None, description="The SQLSTATE, where the database refused.")
    hint: str | None = None
    reason: str | None = Field(
        None, description="Why there is no snapshot: building, behind or not_in_window."
    )
    request_id: str = Field(description="As in the X-Request-Id header and in the log.")


def PROBLEMS(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return how a route documents the errors of these statuses."""
    schema = {"$ref": "#/components/schemas/ProblemDetails"}
    found: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        found[status] = {"description": TITLES[status], "content": {MEDIA_TYPE: {"schema": schema}}}
        if status in (409, 503):
            header = {"schema": {"type": "string"}, "description": "Seconds after which to try again."}
            found[status]["headers"] = {"Retry-After": header}
    return found


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return how a route documents a body that goes to the database as it is."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


Text = Annotated[str, StringConstraints(max_length=20000)]


class Set(_Body):
    """One set."""

    set_type: Literal["normal", "warmup", "drop", "failure"] | None = Field(None, examples=["normal"])
    weight_kg: float | None = Field(None, ge=0, le=9999.99, description="Kilograms.", examples=[100])
    reps: int | None = Field(None, ge=0, le=1_000_000, examples=[5])
    distance_m: float | None = Field(None, ge=0, le=10_000_000, description="Metres.")
    duration_seconds: int | None = Field(None, ge=0, le=604_800)
    rpe: float | None = Field(None, ge=0, le=10, description="Rate of perceived exertion.")
    is_completed: bool | None = Field(None, description="true where it is missing.")


class Block(_Body):
    """One exercise of a session with its sets."""

    exercise_id: str = Field(
        max_length=200, description="Of this account or of the catalog.", examples=[_SQUAT]
    )
    notes: Text | None = None
    superset: int | None = Field(
        None, ge=1, le=1000, description="Exercises with the same number belong together."
    )
    sets: list[Set]


class Session(_Body):
    """A completed session. The whole of it has at most 2000 sets and 2 MB."""

    session_date: Day = Field(description="The local day of the training.", examples=["2026-03-10"])
    title: str | None = Field(None, max_length=500, examples=["Legs"])
    started_at: Annotated[str, StringConstraints(pattern=_MOMENT)] | None = Field(
        None, description="A moment with its offset.", examples=["2026-03-10T18:30:00+01:00"]
    )
    duration_seconds: int | None = Field(None, ge=0, le=604_800, examples=[3600])
    notes: Text | None = None
    source: str | None = Field(None, max_length=100)
    source_ref: str | None = Field(None, max_length=500)
    exercises: list[Block] = Field(
        min_length=1,
        max_length=200,
        examples=[[{"exercise_id": _SQUAT, "sets": [{"weight_kg": 100, "reps": 5}]}]],
    )


class SessionEdit(Session):
    """The whole session as it is to be."""

    expected_updated_at: Annotated[str, StringConstraints(pattern=_MOMENT)] | None = Field(
        None,
        description="`updated_at` of the receipt that the edit began from: 409 where it has changed since.",
    )


class Receipt(BaseModel):
    """What a write answers, the same each time that it is sent."""

    mutation_id: str
    operation: str = Field(examples=["session_created"])
    statsRequestedVersion: int = Field(description="The generation that will have this write.", examples=[7])
    replayed: bool = Field(description="true where the write had been done before.")
    session_id: str | None = Field(None, examples=[_SESSION])
    manual_pr_id: str | None = None
    updated_at: str | None = None


class Exercise(_Body):
    """An exercise of the account's own."""

    name: str = Field(min_length=1, max_length=200, pattern=r"\S", examples=["Squat"])
    tracking: Literal[
        "weight_reps", "bodyweight_reps", "assisted_reps", "reps_only", "duration", "distance_duration",
        "weight_duration", "weight_distance",
    ] = Field(description="What its sets have.", examples=["weight_reps"])  # fmt: skip
    exercise_id: str | None = Field(None, min_length=1, max_length=200, description="The exercise to change.")


class StoredExercise(BaseModel):
    """An exercise as it is stored now."""

    exercise_id: str = Field(examples=[_SQUAT])
    name: str
    tracking: str
    is_global: bool = Field(alias="global", description="Whether it is of the catalog.")
    created: bool
    statsRequestedVersion: int | None = Field(description="null where no number can change.")


class Archived(BaseModel):
    """An archived exercise."""

    exercise_id: str = Field(examples=[_SQUAT])
    archived_at: str


class ManualRecord(BaseModel):
    """A 1RM that the account states itself."""

    model_config = ConfigDict(extra="forbid")
    one_rm_kg: float = Field(
        ge=0.01, le=9999.99, allow_inf_nan=False, strict=True, description="Kilograms.", examples=[140]
    )
    achieved_on: Day = Field(examples=["2026-03-10"])
    source: Literal["manual", "onboarding"]


class Frame(BaseModel):
    """What every reader's answer begins with."""

    contract: int = Field(examples=[4])
    user_id: str = Field(examples=[_ACCOUNT])
    as_of: str = Field(description="The day that the answer is about.")
    generation: int = Field(
        description="The published generation that all of the answer is of.", examples=[7]
    )
    requested_version: int = Field(description="The newest generation that a write asked for.", examples=[7])
    stale: bool = Field(
        description="true while newer writes wait, and where `min_generation` is not there yet."
    )
    generated_at: str


class PrSummary(BaseModel):
    """One exercise of the board. Weights in kilograms; *_30d: the thirty days up to the day."""

    exercise_id: str
    best_weight_kg: float | None
    best_weight_on: str | None
    best_weight_session_id: str | None
    best_e1rm_kg: float | None = Field(description="Best estimated one-repetition maximum.")
    best_e1rm_on: str | None
    best_e1rm_session_id: str | None
    one_rm_kg: float | None = Field(description="The stated 1RM, else the best estimate.")
    one_rm_source: Literal["manual", "estimate"] | None
    one_rm_on: str | None
    weight_30d_kg: float | None
    e1rm_30d_kg: float | None
    weight_30d_last_year_kg: float | None
    e1rm_30d_last_year_kg: float | None
    last_performed_on: str | None
    sessions_30d: int
    records_30d: int


class Period(BaseModel):
    """All training of one period. In an answer about one grain, `grain` stands beside the list."""

    grain: str | None = None
    period_start: str
    sessions: int
    active_days: int
    duration_seconds: int
    exercises: int
    working_sets: int
    reps: int
    volume_kg: float
    distance_m: float
    record_count: int = Field(description="Without baselines.")


class CalendarDay(BaseModel):
    """A day with a session."""

    day: str
    sessions: int
    titles: list[str]
    exercises: int
    working_sets: int
    volume_kg: float
    duration_seconds: int
    record_count: int


class Record(BaseModel):
    """A day on which an exercise reached a record."""

    exercise_id: str | None = None
    kind: str = Field(
        description="weight, e1rm, set_volume, day_volume, reps, duration, distance or least_assistance."
    )
    day: str
    value: float = Field(description="In the kind's unit: kilograms, repetitions, seconds or metres.")
    previous_value: float | None
    is_baseline: bool
    session_id: str | None


class ExerciseDay(BaseModel):
    """One exercise on one day."""

    day: str
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


class RepMax(BaseModel):
    """The best weight of at least that many repetitions."""

    reps: int
    weight_kg: float
    achieved_on: str
    session_id: str | None


class PrOverview(Frame):
    """The PR board."""

    exercises: list[PrSummary]


class HomeOverview(Frame):
    """The home page."""

    periods: list[Period]
    days: list[CalendarDay]
    records: list[Record]


class VolumeOverview(Frame):
    """The periods of one grain."""

    grain: str
    periods: list[Period]


class PrDetail(Frame):
    """One exercise."""

    exercise_id: str
    days: list[ExerciseDay]
    records: list[Record]
    rep_maxes: list[RepMax]


class CalendarMonth(Frame):
    """One month."""

    days: list[CalendarDay]


class Freshness(BaseModel):
    """How far the account's publication is."""

    requested_version: int = Field(description="The newest generation that a write asked for.", examples=[8])
    applied_version: int = Field(description="The published generation; 0 before the first.", examples=[7])
    stale: bool


class RefreshRequest(_Body):
    """How to refresh."""

    limit: int = Field(10, ge=-(2**31), le=2**31 - 1, description="Taken as 0 to 100 by the door.")
    validate_integrity: bool = False
    lock_owner: str | None = Field(
        None, max_length=200, description="Who it is, for the status; a name of the service's without it."
    )


class RefreshReport(BaseModel):
    """What the refresh did."""

    processed_count: int = Field(description="1 where the account was taken, else 0.")
    completed_count: int = Field(description="1 where it is published.")
    failed_count: int = Field(description="1 where the attempt failed; it is made again later.")
    deferred_count: int = Field(
        description="1 where the workers go on with it: it takes batches, or others hold it."
    )
    remaining_count: int = Field(description="Jobs of the account that wait, or that somebody is at work on.")
    has_more: bool = Field(
        description="Whether there are such jobs. They may have to wait: ask a bounded number of times."
    )
    worker_timed_out: bool = Field(
        description="The time was over: nothing is changed, and the job waits for the workers."
    )
    results: list[dict[str, Any]] = Field(description="What became of the account, where it was taken.")


class WorkRequest(_Body):
    """What the worker entry point is to do."""

    limit: int = Field(10, ge=0, le=100, description="How many accounts at most.")
    validate_integrity: bool = Field(False, description="Compare each published account with a rebuild.")
    lock_owner: str | None = Field(None, max_length=200)
    enqueue_stale: bool = Field(False, description="Run the scanner for stale accounts first.")
    enqueue_limit: int = Field(25, ge=1, le=1000, description="How many accounts the scanner looks at.")


class WorkReport(BaseModel):
    """What was done."""

    processed_count: int = Field(description="Accounts that were taken.")
    completed_count: int
    failed_count: int
    deferred_count: int = Field(
        description="Accounts whose work goes on later: held by others, overtaken, or in batches."
    )
    batch_count: int = Field(description="Batches that were computed.")
    pending_count: int = Field(description="Accounts that wait now.")
    retry_not_before: str | None = Field(description="When what has to wait may be tried again.")
    has_more: bool = Field(description="Whether something can be taken now: a caller that loops on it ends.")
    scan: dict[str, Any] | None = Field(description="What the scanner answered.")
    results: list[dict[str, Any]]


class SkippedRows(BaseModel):
    """Rows that were left out for one reason."""

    reason: str
    rows: int
    lines: list[tuple[int, int]] = Field(description="Lines of the file, from and to; the first 200 ranges.")


class LineNote(BaseModel):
    """What there is to say about a line of the file."""

    line: int
    text: str


class FileImported(BaseModel):
    """What became of every row of a file: `sets_taken` + `rows_skipped` = `data_rows`."""

    format: str = Field(description="Whose export it is.")
    dry_run: bool = Field(description="Nothing was written; the counts are those of an import.")
    data_rows: int
    sets_taken: int
    rows_skipped: int
    sessions_saved: int
    sessions_updated: int = Field(description="Stored sessions that are now as this file has them.")
    sessions_already_there: int
    sessions_differing: int = Field(description="Edited here, or another app's: left as they are.")
    sessions_refused: int = Field(description="Nothing of them could be stored; `skipped` says why.")
    skipped: list[SkippedRows]
    remarks: list[LineNote] = Field(description="The first 200.")
    typos: list[LineNote] = Field(description="Values that look mistyped; the first 200.")
    statsRequestedVersion: int | None = Field(
        description="The generation that has it all, for `min_generation`; null where nothing was saved."
    )


DOCUMENTED_ONLY: tuple[type[BaseModel], ...] = (ProblemDetails, Session, SessionEdit)
"""Shapes that routes name without taking them through FastAPI."""
