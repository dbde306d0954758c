"""Calls of the SQL functions from async handlers: a bounded number of threads and connections, a bounded queue."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError

from core.database import TCP
from edge.service.problems import of_database, unavailable
from tasks.transaction import Identity, transaction

T = TypeVar("T")

_LONGEST_QUEUE_SECONDS = 5.0
_LIMITS = (
    "select pg_catalog.set_config('statement_timeout', '8000', true),"
    " pg_catalog.set_config('idle_in_transaction_session_timeout', '15000', true)"
)
"""A role's own limits don't come with SET ROLE, so each call brings them. Sent in one message with the call."""


@dataclass(frozen=True)
class Answer:
    """What an SQL function returned, as it was printed, and the generations in it."""

    json: str
    generation: int | None
    requested_version: int | None
    stale: bool | None
    replayed: bool | None


class Database:
    """Threads with a connection each. What does not get one in time is refused with a 503, never piled up."""

    def __init__(self, url: str, *, threads: int, connections: int, most_waiting: int) -> None:
        ours = {**TCP, "application_name": "stats-refresh-edge"}
        arguments = {name: value for name, value in ours.items() if name not in make_url(url).query}
        # Errors of the database are logged: without the parameters, which are somebody's training.
        self.engine = create_engine(
            url,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=2,
            connect_args=arguments,
            hide_parameters=True,
        )
        self._threads = ThreadPoolExecutor(threads, "database")
        self._most = threads + most_waiting
        self._in_hand = 0
        self._lock = threading.Lock()

    @property
    def in_hand(self) -> int:
        """How many calls run or wait for a thread."""
        return self._in_hand

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` does in a thread. Raises a 503 Problem where there is no room, or none in time."""
        with self._lock:
            if self._in_hand >= self._most:
                raise unavailable("Too many calls at once.")
            self._in_hand += 1
        asked_at = time.monotonic()

        def in_time() -> T:
            if time.monotonic() - asked_at > _LONGEST_QUEUE_SECONDS:
                raise unavailable("Too many calls at once.")
            try:
                return work()
            except SQLAlchemyError as error:
                raise of_database(error) from error

        future = self._threads.submit(in_time)
        future.add_done_callback(self._done)
        return await asyncio.wrap_future(future)

    def _done(self, _future: Future[Any]) -> None:
        with self._lock:
            self._in_hand -= 1

    async def call(self, identity: Identity, function: str, **arguments: object) -> Answer:
        """Return the answer of `function`, an SQL call with `:name` for each argument, in a transaction of its own."""
        statement = text(
            f"{_LIMITS}; select cast(a.answer as text), a.answer ->> 'generation', a.answer ->> 'requested_version',"
            f" a.answer ->> 'stale', a.answer ->> 'replayed' from (select {function} as answer) a"
        )

        def work() -> Answer:
            with transaction(self.engine, identity) as connection:
                row = connection.execute(statement, arguments).one()
            return Answer(row[0], _number(row[1]), _number(row[2]), _flag(row[3]), _flag(row[4]))

        return await self.run(work)

    def close(self) -> None:
        """Let what runs end, then close the connections."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self.engine.dispose()


def _number(value: str | None) -> int | None:
    return None if value is None else int(value)


def _flag(value: str | None) -> bool | None:
    return None if value is None else value == "true"
