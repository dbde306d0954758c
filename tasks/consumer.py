"""The workers' consumer, which outlives the loss of Redis."""

from __future__ import annotations

import logging
from functools import partial
from typing import cast

from celery.worker.consumer import Consumer
from kombu.connection import Connection

logger = logging.getLogger(__name__)


class ReconnectingConsumer(Consumer):  # type: ignore[misc]
    """Reconnects also while it holds messages that are not acked.

    kombu gives those back when it closes the lost connection, asks a transport that has none any more, and the
    AttributeError ends the worker. Nothing is lost with it: the broker redelivers what was held.
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
