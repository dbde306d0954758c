"""Runs that a beat fired: one at a time for each entry, and one row of history for each run."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from celery.app.task import Context
from sqlalchemy import Connection, text

from schedules.entries import ENTRY_HEADER

logger = logging.getLogger(__name__)

OVERLAP: dict[str, Any] = {"response": "overlap"}
"""The answer of a run whose entry is still at work on the run before it."""

_TRY_LOCK = text("select public.stats_try_beat_lock_v1(:entry)")
_RECORD = text(
    "select public.record_stats_cron_run_v1(:job_name, :task_id, :worker, :status,"
    " cast(:response as jsonb), :error, :started_at)"
)
_LONGEST_ERROR = 2000


@dataclass(frozen=True)
class BeatRun:
    """One run as its message describes it."""

    entry: str
    task_id: str
    worker: str
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))


def beat_run(request: Context) -> BeatRun | None:
    """Return what fired the task: None where it was no beat."""
    entry = entry_of(request)
    return None if entry is None else BeatRun(entry, str(request.id), str(request.hostname))


def entry_of(request: Context) -> str | None:
    """Return the name of the entry that sent the message."""
    entry = (request.headers or {}).get(ENTRY_HEADER)
    return entry if isinstance(entry, str) else None


def try_lock(connection: Connection, run: BeatRun) -> bool:
    """Take the entry's lock to the end of the transaction; False where a run of the same entry holds it."""
    return bool(connection.execute(_TRY_LOCK, {"entry": run.entry}).scalar_one())


def record(connection: Connection, run: BeatRun, answer: Mapping[str, Any]) -> None:
    """Add the run's row, in the transaction of the work itself."""
    failed = answer["response"] == "failed"
    # The token lets its bearer write to the run; a history is for reading.
    response = {name: value for name, value in answer.items() if name != "lease_token"}
    error = str(answer.get("error") or "failed") if failed else None
    _insert(connection, run, "failed" if failed else "succeeded", response, error)


def record_rolled_back(connection: Connection, run: BeatRun, error: BaseException) -> None:
    """Add the row of a run whose own transaction committed nothing."""
    # The driver's own words: SQLAlchemy adds the statement and a link.
    cause = getattr(error, "orig", None) or error
    _insert(connection, run, "failed", None, f"{type(cause).__name__}: {cause}".strip().partition("\n")[0])


def _insert(
    connection: Connection, run: BeatRun, status: str, response: dict[str, Any] | None, error: str | None
) -> None:
    connection.execute(
        _RECORD,
        {
            "job_name": run.entry,
            "task_id": run.task_id,
            "worker": run.worker,
            "status": status,
            "response": None if response is None else json.dumps(response),
            "error": error and error[:_LONGEST_ERROR],
            "started_at": run.started_at,
        },
    )
