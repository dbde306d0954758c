"""What an operator does to the schedule: look, change a cadence, pause, resume, install what is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from celery import Celery
from redbeat.schedulers import get_redis

from core.errors import OperatorError
from schedules.cadence import Cadence, describe, parse
from schedules.counters import counts
from schedules.entries import ENTRIES
from schedules.entry import FixedRateEntry
from schedules.entry_names import full_name
from schedules.install import install_missing, keep_schedule_readable


@dataclass(frozen=True)
class Listed:
    """One entry as Redis has it; `cadence` is None where Redis lost it."""

    name: str
    cadence: str | None
    enabled: bool
    last_run_at: datetime | None
    next_run_at: datetime | None
    run_count: int
    drift_seconds: float
    """How long the next run is overdue: 0 for a beat that keeps up."""
    dropped: int
    overlapped: int
    missed: int


def list_entries(app: Celery) -> list[Listed]:
    """Return the entries of this release in their order."""
    counted = counts(get_redis(app))
    listed = []
    for known in ENTRIES:
        numbers = {reason: by_entry.get(known.name, 0) for reason, by_entry in counted.items()}
        try:
            entry = FixedRateEntry.named(app, known.name)
        except KeyError:
            listed.append(Listed(known.name, None, False, None, None, 0, 0.0, **numbers))
            continue
        next_run_at = _next_run_at(entry)
        drift = (datetime.now(UTC) - next_run_at).total_seconds() if next_run_at else 0.0
        last_run_at = entry.last_run_at if entry.total_run_count else None
        listed.append(
            Listed(
                known.name,
                describe(entry.schedule),
                entry.enabled,
                last_run_at,
                next_run_at,
                entry.total_run_count,
                max(0.0, drift),
                **numbers,
            )
        )
    return listed


def _next_run_at(entry: FixedRateEntry) -> datetime | None:
    """Return when the entry is due, which may be past; None for one that is paused or was never run."""
    if not entry.enabled or entry.last_run_at is None:
        return None
    last: datetime = entry.last_run_at
    # How long from now: an overdue one comes out as a negative wait.
    wait: timedelta = entry.schedule.remaining_estimate(last)
    return datetime.now(UTC) + wait


def set_cadence(app: Celery, name: str, every: str | None, cron: str | None) -> FixedRateEntry:
    """Change the cadence of `name`, which may be short, and nothing else; in force at beat's next tick.

    Returns the entry as it is now.
    """
    cadence = parse(every, cron)

    def change(entry: FixedRateEntry) -> None:
        entry.schedule = _of(app, cadence)

    return _edit(app, name, change)


def _of(app: Celery, cadence: Cadence) -> Cadence:
    cadence.app = app
    return cadence


def set_enabled(app: Celery, name: str, enabled: bool) -> FixedRateEntry:
    """Pause or resume the beats of `name`, which may be short; woken runs go on. Returns the entry as it is now."""

    def change(entry: FixedRateEntry) -> None:
        entry.enabled = enabled

    return _edit(app, name, change)


def install(app: Celery) -> list[str]:
    """Put back the entries that Redis does not have; return their names."""
    return install_missing(app)


def _edit(app: Celery, called: str, change: Callable[[FixedRateEntry], None]) -> FixedRateEntry:
    name = full_name(called)
    keep_schedule_readable(app)
    try:
        return FixedRateEntry.named(app, name).edit(change)
    except KeyError as error:
        raise OperatorError(
            f"{name}: Redis does not have this entry; run stats-refresh schedule install"
        ) from error
