"""What is published for an account, read past row security."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from conftest import Database

READ_MODELS = {
    "public.user_exercise_daily_rollups": ("exercise_id", "day"),
    "public.user_exercise_records": ("exercise_id", "kind", "day"),
    "public.user_exercise_rep_maxes": ("exercise_id", "reps"),
    "stats_private.rep_max_steps": ("exercise_id", "reps", "day"),
    "public.user_pr_exercise_summary_snapshots": ("as_of_date", "exercise_id"),
    "public.user_training_period_stats": ("grain", "period_start"),
    "public.user_calendar_day_summaries": ("day",),
}
"""Every table that a publication writes rows of an account to, with its key."""


def published_rows(database: Database, user_id: UUID) -> dict[str, list[tuple]]:
    """Every published row of the account, by table and in the order of the keys."""
    return {
        table: database.admin(
            f"select * from {table} where user_id = :user order by {', '.join(key)}", user=user_id
        )
        for table, key in READ_MODELS.items()
    }


@dataclass(frozen=True)
class Seen:
    """The published rows of an account, as far as a test looks at them."""

    database: Database
    user_id: UUID

    def records(self, exercise_id: str, *kinds: str) -> dict[tuple[str, date], Decimal]:
        """(kind, day) -> value, of these kinds (none: all)."""
        rows = self.database.admin(
            "select kind, day, value from public.user_exercise_records"
            " where user_id = :user and exercise_id = :exercise",
            user=self.user_id,
            exercise=exercise_id,
        )
        return {(kind, day): value for kind, day, value in rows if not kinds or kind in kinds}

    def rollup(self, exercise_id: str, day: date, *columns: str) -> tuple | None:
        """`columns` of one exercise's day; None where it has no row."""
        rows = self.database.admin(
            f"select {', '.join(columns)} from public.user_exercise_daily_rollups"
            " where user_id = :user and exercise_id = :exercise and day = :day",
            user=self.user_id,
            exercise=exercise_id,
            day=day,
        )
        return rows[0] if rows else None

    def rep_maxes(self, exercise_id: str) -> dict[int, tuple[Decimal, date]]:
        """reps -> (weight_kg, achieved_on)."""
        rows = self.database.admin(
            "select reps, weight_kg, achieved_on from public.user_exercise_rep_maxes"
            " where user_id = :user and exercise_id = :exercise",
            user=self.user_id,
            exercise=exercise_id,
        )
        return {reps: (weight_kg, achieved_on) for reps, weight_kg, achieved_on in rows}

    def summary(self, exercise_id: str, *columns: str) -> tuple | None:
        """`columns` of the exercise's summary of today."""
        rows = self.database.admin(
            f"select {', '.join(columns)} from public.user_pr_exercise_summary_snapshots"
            " where user_id = :user and exercise_id = :exercise and as_of_date = stats_private.utc_today()",
            user=self.user_id,
            exercise=exercise_id,
        )
        return rows[0] if rows else None

    def periods(self, grain: str, *columns: str) -> dict[date, tuple]:
        """period_start -> `columns`, of all periods of the grain."""
        rows = self.database.admin(
            f"select period_start, {', '.join(columns)} from public.user_training_period_stats"
            " where user_id = :user and grain = :grain order by period_start",
            user=self.user_id,
            grain=grain,
        )
        return {row[0]: row[1:] for row in rows}

    def calendar(self, *columns: str) -> dict[date, tuple]:
        """day -> `columns`, of all calendar days."""
        rows = self.database.admin(
            f"select day, {', '.join(columns)} from public.user_calendar_day_summaries"
            " where user_id = :user order by day",
            user=self.user_id,
        )
        return {row[0]: row[1:] for row in rows}
