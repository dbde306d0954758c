"""What the tests of the numbers share: an account that settles, and looks at its published rows."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from importers.conftest import real_file
from reckoning.compare import assert_account_equals_reckoning

__all__ = ["real_file"]

Settle = Callable[[UUID], None]

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


@pytest.fixture
def settle(database, stages) -> Settle:
    """Work everything off, then hold the account's read models against the reckoning."""

    def settle(user_id: UUID) -> None:
        ended = stages.drain()
        assert all(run["response"] == "published" for run in ended), ended
        with database.admin_engine.connect() as connection:
            assert_account_equals_reckoning(connection, user_id)

    return settle


@pytest.fixture
def published(database) -> Callable[[UUID], dict[str, list[tuple]]]:
    """Every published row of an account, by table."""

    def published(user_id: UUID) -> dict[str, list[tuple]]:
        return {
            table: database.admin(
                f"select * from {table} where user_id = :user order by {', '.join(key)}", user=user_id
            )
            for table, key in READ_MODELS.items()
        }

    return published


@pytest.fixture
def rebuild(database, stages) -> Callable[[UUID], None]:
    """Request the account's whole history again, and publish it."""

    def rebuild(user_id: UUID) -> None:
        database.as_service()(
            "select public.enqueue_user_exercise_stats_refresh(:user, null, '{}', 'rebuild')", user=user_id
        )
        assert [run["response"] for run in stages.drain()] == ["published"]

    return rebuild
