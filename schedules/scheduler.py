"""The scheduler of beat: RedBeat with fixed-rate entries, a reconciler, and a lock that it takes again when lost."""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from celery import Celery
from celery.signals import beat_init
from celery.utils.log import get_logger
from redbeat.schedulers import RedBeatScheduler, acquire_distributed_beat_lock, get_redis
from redis import Redis
from redis.exceptions import LockError, RedisError, ResponseError

from core.redis_keys import is_wrong_type, set_aside
from schedules.entries import ENTRIES, ENTRY_HEADER
from schedules.entry import FixedRateEntry
from schedules.install import install_missing, set_entry_aside

logger = get_logger("celery.beat")

# The first tick takes the lock. RedBeat's own would wait for ever for one that nobody holds and that never ends.
beat_init.disconnect(acquire_distributed_beat_lock)

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
        # RedBeat's own removes static entries that left the settings. There are none, and its list of them is one
        # more key to be damaged.
        try:
            installed = install_missing(self.app)
        except RedisError as error:
            # The client has tried for a minute. Whatever supervises beat starts it again.
            raise SystemExit(f"stats-refresh: Redis does not answer, beat ends: {error}") from error
        self._reconciled_at = time.monotonic()
        if installed:
            logger.info("beat: installed %s", ", ".join(installed))

    @property
    def schedule(self) -> dict[str, FixedRateEntry]:
        """The entries that are due, and all that fall due before the next tick.

        RedBeat looks at one of those only, the first by the whole second: beat would sleep over the others' phases.
        """
        due = FixedRateEntry.from_keys(self._due_keys(), self.app)
        unreadable = {key for key, entry in due.items() if entry is None}
        for key in unreadable - self._own_keys:
            set_entry_aside(self.app, key)
        if unreadable & self._own_keys:
            # It keeps what can be read of them.
            self._reconcile()
        return {entry.name: entry for entry in due.values() if entry is not None}

    @cached_property
    def _own_keys(self) -> frozenset[str]:
        return frozenset(FixedRateEntry.generate_key(self.app, entry.name) for entry in ENTRIES)

    def _due_keys(self) -> list[str]:
        redis, key = get_redis(self.app), self.app.redbeat_conf.schedule_key
        try:
            keys: list[str] = redis.zrangebyscore(key, 0, time.time() + self.max_interval)
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self._reconcile()
            return []
        return keys

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
        try:
            super().close()
        except RedisError as error:
            logger.warning("beat: its lock is not released, it ends by itself: %s", error)

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
        self._take_lock()
        self._reconcile()

    def _take_lock(self) -> None:
        redis = get_redis(self.app)
        lock = redis.lock(self.lock_key, timeout=self.lock_timeout)
        lock.lua_extend = redis.register_script(_EXTEND_LOCK)
        while not lock.acquire(blocking=False):
            if not self._free_lock(redis):
                time.sleep(self.max_interval)
        logger.info("beat: Acquired lock")
        self.lock = lock

    def _free_lock(self, redis: Redis) -> bool:
        """Free the lock where what stands there is none; give one that would end too late, or never, its time."""
        if (aside := set_aside(redis, self.lock_key, unless="string")) is not None:
            logger.warning("beat: %s is no lock: set aside as %s", self.lock_key, aside)
            return True
        if redis.eval(_BOUND_LOCK, 1, self.lock_key, int(self.lock_timeout)):
            # A holder that is alive extends it each second.
            logger.warning(
                "beat: %s would not have ended: it does in %d s where nobody holds it",
                self.lock_key,
                self.lock_timeout,
            )
        return False

    def _reconcile(self) -> None:
        restored = install_missing(self.app)
        self._reconciled_at = time.monotonic()
        if restored:
            logger.warning(
                "beat: Redis had lost or misplaced %s: put back",
                ", ".join(restored),
                extra={"action": "reconcile", "entries": restored},
            )


# redis-py's own adds the time to what is left, RedBeat's gives up a lock that somebody has made endless.
_EXTEND_LOCK = """
    if redis.call('type', KEYS[1]).ok ~= 'string' or redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('pexpire', KEYS[1], ARGV[2])
"""
_BOUND_LOCK = """
    local left = redis.call('ttl', KEYS[1])
    if left ~= -1 and left <= tonumber(ARGV[1]) then return 0 end
    return redis.call('expire', KEYS[1], ARGV[1])
"""


def _require_redis(app: Celery) -> None:
    """Refuse to start without one, in a line: what Celery asks beat's first signal comes after its first command."""
    if urlsplit(app.conf.redbeat_redis_url).scheme not in ("redis", "rediss", "unix"):
        raise SystemExit(
            "stats-refresh: the schedule lives in Redis: set STATS_REFRESH_REDIS_URL, or run `stats-refresh up`,"
            " which brings its own servers"
        )


def _with_header(entry: FixedRateEntry) -> dict[str, Any]:
    options = dict(entry.options)
    return {**options, "headers": {**(options.get("headers") or {}), ENTRY_HEADER: entry.name}}
