"""`stats-refresh schedule`: what beat fires, when, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from celery import Celery
from rich.text import Text

from core.errors import OperatorError
from ops.discovery import StackUrls
from ops.printing import Column, Table, say
from schedules import operations
from schedules.cadence import describe
from schedules.operations import Listed
from schedules.settings import schedule_app


def show(urls: StackUrls) -> None:
    """Print the entries as a table."""
    say(schedule_table(operations.list_entries(_app(urls))))


def change(urls: StackUrls, name: str, every: str | None, cron: str | None) -> None:
    """Change one entry's cadence and say what it is now."""
    entry = operations.set_cadence(_app(urls), name, every, cron)
    say(f"{entry.name}: {describe(entry.schedule)}")


def set_enabled(urls: StackUrls, name: str, enabled: bool) -> None:
    """Pause or resume one entry's beats."""
    entry = operations.set_enabled(_app(urls), name, enabled)
    say(f"{entry.name}: {'resumed' if enabled else 'paused'}")


def install(urls: StackUrls) -> None:
    """Put back what Redis does not have."""
    installed = operations.install(_app(urls))
    say(f"installed: {', '.join(installed) or 'nothing was missing'}")


def schedule_table(entries: Sequence[Listed]) -> Table:
    """Return the table that `schedule list` prints."""
    columns = [Column(heading) for heading in ("entry", "cadence", "enabled")]
    columns += [Column("runs", justify="right")]
    columns += [Column(heading) for heading in ("last run (UTC)", "next run (UTC)")]
    columns += [Column(heading, justify="right") for heading in ("drift", "dropped", "overlapped", "missed")]
    return Table(columns, [_row(entry) for entry in entries])


def _row(entry: Listed) -> list[str | Text]:
    return [
        entry.name,
        entry.cadence or Text("lost: run schedule install", "red"),
        "yes" if entry.enabled else Text("no", "yellow"),
        str(entry.run_count),
        _time(entry.last_run_at),
        _time(entry.next_run_at),
        f"{entry.drift_seconds:.1f}s",
        str(entry.dropped),
        str(entry.overlapped),
        str(entry.missed),
    ]


def _time(when: datetime | None) -> str:
    return "-" if when is None else f"{when:%Y-%m-%d %H:%M:%S}"


def _app(urls: StackUrls) -> Celery:
    if urls.redis_url is None:
        raise OperatorError("the schedule lives in Redis: set STATS_REFRESH_REDIS_URL")
    return schedule_app(urls.redis_url)
