"""What the tests of the numbers share: an account that settles, and looks at its published rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

import pytest
from reckoning.compare import assert_account_equals_reckoning
from support.published import Seen, published_rows
from support.real_files import real_file

__all__ = ["real_file"]

Settle = Callable[[UUID], None]


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

    return partial(published_rows, database)


@pytest.fixture
def rebuild(database, stages) -> Callable[[UUID], None]:
    """Request the account's whole history again, and publish it."""

    def rebuild(user_id: UUID) -> None:
        database.as_service()(
            "select public.enqueue_user_exercise_stats_refresh(:user, null, '{}', 'rebuild')", user=user_id
        )
        assert [run["response"] for run in stages.drain()] == ["published"]

    return rebuild


@pytest.fixture
def seen(database, app_account) -> Seen:
    """The published rows of the test's account."""
    return Seen(database, app_account.user_id)


@pytest.fixture
def settled(app_account, settle) -> Callable[[], None]:
    """Settle the test's account."""
    return lambda: settle(app_account.user_id)
