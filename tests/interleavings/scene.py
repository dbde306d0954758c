"""What the scenarios are made of: gates inside a stage, saboteurs, leases that ran out, and whole-database pictures."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reckoning.compare import assert_account_equals_reckoning
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from support import races
from support.app import AppAccount, Json, Stages
from support.races import DEADLINE, Session

from core.processes import wait_until
from tasks.transaction import Identity

if TYPE_CHECKING:
    from conftest import Database

OUTPUT = "stats_private.stats_output_daily_rollups"
"""Compute inserts here, in the one statement that reads the canonical rows."""
HEADERS = "public.user_pr_overview_snapshot_headers"
"""Publish inserts here, after the read models and before the state row."""

READ_MODELS = (
    "public.user_exercise_daily_rollups",
    "public.user_exercise_records",
    "public.user_pr_exercise_summary_snapshots",
    "public.user_exercise_rep_maxes",
    "public.user_training_period_stats",
    "public.user_calendar_day_summaries",
    HEADERS,
)
OUTPUTS = (
    OUTPUT,
    "stats_private.stats_output_records",
    "stats_private.stats_output_pr_summaries",
    "stats_private.stats_output_rep_maxes",
    "stats_private.stats_output_rep_max_steps",
    "stats_private.stats_output_periods",
    "stats_private.stats_output_calendar",
)
TABLES = (
    "public.user_exercise_stats_refresh_jobs",
    "public.user_stats_refresh_state",
    "public.user_stats_projection_runs",
    "public.user_pr_overview_rollover_state",
    *READ_MODELS,
    *OUTPUTS,
    "stats_private.stats_batch_exercises",
    "stats_private.stats_input_days",
)
_GATE = 20260310

# ---------------------------------------------------------------- calls that a session starts


def start_claim(session: Session) -> Future[Json]:
    return session.start("select public.stats_projection_claim_v1(:owner)", owner=session.name)


def start_compute(session: Session, run: Json | None = None) -> Future[Json]:
    return session.start(
        "select public.stats_projection_compute_v1(cast(:run_id as uuid), cast(:token as uuid))", **lease(run)
    )


def start_publish(session: Session, run: Json | None = None) -> Future[Json]:
    return session.start(
        "select public.stats_projection_publish_v1(cast(:run_id as uuid), cast(:token as uuid))", **lease(run)
    )


def start_save(session: Session, account: AppAccount, payload: Json) -> Future[Json]:
    """Begin a save of `payload`; make it before, its exercises are calls of their own."""
    return session.start(
        "select public.save_session_v5(cast(:payload as jsonb))", payload=json.dumps(payload)
    )


def start_delete(session: Session, account: AppAccount, session_id: str) -> Future[Json]:
    return session.start(
        "select public.delete_session_v5(cast(:session as uuid), :user, :mutation)",
        session=session_id,
        user=account.user_id,
        mutation=uuid.uuid4(),
    )


def start_enqueue(session: Session, account: AppAccount, reason: str = "enqueued") -> Future[int]:
    return session.start(
        "select public.enqueue_user_exercise_stats_refresh(:user, null, '{}', :reason)",
        user=account.user_id,
        reason=reason,
    )


def lease(run: Json | None) -> Json:
    return {"run_id": run and run["run_id"], "token": run and run["lease_token"]}


def outcome(future: Future[Any]) -> Any:
    """Return what the statement answered, or what it raised as {raised, message, constraint}."""
    try:
        return future.result(DEADLINE)
    except DBAPIError as error:
        return raised(error)


def answer_of(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the call answers, or what it raised, its commit included."""
    try:
        return call(*arguments)
    except DBAPIError as error:
        return raised(error)


def raised(error: DBAPIError) -> Json:
    diagnostics = error.orig.diag
    return {
        "raised": error.orig.pgcode,
        "message": diagnostics.message_primary,
        "constraint": diagnostics.constraint_name,
    }


# ---------------------------------------------------------------- sessions


@contextmanager
def session(database: Database, name: str, identity: Identity | None = None) -> Iterator[Session]:
    """Yield an open transaction as `identity` (default: service); rolled back at the end unless committed."""
    with races.session(database, name, identity) as made, _ending(database, made):
        yield made


@contextmanager
def admin_session(database: Database, name: str = "admin") -> Iterator[Session]:
    """Yield a transaction of the superuser, as a repair script has; rolled back at the end."""
    with (
        ThreadPoolExecutor(1, thread_name_prefix=name) as thread,
        database.admin_engine.connect() as connection,
    ):
        pid = connection.scalar(text("select pg_catalog.pg_backend_pid()"))
        # The first statement is the scenario's own: it may choose the isolation level.
        connection.rollback()
        made = Session(name, pid, connection, thread)
        try:
            with _ending(database, made):
                yield made
        finally:
            thread.submit(connection.rollback).result(DEADLINE)


