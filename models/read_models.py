"""The published statistics. Only a publication writes them, in one commit for one account.

References to a session are deferred and null out when the session goes: a deletion never waits for a refresh.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index
from sqlalchemy.orm import Mapped, mapped_column

from models.base import PRIVATE, Base, BigInt, ByteText, Kilograms, OneRepMax


class PrSummaryColumns:
    """The columns that a published summary and its private output have exactly alike."""

    best_weight_kg: Mapped[Kilograms | None]
    best_weight_on: Mapped[date | None]
    best_weight_session_id: Mapped[UUID | None]
    best_e1rm_kg: Mapped[OneRepMax | None]
    best_e1rm_on: Mapped[date | None]
    best_e1rm_session_id: Mapped[UUID | None]
    one_rm_kg: Mapped[OneRepMax | None]
    one_rm_source: Mapped[str | None]
    one_rm_on: Mapped[date | None]
    weight_30d_kg: Mapped[Kilograms | None]
    e1rm_30d_kg: Mapped[OneRepMax | None]
    weight_30d_last_year_kg: Mapped[Kilograms | None]
    e1rm_30d_last_year_kg: Mapped[OneRepMax | None]
    last_performed_on: Mapped[date | None]


class UserExerciseDailyRollup(Base):
    """One exercise on one local day: sums and bests over all its sets of that day."""

    __tablename__ = "user_exercise_daily_rollups"
    __table_args__ = (
        Index("user_exercise_daily_rollups_first_session_id_idx", "first_session_id"),
        Index("user_exercise_daily_rollups_user_day_idx", "user_id", "day"),
    )

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    exercise_id: Mapped[ByteText] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    sessions: Mapped[int]
    sets: Mapped[int]
    working_sets: Mapped[int]
    reps: Mapped[BigInt]
    volume_kg: Mapped[Decimal]
    top_weight_kg: Mapped[Kilograms | None]
    top_weight_reps: Mapped[int | None]
    best_e1rm_kg: Mapped[OneRepMax | None]
    best_set_volume_kg: Mapped[Decimal | None]
    max_reps: Mapped[int | None]
    duration_seconds: Mapped[BigInt]
    distance_m: Mapped[Decimal]
    first_session_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("workout_sessions.id", ondelete="SET NULL", deferrable=True, initially="DEFERRED")
    )


class UserExerciseRecord(Base):
    """A day on which an exercise reached a record of one kind."""

    __tablename__ = "user_exercise_records"
    __table_args__ = (
        CheckConstraint(
            "kind in ('weight', 'e1rm', 'set_volume', 'day_volume', 'reps', 'duration', 'distance',"
            " 'least_assistance')",
            name="user_exercise_records_kind_known",
        ),
        Index("user_exercise_records_session_id_idx", "session_id"),
        Index("user_exercise_records_user_day_idx", "user_id", "day"),
    )

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    exercise_id: Mapped[ByteText] = mapped_column(primary_key=True)
    kind: Mapped[ByteText] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    value: Mapped[Decimal]
    """In the unit of the kind: kilograms, repetitions, seconds or metres."""
    previous_value: Mapped[Decimal | None]
    is_baseline: Mapped[bool]
    session_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("workout_sessions.id", ondelete="SET NULL", deferrable=True, initially="DEFERRED")
    )


class UserExerciseRepMax(Base):
    """The best weight that was lifted for at least `reps` repetitions."""

    __tablename__ = "user_exercise_rep_maxes"
    __table_args__ = (
        CheckConstraint("reps between 1 and 12", name="user_exercise_rep_maxes_reps_range"),
        Index("user_exercise_rep_maxes_session_id_idx", "session_id"),
    )

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    exercise_id: Mapped[ByteText] = mapped_column(primary_key=True)
    reps: Mapped[int] = mapped_column(primary_key=True)
    weight_kg: Mapped[Kilograms]
    achieved_on: Mapped[date]
    session_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("workout_sessions.id", ondelete="SET NULL", deferrable=True, initially="DEFERRED")
    )


class RepMaxStep(Base):
    """A load heavier than all earlier ones of at least `reps` (12: 12 or more); private.

    The rep maxes of any day follow from the steps up to it, so a refresh from there on reads no older sets.
    """

    __tablename__ = "rep_max_steps"
    __table_args__ = (Index("rep_max_steps_session_id_idx", "session_id"), {"schema": PRIVATE})

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    exercise_id: Mapped[ByteText] = mapped_column(primary_key=True)
    reps: Mapped[int] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    weight_kg: Mapped[Kilograms]
    session_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("public.workout_sessions.id", ondelete="SET NULL", deferrable=True, initially="DEFERRED")
    )


class UserTrainingPeriodStats(Base):
    """All training of an account within one day, week, month, quarter or year."""

    __tablename__ = "user_training_period_stats"
    __table_args__ = (
        CheckConstraint(
            "grain in ('day', 'week', 'month', 'quarter', 'year')",
            name="user_training_period_stats_grain_known",
        ),
    )

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    grain: Mapped[ByteText] = mapped_column(primary_key=True)
    period_start: Mapped[date] = mapped_column(primary_key=True)
    sessions: Mapped[int]
    active_days: Mapped[int]
    duration_seconds: Mapped[BigInt]
    exercises: Mapped[int]
    working_sets: Mapped[int]
    reps: Mapped[BigInt]
    volume_kg: Mapped[Decimal]
    distance_m: Mapped[Decimal]
    record_count: Mapped[int]
    """Without baselines, as everywhere where records are counted."""


class UserCalendarDaySummary(Base):
    """A day on which an account has a session."""

    __tablename__ = "user_calendar_day_summaries"

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    sessions: Mapped[int]
    titles: Mapped[list[str]]
    """In the order of the sessions, without those that have none."""
    exercises: Mapped[int]
    working_sets: Mapped[int]
    volume_kg: Mapped[Decimal]
    duration_seconds: Mapped[BigInt]
    record_count: Mapped[int]


class UserPrOverviewSnapshotHeader(Base):
    """One day's overview of an account: which generation its summaries are of, and how many there are."""

    __tablename__ = "user_pr_overview_snapshot_headers"
    __table_args__ = ({"postgresql_with": {"fillfactor": 70}},)

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    as_of_date: Mapped[date] = mapped_column(primary_key=True)
    generation: Mapped[BigInt]
    exercises: Mapped[int]
    generated_at: Mapped[datetime]


class UserPrExerciseSummarySnapshot(PrSummaryColumns, Base):
    """One exercise in the overview, as of one day of the snapshot window."""

    __tablename__ = "user_pr_exercise_summary_snapshots"
    __table_args__ = (
        CheckConstraint(
            "one_rm_source in ('manual', 'estimate')", name="user_pr_exercise_summary_snapshots_source_known"
        ),
        *(
            ForeignKeyConstraint(
                [column], ["workout_sessions.id"], ondelete="SET NULL", deferrable=True, initially="DEFERRED"
            )
            for column in ("best_weight_session_id", "best_e1rm_session_id")
        ),
        Index("user_pr_exercise_summary_snapshots_best_weight_session_id_idx", "best_weight_session_id"),
        Index("user_pr_exercise_summary_snapshots_best_e1rm_session_id_idx", "best_e1rm_session_id"),
    )

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    as_of_date: Mapped[date] = mapped_column(primary_key=True)
    exercise_id: Mapped[ByteText] = mapped_column(primary_key=True)
    sessions_30d: Mapped[int]
    records_30d: Mapped[int]
