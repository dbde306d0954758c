"""A save wakes claim: the pipeline worker listens to Postgres and sends `stats.claim`.

Never required. A listener that is away costs latency only: the beats find the same work within a second or two.
"""

from __future__ import annotations

import logging
import os
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg2
import psycopg2.extensions
from celery import bootsteps
from celery.signals import worker_process_init
from sqlalchemy import make_url

from tasks.config import config
from tasks.database import TCP
from tasks.wake import Message, send

if TYPE_CHECKING:
    from celery.worker import WorkController

logger = logging.getLogger(__name__)

CHANNEL = "stats_refresh_dirty"
APPLICATION_NAME = "stats-refresh-listen"

_AT_MOST_EVERY = 0.05
"""Seconds between two claims: a claim takes all it can get, so a burst of saves needs no more."""
_CHECK_EVERY = 30.0
"""Seconds of silence after which the connection has to prove itself: a half-open one never says anything."""
_LONGEST_PAUSE = 5.0


class Listener:
    """A thread with a connection of its own; calls `wake` for every burst of notifications."""

    def __init__(self, database_url: str, wake: Callable[[], None]) -> None:
        self._url = make_url(database_url)
        self._wake = wake
        self._stopping = threading.Event()
        # Its other end becomes readable when the thread is to stop, whatever it waits for.
        self._stopped, self._stop = os.pipe()
        self._connection: psycopg2.extensions.connection | None = None
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)

    def start(self) -> None:
        """Begin to listen; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; returns when the connection is closed, or soon after."""
        self._stopping.set()
        os.write(self._stop, b"x")
        self._thread.join(TCP["connect_timeout"] + 1)

    def forget_in_child(self) -> None:
        """Close a forked child's copy of the connection, without a word to the server."""
        with suppress(OSError, psycopg2.InterfaceError):
            if self._connection is not None:
                os.close(self._connection.fileno())

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            try:
                with self._listening() as connection:
                    pause = 0.0
                    self._forward(connection)
            except (psycopg2.Error, OSError) as error:
                pause = min(_LONGEST_PAUSE, max(0.1, pause * 2))
                logger.warning(
                    "not listening, saves wait for the beats; trying again in %.1f s: %s",
                    pause,
                    str(error).strip().partition("\n")[0],
                    extra={"action": "listen"},
                )
                self._stopping.wait(pause)
            except Exception:
                # A defect must not end the thread in silence.
                logger.exception("the listener failed", extra={"action": "listen"})
                self._stopping.wait(_LONGEST_PAUSE)

    @contextmanager
    def _listening(self) -> Iterator[psycopg2.extensions.connection]:
        _, parameters = self._url.get_dialect()().create_connect_args(self._url)
        connection = psycopg2.connect(**{**TCP, "application_name": APPLICATION_NAME, **parameters})
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(f"listen {CHANNEL}")
            self._connection = connection
            logger.info("listening for saves", extra={"action": "listen"})
            yield connection
        finally:
            self._connection = None
            connection.close()

    def _forward(self, connection: psycopg2.extensions.connection) -> None:
        """Wake for every burst of notifications, until told to stop; raises when the connection is lost."""
        # Something may have been saved while nobody listened.
        heard, woken_at = True, float("-inf")
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            while not self._stopping.is_set():
                wait = max(0.0, woken_at + _AT_MOST_EVERY - time.monotonic()) if heard else _CHECK_EVERY
                ready = selector.select(wait)
                heard |= _drain(connection, silent=not ready and not heard)
                if heard and time.monotonic() >= woken_at + _AT_MOST_EVERY:
                    heard, woken_at = False, time.monotonic()
                    self._wake()


def _drain(connection: psycopg2.extensions.connection, *, silent: bool) -> bool:
    """Take every notification that has arrived; tell whether there was any."""
    if silent:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
    else:
        connection.poll()
    heard = bool(connection.notifies)
    connection.notifies.clear()
    return heard


class ListenerStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Runs the listener in the worker that serves the pipeline queue, in its main process."""

    # After the pool has forked: its children must not have the connection.
    requires = ("celery.worker.components:Pool",)

    def include_if(self, worker: WorkController) -> bool:
        return config().wake == "on" and "pipeline" in worker.app.amqp.queues.consume_from

    def create(self, worker: WorkController) -> Listener:
        url = config().listen_database_url or config().database_url
        assert url is not None  # a worker does not start without
        listener = Listener(url, lambda: send(worker.app, [Message("stats.claim")]))
        # A child that is forked later, for one that died, has it all the same.
        worker_process_init.connect(lambda **_: listener.forget_in_child(), weak=False)
        return listener
