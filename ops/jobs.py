"""`stats-refresh jobs`: what waits, runs or has used up its attempts, and a fresh start for the latter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Literal
from uuid import UUID

from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import Row, text

from ops.service_calls import as_service

Status = Literal["pending", "processing", "failed"]
OPEN: tuple[Status, ...] = ("pending", "processing", "failed")
SHOWN = 50

_LIST = text("""
    select
        j.id, j.user_id, j.status, j.priority, j.requested_version, j.attempts, j.event_type, j.error_message,
        pg_catalog.clock_timestamp() - j.created_at as age,
        case
            when j.retry_not_before > pg_catalog.clock_timestamp()
                then j.retry_not_before at time zone 'UTC'
        end as retry_not_before,
        pg_catalog.count(*) over () as total
    from public.user_exercise_stats_refresh_jobs j
    where j.status = any (:statuses)
    order by j.priority, j.created_at, j.id
    limit :shown
""")
_RESUME = text("select public.stats_projection_resume_job_v1(:job_id)")


def show(database_url: str, status: Status | None) -> None:
    """Print the open jobs, or those in `status`, the one that is due first in front."""
    with as_service(database_url) as connection:
        jobs = connection.execute(
            _LIST, {"statuses": list(OPEN) if status is None else [status], "shown": SHOWN}
        ).all()
    console = Console()
    if not jobs:
        console.print(f"no {status or 'open'} jobs")
        return
    console.print(jobs_table(jobs))
    if jobs[0].total > len(jobs):
        console.print(f"{jobs[0].total - len(jobs)} more are not shown")


def resume(database_url: str, job_id: UUID) -> None:
    """Give the exhausted job `job_id` fresh attempts."""
    with as_service(database_url) as connection:
        resumed = connection.execute(_RESUME, {"job_id": job_id}).scalar_one()
    Console().print(
        f"job {resumed['job_id']} of account {resumed['user_id']} is pending again", soft_wrap=True
    )


def jobs_table(jobs: Sequence[Row[tuple[object, ...]]]) -> Table:
    """Return jobs as a table. Ids are never folded, so that they can be copied; an error takes several lines."""
    table = Table(title="stats-refresh jobs", show_lines=True)
    table.add_column("job\naccount", no_wrap=True)
    table.add_column("status\npriority", no_wrap=True)
    table.add_column("attempts", justify="right")
    table.add_column("waits for", justify="right", no_wrap=True)
    table.add_column("event, last error", overflow="fold")
    for job in jobs:
        table.add_row(
            f"{job.id}\n{job.user_id}",
            f"{job.status}\n{job.priority}",
            str(job.attempts),
            str(timedelta(seconds=int(job.age.total_seconds()))),
            Text("\n".join(_story(job))),
        )
    return table


def _story(job: Row[tuple[object, ...]]) -> Iterator[str]:
    yield f"{job.event_type}, generation {job.requested_version}"
    if job.error_message:
        yield job.error_message
    if job.retry_not_before:
        yield f"not before {job.retry_not_before:%Y-%m-%d %H:%M:%S} UTC"
