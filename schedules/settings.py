"""RedBeat's settings: where the entries live, and how long the holder of the lock may be silent."""

from __future__ import annotations

from typing import Any

from celery import Celery
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from core.broker import UrlCredentials, has_password, without_password
from core.redis_keys import PREFIX

KEY_PREFIX = f"{PREFIX}beat:"
LOCK_SECONDS = 5
"""After a killed beat a second one takes over in this time. A beat that lost its lock takes it again or stands by."""
TICK_SECONDS = 1
"""How often beat looks at its entries at least: an edit is in force within this time."""


def redbeat_settings(redis_url: str, *, patient: bool) -> dict[str, Any]:
    """Return Celery's settings for RedBeat; a `patient` client sits out an outage of Redis of a minute."""
    password = {"credential_provider": UrlCredentials(redis_url)} if has_password(redis_url) else {}
    return {
        # What stands here would overwrite an operator's edits at every start of beat.
        "beat_schedule": {},
        "beat_max_loop_interval": TICK_SECONDS,
        # Workers tell their settings to whoever asks.
        "redbeat_redis_url": without_password(redis_url),
        "redbeat_key_prefix": KEY_PREFIX,
        "redbeat_lock_timeout": LOCK_SECONDS,
        "redbeat_redis_options": {
            "retry": Retry(ExponentialBackoff(cap=1, base=0.1), retries=60 if patient else 0),
            # A server that accepts and says nothing is an outage too.
            "socket_timeout": 10,
            "socket_connect_timeout": 5,
            # Whatever bytes somebody has written are read, and written back, as they are.
            "encoding_errors": "surrogateescape",
            **password,
        },
        "enable_utc": True,
        "timezone": "UTC",
    }


def schedule_app(redis_url: str) -> Celery:
    """Return an app that only knows the schedule, for commands: it fails at once where Redis does not answer."""
    # No messages are sent from here. Celery's default is a RabbitMQ that may well run on this machine.
    app = Celery("stats_refresh_schedule", broker="memory://", set_as_current=False)
    app.conf.update(redbeat_settings(redis_url, patient=False))
    return app
