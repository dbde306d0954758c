"""The beat entries: their names, tasks and first cadence. An operator's changes live in Redis and stay there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from schedules.cadence import Cadence, cron, every


@dataclass(frozen=True)
class Entry:
    """One periodic task as it is first installed."""

    name: str
    task: str
    cadence: Callable[[], Cadence]
    queue: str
    expires_seconds: float
    """A beat that found no free process by then is dropped: the next one does the same work."""


_EACH_SECOND = partial(every, 1.0)
_EACH_MINUTE = partial(every, 60.0)

ENTRIES = (
    Entry("lift-guild-stats-refresh", "stats.claim", _EACH_SECOND, "pipeline", 5.0),
    Entry("barbelic-stats-projection-compute", "stats.compute", _EACH_SECOND, "compute", 5.0),
    Entry("barbelic-stats-projection-publish", "stats.publish", _EACH_SECOND, "pipeline", 5.0),
    Entry(
        "barbelic-stats-cron-history-purge",
        "stats.purge_history",
        partial(cron, "7-57/10 * * * *"),
        "maintenance",
        300.0,
    ),
    Entry("lift-guild-pr-overview-snapshot-rollover", "stats.rollover", _EACH_MINUTE, "maintenance", 60.0),
    Entry("barbelic-stats-backfill-scan", "stats.repair", _EACH_MINUTE, "maintenance", 60.0),
    Entry("barbelic-stats-catalog-invalidation", "stats.catalog", _EACH_MINUTE, "maintenance", 60.0),
)
