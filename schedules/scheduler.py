"""The scheduler of beat: RedBeat with fixed-rate entries, a reconciler, and a lock that it takes again when lost."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

from celery import Celery
from celery.utils.log import get_logger
from redbeat.schedulers import RedBeatScheduler, acquire_distributed_beat_lock, get_redis
from redis.exceptions import LockError, RedisError

from schedules.entry import FixedRateEntry
from schedules.install import install_missing

logger = get_logger("celery.beat")

ENTRY_HEADER = "stats_entry"
"""The message's header that says which entry fired it: an operator who edits the options can't lose it."""
RECONCILE_SECONDS = 2.0


class StatsScheduler(RedBeatScheduler):  # type: ignore[misc]
    """Fires the entries that Redis holds, and puts those of this release back where Redis lost them."""

    Entry = FixedRateEntry
    _reconciled_at = 0.0
    _is_closed = False

    def __init__(self, app: Celery, **kwargs: object) -> None:
        _require_redis(app)
        super().__init__(app, **kwargs)

    def setup_schedule(self) -> None:
        try:
            super().setup_schedule()
        except RedisError as error:
            # The client has tried for a minute. Whatever supervises beat starts it again.
            raise SystemExit(f"stats-refresh: Redis does not answer, beat ends: {error}") from error
        installed = install_missing(self.app)
        self._reconciled_at = time.monotonic()
        if installed:
            logger.info("beat: installed %s", ", ".join(installed))

    @property
    def schedule(self) -> dict[str, FixedRateEntry]:
        """The entries that are due, and all that fall due before the next tick.

        RedBeat looks at one of those only, the first by the whole second: beat would sleep over the others' phases.
        """
        redis, key = get_redis(self.app), self.app.redbeat_conf.schedule_key
        soon = time.time() + self.max_interval
        due = FixedRateEntry.from_keys(redis.zrangebyscore(key, 0, soon), self.app)
        for entry_key in [entry_key for entry_key, entry in due.items() if entry is None]:
            # The reconciler puts it back whole where it is one of this release.
            logger.warning("beat: %s has a due time and no definition that can be read: removed", entry_key)
            redis.zrem(key, entry_key)
        return {entry.name: entry for entry in due.values() if entry is not None}

    def tick(self, **kwargs: object) -> float:
        """Fire what is due; return the seconds to the next one. RedBeat's own would extend the lock once more.

        Raises SystemExit once it was closed.
        """
        if self._is_closed:
            raise SystemExit
        self._hold_lock()
        if time.monotonic() - self._reconciled_at > RECONCILE_SECONDS:
            self._reconcile()
        waits: list[float] = [
            self.maybe_due(entry, producer=self.producer) for entry in self.schedule.values()
        ]
        return min([float(self.max_interval), *(wait for wait in waits if wait)])

    def apply_async(
        self, entry: FixedRateEntry, producer: object = None, advance: bool = True, **kwargs: object
    ) -> object:
        fired = self.reserve(entry) if advance else entry
        # On a copy: what is stored stays as the operator wrote it.
        named = FixedRateEntry(**dict(fired, options=_with_header(fired)))
        return super().apply_async(named, producer=producer, advance=False, **kwargs)

    def close(self) -> None:
        # Beat's signal handler closes the scheduler and raises SystemExit, wherever the process is at that moment. In a
        # destructor, or where an error of sending is caught, that is lost: the next tick would take the lock again and
        # go on for good, deaf to the signal.
        self._is_closed = True
        super().close()

    def _hold_lock(self) -> None:
        """Extend the lock. Where it was lost, take it again, or stand by until the beat that took it is gone.

        RedBeat would end the process instead: Redis lost the key (a restart, FLUSHALL), or we were silent for too
        long and another beat took over.
        """
        try:
            if self.lock is not None:
                self.lock.extend(int(self.lock_timeout))
                return
        except LockError as error:
            logger.warning("beat: lost its lock (%s), taking it again", error)
        acquire_distributed_beat_lock(sender=_Holder(self))
        self._reconcile()

    def _reconcile(self) -> None:
        restored = install_missing(self.app)
        self._reconciled_at = time.monotonic()
        if restored:
            logger.warning(
                "beat: Redis had lost or misplaced %s: put back",
                ", ".join(restored),
                extra={"action": "reconcile", "entries": restored},
            )


def _require_redis(app: Celery) -> None:
    """Refuse to start without one, in a line: what Celery asks beat's first signal comes after its first command."""
    if urlsplit(app.conf.redbeat_redis_url).scheme not in ("redis", "rediss", "unix"):
        raise SystemExit(
            "stats-refresh: the schedule lives in Redis: set STATS_REFRESH_REDIS_URL, or run `stats-refresh up`,"
            " which brings its own servers"
        )


class _Holder:
    """What RedBeat's signal handler takes for the beat service."""

    def __init__(self, scheduler: StatsScheduler) -> None:
        self.scheduler = scheduler


def _with_header(entry: FixedRateEntry) -> dict[str, Any]:
    options = dict(entry.options)
    return {**options, "headers": {**(options.get("headers") or {}), ENTRY_HEADER: entry.name}}
