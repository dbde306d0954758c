"""`stats-refresh jobs`: what waits, runs or has used up its attempts, and a fresh start for the latter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from rich.text import Text
from sqlalchemy import Row, text

from ops.durations import duration
from ops.printing import Column, Table, say
from ops.service_calls import as_service
from tasks.readiness import TIMEOUT_TEXT

Job = Row[tuple[object, ...]]

Status = Literal["pending", "processing", "failed"]
OPEN: tuple[Status, ...] = ("pending", "processing", "failed")
SHOWN = 50

_LIST = text("""
    with shown as (
        select j.*, pg_catalog.count(*) over () as total
        from public.user_exercise_stats_refresh_jobs j
        where j.status = any (:statuses)
        order by j.priority, j.created_at, j.id
        limit :shown
    )
    select
        j.id, j.user_id, j.status, j.priority, j.requested_version, j.attempts, j.event_type, j.total,
        coalesce(retrying.error, j.error_message) as error,
        case
            when retrying.id is not null then 'compute'
            when failed.payload ? 'outputs' then 'publish'
            when failed.id is not null then 'compute'
        end as failed_in,
        extract(epoch from pg_catalog.clock_timestamp() - j.created_at) as age,
        extract(epoch from greatest(j.retry_not_before, retrying.retry_not_before)
            - pg_catalog.clock_timestamp()) as retry_in
    from shown j
    -- A batch that is tried again leaves its error in the run, an attempt that failed in the job, which names its run.
    -- A run has its outputs from the end of its compute on.
    left join public.user_stats_projection_runs retrying on retrying.id = j.run_id and retrying.error is not null
    left join public.user_stats_projection_runs failed
        on j.error_message is not null
        and failed.user_id = j.user_id
        and failed.id::text = j.metadata #>> '{last_error,run_id}'
    order by j.priority, j.created_at, j.id
""")
_RESUME = text("select public.stats_projection_resume_job_v1(:job_id)")
_LOCK_TIMEOUT_TEXT = "canceling statement due to lock timeout"


def show(database_url: str, status: Status | None) -> None:
    """Print the open jobs, or those in `status`, the one that is due first in front."""
    with as_service(database_url) as connection:
        jobs = connection.execute(
            _LIST, {"statuses": list(OPEN) if status is None else [status], "shown": SHOWN}
        ).all()
    if not jobs:
        say(f"no {status or 'open'} jobs")
        return
    say(jobs_table(jobs))
    if jobs[0].total > len(jobs):
        say(f"{jobs[0].total - len(jobs)} more are not shown")


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
    return [
        str(job.id),
        str(job.user_id),
        Text(job.status, "red" if job.status == "failed" else ""),
        str(job.priority),
        str(job.attempts),
        duration(float(job.age)),
        duration(float(job.retry_in)) if job.retry_in is not None and job.retry_in > 0 else "-",
        str(job.requested_version),
        job.event_type,
        job.failed_in or "-",
        _error(job),
    ]


def _error(job: Job) -> str:
    """Return the job's last error, with the setting that it ran over."""
    if job.error is None:
        return "-"
    if job.failed_in is not None and TIMEOUT_TEXT in job.error:
        return f"{job.error} (over {job.failed_in}_budget_ms)"
    if job.failed_in is not None and _LOCK_TIMEOUT_TEXT in job.error:
        return f"{job.error} (over half of {job.failed_in}_budget_ms)"
    return str(job.error)
