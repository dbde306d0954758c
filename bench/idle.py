"""What an idle stack costs: the processor time of all its processes while every beat fires and nothing is saved.

`python -m bench idle [SECONDS]`. Each process counts, children that ended included; 2,000 published accounts are there.
It also counts the rows that the history of runs grows by.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from bench.accounts import make_neighbours
from bench.processor import seconds_by_part
from bench.report import Measured, print_report
from ops.stack import running_stack
from tasks.config import Config

SECONDS, SETTLE = 60, 20
ACCOUNTS = 2_000
A_DAY = 24 * 60 * 60


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure for as many seconds as the first of `arguments` says."""
    seconds = int(arguments[0]) if arguments else SECONDS
    with running_stack(Config(database_url=None, redis_url=None, data_dir=None)) as stack:
        admin = create_engine(stack.urls.admin_url, poolclass=NullPool)
        with admin.begin() as connection:
            make_neighbours(connection, ACCOUNTS)
        time.sleep(min(SETTLE, seconds))
        rows, before, started = _history_rows(admin), seconds_by_part(), time.monotonic()
        time.sleep(seconds)
        after, passed = seconds_by_part(), time.monotonic() - started
        rows = _history_rows(admin) - rows
    shares = {part: 100 * (after[part] - before[part]) / passed for part in after}
    return [
        Measured("idle stack, share of one core", sum(shares.values()), "%", bar=5),
        *(Measured(f"  {part}", share, "%") for part, share in sorted(shares.items())),
        Measured("rows of history a day", rows * A_DAY / passed, "rows"),
    ]


def _history_rows(admin: Engine) -> int:
    with admin.begin() as connection:
        return int(connection.scalar(text("select count(*) from public.cron_run_history")) or 0)


if __name__ == "__main__":
    print_report("an idle stack", run(sys.argv[1:]))
