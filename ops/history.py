"""`stats-refresh history`: the newest runs that beats fired."""

from __future__ import annotations

import json
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from sqlalchemy import Row, text

from ops.service_calls import as_service

_NEWEST = text(
    "select h.started_at, h.job_name, h.status, h.worker, h.response, h.error,"
    " extract(epoch from h.ended_at - h.started_at) * 1000 as ms"
    " from public.cron_run_history h"
    " where (cast(:entry as text) is null or h.job_name = :entry) and (not :failed or h.status = 'failed')"
    " order by h.id desc limit :limit"
)


def show(database_url: str, entry: str | None, failed: bool, limit: int) -> None:
    """Print the newest `limit` runs, the newest first."""
    with as_service(database_url) as connection:
        rows = connection.execute(_NEWEST, {"entry": entry, "failed": failed, "limit": limit}).all()
    Console().print(history_table(rows))


def history_table(rows: Iterable[Row[tuple[object, ...]]]) -> Table:
    """Return the runs as a table for a person."""
    table = Table(title="runs fired by beats (UTC)")
    table.add_column("started", no_wrap=True)
    table.add_column("entry", no_wrap=True)
    table.add_column("status")
    table.add_column("ms", justify="right")
    table.add_column("worker")
    table.add_column("answer", overflow="fold")
    for row in rows:
        answer = row.error or ("-" if row.response is None else json.dumps(row.response))
        milliseconds = "-" if row.ms is None else f"{row.ms:.0f}"
        started = f"{row.started_at:%Y-%m-%d %H:%M:%S.%f}"[:-3]
        table.add_row(started, row.job_name, row.status, milliseconds, row.worker or "-", answer)
    return table
