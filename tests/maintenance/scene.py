"""What the scenarios are made of: pages as the tasks run them, accounts that time has passed, damage by hand."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from reckoning.compare import assert_account_equals_reckoning
from rich.console import Console
from sqlalchemy import text
from support.app import AppAccount, Json, Stages
from support.races import Session

from ops.status_summary import status_table
from tasks.transaction import service, transaction

if TYPE_CHECKING:
    from conftest import Database

ROLLOVER = "select public.run_user_pr_overview_rollover_v1(cast(:limit as integer))"
WALK = "select public.run_stats_catalog_walk_v1(:limit)"
REPAIR = "select public.enqueue_stale_user_exercise_stats_refresh_jobs(:limit)"
PURGE = "select public.purge_stats_history_v1(:limit)"
ONE_SECOND_JOBS = (
    "lift-guild-stats-refresh",
    "barbelic-stats-projection-compute",
    "barbelic-stats-projection-publish",
)


@dataclass(frozen=True)
class Pages:
    """The four pages as a worker calls them: each one transaction as service_role, under the stage's budget."""

    database: Database

    def rollover(self, limit: int | None = None) -> Json:
        return self._page(ROLLOVER, limit)

    def walk(self, limit: int = 100) -> Json:
        return self._page(WALK, limit)

    def repair(self, limit: int = 100) -> Json:
        return self._page(REPAIR, limit)

    def purge(self, limit: int = 5000) -> Json:
        return self._page(PURGE, limit)

    def walk_to_the_end(self, limit: int = 100) -> list[Json]:
        """Walk until every walk has ended; return the pages that took part."""
        pages = []
        while (page := self.walk(limit))["response"] == "walked":
            pages.append(page)
            assert len(pages) < 200, "the walk never ends"
        return pages

    def repair_lap(self, limit: int = 100) -> list[Json]:
        """Repair until the lap has ended; return its pages."""
        pages = [self.repair(limit)]
        while not pages[-1]["lap_ended"]:
            assert len(pages) < 200, "the lap never ends"
            pages.append(self.repair(limit))
        return pages

    def cursor(self, job: str) -> Json:
        """Return the job's row."""
        [(row,)] = self.database.admin(
            "select to_jsonb(c) from public.stats_maintenance_cursors c where c.job = :job", job=job
        )
        return row

    def _page(self, statement: str, limit: int | None) -> Json:
        with transaction(self.database.engine, service()) as connection:
            connection.execute(text("select public.stats_projection_statement_budget_v1('maintenance')"))
            return connection.execute(text(statement), {"limit": limit}).scalar_one()


def published_accounts(database: Database, count: int) -> list[AppAccount]:
    """Return `count` accounts with a session of Squat, published, in the order of their ids."""
    accounts = sorted((AppAccount(database) for _ in range(count)), key=lambda one: one.user_id)
    for account in accounts:
        account.save(account.block("Squat", (100, 5), (105, 3)))
    Stages(database).drain()
    return accounts


def let_days_pass(database: Database, days: int, accounts: Sequence[AppAccount]) -> None:
    """Let the accounts' last publication lie `days` days back: its window, and when it was due to move."""
    users = [account.user_id for account in accounts]
    # Far back first: neighbouring days would meet on the way.
    for shift in (1000, days - 1000):
        for table in ("user_pr_overview_snapshot_headers", "user_pr_exercise_summary_snapshots"):
            database.admin(
                f"update public.{table} set as_of_date = as_of_date - :shift where user_id = any (:users)",
                shift=shift,
                users=users,
            )
    database.admin(
        "update public.user_stats_refresh_state set published_anchor = published_anchor - :days"
        " where user_id = any (:users)",
        days=days,
        users=users,
    )
    database.admin(
        "update public.user_pr_overview_rollover_state set due_at = due_at - :days * interval '1 day'"
        " where user_id = any (:users)",
        days=days,
        users=users,
    )


def end_waits(database: Database) -> None:
    """Let the time have come of every rollover that waits for its next look."""
    database.admin(
        "update public.user_pr_overview_rollover_state set next_retry_at = clock_timestamp()"
        " where next_retry_at is not null"
    )


def requested(database: Database) -> list[UUID]:
    """Return the accounts that wait for a run, in the order of their ids."""
    rows = database.admin(
        "select user_id from public.user_stats_refresh_state where requested_version > applied_version order by 1"
    )
    return [user for (user,) in rows]


def open_jobs(database: Database, *columns: str) -> list[tuple]:
    """Return `columns` of the jobs that wait."""
    return database.admin(
        f"select {', '.join(columns)} from public.user_exercise_stats_refresh_jobs"
        " where status = 'pending' order by user_id"
    )


def exhaust(database: Database, account: AppAccount) -> None:
    """Let the account's open row have used up its attempts."""
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set status = 'failed', attempts = 3"
        " where user_id = :user and status = 'pending'",
        user=account.user_id,
    )


