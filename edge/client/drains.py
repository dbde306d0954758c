"""The drain of an account's queue: bounded, and one at a time however many ask for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from edge.client.answers import Drain, Refresh
from edge.client.errors import DeploymentFailure, StatsError
from edge.client.tasks import Tasks, wait_for

logger = logging.getLogger(__name__)

MOST_PAGES = 10
Page = Callable[[], Awaitable[Refresh]]


class _Flight:
    """One drain that runs."""

    def __init__(self, generation: int) -> None:
        self.wanted = generation
        self.rerun_requested = False
        self.task: asyncio.Task[Drain]

    def want(self, generation: int) -> None:
        """Ask for one more pass, where `generation` was not known when the present pass began."""
        if generation > self.wanted:
            self.wanted, self.rerun_requested = generation, True


class Drains:
    """The drains that run, by account."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._running: dict[str, _Flight] = {}

    async def drain(self, user_id: str, generation: int, page: Page) -> Drain:
        """Return how the account's drain ended: the one that runs, else a new one, which asks for pages by `page`."""
        flight = self._running.get(user_id)
        if flight is None:
            flight = self._running[user_id] = _Flight(generation)
            flight.task = self._tasks.start(self._passes(user_id, flight, page))
        else:
            flight.want(generation)
        return await wait_for(flight.task)

    def note_write(self, user_id: str, generation: int) -> None:
        """Let a drain that runs look once more: the write may have come after its last page."""
        if user_id in self._running:
            self._running[user_id].want(generation)

    async def _passes(self, user_id: str, flight: _Flight, page: Page) -> Drain:
        drain = _Pages(user_id, page)
        try:
            while True:
                flight.rerun_requested = False
                ended = await drain.one_pass()
                if not flight.rerun_requested or ended.outcome in ("timed_out", "failed"):
                    return ended
        finally:
            # In the same step as the last look at rerun_requested: nobody joins a flight that looks no more.
            del self._running[user_id]


class _Pages:
    """The pages of one flight, whose number and whose retry are for all of its passes."""

    def __init__(self, user_id: str, page: Page) -> None:
        self._user_id, self._page = user_id, page
        self._pages = 0
        self._has_timed_out = False

    async def one_pass(self) -> Drain:
        """Ask for pages while they bring something."""
        while self._pages < MOST_PAGES:
            try:
                page = await self._page()
            except StatsError as error:
                self._report(error)
                return self._ended("failed")
            self._pages += 1
            if page.worker_timed_out:
                if self._has_timed_out:
                    self._warn("the worker timed out twice: the rest is left to the workers")
                    return self._ended("timed_out")
                self._has_timed_out = True
            elif not page.has_more:
                return self._ended("drained")
            elif page.processed_count <= page.deferred_count:
                # Others are at work on it, or it waits for its retry time.
                return self._ended("left")
        return self._ended("left")

    def _ended(self, outcome: str) -> Drain:
        return Drain(outcome=outcome, pages=self._pages)  # type: ignore[arg-type]

    def _report(self, error: StatsError) -> None:
        if isinstance(error, DeploymentFailure):
            logger.error(
                "the service can't refresh, it is not at this client's release: %s",
                error,
                extra={"action": "drain", "user_id": self._user_id},
            )
        else:
            self._warn(f"the refresh failed, the workers do it: {error}")

    def _warn(self, text: str) -> None:
        logger.warning(text, extra={"action": "drain", "user_id": self._user_id})
