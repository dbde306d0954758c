"""What an idle stack costs: the processor time of all its processes while every beat fires and nothing is saved.

`python -m bench idle [SECONDS]`. Each process counts, children that ended included. 2,000 published accounts are there;
repair looks through 25 of them each minute, which is part of being idle, and finds nothing. It also counts the rows
that the history of runs grows by.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from bench.drain import drain, make_accounts
from bench.processor import seconds_by_part
from bench.report import Measured, print_report
from core.config import Config
from ops.stack import running_stack

SECONDS = 60
# The limits of the tasks that published the accounts stay in the workers' timers for two minutes.
SETTLE = 130
ACCOUNTS = 2_000
A_DAY = 24 * 60 * 60
_HISTORY, _RUNS = "public.cron_run_history", "public.user_stats_projection_runs"


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure for as many seconds as the first of `arguments` says."""
    return measure(int(arguments[0]) if arguments else SECONDS, ACCOUNTS, SETTLE)


def measure(seconds: float, accounts: int, settle: float) -> list[Measured]:
    """Publish so many accounts, let the stack settle, and measure, both for so many seconds."""
    with running_stack(Config(database_url=None, redis_url=None, data_dir=None)) as stack:
        admin = create_engine(stack.urls.admin_url, poolclass=NullPool)
        make_accounts(admin, accounts)
        drain(admin)
        time.sleep(settle)
        rows, runs = _rows(admin, _HISTORY), _rows(admin, _RUNS)
        before, started = seconds_by_part(), time.monotonic()
        time.sleep(seconds)
        after, passed = seconds_by_part(), time.monotonic() - started
        rows = _rows(admin, _HISTORY) - rows
        if _rows(admin, _RUNS) > runs:
            raise RuntimeError("the stack was not idle: it computed accounts")
    shares = {part: 100 * (after[part] - before[part]) / passed for part in after}
    return [
        Measured("idle stack, share of one core", sum(shares.values()), "%", bar=5),
        *(Measured(f"  {part}", share, "%") for part, share in sorted(shares.items())),
        Measured("rows of history a day", rows * A_DAY / passed, "rows"),
    ]


def _rows(admin: Engine, table: str) -> int:
    with admin.begin() as connection:
        return int(connection.scalar(text(f"select count(*) from {table}")) or 0)


if __name__ == "__main__":
    print_report("an idle stack", run(sys.argv[1:]))
