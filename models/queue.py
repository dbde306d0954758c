"""What is to be refreshed: kinds of events, each account's generations, the jobs that saves leave behind."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, BigInt, ByteTexts, NewId, SmallInt, WrittenAt

_REWRITTEN_OFTEN = {"postgresql_with": {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.05}}


class StatsRefreshEventType(Base):
    """A kind of event that asks for a refresh. The migration fills the table."""

    __tablename__ = "stats_refresh_event_types"

    id: Mapped[str] = mapped_column(primary_key=True)
    description: Mapped[str]
    is_canonical_write: Mapped[bool] = mapped_column(
        comment="true: the event changed the account's own rows, so source_revision counts it"
    )


class UserStatsRefreshState(Base):
    """An account's generations: the read models are up to date where applied and requested version meet."""

    __tablename__ = "user_stats_refresh_state"
    __table_args__ = (
        CheckConstraint("applied_version <= requested_version", name="user_stats_refresh_state_not_ahead"),
        _REWRITTEN_OFTEN,
    )

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    requested_version: Mapped[BigInt] = mapped_column(server_default=text("0"))
    applied_version: Mapped[BigInt] = mapped_column(server_default=text("0"))
    source_revision: Mapped[BigInt] = mapped_column(server_default=text("0"))
    """Counts the events that changed the account's own rows."""
    applied_policy_version: Mapped[int | None]
    published_anchor: Mapped[date | None]
    """The day on which the published snapshot window hangs."""
    updated_at: Mapped[WrittenAt]


class UserExerciseStatsRefreshJob(Base):
    """What one or more merged events made dirty, waiting for a run or done.

    No index is partial: a predicate on a column that a merge writes would cost every merge its HOT update.
    """

    __tablename__ = "user_exercise_stats_refresh_jobs"
    __table_args__ = (
        CheckConstraint(
            "status in ('pending', 'processing', 'completed', 'failed')",
            name="user_exercise_stats_refresh_jobs_status_known",
        ),
        CheckConstraint("priority in (0, 1)", name="user_exercise_stats_refresh_jobs_priority_known"),
        Index(
            "user_exercise_stats_refresh_jobs_due_idx",
            "status",
            "priority",
            text("greatest(created_at, retry_not_before)"),
        ),
        Index("user_exercise_stats_refresh_jobs_user_idx", "user_id", "status"),
        Index("user_exercise_stats_refresh_jobs_run_id_idx", "run_id"),
        _REWRITTEN_OFTEN,
    )

    id: Mapped[NewId]
    user_id: Mapped[UUID]
    event_type: Mapped[str] = mapped_column(ForeignKey("stats_refresh_event_types.id"))
    from_date: Mapped[date | None]
    exercise_ids: Mapped[ByteTexts] = mapped_column(server_default="{}")
    reason: Mapped[str] = mapped_column(server_default="")
    source_ref: Mapped[str | None]
    status: Mapped[str] = mapped_column(server_default="pending")
    locked_at: Mapped[datetime | None]
    lock_owner: Mapped[str | None]
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    error_message: Mapped[str | None]
    metadata_: Mapped[dict[str, Any]] = mapped_column("metadata", server_default="{}")
    """The column `metadata`, a name that SQLAlchemy keeps for itself on a model."""
    created_at: Mapped[WrittenAt]
    updated_at: Mapped[WrittenAt]
    completed_at: Mapped[datetime | None]
    run_id: Mapped[UUID | None]
    requested_version: Mapped[BigInt]
    priority: Mapped[SmallInt] = mapped_column(server_default=text("0"))
    window_only: Mapped[bool] = mapped_column(server_default=text("false"))
    """Only the snapshot window has to move; the account's own rows are as they were."""
    retry_not_before: Mapped[datetime | None]
