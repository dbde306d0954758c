"""Two sessions in one interleaving: steps run in threads, a test goes on when the other is really blocked."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, text

from core.processes import wait_until
from tasks.transaction import Identity, service

if TYPE_CHECKING:
    from conftest import Database

DEADLINE = 20


@dataclass
class Session:
    """One open transaction on a connection of its own; statements run in its thread, in order."""

    name: str
    pid: int
    _connection: Connection
    _thread: ThreadPoolExecutor

    def start(self, statement: str, **parameters: object) -> Future[Any]:
        """Begin `statement` without waiting; the future gives its one value (None where it has no rows)."""
        return self._thread.submit(self._run, statement, parameters)

    def run(self, statement: str, **parameters: object) -> Any:
        """Run `statement` and return its one value."""
        return self.start(statement, **parameters).result(DEADLINE)

    def commit(self) -> None:
        self._thread.submit(self._connection.commit).result(DEADLINE)

    def rollback(self) -> None:
        self._thread.submit(self._connection.rollback).result(DEADLINE)

    def _run(self, statement: str, parameters: dict[str, object]) -> Any:
        result = self._connection.execute(text(statement), parameters)
        return result.scalar() if result.returns_rows else None


@contextmanager
def session(database: Database, name: str, identity: Identity | None = None) -> Iterator[Session]:
    """Yield an open transaction as `identity` (default: service); rolled back at the end unless committed.

    After a commit the next statement begins a transaction as the login role: use one session a transaction.
    """
    identity = identity or service()
    with ThreadPoolExecutor(1, thread_name_prefix=name) as thread, database.engine.connect() as connection:
        pid = connection.scalar(text("select pg_catalog.pg_backend_pid()"))
        connection.execute(
            text("select set_config('role', :role, true), set_config('request.jwt.claims', :claims, true)"),
            {"role": identity.role, "claims": identity.claims},
        )
        made = Session(name, pid, connection, thread)
        try:
            yield made
        finally:
            thread.submit(connection.rollback).result(DEADLINE)


def wait_until_blocked(database: Database, blocked: Session, by: Session | None = None) -> None:
    """Wait until `blocked` waits for a lock (one that `by` holds); AssertionError after the deadline."""

    def is_blocked() -> bool:
        [[blockers]] = database.admin("select pg_catalog.pg_blocking_pids(:pid)", pid=blocked.pid)
        return by.pid in blockers if by else bool(blockers)

    blocker = by.name if by else "anybody"
    assert wait_until(is_blocked, DEADLINE), f"{blocked.name} was never blocked by {blocker}"


def is_waiting(database: Database, session: Session) -> bool:
    """Tell whether `session` waits for any lock right now."""
    [[blockers]] = database.admin("select pg_catalog.pg_blocking_pids(:pid)", pid=session.pid)
    return bool(blockers)
