"""A week of the one-second jobs' history: its size, the size of its index, and the time of one purge.

`python -m bench.history_purge [ROWS]`; 259,200 runs a day make 1.8 million rows in seven days.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from bench.report import Measured, print_report
from embedded.postgres import PostgresServer
from schedules.entries import STAGE_ENTRIES
from sql.migrate import migrate
from tasks.maintenance import PURGE
from tasks.transaction import Answer, run_stage

A_DAY = 259_200
ROWS = 7 * A_DAY
PURGES = 20
MIB = 1024 * 1024

_HISTORY = text("""
    insert into public.cron_run_history (job_name, task_id, worker, status, response, started_at, ended_at)
    select
        (cast(:entries as text[]))[n % 3 + 1],
        gen_random_uuid()::text, 'pipeline@worker-1', case when n % 500 = 0 then 'failed' else 'succeeded' end,
        '{"response": "idle"}', t.at, t.at + interval '12 ms'
    from generate_series(1, :rows) n,
        lateral (select now() - interval '8 days' + n * interval '333.333 ms' as at) t
""")


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure a history of as many rows as the first of `arguments` says."""
    rows = int(arguments[0]) if arguments else ROWS
    with PostgresServer() as server:
        engine = create_engine(server.url(), poolclass=NullPool)
        migrate(engine)
        with engine.begin() as connection:
            connection.execute(_HISTORY, {"rows": rows, "entries": [entry.name for entry in STAGE_ENTRIES]})
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("vacuum analyze public.cron_run_history"))
        return [
            _size(engine, f"history of {rows:,} runs, table", "pg_table_size('public.cron_run_history')"),
            _size(engine, f"history of {rows:,} runs, index", "pg_indexes_size('public.cron_run_history')"),
            *_purges(engine),
        ]


def _size(engine: Engine, name: str, expression: str) -> Measured:
    with engine.connect() as connection:
        size = connection.execute(text(f"select {expression}")).scalar_one()
    return Measured(name, size / MIB, "MiB")


def _purges(engine: Engine) -> list[Measured]:
    times = []
    for _ in range(PURGES):
        started = time.perf_counter()
        answer = run_stage(engine, "maintenance", PURGE, {}, _nothing)
        times.append((time.perf_counter() - started) * 1000)
        assert answer["deleted"]["cron_run_history"] == 5_000, answer
    while run_stage(engine, "maintenance", PURGE, {}, _nothing)["behind"]:
        pass
    started = time.perf_counter()
    run_stage(engine, "maintenance", PURGE, {}, _nothing)
    idle = (time.perf_counter() - started) * 1000
    return [
        Measured("a purge of 5,000 rows, median", statistics.median(times), "ms"),
        Measured("a purge of 5,000 rows, slowest", max(times), "ms", bar=3000),
        Measured("a purge that has nothing to do", idle, "ms"),
    ]


def _nothing(_: Answer) -> None:
    """Send no messages."""


if __name__ == "__main__":
    print_report("a history of runs", run(sys.argv[1:]))
