"""Create-if-absent: puts missing entries into RedBeat and never touches one that is there."""

from __future__ import annotations

import json

from celery import Celery
from celery.schedules import schedule
from redbeat import RedBeatSchedulerEntry
from redbeat.decoder import RedBeatJSONEncoder
from redbeat.schedulers import ensure_conf, get_redis

from schedules.entries import ENTRIES, Entry


def install_missing(app: Celery) -> list[str]:
    """Install the entries that Redis does not have; return their names.

    Safe beside a running beat and beside another installer: an entry's definition is written only where there is
    none, in one command. An entry whose place in the order of due times was lost gets it back.
    """
    ensure_conf(app)
    return [entry.name for entry in ENTRIES if _install(app, entry)]


def _install(app: Celery, entry: Entry) -> bool:
    wanted = RedBeatSchedulerEntry(
        entry.name,
        entry.task,
        # Relative: the next run counts from the last one, so the cadence does not depend on the wall clock.
        schedule(entry.every_seconds, relative=True, app=app),
        options={"queue": entry.queue, "expires": entry.expires_seconds},
        app=app,
    )
    definition = {
        "name": wanted.name,
        "task": wanted.task,
        "args": wanted.args,
        "kwargs": wanted.kwargs,
        "options": wanted.options,
        "schedule": wanted.schedule,
        "enabled": True,
    }
    redis = get_redis(app)
    created = bool(redis.hsetnx(wanted.key, "definition", json.dumps(definition, cls=RedBeatJSONEncoder)))
    redis.zadd(app.redbeat_conf.schedule_key, {wanted.key: wanted.score}, nx=True)
    return created
