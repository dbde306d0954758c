"""The workers' consumer, which outlives the loss of Redis and whatever a message does to it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import cast

from celery.worker.consumer import Consumer
from kombu.connection import Connection
from kombu.message import Message
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tasks.dropped import drop

logger = logging.getLogger(__name__)

# Not kombu's own list, in which a KeyError of any code is a lost connection.
_CONNECTION_ERRORS = (OSError, RedisConnectionError, RedisTimeoutError)


class ReconnectingConsumer(Consumer):  # type: ignore[misc]
    """Reconnects also while it holds messages that are not acked.

    kombu gives those back when it closes the lost connection, asks a transport that has none any more, and the
    AttributeError ends the worker. Nothing is lost with it: the beats do the work.
    """

    def ensure_connected(self, conn: Connection) -> Connection:
        # The default waits longer each time, up to half a minute: a Redis that is back should be found in seconds.
        patient = partial(conn.ensure_connection, interval_start=0.5, interval_step=0.5, interval_max=2)
        setattr(conn, "ensure_connection", patient)  # noqa: B010
        return cast(Connection, super().ensure_connected(conn))

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        try:
            super().on_connection_error_after_connected(exc)
        except Exception as error:
            self.connection = None
            logger.warning(
                "the lost connection was not closed cleanly (%s); connecting again",
                error,
                extra={"action": "reconnect"},
            )

    def create_task_handler(self, **options: object) -> Callable[[Message], None]:
        """Return what takes a message: one that it can't take is dropped, where Celery's worker would end by it.

        The transport has looked at it before; this is for what only the worker's own code fails on.
        """
        take = super().create_task_handler(**options)

        def take_or_drop(message: Message) -> None:
            try:
                take(message)
            except _CONNECTION_ERRORS:
                raise
            except Exception as error:
                queue = (message.delivery_info or {}).get("routing_key") or "a queue"
                drop(queue, len(message.body or b""), f"the worker can't take it ({type(error).__name__})")
                if not message.acknowledged:
                    message.reject()

        return take_or_drop
