"""The two doors as their callers call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from reckoning.compare import assert_account_equals_reckoning
from support.app import Json

if TYPE_CHECKING:
    from conftest import Database

GLOBAL = "select public.process_user_exercise_stats_refresh_jobs({})"
SCOPED = "select public.process_user_exercise_stats_refresh_jobs_for_user({})"
COUNTS = ("processed_count", "completed_count", "failed_count", "deferred_count")


def process(database: Database, **arguments: Any) -> Json:
    """Call the maintenance door as the service."""
    return database.as_service().value(call(GLOBAL, arguments), **arguments)


def process_own(database: Database, user_id: UUID, **arguments: Any) -> Json:
    """Call the scoped door as the account itself."""
    arguments = {"user_id": user_id} | arguments
    return database.as_account(user_id).value(call(SCOPED, arguments), **arguments)


def call(door: str, arguments: Json) -> str:
    """Return the statement that calls a door with these arguments by name, each of them bound."""
    return door.format(", ".join(f"p_{name} => :{name}" for name in arguments))


def counts(answer: Json) -> tuple[int, ...]:
    """Return processed, completed, failed, deferred."""
    return tuple(answer[name] for name in COUNTS)


def assert_equals_reckoning(database: Database, user_id: UUID) -> None:
    """Compare all that is published for the account with what its sets say."""
    with database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection, user_id)
