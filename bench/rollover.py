"""How fast accounts roll over at midnight, and what a claim costs while all of them wait.

`python -m bench rollover [ACCOUNTS]` makes published accounts with a history each, lets a day pass, and drains them
through pages, claims, computes and publications: by direct SQL on one connection, then on two, and by the workers of a
whole stack as `stats-refresh up` starts it. It prints accounts a second.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence

from celery import Celery
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from bench.pipeline import work
from bench.report import Measured, print_report
from core.broker import TRANSPORT_OPTIONS, broker_url
from core.config import Config
from core.processes import wait_until
from embedded.postgres import PostgresServer
from ops.stack import running_stack
from sql.migrate import migrate
from tasks.maintenance import ROLLOVER
from tasks.pipeline import CLAIM
from tasks.transaction import Answer, run_stage

ACCOUNTS = 600
SESSIONS = 40
WAITING = 100_000
CLAIMS = 30

_HISTORIES = text("""
    with users as (
        select gen_random_uuid() as user_id from generate_series(1, :accounts)
    ),
    states as (
        insert into public.user_stats_refresh_state (user_id, requested_version, source_revision)
        select u.user_id, 1, 1 from users u
    ),
    jobs as (
        insert into public.user_exercise_stats_refresh_jobs (user_id, event_type, requested_version)
        select u.user_id, 'file_import', 1 from users u
    ),
    sessions as (
        insert into public.workout_sessions (user_id, session_date)
        select u.user_id, current_date - 2 * n from users u, generate_series(1, :sessions) n
        returning id, user_id
    ),
    parts as (
        insert into public.session_exercise_part (session_id, user_id, exercise_id, position)
        select s.id, s.user_id, 'bench:' || p, p from sessions s, generate_series(1, 5) p
        returning id
    )
    insert into public.session_sets (part_id, set_no, weight_kg, reps)
    select p.id, n, 40 + 2.5 * abs(hashtext(p.id::text || n) % 40), 1 + abs(hashtext(p.id::text) % 12)
    from parts p, generate_series(1, 4) n
""")
_A_DAY_PASSES = (
    "update public.user_pr_overview_snapshot_headers set as_of_date = as_of_date - 1001",
    "update public.user_pr_overview_snapshot_headers set as_of_date = as_of_date + 1000",
    "update public.user_pr_exercise_summary_snapshots set as_of_date = as_of_date - 1001",
    "update public.user_pr_exercise_summary_snapshots set as_of_date = as_of_date + 1000",
    "update public.user_stats_refresh_state set published_anchor = published_anchor - 1",
    "update public.user_pr_overview_rollover_state set due_at = due_at - interval '1 day'",
)
_WAITING = text("""
    with waiting as (
        insert into public.user_stats_refresh_state (user_id, requested_version, applied_version)
        select gen_random_uuid(), 2, 1 from generate_series(1, :accounts)
        returning user_id
    )
    insert into public.user_exercise_stats_refresh_jobs (user_id, event_type, requested_version, priority, window_only)
    select w.user_id, 'pr_snapshot_rollover', 2, 1, true from waiting w
""")


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure with as many accounts as the first of `arguments` says."""
    accounts = int(arguments[0]) if arguments else ACCOUNTS
    with PostgresServer() as server:
        admin = create_engine(server.url(), poolclass=NullPool)
        migrate(admin)
        engine = create_engine(server.url(), pool_size=2)
        _make_histories(admin, accounts)
        _administer(
            admin, "update public.stats_projection_worker_settings set active_lease_cap = 4", "analyze"
        )
        work(engine, 1)
        measured = [_drain(admin, engine, connections) for connections in (1, 2)]
        measured.append(_claims(admin, engine))
        engine.dispose()
    return [*measured, _by_workers(accounts)]


def _make_histories(admin: Engine, accounts: int) -> None:
    _administer(
        admin,
        "insert into public.exercises (id, name, tracking)"
        " select 'bench:' || n, 'Exercise ' || n, 'weight_reps' from generate_series(1, 5) n",
    )
    with admin.begin() as connection:
        connection.execute(_HISTORIES, {"accounts": accounts, "sessions": SESSIONS})


def _by_workers(accounts: int) -> Measured:
    with running_stack(Config(database_url=None, redis_url=None, data_dir=None)) as stack:
        admin = create_engine(stack.urls.admin_url, poolclass=NullPool)
        sender = Celery("bench", broker=broker_url(str(stack.urls.redis_url)), set_as_current=False)
        sender.conf.broker_transport_options = TRANSPORT_OPTIONS
        _make_histories(admin, accounts)
        sender.send_task("stats.claim", queue="pipeline")
        _wait_for_none(admin, "public.user_stats_refresh_state where applied_version < requested_version")
        _administer(admin, "analyze", *_A_DAY_PASSES)
        started = time.perf_counter()
        sender.send_task("stats.rollover", queue="maintenance")
        _wait_for_none(admin, "public.user_pr_overview_rollover_state where due_at <= clock_timestamp()")
        seconds = time.perf_counter() - started
    return Measured("rolling accounts over, by the workers", accounts / seconds, "accounts/s")


def _wait_for_none(admin: Engine, rows: str) -> None:
    def there_is_none() -> bool:
        with admin.begin() as connection:
            return not connection.scalar(text(f"select exists (select from {rows})"))

    if not wait_until(there_is_none, 600):
        raise TimeoutError(f"still after ten minutes: {rows}")


def _drain(admin: Engine, engine: Engine, connections: int) -> Measured:
    _administer(admin, *_A_DAY_PASSES)
    # As autovacuum would have in a day: the day was made by updating whole tables.
    with admin.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("vacuum analyze"))
    started = time.perf_counter()
    rolled = 0
    while (page := run_stage(engine, "maintenance", ROLLOVER, {}, _nothing))["response"] == "enqueued":
        rolled += page["requested"]
    work(engine, connections)
    seconds = time.perf_counter() - started
    return Measured(f"rolling accounts over, {connections} connection(s)", rolled / seconds, "accounts/s")


def _claims(admin: Engine, engine: Engine) -> Measured:
    with admin.begin() as connection:
        connection.execute(_WAITING, {"accounts": WAITING})
    _administer(
        admin,
        "analyze",
        f"update public.stats_projection_worker_settings set active_lease_cap = {CLAIMS + 1}",
    )
    times = []
    for _ in range(CLAIMS):
        started = time.perf_counter()
        run_stage(engine, "claim", CLAIM, {"lock_owner": "bench"}, _nothing)
        times.append((time.perf_counter() - started) * 1000)
    return Measured(f"a claim while {WAITING:,} accounts wait", statistics.median(times), "ms")


def _administer(admin: Engine, *statements: str) -> None:
    for statement in statements:
        with admin.begin() as connection:
            connection.execute(text(statement))


def _nothing(_: Answer) -> None:
    """Send no messages."""


if __name__ == "__main__":
    print_report("rolling accounts over", run(sys.argv[1:]))
