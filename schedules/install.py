"""Create-if-absent: puts missing entries into RedBeat and never touches one that is there."""

from __future__ import annotations

from datetime import datetime

from celery import Celery
from redbeat.schedulers import ensure_conf, get_redis
from redis import Redis

from schedules.entries import ENTRIES, Entry
from schedules.entry import FixedRateEntry


def install_missing(app: Celery) -> list[str]:
    """Install the entries that Redis does not have, whole or in part; return the names of those put right.

    Safe beside a running beat and beside another installer: an entry's definition is written only where there is
    none that can be read, in one command. An entry whose due time was lost, or does not follow from its
    definition, gets it back. One whose last run is still to come would be silent until then: it is due again one
    interval from now.
    """
    ensure_conf(app)
    redis = get_redis(app)
    with redis.pipeline() as pipe:
        for entry in ENTRIES:
            key = FixedRateEntry.generate_key(app, entry.name)
            pipe.hgetall(key)
            pipe.zscore(app.redbeat_conf.schedule_key, key)
        found = pipe.execute()
    states = zip(ENTRIES, found[::2], found[1::2], strict=True)
    return [entry.name for entry, stored, score in states if _put_right(app, redis, entry, stored, score)]


def _put_right(app: Celery, redis: Redis, entry: Entry, stored: dict[str, str], score: float | None) -> bool:
    kept = FixedRateEntry.decoded(stored.get("definition"), stored.get("meta"), app)
    if kept is None or kept.name != entry.name:
        _create(app, redis, entry, broken="definition" in stored)
    elif score is None or kept.is_ahead or (kept.enabled and _is_too_late(kept, score)):
        kept.restore_due_time()
    else:
        return False
    return True


def _is_too_late(kept: FixedRateEntry, score: float) -> bool:
    # Scores are whole seconds.
    return score < 0 or score > float(kept.score) + 1


def _create(app: Celery, redis: Redis, entry: Entry, *, broken: bool) -> None:
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
        if broken:
            pipe.delete(wanted.key)
        pipe.hsetnx(wanted.key, "definition", wanted._definition_json())
        pipe.hsetnx(wanted.key, "meta", wanted._meta_json())
        pipe.execute()
    FixedRateEntry.named(app, entry.name).restore_due_time()


def _now(entry: FixedRateEntry) -> datetime:
    now: datetime = entry.schedule.now()
    return now
