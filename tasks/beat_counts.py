"""Beats that did no work: counted in Redis, shown by `stats-refresh schedule list`, and no line of a worker's log.

Three entries a second would write half a million lines a day that say nothing.
"""

from __future__ import annotations

import logging
import re

from celery import current_task
from celery.app.task import Context
from celery.signals import after_setup_logger, task_revoked
from redis import RedisError

from core.redis_client import quick_redis
from schedules.counters import Reason, count
from schedules.entries import STAGE_ENTRIES
from tasks.beats import entry_of

logger = logging.getLogger(__name__)

_STAGES = tuple(entry.task for entry in STAGE_ENTRIES)
"""What beats every second. The pages of the minutes have their lines also where there was nothing to do."""
_NO_WORK = re.compile(r"'response': '(idle|at_capacity|paused|overlap)'")
"""In the text that Celery's line of a successful task makes of its answer."""


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


@after_setup_logger.connect
def _leave_out_idle_beats(loglevel: int | None = None, **_: object) -> None:
    """At INFO; DEBUG shows all. Each task that did something has its line when it ends, and failures have theirs."""
    if loglevel == logging.INFO:
        logging.getLogger("celery.worker.strategy").setLevel(logging.WARNING)  # "received"
        logging.getLogger("celery.app.trace").addFilter(_says_something)


def _says_something(record: logging.LogRecord) -> bool:
    done = record.args
    if record.levelno != logging.INFO or not isinstance(done, dict) or done.get("name") not in _STAGES:
        return True
    worked = _NO_WORK.search(str(done.get("return_value"))) is None
    return worked or not current_task or entry_of(current_task.request) is None
