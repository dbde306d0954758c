"""`stats-refresh history`: the newest runs that beats fired."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.text import Text
from sqlalchemy import Connection, text

from core.errors import OperatorError
from ops.printing import Column, Table, say
from ops.service_calls import as_service
from schedules.entry_names import full_name

Run = dict[str, Any]
"""One run as `stats_cron_history_v1` describes it."""

_HISTORY = text("select public.stats_cron_history_v1(cast(:entry as text), :failed, :limit)")


def show(database_url: str, entry: str | None, failed: bool, limit: int) -> None:
    """Print the newest `limit` runs, the newest first.

    Raises OperatorError for an `entry` that is none of this release and has no runs of an earlier one.
    """
    with as_service(database_url) as connection:
        name = None if entry is None else _name(connection, entry)
        runs: list[Run] = _history(connection, name, failed, limit)["runs"]
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
    response = run["response"]
    answer = run["error"] or ("-" if response is None else json.dumps(response, ensure_ascii=False))
    started_at = datetime.fromisoformat(run["started_at"]).astimezone(UTC)
    return [
        f"{started_at:%Y-%m-%d %H:%M:%S.%f}"[:-3],
        run["job_name"],
        Text(run["status"], "red" if run["status"] == "failed" else ""),
        "-" if run["ms"] is None else f"{run['ms']:.0f}",
        run["worker"] or "-",
        answer,
    ]


def _history(connection: Connection, entry: str | None, failed: bool, limit: int) -> dict[str, Any]:
    history: dict[str, Any] = connection.execute(
        _HISTORY, {"entry": entry, "failed": failed, "limit": limit}
    ).scalar_one()
    return history


def _name(connection: Connection, entry: str) -> str:
    """Return what the history calls the entry."""
    try:
        return full_name(entry)
    except OperatorError:
        # Entries of an earlier release keep their rows.
        if _history(connection, entry, failed=False, limit=1)["known"]:
            return entry
        raise
