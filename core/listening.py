"""Listens to one channel of Postgres, and proves all the time that it would hear.

Nothing tells a listener that it hears nothing: not a connection that was lost in silence, and not a pooler that takes
LISTEN and gives the server's connection to somebody else. So it sends itself a notification now and then, on the way
that saves take: another connection, by the workers' own URL. What doesn't come back in time makes it connect again.
"""

from __future__ import annotations

import logging
import os
import selectors
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2.extensions import POLL_OK, POLL_READ, POLL_WRITE
from psycopg2.extensions import connection as Connection
from sqlalchemy import make_url

from core.database import TCP

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 10.0
ANSWER_SECONDS = 5.0
"""How long connecting, LISTEN and the listener's own notification may take."""
_LONGEST_PAUSE = 5.0
_DEAF_PAUSE = 60.0
"""Between two tries of a way that takes LISTEN and lets nothing through: it is set wrong, and stays so for a while."""

_EVENTS = {POLL_READ: selectors.EVENT_READ, POLL_WRITE: selectors.EVENT_WRITE}

_POOLER = (
    "LISTEN was accepted, but the listener's own notification does not arrive: its URL leads through a pooler that"
    " can't LISTEN, or to another database; set STATS_REFRESH_LISTEN_DATABASE_URL to a URL of the same database"
    " without the pooler"
)


@dataclass(frozen=True)
class Subject:
    """What is listened to, and how the log speaks of it."""

    channel: str
    heard: str
    """What the notifications tell of, as in "listening for saves"."""
    meanwhile: str
    """What becomes of it while nobody hears them, as in "saves wait for the beats"."""
    application_name: str
    heartbeat_application_name: str


class _Deaf(OSError):
    """The connection stands and lets no notification through."""


class _Heartbeat:
    """Sends the listener's own notification on a connection of its own, a step at a time: it never blocks."""

    def __init__(self, parameters: Mapping[str, Any], channel: str) -> None:
        self._parameters, self._channel = parameters, channel
        self.connection: Connection | None = None
        self._steps: Iterator[int] = iter(())
        self._is_kept = False
        self._error: str | None = None
        self.waits_for: int | None = None
        """POLL_READ or POLL_WRITE of the connection; None: for nothing."""

    @property
    def problem(self) -> str | None:
        """Why the last one was not sent; None where it was."""
        return "the server does not answer" if self.waits_for is not None else self._error

    def send(self) -> None:
        """Begin to send one."""
        self._error = None
        self._is_kept = self.connection is not None
        self._steps = self._sending()
        self.advance()

    def advance(self) -> None:
        """Go on as far as the server lets us."""
        try:
            self.waits_for = next(self._steps, None)
        except (psycopg2.Error, OSError) as error:
            kept, self._is_kept = self._is_kept, False
            self.close()
            if kept:
                # It ended since the last one, by a restart of the server or of a pooler: on a new one.
                self._steps = self._sending()
                self.advance()
            else:
                self._error = _first_line(error)

    def close(self) -> None:
        """Close the connection; the next notification opens another."""
        self._steps, self.waits_for = iter(()), None
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _sending(self) -> Iterator[int]:
        if self.connection is None:
            self.connection = psycopg2.connect(**self._parameters, async_=True)
            yield from _until_ready(self.connection)
        yield from _executing(self.connection, f"notify {self._channel}")


