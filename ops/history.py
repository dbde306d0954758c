"""`stats-refresh history`: the newest runs that beats fired."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.text import Text
from sqlalchemy import Connection, Row, text

from ops.errors import OperatorError
from ops.printing import Column, Table, say
from ops.service_calls import as_service
from schedules.entry_names import full_name

Run = Row[tuple[object, ...]]

_NEWEST = text(
    "select h.started_at, h.job_name, h.status, h.worker, h.response, h.error,"
    " extract(epoch from h.ended_at - h.started_at) * 1000 as ms"
    " from public.cron_run_history h"
    " where (cast(:entry as text) is null or h.job_name = :entry) and (not :failed or h.status = 'failed')"
    " order by h.id desc limit :limit"
)
_HAS_RUNS = text("select exists (select from public.cron_run_history h where h.job_name = :entry)")


def show(database_url: str, entry: str | None, failed: bool, limit: int) -> None:
    """Print the newest `limit` runs, the newest first.

    Raises OperatorError for an `entry` that is none of this release and has no runs of an earlier one.
    """
    with as_service(database_url) as connection:
        name = None if entry is None else _name(connection, entry)
        runs = connection.execute(_NEWEST, {"entry": name, "failed": failed, "limit": limit}).all()
    if runs:
        say(history_table(runs))
    else:
        say(f"{name + ': ' if name else ''}{'no failed runs' if failed else 'no runs yet'}")


def history_table(runs: Sequence[Run]) -> Table:
    """Return the runs as a table for a person."""
    return Table(
        (
            Column("started (UTC)"),
            Column("entry"),
            Column("status"),
            Column("ms", justify="right"),
            Column("worker"),
            Column("answer", prose=40),
        ),
        [_row(run) for run in runs],
    )


def _row(run: Run) -> list[str | Text]:
    answer = run.error or ("-" if run.response is None else json.dumps(run.response, ensure_ascii=False))
    return [
        f"{run.started_at:%Y-%m-%d %H:%M:%S.%f}"[:-3],
        run.job_name,
        Text(run.status, "red" if run.status == "failed" else ""),
        "-" if run.ms is None else f"{run.ms:.0f}",
        run.worker or "-",
        answer,
    ]


def _name(connection: Connection, entry: str) -> str:
    """Return what the history calls the entry."""
    try:
        return full_name(entry)
    except OperatorError:
        # Entries of an earlier release keep their rows.
        if connection.execute(_HAS_RUNS, {"entry": entry}).scalar_one():
            return entry
        raise
