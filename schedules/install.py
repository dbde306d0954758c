"""Create-if-absent: puts missing entries into RedBeat and never touches one that is there and can be read."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from celery import Celery
from celery.utils.log import get_logger
from redbeat.schedulers import ensure_conf, get_redis
from redis import Redis

from core.redis_keys import is_wrong_type, set_aside, shown
from schedules.entries import ENTRIES, Entry
from schedules.entry import FixedRateEntry

logger = get_logger("celery.beat")


def install_missing(app: Celery) -> list[str]:
    """Install the entries that Redis does not have, whole or in part; return the names of those put right.

    Safe beside a running beat and beside another installer: an entry's definition is written only where there is
    none that can be read, in one command. An entry whose due time was lost, or does not follow from its
    definition, gets it back. One whose last run is still to come would be silent until then: it is due again one
    interval from now.
    """
    ensure_conf(app)
    redis = get_redis(app)
    keep_schedule_readable(app)
    with redis.pipeline() as pipe:
        for entry in ENTRIES:
            key = FixedRateEntry.generate_key(app, entry.name)
            pipe.hmget(key, "definition", "meta")
            pipe.zscore(app.redbeat_conf.schedule_key, key)
        found = pipe.execute(raise_on_error=False)
    states = zip(ENTRIES, found[::2], found[1::2], strict=True)
    return [entry.name for entry, stored, score in states if _put_right(app, redis, entry, stored, score)]


def keep_schedule_readable(app: Celery) -> None:
    """Set the schedule aside where its key holds something else; the due times follow from the entries."""
    ensure_conf(app)
    key = app.redbeat_conf.schedule_key
    if (aside := set_aside(get_redis(app), key, unless="zset")) is not None:
        _warn(key, "is no sorted set", aside)


def set_entry_aside(app: Celery, key: str) -> None:
    """Set aside what stands under `key` and is no entry, and take it from the schedule.

    The reconciler puts it back whole where it is one of this release.
    """
    redis = get_redis(app)
    # First: the key of one that has nothing but a due time may be of broken bytes, and is kept by the warning alone.
    redis.zrem(app.redbeat_conf.schedule_key, key)
    _warn(key, "is no entry that can be read", set_aside(redis, key))


def _warn(key: str, problem: str, aside: str | None) -> None:
    logger.warning(
        "beat: %s %s: %s",
        shown(key),
        problem,
        "removed" if aside is None else f"set aside as {shown(aside)}",
        extra={"action": "set_aside", "key": shown(key)},
    )


def _put_right(app: Celery, redis: Redis, entry: Entry, stored: object, score: object) -> bool:
    for reply in (stored, score):
        if isinstance(reply, Exception) and not is_wrong_type(reply):
            raise reply
    definition, meta = (None, None) if isinstance(stored, Exception) else cast(list[str | None], stored)
    kept = FixedRateEntry.decoded(definition, meta, app)
    if kept is None and meta is not None and _is(entry, FixedRateEntry.decoded(definition, None, app)):
        # Only when it ran last is lost: what an operator has set stays.
        redis.hdel(FixedRateEntry.generate_key(app, entry.name), "meta")
        FixedRateEntry.named(app, entry.name).restore_due_time()
    elif not _is(entry, kept):
        if definition is not None or isinstance(stored, Exception):
            set_entry_aside(app, FixedRateEntry.generate_key(app, entry.name))
        _create(app, redis, entry)
    elif kept is not None and (
        not isinstance(score, float) or kept.is_ahead or (kept.enabled and _is_too_late(kept, score))
    ):
        kept.restore_due_time()
    else:
        return False
    return True


def _is(entry: Entry, kept: FixedRateEntry | None) -> bool:
    return kept is not None and kept.name == entry.name


def _is_too_late(kept: FixedRateEntry, score: float) -> bool:
    # Scores are whole seconds.
    return score < 0 or score > float(kept.score) + 1


def _create(app: Celery, redis: Redis, entry: Entry) -> None:
    wanted = FixedRateEntry(
        entry.name,
        entry.task,
        entry.cadence(),
        options={"queue": entry.queue, "expires": entry.expires_seconds},
        app=app,
    )
    # A cron line that was never run is due at its next minute, an interval at once.
    wanted.last_run_at = _now(wanted) if not hasattr(wanted.schedule, "run_every") else None
    with redis.pipeline() as pipe:
        pipe.hsetnx(wanted.key, "definition", wanted._definition_json())
        pipe.hsetnx(wanted.key, "meta", wanted._meta_json())
        pipe.execute()
    FixedRateEntry.named(app, entry.name).restore_due_time()


def _now(entry: FixedRateEntry) -> datetime:
    now: datetime = entry.schedule.now()
    return now