class Listener:
    """A thread with a connection of its own; calls `hear` with the payloads of every burst of notifications.

    After each (re)connection it is called with an empty list: anything may have been said while nobody listened.
    `notify_url` is where its own notifications are sent, `database_url` where it listens. `at_most_every` is how many
    seconds at least lie between two calls.
    """

    def __init__(
        self,
        subject: Subject,
        database_url: str,
        hear: Callable[[list[str]], None],
        *,
        notify_url: str | None = None,
        at_most_every: float = 0.0,
        every: float = HEARTBEAT_SECONDS,
        answer_within: float = ANSWER_SECONDS,
    ) -> None:
        self._subject = subject
        self._parameters = _parameters(database_url, subject.application_name)
        self._hear = hear
        self._at_most_every = at_most_every
        self._every, self._answer_within = every, answer_within
        # One for the listener's whole life: a pooler's connection that was told to listen to it goes on to do so.
        self._own_channel = f"stats_refresh_listener_{uuid.uuid4().hex}"
        self._heartbeat = _Heartbeat(
            _parameters(notify_url or database_url, subject.heartbeat_application_name), self._own_channel
        )
        self.is_proven = False
        """Whether the last of its own notifications came back: a hint for others, never waited for."""
        self._stopping = threading.Event()
        # Its other end becomes readable when the thread is to stop, whatever it waits for.
        self._stopped, self._stop = os.pipe()
        self._connection: Connection | None = None
        self._pause = 0.0
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
        """Close a forked child's copies of the connections, without a word to the server."""
        for connection in (self._connection, self._heartbeat.connection):
            with suppress(OSError, psycopg2.InterfaceError):
                if connection is not None:
                    os.close(connection.fileno())

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._listening() as connection, closing(self._heartbeat):
                    self._forward(connection)
            except InterruptedError:
                return
            except _Deaf as error:
                self._wait(min(_DEAF_PAUSE, max(_LONGEST_PAUSE, self._pause * 2)), error)
            except (psycopg2.Error, OSError) as error:
                self._wait(min(_LONGEST_PAUSE, max(0.1, self._pause * 2)), error)
            except Exception:
                # A defect must not end the thread in silence.
                logger.exception("the listener failed", extra={"action": "listen"})
                self._stopping.wait(_LONGEST_PAUSE)

    def _wait(self, seconds: float, error: Exception) -> None:
        self._pause = seconds
        logger.warning(
            "not listening, %s; trying again in %.1f s: %s",
            self._subject.meanwhile,
            seconds,
            _first_line(error),
            extra={"action": "listen"},
        )
        self._stopping.wait(seconds)

    @contextmanager
    def _listening(self) -> Iterator[Connection]:
        self._connection = connection = psycopg2.connect(**self._parameters, async_=True)
        try:
            deadline = time.monotonic() + self._answer_within
            self._finish(connection, _until_ready(connection), deadline)
            listen = f"listen {self._subject.channel}; listen {self._own_channel}"
            self._finish(connection, _executing(connection, listen), deadline)
            yield connection
        finally:
            self.is_proven = False
            self._connection = None
            connection.close()

    def _finish(self, connection: Connection, steps: Iterator[int], deadline: float) -> None:
        """Wait until the server has answered; raise TimeoutError where it does not, InterruptedError at a stop."""
        for waits_for in steps:
            with selectors.DefaultSelector() as selector:
                selector.register(connection, _EVENTS[waits_for])
                selector.register(self._stopped, selectors.EVENT_READ)
                selector.select(max(0.0, deadline - time.monotonic()))
            if self._stopping.is_set():
                raise InterruptedError("it is told to stop")
            if time.monotonic() >= deadline:
                raise TimeoutError(f"the server did not answer within {self._answer_within:g} s")

    def _forward(self, connection: Connection) -> None:
        """Hand on every burst of notifications, until told to stop; raises when the connection hears nothing."""
        # Something may have been said while nobody listened.
        heard: list[str] = []
        is_due, called_at = True, float("-inf")
        proof = _Proof(self._every, self._answer_within)
        while not self._stopping.is_set():
            if proof.is_due():
                self._heartbeat.send()
                proof.begin()
            at = called_at + self._at_most_every if is_due else float("inf")
            self._select(connection, min(at, proof.next_at) - time.monotonic())
            self._heartbeat.advance()
            for channel, payload in _drain(connection):
                if channel == self._own_channel:
                    self._succeed(proof)
                else:
                    is_due = True
                    heard.append(payload)
            proof.check(self._heartbeat.problem)
            if is_due and time.monotonic() >= called_at + self._at_most_every:
                said, heard = heard, []
                is_due, called_at = False, time.monotonic()
                self._hear(said)

    def _succeed(self, proof: _Proof) -> None:
        if proof.is_first:
            logger.info("listening for %s", self._subject.heard, extra={"action": "listen"})
        proof.succeed()
        self.is_proven = True
        self._pause = 0.0

    def _select(self, connection: Connection, seconds: float) -> None:
        """Wait until a connection has something for us, somebody tells us to stop, or the time is over."""
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            if self._heartbeat.connection is not None and self._heartbeat.waits_for is not None:
                selector.register(self._heartbeat.connection, _EVENTS[self._heartbeat.waits_for])
            selector.select(max(0.0, seconds))


class _Proof:
    """When the next notification of the listener's own is due, and until when the last one has to be back."""

    def __init__(self, every: float, answer_within: float) -> None:
        self._every, self._answer_within = every, answer_within
        self._due_at = time.monotonic()
        self._answer_by: float | None = None
        self.is_first = True

    @property
    def next_at(self) -> float:
        """When there is something to do, if nothing comes before."""
        return self._due_at if self._answer_by is None else self._answer_by

    def is_due(self) -> bool:
        return self._answer_by is None and time.monotonic() >= self._due_at

    def begin(self) -> None:
        self._answer_by = time.monotonic() + self._answer_within

    def succeed(self) -> None:
        self.is_first, self._answer_by = False, None
        self._due_at = time.monotonic() + self._every

    def check(self, problem: str | None) -> None:
        """Raise where the notification is late; `problem` is why it was not sent."""
        if self._answer_by is None or time.monotonic() < self._answer_by:
            return
        if problem is not None:
            raise TimeoutError(f"its own notification could not be sent: {problem}")
        if self.is_first:
            raise _Deaf(_POOLER)
        raise TimeoutError(f"its own notification did not come back within {self._answer_within:g} s")


def _parameters(url: str, application_name: str) -> dict[str, Any]:
    parsed = make_url(url)
    _, parameters = parsed.get_dialect()().create_connect_args(parsed)
    return {**TCP, "application_name": application_name, **parameters}


def _until_ready(connection: Connection) -> Iterator[int]:
    """Yield what the connection waits for until the server has answered."""
    while (state := connection.poll()) != POLL_OK:
        yield state


def _executing(connection: Connection, statement: str) -> Iterator[int]:
    """Send `statement`, and yield what the connection waits for until the server has answered."""
    cursor = connection.cursor()  # which has to live until then
    cursor.execute(statement)
    yield from _until_ready(connection)


def _drain(connection: Connection) -> list[tuple[str, str]]:
    """Take every notification that has arrived; return their channels and payloads."""
    connection.poll()
    heard = [(notification.channel, notification.payload) for notification in connection.notifies]
    connection.notifies.clear()
    return heard


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
