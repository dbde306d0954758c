"""`stats-refresh jobs`: what waits, runs or has used up its attempts, and a fresh start for the latter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

from rich.text import Text
from sqlalchemy import text

from ops.durations import duration
from ops.printing import Column, Table, say
from ops.service_calls import as_service
from tasks.readiness import TIMEOUT_TEXT

Job = dict[str, Any]
"""One job as `stats_projection_jobs_v1` describes it."""

Status = Literal["pending", "processing", "failed"]
OPEN: tuple[Status, ...] = ("pending", "processing", "failed")
SHOWN = 50

_LIST = text("select public.stats_projection_jobs_v1(cast(:statuses as text[]), :shown)")
_RESUME = text("select public.stats_projection_resume_job_v1(:job_id)")
_LOCK_TIMEOUT_TEXT = "canceling statement due to lock timeout"


def show(database_url: str, status: Status | None) -> None:
    """Print the open jobs, or those in `status`, the one that is due first in front."""
    statuses = list(OPEN) if status is None else [status]
    with as_service(database_url) as connection:
        found: dict[str, Any] = connection.execute(_LIST, {"statuses": statuses, "shown": SHOWN}).scalar_one()
    jobs: list[Job] = found["jobs"]
    if not jobs:
        say(f"no {status or 'open'} jobs")
        return
    say(jobs_table(jobs))
    if found["total"] > len(jobs):
        say(f"{found['total'] - len(jobs)} more are not shown")


def resume(database_url: str, job_id: UUID) -> None:
    """Give the exhausted job `job_id` fresh attempts."""
    with as_service(database_url) as connection:
        resumed = connection.execute(_RESUME, {"job_id": job_id}).scalar_one()
    say(f"job {resumed['job_id']} of account {resumed['user_id']} is pending again")


def jobs_table(jobs: Sequence[Job]) -> Table:
    """Return jobs as a table for a person."""
    return Table(
        (
            Column("job"),
            Column("account"),
            Column("status"),
            Column("priority", justify="right"),
            Column("attempts", justify="right"),
            Column("age", justify="right"),
            Column("retry in", justify="right"),
            Column("generation", justify="right"),
            Column("event"),
            Column("failed in"),
            Column("last error", prose=40),
        ),
        [_row(job) for job in jobs],
    )


def _row(job: Job) -> list[str | Text]:
    retry_in = job["retry_in_seconds"]
    return [
        job["id"],
        job["user_id"],
        Text(job["status"], "red" if job["status"] == "failed" else ""),
        str(job["priority"]),
        str(job["attempts"]),
        duration(job["age_seconds"]),
        duration(retry_in) if retry_in is not None and retry_in > 0 else "-",
        str(job["requested_version"]),
        job["event_type"],
        job["failed_in"] or "-",
        _error(job),
    ]


def _error(job: Job) -> str:
    """Return the job's last error, with the setting that it ran over."""
    error, stage = job["error"], job["failed_in"]
    if error is None:
        return "-"
    if stage is not None and TIMEOUT_TEXT in error:
        return f"{error} (over {stage}_budget_ms)"
    if stage is not None and _LOCK_TIMEOUT_TEXT in error:
        return f"{error} (over half of {stage}_budget_ms)"
    return str(error)