def global_exercise(database: Database, name: str = "Plank", tracking: str = "weight_reps") -> str:
    """Make an exercise of the catalog and return its id."""
    return change_global(database, None, name, tracking)


def change_global(database: Database, exercise_id: str | None, name: str, tracking: str) -> str:
    """Change (or make) an exercise of the catalog as an administrator does; return its id."""
    admin = uuid.uuid4()
    made = database.as_account(admin, admin=True).value(
        "select public.upsert_exercise_v1(:name, :tracking, :user, :exercise, true)",
        name=name,
        tracking=tracking,
        user=admin,
        exercise=exercise_id,
    )
    return made["exercise_id"]


def save_with(account: AppAccount, exercise_id: str, day: str = "2026-03-10") -> Json:
    """Save a session of one global exercise."""
    sets = [{"weight_kg": 20, "reps": 8, "duration_seconds": 60}]
    return account.save({"exercise_id": exercise_id, "sets": sets}, session_date=day)


def write_lock(session: Session, account: AppAccount) -> None:
    """Take the account's write lock, as a save does first of all."""
    session.run("select stats_private.lock_writes(:user)", user=account.user_id)


def assert_all_equal_reckoning(database: Database, accounts: Sequence[AppAccount]) -> None:
    """Nobody waits, and every account is what its rows give."""
    assert requested(database) == []
    with database.admin_engine.connect() as connection:
        for account in accounts:
            assert_account_equals_reckoning(connection, account.user_id)


def traces(database: Database, accounts: Sequence[AppAccount]) -> dict[str, int]:
    """Count, by table, the rows that name one of the accounts or an exercise of theirs.

    Without cursors: one says how far a walk went, whether the account is still there or not.
    """
    ids = [str(account.user_id) for account in accounts]
    ids += [exercise for account in accounts for exercise in account.exercises.values()]
    return _count_rows(
        database,
        "c.relnamespace in ('public'::regnamespace, 'stats_private'::regnamespace)",
        "(to_jsonb(t) - 'cursor')::text like any (:patterns)",
        patterns=[f"%{one}%" for one in ids],
    )


def private_outputs(database: Database) -> dict[str, int]:
    """Count, by table, what is left of what runs compute for their publication."""
    return _count_rows(
        database,
        "c.relnamespace = 'stats_private'::regnamespace and exists ("
        " select from pg_attribute a where a.attrelid = c.oid and a.attname = 'run_id')",
        "true",
    )


def _count_rows(database: Database, tables: str, rows: str, **parameters: object) -> dict[str, int]:
    """Return the number of such rows of each such table that has any."""
    names = database.admin(f"select c.oid::regclass::text from pg_class c where c.relkind = 'r' and {tables}")
    counts = {
        name: database.admin(f"select count(*) from {name} t where {rows}", **parameters)[0][0]
        for [name] in names
    }
    return {name: count for name, count in counts.items() if count}


def settings(database: Database, **values: object) -> None:
    database.as_service()(
        "select public.update_stats_projection_settings_v1(cast(:changes as jsonb))",
        changes=json.dumps(values),
    )


def make_due_accounts(database: Database, accounts: int) -> None:
    """Let so many published accounts without any history be due since midnight."""
    database.admin(
        "insert into public.user_stats_refresh_state"
        " (user_id, requested_version, applied_version, applied_policy_version, published_anchor)"
        " select gen_random_uuid(), 1, 1, p.policy_version, (now() at time zone 'UTC')::date - 1"
        " from generate_series(1, :accounts), public.stats_projection_policy p",
        accounts=accounts,
    )
    database.admin(
        "insert into public.user_pr_overview_rollover_state (user_id, due_at, generation)"
        " select s.user_id, (s.published_anchor + 1)::timestamp at time zone 'UTC', 1"
        " from public.user_stats_refresh_state s"
    )


@contextmanager
def clock_off_by(database: Database, days: int) -> Iterator[None]:
    """Let the stages take another day for today: what they publish is what a clock that is wrong makes of it."""
    [(right,)] = database.admin(
        "select pg_catalog.pg_get_functiondef('stats_private.utc_today()'::regprocedure)"
    )
    database.admin(right.replace("now()", f"(now() + interval '{days} days')"))
    try:
        yield
    finally:
        database.admin(right)


def publish_ahead(database: Database, days: int, count: int = 1) -> list[AppAccount]:
    """Return accounts that were published while the clock was `days` ahead."""
    with clock_off_by(database, days):
        return published_accounts(database, count)


def printed_status(database: Database) -> str:
    """Return what `stats-refresh status` prints."""
    status = database.as_service().value("select public.stats_projection_worker_status_v1()")
    with (console := Console(width=200)).capture() as shown:
        console.print(status_table(status))
    return shown.get()
