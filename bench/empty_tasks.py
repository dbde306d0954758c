"""A Celery app with Celery's own tasks alone, for workers like ours in all but what they take."""

from __future__ import annotations

from celery import Celery

from core.broker import TRANSPORT_OPTIONS, broker_url
from core.config import config

PREFIX = "empty-tasks:"

# The settings of tasks.app that cost time; importing that would have these workers, too, drop what is not ours.
app = Celery("empty_tasks", broker=broker_url(config().redis_url or "memory://"), set_as_current=False)
app.conf.update(
    broker_transport_options={**TRANSPORT_OPTIONS, "global_keyprefix": PREFIX},
    task_ignore_result=True,
    worker_send_task_events=True,
    worker_prefetch_multiplier=1,
)
