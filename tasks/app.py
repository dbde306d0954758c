"""The Celery app: each setting with its reason."""

from __future__ import annotations

from celery import Celery
from celery.signals import beat_init, celeryd_init, worker_process_init

from core.broker import TRANSPORT_OPTIONS, public_broker_url
from core.config import config
from core.processes import die_with_parent
from schedules.entries import ENTRIES
from schedules.settings import redbeat_settings
from tasks.envelopes import TASK_TIME_LIMIT
from tasks.listener import ListenerStep
from tasks.readiness import refuse_other_language
from tasks.transport import use_safe_transport

use_safe_transport()

app = Celery("stats_refresh", include=["tasks.pipeline", "tasks.maintenance"])

# An unset URL must not become Celery's default, a RabbitMQ that may well run on this machine.
_redis_url = config().redis_url or "memory://"

app.conf.update(
    broker_url=public_broker_url(_redis_url),
    broker_connection_retry_on_startup=True,
    # A restart of Redis may take longer than the default hundred tries.
    broker_connection_max_retries=None,
    broker_transport_options=TRANSPORT_OPTIONS,
    # Results live in Postgres. Flower shows what the events carry.
    task_ignore_result=True,
    worker_send_task_events=True,
    # Acked early: a message only hints, and the lease in Postgres brings lost work back.
    task_acks_late=False,
    worker_consumer="tasks.consumer:ReconnectingConsumer",
    # One message at a time, so that a waiting stage never sits behind another in one process.
    worker_prefetch_multiplier=1,
    task_create_missing_queues=True,
    task_default_queue="pipeline",
    task_routes={entry.task: {"queue": entry.queue} for entry in ENTRIES},
    # Above every statement budget, below the lease: budget 60 s < soft 90 s < hard 120 s < lease 300 s.
    task_soft_time_limit=90,
    task_time_limit=TASK_TIME_LIMIT,
    beat_scheduler="schedules.scheduler:StatsScheduler",
    **redbeat_settings(_redis_url, patient=True),
)

# A save is heard at once, in the worker that claims.
app.steps["worker"].add(ListenerStep)


@celeryd_init.connect
@beat_init.connect
def _require_servers(**_: object) -> None:
    """Refuse to start without the servers: a worker on no broker would wait for ever and look healthy."""
    missing = [name for name in ("database_url", "redis_url") if getattr(config(), name) is None]
    if missing:
        names = " and ".join(f"STATS_REFRESH_{name.upper()}" for name in missing)
        raise SystemExit(
            f"stats-refresh: set {names}, or run `stats-refresh up`, which brings its own servers"
        )


@celeryd_init.connect
def _require_english(**_: object) -> None:
    refuse_other_language()


@worker_process_init.connect
def _follow_the_worker(**_: object) -> None:
    """A killed worker leaves no pool child behind that goes on writing."""
    die_with_parent()
