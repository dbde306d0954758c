"""What maintenance remembers: beat-fired runs, its cursors, due rollovers, catalog walks."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Identity, Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, BigInt, ByteText, ByteTexts, WrittenAt


class CronRunHistory(Base):
    """One run that a beat fired. Woken runs are measured in the projection run's row instead."""

    __tablename__ = "cron_run_history"
    __table_args__ = (
        CheckConstraint("status in ('running', 'succeeded', 'failed')", name="cron_run_history_status_known"),
    )

    id: Mapped[BigInt] = mapped_column(Identity(always=True), primary_key=True)
    job_name: Mapped[str]
    task_id: Mapped[str | None]
    worker: Mapped[str | None]
    status: Mapped[str]
    response: Mapped[dict[str, Any] | None]
    error: Mapped[str | None]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]


class StatsMaintenanceCursor(Base):
    """Where a maintenance job stands and how its last pages went."""

    __tablename__ = "stats_maintenance_cursors"

    job: Mapped[str] = mapped_column(primary_key=True)
    cursor: Mapped[str | None]
    laps: Mapped[BigInt] = mapped_column(server_default=text("0"))
    lap_started_at: Mapped[datetime | None]
    last_success_at: Mapped[datetime | None]
    attempt_count: Mapped[int] = mapped_column(server_default=text("0"))
    """Failed pages since the last success."""
    last_error: Mapped[str | None]
    next_retry_at: Mapped[datetime | None]
    updated_at: Mapped[WrittenAt]
    counted_until: Mapped[datetime | None]
    """The purge's own notion of the time; null for other jobs."""


class UserPrOverviewRolloverState(Base):
    """When an account's snapshot window has to move on."""

    __tablename__ = "user_pr_overview_rollover_state"
    __table_args__ = (
        Index(
            "user_pr_overview_rollover_state_retry_idx",
            "next_retry_at",
            postgresql_where=text("next_retry_at is not null"),
        ),
        {"postgresql_with": {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.05}},
    )

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    due_at: Mapped[datetime]
    generation: Mapped[BigInt]
    catalog_epoch: Mapped[BigInt] = mapped_column(server_default=text("0"))
    failures: Mapped[int] = mapped_column(server_default=text("0"))
    next_retry_at: Mapped[datetime | None]
    last_error: Mapped[str | None]
    updated_at: Mapped[WrittenAt]


Index(
    "user_pr_overview_rollover_state_due_idx",
    func.coalesce(UserPrOverviewRolloverState.next_retry_at, UserPrOverviewRolloverState.due_at),
)


class PrOverviewProjectionControl(Base):
    """One row: counts the changes of the global catalog."""

    __tablename__ = "pr_overview_projection_control"
    __table_args__ = (CheckConstraint("id = 1", name="pr_overview_projection_control_one_row"),)

    id: Mapped[int] = mapped_column(primary_key=True, server_default=text("1"), autoincrement=False)
    catalog_epoch: Mapped[BigInt] = mapped_column(server_default=text("0"))
    updated_at: Mapped[WrittenAt]


class ExerciseCatalogChange(Base):
    """One change of an exercise that changes numbers."""

    __tablename__ = "exercise_catalog_changes"

    seq: Mapped[BigInt] = mapped_column(Identity(always=True), primary_key=True)
    exercise_id: Mapped[ByteText]
    scope: Mapped[UUID | None] = mapped_column(
        comment="the account of a personal exercise; null: the global catalog"
    )
    change: Mapped[str]
    changed_at: Mapped[WrittenAt]


class StatsCatalogScope(Base):
    """One scope that ever changed, and how far the walk through its accounts has come."""

    __tablename__ = "stats_catalog_scopes"

    scope: Mapped[str] = mapped_column(
        primary_key=True, comment="`global`, `policy`, or the id of an account"
    )
    pending_exercise_ids: Mapped[ByteTexts] = mapped_column(server_default="{}")
    walking_exercise_ids: Mapped[ByteTexts] = mapped_column(server_default="{}")
    cursor: Mapped[UUID | None]
    token: Mapped[BigInt] = mapped_column(server_default=text("0"))
    walking_token: Mapped[BigInt | None]
    updated_at: Mapped[WrittenAt]
