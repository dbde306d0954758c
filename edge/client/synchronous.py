"""The client for threads: the one for asyncio, in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from datetime import date
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

import httpx2

from edge.client.answers import (
    Archived,
    CalendarMonth,
    Freshness,
    HomeOverview,
    PrDetail,
    PrOverview,
    Receipt,
    Reconciled,
    Refresh,
    StoredExercise,
    VolumeOverview,
)
from edge.client.asynchronous import AsyncAccount, AsyncClient
from edge.client.documents import Grain, Session, Tracking
from edge.client.errors import ClientClosed

T = TypeVar("T")


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_closed = False
        # Does not keep a program alive that forgets to close it.
        self._thread = threading.Thread(target=self._loop.run_forever, name="stats-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns. Raises ClientClosed."""
        with self._lock:
            if self._is_closed or os.getpid() != self._process:
                work.close()
                where = (
                    "is closed" if self._is_closed else "belongs to another process: make it after the fork"
                )
                raise ClientClosed(f"the client {where}")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError as error:
            raise ClientClosed("the client was closed before the answer came") from error
        except BaseException:
            # Ctrl-C in this thread ends the call in the other one.
            future.cancel()
            raise

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `last`, then end the thread."""
        with self._lock:
            if self._is_closed or os.getpid() != self._process:
                return
            self._is_closed = True
        asyncio.run_coroutine_threadsafe(last(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Client:
    """One service, for all accounts of an app, used from any number of threads. Arguments as AsyncClient has them."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout: float = 20,
        attempts: int = 4,
        connections: int = 200,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._client = AsyncClient(
            base_url, timeout=timeout, attempts=attempts, connections=connections, transport=transport
        )
        self._loop = _Loop()

    def account(self, user_id: UUID | str, token: str | Callable[[], str]) -> Account:
        """Return the calls of one account. `user_id` must be the one that the app has signed in: results that are kept
        for it are given out without a look at the token."""
        source = token if isinstance(token, str) else _in_a_thread(token)
        return Account(self._loop, self._client.account(user_id, source))

    def close(self) -> None:
        """End what runs, whose callers get ClientClosed, and close the connections."""
        self._loop.close(self._client.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Account:
    """The calls of one account, each described at AsyncAccount."""

    def __init__(self, loop: _Loop, account: AsyncAccount) -> None:
        self._run, self._account = loop.run, account

    @property
    def user_id(self) -> str:
        """The account."""
        return self._account.user_id

    def save(
        self,
        session: Session,
        *,
        session_id: UUID | str | None = None,
        mutation_id: UUID | None = None,
    ) -> Receipt:
        """Save a new session, or replace the one of `session_id`."""
        return self._run(self._account.save(session, session_id=session_id, mutation_id=mutation_id))

    def delete(self, session_id: UUID | str, *, mutation_id: UUID | None = None) -> Receipt:
        """Delete a session."""
        return self._run(self._account.delete(session_id, mutation_id=mutation_id))

    def add_exercise(self, name: str, tracking: Tracking) -> StoredExercise:
        """Add an exercise."""
        return self._run(self._account.add_exercise(name, tracking))

    def change_exercise(self, exercise_id: str, name: str, tracking: Tracking) -> StoredExercise:
        """Change an exercise, and bring it back from the archive."""
        return self._run(self._account.change_exercise(exercise_id, name, tracking))

    def archive_exercise(self, exercise_id: str) -> Archived:
        """Let no new session name the exercise."""
        return self._run(self._account.archive_exercise(exercise_id))

    def state_record(
        self,
        exercise_id: str,
        one_rm_kg: float,
        achieved_on: date,
        *,
        is_onboarding: bool = False,
        mutation_id: UUID | None = None,
    ) -> Receipt:
        """State a 1RM."""
        return self._run(
            self._account.state_record(
                exercise_id, one_rm_kg, achieved_on, is_onboarding=is_onboarding, mutation_id=mutation_id
            )
        )

    def delete_record(self, manual_pr_id: UUID | str, *, mutation_id: UUID | None = None) -> Receipt:
        """Delete a stated 1RM."""
        return self._run(self._account.delete_record(manual_pr_id, mutation_id=mutation_id))

    def pr_overview(self, as_of: date, *, min_generation: int | None = None, wait: float = 0) -> PrOverview:
        """Return the PR board."""
        return self._run(self._account.pr_overview(as_of, min_generation=min_generation, wait=wait))

    def home_overview(
        self, as_of: date, *, min_generation: int | None = None, wait: float = 0
    ) -> HomeOverview:
        """Return the home page."""
        return self._run(self._account.home_overview(as_of, min_generation=min_generation, wait=wait))

    def volume_overview(
        self, as_of: date, grain: Grain, *, min_generation: int | None = None, wait: float = 0
    ) -> VolumeOverview:
        """Return the periods of one grain."""
        return self._run(
            self._account.volume_overview(as_of, grain, min_generation=min_generation, wait=wait)
        )

    def pr_detail(
        self, exercise_id: str, as_of: date, *, min_generation: int | None = None, wait: float = 0
    ) -> PrDetail:
        """Return one exercise."""
        return self._run(
            self._account.pr_detail(exercise_id, as_of, min_generation=min_generation, wait=wait)
        )

    def calendar_month(
        self, month: date, *, min_generation: int | None = None, wait: float = 0
    ) -> CalendarMonth:
        """Return the days of one month."""
        return self._run(self._account.calendar_month(month, min_generation=min_generation, wait=wait))

    def freshness(self) -> Freshness:
        """Return the requested and the published generation."""
        return self._run(self._account.freshness())

    def refresh(self) -> Refresh:
        """Refresh the account at once, as far as one call goes."""
        return self._run(self._account.refresh())

    def reconcile(
        self,
        requested_version: int,
        as_of: date,
        *,
        grain: Grain = "week",
        exercise_id: str | None = None,
        wait: float = 10,
    ) -> Reconciled:
        """Return the screens with a generation, in one flight for all threads."""
        return self._run(
            self._account.reconcile(requested_version, as_of, grain=grain, exercise_id=exercise_id, wait=wait)
        )


def _in_a_thread(token: Callable[[], str]) -> Callable[[], Coroutine[Any, Any, str]]:
    async def current() -> str:
        return await asyncio.to_thread(token)

    return current
