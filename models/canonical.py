"""The account's own rows, from which all statistics follow, and the receipts of what was written."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    Numeric,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, BigInt, ByteText, Kilograms, NewId, WrittenAt


class Exercise(Base):
    """An exercise: of one account, or of the global catalog."""

    __tablename__ = "exercises"
    __table_args__ = (
        CheckConstraint("char_length(name) between 1 and 200", name="exercises_name_length"),
        CheckConstraint(
            "tracking in ('weight_reps', 'bodyweight_reps', 'assisted_reps', 'reps_only', 'duration',"
            " 'distance_duration', 'weight_duration', 'weight_distance')",
            name="exercises_tracking_known",
        ),
        Index("exercises_owner_user_id_idx", "owner_user_id"),
    )

    id: Mapped[ByteText] = mapped_column(primary_key=True, server_default=text("(gen_random_uuid())::text"))
    owner_user_id: Mapped[UUID | None] = mapped_column(comment="null: a global exercise of the catalog")
    name: Mapped[str]
    tracking: Mapped[str]
    """What a set of it records, and so which kinds of records it can have."""
    tracking_from_import: Mapped[bool] = mapped_column(
        server_default=text("false"),
        comment="true: an import chose the tracking, and nobody has set it since; a later import may widen it",
    )
    archived_at: Mapped[datetime | None]
    created_at: Mapped[WrittenAt]
    updated_at: Mapped[WrittenAt]


class ExerciseExternalMapping(Base):
    """Which exercise an import means by a provider's own id; without an owner it holds for all accounts."""

    __tablename__ = "exercise_external_mappings"
    __table_args__ = (
        UniqueConstraint(
            "provider",
            "external_id",
            "owner_user_id",
            name="exercise_external_mappings_identity",
            postgresql_nulls_not_distinct=True,
        ),
        Index("exercise_external_mappings_exercise_id_idx", "exercise_id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    provider: Mapped[str]
    external_id: Mapped[str]
    owner_user_id: Mapped[UUID | None]
    exercise_id: Mapped[ByteText] = mapped_column(ForeignKey("exercises.id"))
    created_at: Mapped[WrittenAt]


class WorkoutSession(Base):
    """One workout of one account."""

    __tablename__ = "workout_sessions"
    __table_args__ = (
        CheckConstraint("duration_seconds >= 0", name="workout_sessions_duration_not_negative"),
        Index("workout_sessions_user_day_idx", "user_id", "session_date"),
        Index(
            "workout_sessions_source_key",
            "user_id",
            "source",
            "source_ref",
            unique=True,
            postgresql_where=text("source is not null and source_ref is not null"),
        ),
    )

    id: Mapped[NewId]
    user_id: Mapped[UUID]
    session_date: Mapped[date]
    title: Mapped[str | None]
    started_at: Mapped[datetime | None]
    duration_seconds: Mapped[int | None]
    notes: Mapped[str | None]
    source: Mapped[str | None]
    """Where an imported session came from; with `source_ref` it keeps a repeated import from doubling it."""
    source_ref: Mapped[str | None]
    created_at: Mapped[WrittenAt]
    updated_at: Mapped[WrittenAt]


class SessionExercisePart(Base):
    """One exercise within a session; a session may hold the same exercise more than once."""

    __tablename__ = "session_exercise_part"
    __table_args__ = (
        UniqueConstraint("session_id", "position", name="session_exercise_part_position_key"),
        Index("session_exercise_part_user_exercise_idx", "user_id", "exercise_id"),
        Index("session_exercise_part_exercise_user_idx", "exercise_id", "user_id"),
        CheckConstraint("superset > 0", name="session_exercise_part_superset_positive"),
    )

    id: Mapped[NewId]
    session_id: Mapped[UUID] = mapped_column(ForeignKey("workout_sessions.id", ondelete="CASCADE"))
    user_id: Mapped[UUID]
    exercise_id: Mapped[ByteText] = mapped_column(ForeignKey("exercises.id"))
    position: Mapped[int]
    notes: Mapped[str | None]
    superset: Mapped[int | None] = mapped_column(
        comment="parts of a session that have the same number were done in turn"
    )


class SessionSet(Base):
    """One set of a part. Null means that the set does not record this, not that it was zero."""

    __tablename__ = "session_sets"
    __table_args__ = (
        CheckConstraint(
            "set_type in ('normal', 'warmup', 'drop', 'failure')", name="session_sets_type_known"
        ),
        CheckConstraint(
            "weight_kg >= 0 and reps >= 0 and distance_m >= 0 and duration_seconds >= 0",
            name="session_sets_not_negative",
        ),
    )

    part_id: Mapped[UUID] = mapped_column(
        ForeignKey("session_exercise_part.id", ondelete="CASCADE"), primary_key=True
    )
    set_no: Mapped[int] = mapped_column(primary_key=True)
    set_type: Mapped[str] = mapped_column(server_default="normal")
    weight_kg: Mapped[Kilograms | None]
    reps: Mapped[int | None]
    distance_m: Mapped[Decimal | None] = mapped_column(Numeric(10, 2))
    duration_seconds: Mapped[int | None]
    rpe: Mapped[Decimal | None] = mapped_column(Numeric(3, 1))
    """Rate of perceived exertion, as the client sent it."""
    is_completed: Mapped[bool] = mapped_column(server_default=text("true"))


class UserManualPrRecord(Base):
    """A one-repetition maximum that the account gave itself, rather than one that was derived from sets."""

    __tablename__ = "user_manual_pr_records"
    __table_args__ = (
        CheckConstraint("one_rm_kg > 0", name="user_manual_pr_records_positive"),
        CheckConstraint("source in ('manual', 'onboarding')", name="user_manual_pr_records_source_known"),
        Index("user_manual_pr_records_user_exercise_idx", "user_id", "exercise_id", "achieved_on"),
        Index("user_manual_pr_records_exercise_user_idx", "exercise_id", "user_id"),
    )

    id: Mapped[NewId]
    user_id: Mapped[UUID]
    exercise_id: Mapped[ByteText] = mapped_column(ForeignKey("exercises.id"))
    achieved_on: Mapped[date]
    one_rm_kg: Mapped[Kilograms]
    source: Mapped[str]
    created_at: Mapped[WrittenAt]


class StatsMutationReceipt(Base):
    """The answer to a write, kept under the client's mutation id so that a repeated request gets it again."""

    __tablename__ = "stats_mutation_receipts"
    __table_args__ = (Index("stats_mutation_receipts_created_at_idx", "created_at"),)

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    mutation_id: Mapped[UUID] = mapped_column(primary_key=True)
    operation: Mapped[str]
    payload_hash: Mapped[bytes]
    session_id: Mapped[UUID | None] = mapped_column(
        comment="no foreign key: a receipt outlives the session that it is about"
    )
    requested_version: Mapped[BigInt]
    response: Mapped[dict[str, Any]]
    created_at: Mapped[WrittenAt]
