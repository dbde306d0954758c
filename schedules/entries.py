"""The beat entries: their names, tasks and first cadence. An operator's changes live in Redis and stay there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from schedules.cadence import Cadence, cron, every

ENTRY_HEADER = "stats_entry"
"""The message's header that says which entry fired it: an operator who edits the options can't lose it."""


@dataclass(frozen=True)
class Entry:
    """One periodic task as it is first installed."""

    name: str
    task: str
    cadence: Callable[[], Cadence]
    queue: str
    """Where its task goes, whoever sends it."""
    expires_seconds: float
    """A beat that found no free process by then is dropped: the next one does the same work."""
    phase_seconds: float = 0.0
    """Where in its second an interval entry fires."""


_EACH_SECOND = partial(every, 1.0)
_EACH_MINUTE = partial(every, 60.0)

ENTRIES = (
    # In the order of the work and a little apart: what one beat's claim takes, the same second's compute and publish
    # find. All at once, each stage would wait a second for the one before it.
    # Compute has a queue of its own: a minute of it must not hold up claim and publish. So have the pages, so that a
    # backlog of them never delays a save.
    Entry("lift-guild-stats-refresh", "stats.claim", _EACH_SECOND, "pipeline", 5.0),
    Entry("barbelic-stats-projection-compute", "stats.compute", _EACH_SECOND, "compute", 5.0, 0.25),
    Entry("barbelic-stats-projection-publish", "stats.publish", _EACH_SECOND, "pipeline", 5.0, 0.5),
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

STAGE_ENTRIES = tuple(entry for entry in ENTRIES if entry.cadence is _EACH_SECOND)
"""Those of claim, compute and publish."""

PHASES: Mapping[str, timedelta] = {entry.name: timedelta(seconds=entry.phase_seconds) for entry in ENTRIES}
"""By name: of the release, not of what Redis keeps, so that no operator's edit can lose it."""
