"""Counts, in Redis, the beats that did no work; `stats-refresh schedule list` shows them."""

from __future__ import annotations

import logging

from celery.app.task import Context
from celery.signals import task_revoked
from redis import RedisError

from schedules.counters import Reason, count
from tasks.beats import entry_of
from tasks.redis_client import quick_redis

logger = logging.getLogger(__name__)


@task_revoked.connect
def _count_dropped(request: Context | None = None, expired: bool = False, **_: object) -> None:
    """A message that expired in the queue: Celery drops it in the worker's main process and says `revoked`."""
    if expired and request is not None:
        count_beat("dropped", request)


def count_beat(reason: Reason, request: Context) -> None:
    """Count the message that `request` came with, if a beat sent it. A Redis that is away costs the count."""
    entry = entry_of(request)
    if entry is None:
        return
    try:
        count(quick_redis(), reason, entry)
    except RedisError as error:
        logger.warning("%s: a beat was %s, not counted: %s", entry, reason, error)
