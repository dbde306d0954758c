"""The two doors as their callers call them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from interleavings.scene import OUTPUT, admin_session, on_insert
from reckoning.compare import assert_account_equals_reckoning
from support.app import Json
from support.races import Session

if TYPE_CHECKING:
    from conftest import Database

GLOBAL = "select public.process_user_exercise_stats_refresh_jobs({})"
SCOPED = "select public.process_user_exercise_stats_refresh_jobs_for_user({})"
_GATE = 20260311
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


def hold(holder: Session, what: str, user_id: UUID) -> None:
    """Let `holder` take the account's `job row`, its `worker` or its `write` lock."""
    if what == "job row":
        holder.run(
            "select 1 from public.user_exercise_stats_refresh_jobs where user_id = :user for update",
            user=user_id,
        )
    else:
        holder.run(
            f"select pg_advisory_xact_lock(hashtextextended('stats-refresh:{what}:' || :user, 0))",
            user=str(user_id),
        )


@contextmanager
def gate_of(database: Database, door: Session, computation: int = 1) -> Iterator[Session]:
    """Yield the keeper of a gate before a computation of `door` alone: its second is the comparison with a rebuild."""
    database.admin("create sequence public.computations")
    database.admin("grant usage on sequence public.computations to public")
    wait = f"perform pg_advisory_xact_lock_shared({_GATE});"
    counted = f"if nextval('public.computations') = {computation} then {wait} end if;"
    on_insert(database, OUTPUT, f"if pg_backend_pid() = {door.pid} then {counted} end if;")
    with admin_session(database, "gate") as keeper:
        keeper.run(f"select pg_advisory_xact_lock({_GATE})")
        yield keeper


def counts(answer: Json) -> tuple[int, ...]:
    """Return processed, completed, failed, deferred."""
    return tuple(answer[name] for name in COUNTS)


def assert_equals_reckoning(database: Database, user_id: UUID) -> None:
    """Compare all that is published for the account with what its sets say."""
    with database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection, user_id)
