"""What imports remember of the files that they read."""

from __future__ import annotations

from datetime import date, datetime
from uuid import UUID

from sqlalchemy.orm import Mapped, mapped_column

from models.base import PRIVATE, Base, WrittenAt


class ImportedWorkout(Base):
    """A workout of an imported file, and the session that it is; the row outlives the session."""

    __tablename__ = "imported_workouts"
    __table_args__ = ({"schema": PRIVATE},)

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(primary_key=True)
    session_id: Mapped[UUID] = mapped_column(primary_key=True)
    source_ref: Mapped[str]
    session_date: Mapped[date]
    started_at: Mapped[datetime | None]
    sets: Mapped[str | None] = mapped_column(
        comment="the sets of the file, twelve characters each (imports/fingerprints.sql);"
        " null: imported by an earlier release"
    )
    content: Mapped[str | None] = mapped_column(
        comment="a hash of all that the import saved; null: imported by an earlier release,"
        " or found there and not written"
    )
    left_at: Mapped[datetime | None] = mapped_column(
        comment="updated_at of the session as an import left it; null: the import did not write the session"
    )
    imported_at: Mapped[WrittenAt]
