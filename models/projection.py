"""How refreshes are worked off: the workers' settings, the policy, the runs, and what a run has computed."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import (
    PRIVATE,
    Base,
    BigInt,
    ByteText,
    ByteTexts,
    InternalChar,
    Kilograms,
    Milliseconds,
    NewId,
    OneRepMax,
    WrittenAt,
)
from models.read_models import PrSummaryColumns

_IN_FLIGHT = text("phase in ('claimed', 'computed')")
_HOLDS_A_SLOT = text("phase in ('claimed', 'computed') and retry_not_before is null")
_WAITS = text("phase in ('claimed', 'computed') and retry_not_before is not null")


class StatsProjectionWorkerSettings(Base):
    """What an operator can turn while the workers run: one row. Budgets end a stage that takes too long."""

    __tablename__ = "stats_projection_worker_settings"
    __table_args__ = (
        CheckConstraint("id = 1", name="stats_projection_worker_settings_one_row"),
        CheckConstraint(
            "publish_budget_ms < 8000", name="stats_projection_worker_settings_publish_below_save_deadline"
        ),
        # A stage has to end and record that it failed before Celery's soft limit ends the task.
        CheckConstraint(
            "claim_budget_ms <= 80000 and compute_budget_ms <= 80000 and maintenance_budget_ms <= 80000",
            name="stats_projection_worker_settings_budgets_below_task_limit",
        ),
        CheckConstraint(
            "lease_seconds * 1000 >= compute_budget_ms + publish_budget_ms",
            name="stats_projection_worker_settings_lease_covers_a_run",
        ),
        CheckConstraint(
            "batch_size between 1 and 100", name="stats_projection_worker_settings_batch_size_range"
        ),
        CheckConstraint(
            "rollover_page between 1 and 25", name="stats_projection_worker_settings_rollover_page_range"
        ),
        CheckConstraint(
            "paused_stages <@ array['claim', 'compute', 'publish', 'maintenance']",
            name="stats_projection_worker_settings_stages_known",
        ),
        CheckConstraint(
            "claim_budget_ms > 0 and compute_budget_ms > 0 and publish_budget_ms > 0"
            " and maintenance_budget_ms > 0 and lease_seconds > 0 and active_lease_cap > 0"
            " and max_attempts > 0 and retry_backoff_seconds > 0",
            name="stats_projection_worker_settings_positive",
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True, server_default=text("1"))
    claim_budget_ms: Mapped[int] = mapped_column(server_default=text("3000"))
    compute_budget_ms: Mapped[int] = mapped_column(server_default=text("60000"))
    publish_budget_ms: Mapped[int] = mapped_column(server_default=text("6000"))
    maintenance_budget_ms: Mapped[int] = mapped_column(server_default=text("3000"))
    lease_seconds: Mapped[int] = mapped_column(server_default=text("300"))
    active_lease_cap: Mapped[int] = mapped_column(server_default=text("2"))
    max_attempts: Mapped[int] = mapped_column(server_default=text("3"))
    retry_backoff_seconds: Mapped[int] = mapped_column(server_default=text("30"))
    batch_size: Mapped[int] = mapped_column(server_default=text("100"))
    rollover_page: Mapped[int] = mapped_column(server_default=text("10"))
    paused_stages: Mapped[list[str]] = mapped_column(server_default="{}")
    updated_at: Mapped[WrittenAt]


class StatsProjectionPolicy(Base):
    """How numbers are derived, the same for every account: one row. `policy_version` counts its changes."""

    __tablename__ = "stats_projection_policy"
    __table_args__ = (
        CheckConstraint("id = 1", name="stats_projection_policy_one_row"),
        CheckConstraint(
            "e1rm_formula in ('brzycki', 'epley', 'lombardi')", name="stats_projection_policy_formula_known"
        ),
        # Brzycki's formula divides by 37 - reps.
        CheckConstraint("e1rm_max_reps between 1 and 36", name="stats_projection_policy_max_reps_range"),
        CheckConstraint("week_start between 1 and 7", name="stats_projection_policy_week_start_range"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, server_default=text("1"))
    e1rm_formula: Mapped[str] = mapped_column(server_default="brzycki")
    e1rm_max_reps: Mapped[int] = mapped_column(server_default=text("12"))
    """Sets of more repetitions give no estimate."""
    week_start: Mapped[int] = mapped_column(server_default=text("1"))
    """ISO day of the week: 1 is Monday."""
    policy_version: Mapped[int] = mapped_column(server_default=text("1"))
    updated_at: Mapped[WrittenAt]


class UserStatsProjectionRun(Base):
    """An attempt to bring an account from `base_version` to `target_version`: one in flight at a time."""

    __tablename__ = "user_stats_projection_runs"
    __table_args__ = (
        CheckConstraint(
            "phase in ('claimed', 'computed', 'completed', 'failed')",
            name="user_stats_projection_runs_phase_known",
        ),
        CheckConstraint("target_version > base_version", name="user_stats_projection_runs_forward"),
        Index(
            "user_stats_projection_runs_one_in_flight", "user_id", unique=True, postgresql_where=_IN_FLIGHT
        ),
        Index("user_stats_projection_runs_in_flight_idx", "created_at", postgresql_where=_HOLDS_A_SLOT),
        Index("user_stats_projection_runs_waiting_idx", "retry_not_before", postgresql_where=_WAITS),
        Index("user_stats_projection_runs_user_idx", "user_id", "created_at"),
        Index("user_stats_projection_runs_completed_at_idx", "completed_at"),
        {"postgresql_with": {"fillfactor": 70}},
    )

    id: Mapped[NewId]
    user_id: Mapped[UUID]
    target_version: Mapped[BigInt]
    base_version: Mapped[BigInt]
    policy_version: Mapped[int]
    anchor: Mapped[date]
    """The day on which the snapshot window hangs that the run computes."""
    from_date: Mapped[date | None]
    exercise_ids: Mapped[ByteTexts] = mapped_column(server_default="{}")
    window_only: Mapped[bool] = mapped_column(server_default=text("false"))
    needs_batches: Mapped[bool] = mapped_column(server_default=text("false"))
    phase: Mapped[str] = mapped_column(server_default="claimed")
    payload: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    lease_token: Mapped[UUID] = mapped_column(server_default=text("gen_random_uuid()"))
    """Who holds the run, from its claim to its end: a new attempt is a new run with a token of its own."""
    lease_until: Mapped[datetime]
    lock_owner: Mapped[str | None]
    attempts: Mapped[int] = mapped_column(server_default=text("1"))
    retry_not_before: Mapped[datetime | None]
    compute_ms: Mapped[Milliseconds | None]
    publish_ms: Mapped[Milliseconds | None]
    error: Mapped[str | None]
    created_at: Mapped[WrittenAt]
    updated_at: Mapped[WrittenAt]
    completed_at: Mapped[datetime | None]
    busy_waits: Mapped[int] = mapped_column(
        server_default=text("0"), comment="how many times in a row the run had to wait for what others hold"
    )
    busy_since: Mapped[datetime | None]


class StatsBatchExercise(Base):
    """One exercise of a run that is computed in batches; `position` counts from 0."""

    __tablename__ = "stats_batch_exercises"
    __table_args__ = ({"schema": PRIVATE},)

    run_id: Mapped[UUID] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    exercise_id: Mapped[ByteText]


class PrivateOutput:
    """One operation of one run on one published row, valid only against the run's `base_version`.

    `op` is i (insert), u (update) or d (delete). A deletion carries the key alone, all else is null.
    """

    # Before the columns of the table itself, which follow in the primary key.
    run_id: Mapped[UUID] = mapped_column(primary_key=True, sort_order=-1)
    op: Mapped[str] = mapped_column(InternalChar)


class StatsOutputDailyRollup(PrivateOutput, Base):
    """An operation on `UserExerciseDailyRollup`."""

    __tablename__ = "stats_output_daily_rollups"
    __table_args__ = (
        CheckConstraint("op in ('i', 'u', 'd')", name="stats_output_daily_rollups_op_known"),
        {"schema": PRIVATE},
    )

    exercise_id: Mapped[ByteText] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    sessions: Mapped[int | None]
    sets: Mapped[int | None]
    working_sets: Mapped[int | None]
    reps: Mapped[BigInt | None]
    volume_kg: Mapped[Decimal | None]
    top_weight_kg: Mapped[Kilograms | None]
    top_weight_reps: Mapped[int | None]
    best_e1rm_kg: Mapped[OneRepMax | None]
    best_set_volume_kg: Mapped[Decimal | None]
    max_reps: Mapped[int | None]
    duration_seconds: Mapped[BigInt | None]
    distance_m: Mapped[Decimal | None]
    first_session_id: Mapped[UUID | None]


class StatsOutputRecord(PrivateOutput, Base):
    """An operation on `UserExerciseRecord`."""

    __tablename__ = "stats_output_records"
    __table_args__ = (
        CheckConstraint("op in ('i', 'u', 'd')", name="stats_output_records_op_known"),
        {"schema": PRIVATE},
    )

    exercise_id: Mapped[ByteText] = mapped_column(primary_key=True)
    kind: Mapped[ByteText] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    value: Mapped[Decimal | None]
    previous_value: Mapped[Decimal | None]
    is_baseline: Mapped[bool | None]
    session_id: Mapped[UUID | None]


class StatsOutputPrSummary(PrivateOutput, PrSummaryColumns, Base):
    """An operation on `UserPrExerciseSummarySnapshot`."""

    __tablename__ = "stats_output_pr_summaries"
    __table_args__ = (
        CheckConstraint("op in ('i', 'u', 'd')", name="stats_output_pr_summaries_op_known"),
        {"schema": PRIVATE},
    )

    as_of_date: Mapped[date] = mapped_column(primary_key=True)
    exercise_id: Mapped[ByteText] = mapped_column(primary_key=True)
    sessions_30d: Mapped[int | None]
    records_30d: Mapped[int | None]


class StatsOutputRepMax(PrivateOutput, Base):
    """An operation on `UserExerciseRepMax`."""

    __tablename__ = "stats_output_rep_maxes"
    __table_args__ = (
        CheckConstraint("op in ('i', 'u', 'd')", name="stats_output_rep_maxes_op_known"),
        {"schema": PRIVATE},
    )

    exercise_id: Mapped[ByteText] = mapped_column(primary_key=True)
    reps: Mapped[int] = mapped_column(primary_key=True)
    weight_kg: Mapped[Kilograms | None]
    achieved_on: Mapped[date | None]
    session_id: Mapped[UUID | None]


class StatsOutputRepMaxStep(PrivateOutput, Base):
    """An operation on `RepMaxStep`."""

    __tablename__ = "stats_output_rep_max_steps"
    __table_args__ = (
        CheckConstraint("op in ('i', 'u', 'd')", name="stats_output_rep_max_steps_op_known"),
        {"schema": PRIVATE},
    )

    exercise_id: Mapped[ByteText] = mapped_column(primary_key=True)
    reps: Mapped[int] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    weight_kg: Mapped[Kilograms | None]
    session_id: Mapped[UUID | None]


class StatsOutputPeriod(PrivateOutput, Base):
    """An operation on `UserTrainingPeriodStats`."""

    __tablename__ = "stats_output_periods"
    __table_args__ = (
        CheckConstraint("op in ('i', 'u', 'd')", name="stats_output_periods_op_known"),
        {"schema": PRIVATE},
    )

    grain: Mapped[ByteText] = mapped_column(primary_key=True)
    period_start: Mapped[date] = mapped_column(primary_key=True)
    sessions: Mapped[int | None]
    active_days: Mapped[int | None]
    duration_seconds: Mapped[BigInt | None]
    exercises: Mapped[int | None]
    working_sets: Mapped[int | None]
    reps: Mapped[BigInt | None]
    volume_kg: Mapped[Decimal | None]
    distance_m: Mapped[Decimal | None]
    record_count: Mapped[int | None]


class StatsOutputCalendar(PrivateOutput, Base):
    """An operation on `UserCalendarDaySummary`."""

    __tablename__ = "stats_output_calendar"
    __table_args__ = (
        CheckConstraint("op in ('i', 'u', 'd')", name="stats_output_calendar_op_known"),
        {"schema": PRIVATE},
    )

    day: Mapped[date] = mapped_column(primary_key=True)
    sessions: Mapped[int | None]
    titles: Mapped[list[str] | None]
    exercises: Mapped[int | None]
    working_sets: Mapped[int | None]
    volume_kg: Mapped[Decimal | None]
    duration_seconds: Mapped[BigInt | None]
    record_count: Mapped[int | None]


class StatsInputDay(Base):
    """An account's sessions of one day, noted by a run beside the sets for what it derives last."""

    __tablename__ = "stats_input_days"
    __table_args__ = ({"schema": PRIVATE},)

    run_id: Mapped[UUID] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    sessions: Mapped[int]
    titles: Mapped[list[str]]
    duration_seconds: Mapped[BigInt]
