"""The beat entries: their names, tasks and first cadence. An operator's changes live in Redis and stay there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One periodic task as it is first installed."""

    name: str
    task: str
    every_seconds: float
    queue: str
    expires_seconds: float
    """A beat that found no free process by then is dropped: the next one does the same work."""


ENTRIES = (
    Entry("lift-guild-stats-refresh", "stats.claim", 1.0, "pipeline", 5.0),
    Entry("barbelic-stats-projection-compute", "stats.compute", 1.0, "compute", 5.0),
    Entry("barbelic-stats-projection-publish", "stats.publish", 1.0, "pipeline", 5.0),
)
