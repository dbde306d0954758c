"""A save wakes claim: the pipeline worker listens to Postgres and sends `stats.claim`.

Never required. A listener that is away costs latency only: the beats find the same work within a second or two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from celery import bootsteps
from celery.signals import worker_process_init

from core.config import config
from core.listening import ANSWER_SECONDS, HEARTBEAT_SECONDS, Listener, Subject
from tasks.wake import Message, send

if TYPE_CHECKING:
    from celery.worker import WorkController

CHANNEL = "stats_refresh_dirty"
APPLICATION_NAME = "stats-refresh-listen"
HEARTBEAT_APPLICATION_NAME = "stats-refresh-heartbeat"

_SAVES = Subject(CHANNEL, "saves", "saves wait for the beats", APPLICATION_NAME, HEARTBEAT_APPLICATION_NAME)
_AT_MOST_EVERY = 0.05
"""Seconds between two claims: a claim takes all it can get, so a burst of saves needs no more."""


def listener_of_saves(
    database_url: str,
    wake: Callable[[], None],
    *,
    notify_url: str | None = None,
    every: float = HEARTBEAT_SECONDS,
    answer_within: float = ANSWER_SECONDS,
) -> Listener:
    """Return a listener that calls `wake` for every burst of saves; what they say of themselves is not read."""
    return Listener(
        _SAVES,
        database_url,
        lambda _payloads: wake(),
        notify_url=notify_url,
        at_most_every=_AT_MOST_EVERY,
        every=every,
        answer_within=answer_within,
    )


class ListenerStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """Runs the listener in the worker that serves the pipeline queue, in its main process."""

    # After the pool has forked: its children must not have the connection.
    requires = ("celery.worker.components:Pool",)

    def include_if(self, worker: WorkController) -> bool:
        return config().wake == "on" and "pipeline" in worker.app.amqp.queues.consume_from

    def create(self, worker: WorkController) -> Listener:
        saves = config().database_url
        assert saves is not None  # a worker does not start without
        listener = listener_of_saves(
            config().listen_database_url or saves,
            lambda: send(worker.app, [Message("stats.claim")]),
            notify_url=saves,
        )
        # A child that is forked later, for one that died, has it all the same.
        worker_process_init.connect(lambda **_: listener.forget_in_child(), weak=False)
        return listener
