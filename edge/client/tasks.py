"""Tasks that outlive their callers, and end with the client."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from edge.client.errors import ClientClosed

T = TypeVar("T")


class Tasks:
    """The tasks of one client."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self.is_closed = False

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` until it ends or the client is closed. Raises ClientClosed."""
        if self.is_closed:
            work.close()
            raise ClientClosed("the client is closed")
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns; it ends with its caller."""
        task = self.start(work)
        try:
            return await wait_for(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def close(self) -> None:
        """End all tasks, and return when they have ended."""
        self.is_closed = True
        ending = self._running - {asyncio.current_task()}
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            # Asked for here, or asyncio complains where all callers were cancelled before it failed.
            task.exception()


async def wait_for(task: asyncio.Task[T]) -> T:
    """Return what `task` returns; a caller that is cancelled leaves it running. Raises ClientClosed."""
    # wait() cancels nothing, so a cancelled error is the caller's own.
    await asyncio.wait([task])
    if task.cancelled():
        raise ClientClosed("the client was closed before the answer came; a write may have been stored")
    return task.result()