@contextmanager
def _ending(database: Database, session: Session) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # A failed scenario may leave it waiting for a session that only ends after it.
        database.admin("select pg_catalog.pg_cancel_backend(:pid)", pid=session.pid)
        raise


def wait_until_blocked_or_done(database: Database, session: Session, future: Future[Any]) -> None:
    """Wait until the statement has ended or waits for a lock: then nothing more happens by itself."""

    def is_settled() -> bool:
        if future.done():
            return True
        [[blockers]] = database.admin("select pg_catalog.pg_blocking_pids(:pid)", pid=session.pid)
        return bool(blockers)

    assert wait_until(is_settled, DEADLINE), f"{session.name} neither ended nor waited for a lock"


def wait_until_waiting(database: Database, number: int) -> None:
    """Wait until `number` sessions of the database wait for a lock."""

    def all_wait() -> bool:
        [[waiting]] = database.admin(
            "select count(*) from pg_catalog.pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        )
        return waiting == number

    assert wait_until(all_wait, DEADLINE), f"there were never {number} sessions waiting"


# ---------------------------------------------------------------- inside a stage


def on_insert(database: Database, table: str, body: str) -> None:
    """Run the plpgsql `body` before every statement that inserts into `table`."""
    database.admin(
        "create or replace function public.scene() returns trigger language plpgsql as"
        f" $scene$ begin {body} return null; end $scene$"
    )
    database.admin(
        f"create or replace trigger scene before insert on {table} for each statement"
        " execute function public.scene()"
    )


def undo_on_insert(database: Database, table: str) -> None:
    database.admin(f"drop trigger scene on {table}")


@contextmanager
def gate(database: Database, table: str) -> Iterator[Session]:
    """Yield the keeper of a gate before every insert into `table`; it opens when the keeper rolls back."""
    on_insert(database, table, f"perform pg_catalog.pg_advisory_xact_lock_shared({_GATE});")
    with admin_session(database, "gate") as keeper:
        keeper.run(f"select pg_catalog.pg_advisory_xact_lock({_GATE})")
        yield keeper


# ---------------------------------------------------------------- settings, leases, pictures


def change_settings(database: Database, **values: int) -> None:
    assignments = ", ".join(f"{name} = {value}" for name, value in values.items())
    database.admin(f"update public.stats_projection_worker_settings set {assignments}")


def expire_lease(database: Database, run: Json) -> None:
    """Let the run's lease run out at this very moment: after the start of every transaction that is open."""
    with database.admin_engine.begin() as connection:
        connection.execute(
            text("select set_config('lift_guild.stats_lease_token', :token, true)"),
            {"token": run["lease_token"]},
        )
        connection.execute(
            text(
                "update public.user_stats_projection_runs"
                " set lease_until = clock_timestamp() where id = cast(:id as uuid)"
            ),
            {"id": run["run_id"]},
        )


def run_row(database: Database, run: Json, *columns: str) -> tuple:
    """Return `columns` of the run."""
    [row] = database.admin(
        f"select {', '.join(columns)} from public.user_stats_projection_runs where id = cast(:id as uuid)",
        id=run["run_id"],
    )
    return row


def runs_in_flight(database: Database) -> list[uuid.UUID]:
    """Return the accounts whose run is claimed or computed, one entry a run."""
    return [
        user
        for (user,) in database.admin(
            "select user_id from public.user_stats_projection_runs where phase in ('claimed', 'computed')"
        )
    ]


def picture(database: Database, tables: tuple[str, ...] = TABLES) -> dict[str, list[str]]:
    """Return every row of `tables`: two equal pictures mean that nothing changed."""
    return {
        table: [row for (row,) in database.admin(f"select t::text from {table} t order by 1")]
        for table in tables
    }


def keep_scopes(database: Database) -> None:
    """Let accounts count as computed under the policy: a first claim would widen its scope to everything."""
    database.admin(
        "update public.user_stats_refresh_state set applied_policy_version = p.policy_version"
        " from public.stats_projection_policy p"
    )


def drop_backoff(database: Database) -> None:
    """Let the retry time of every job have come."""
    database.admin("update public.user_exercise_stats_refresh_jobs set retry_not_before = null")


def end_waits(database: Database) -> None:
    """Let the retry time of every run that waits have come."""
    database.admin(
        "update public.user_stats_projection_runs set retry_not_before = clock_timestamp() - interval '1 second'"
        " where phase in ('claimed', 'computed') and retry_not_before is not null"
    )


def assert_converges(stages: Stages, account: AppAccount) -> None:
    """Once nothing has to wait, draining publishes the newest generation, nothing is left open, all is right."""
    drop_backoff(account.database)
    end_waits(account.database)
    stages.drain()
    requested, applied = account.state()
    assert applied == requested
    assert {status for (status,) in account.jobs("status")} == {"completed"}
    with account.database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection, account.user_id)
