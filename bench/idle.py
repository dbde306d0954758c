"""What an idle stack costs: the processor time of all its processes while every beat fires and nothing is saved.

`python -m bench idle [SECONDS]`. Each process counts, children that ended included; 2,000 published accounts are there.
It also counts the rows that the history of runs grows by.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from bench.accounts import make_neighbours
from bench.report import Measured, print_report
from ops.stack import running_stack
from tasks.config import Config

SECONDS, SETTLE = 60, 20
ACCOUNTS = 2_000
A_DAY = 24 * 60 * 60
_TICKS = os.sysconf("SC_CLK_TCK")
_PARTS = ("postgres", "valkey", "pipeline@", "compute@", "maintenance@", "flower", "beat")


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure for as many seconds as the first of `arguments` says."""
    seconds = int(arguments[0]) if arguments else SECONDS
    with running_stack(Config(database_url=None, redis_url=None, data_dir=None)) as stack:
        admin = create_engine(stack.urls.admin_url, poolclass=NullPool)
        with admin.begin() as connection:
            make_neighbours(connection, ACCOUNTS)
        time.sleep(min(SETTLE, seconds))
        rows, before, started = _history_rows(admin), _seconds_of_processor(), time.monotonic()
        time.sleep(seconds)
        after, passed = _seconds_of_processor(), time.monotonic() - started
        rows = _history_rows(admin) - rows
    shares = {part: 100 * (after[part] - before[part]) / passed for part in after}
    return [
        Measured("idle stack, share of one core", sum(shares.values()), "%", bar=5),
        *(Measured(f"  {part.rstrip('@')}", share, "%") for part, share in sorted(shares.items())),
        Measured("rows of history a day", rows * A_DAY / passed, "rows"),
    ]


def _history_rows(admin: Engine) -> int:
    with admin.begin() as connection:
        return int(connection.scalar(text("select count(*) from public.cron_run_history")) or 0)


def _seconds_of_processor() -> Counter[str]:
    """Return what the descendants of this process have used so far, by part of the stack."""
    used: Counter[str] = Counter()
    for pid, part in _descendants(os.getpid(), "other"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended, and counts with its parent
            # utime, stime, and what its ended children used: fields 14 to 17, counted after the name in brackets.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used[part] += sum(int(field) for field in fields[11:15]) / _TICKS  # type: ignore[assignment]
    return used


def _descendants(parent: int, part: str) -> Iterator[tuple[int, str]]:
    with suppress(FileNotFoundError, ProcessLookupError):
        threads = Path(f"/proc/{parent}/task").glob("*/children")
        for pid in [int(pid) for children in threads for pid in children.read_text().split()]:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            # A child of a part is of that part, whatever it calls itself.
            name = part if part != "other" else next((one for one in _PARTS if one in command), part)
            yield pid, name
            yield from _descendants(pid, name)


if __name__ == "__main__":
    print_report("an idle stack", run(sys.argv[1:]))
