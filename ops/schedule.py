"""`stats-refresh schedule`: what beat fires, when, and what became of it."""

from __future__ import annotations

from datetime import datetime

from celery import Celery
from rich.console import Console
from rich.table import Table

from ops.discovery import StackUrls
from ops.errors import OperatorError
from schedules import operations
from schedules.operations import Listed
from schedules.settings import schedule_app


def show(urls: StackUrls) -> None:
    """Print the entries as a table."""
    Console().print(schedule_table(operations.list_entries(_app(urls))))


def change(urls: StackUrls, name: str, every: str | None, cron: str | None) -> None:
    """Change one entry's cadence and say what it is now."""
    cadence = operations.set_cadence(_app(urls), name, every, cron)
    Console().print(f"{name}: {cadence}")


def set_enabled(urls: StackUrls, name: str, enabled: bool) -> None:
    """Pause or resume one entry's beats."""
    operations.set_enabled(_app(urls), name, enabled)
    Console().print(f"{name}: {'resumed' if enabled else 'paused'}")


def install(urls: StackUrls) -> None:
    """Put back what Redis does not have."""
    installed = operations.install(_app(urls))
    Console().print(f"installed: {', '.join(installed) or 'nothing was missing'}")


def schedule_table(entries: list[Listed]) -> Table:
    """Return the table that `schedule list` prints."""
    table = Table(title="beat entries (UTC)")
    table.add_column("entry", no_wrap=True)
    for heading in ("cadence", "enabled", "last run", "next run"):
        table.add_column(heading)
    for heading in ("runs", "drift s", "dropped", "overlapped", "missed"):
        table.add_column(heading, justify="right")
    for entry in entries:
        table.add_row(
            entry.name,
            entry.cadence or "lost: run schedule install",
            "yes" if entry.enabled else "no",
            _time(entry.last_run_at),
            _time(entry.next_run_at),
            str(entry.run_count),
            f"{entry.drift_seconds:.1f}",
            str(entry.dropped),
            str(entry.overlapped),
            str(entry.missed),
        )
    return table


def _time(when: datetime | None) -> str:
    return "-" if when is None else f"{when:%Y-%m-%d %H:%M:%S}"


def _app(urls: StackUrls) -> Celery:
    if urls.redis_url is None:
        raise OperatorError("the schedule lives in Redis: set STATS_REFRESH_REDIS_URL")
    return schedule_app(urls.redis_url)
