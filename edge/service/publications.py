"""Who waits for a publication of which account. A waiting request holds no connection to the database."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from core.listening import Listener, Subject
from edge.service.problems import unavailable

logger = logging.getLogger(__name__)

CHANNEL = "stats_refresh_published"
APPLICATION_NAME = "stats-refresh-edge-listen"
MOST_WAITING = 5000
_SUBJECT = Subject(
    CHANNEL,
    "publications",
    "waiting requests ask again every few seconds",
    APPLICATION_NAME,
    "stats-refresh-edge-heartbeat",
)
_ASK_AGAIN = 15.0
"""Seconds after which a waiting request asks again, although nothing was heard and the listener is proven."""
_ASK_AGAIN_UNPROVEN = 2.0


class Subscription:
    """What one waiting request has heard of its account."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.generations: deque[int] = deque(maxlen=1000)
        """Those that were published since, oldest first; the reader empties it."""
        self.must_ask = False
        """Whether anything may have been missed, so that only the database knows."""

    def hear(self, generation: int | None) -> None:
        if generation is None:
            self.must_ask = True
        else:
            self.generations.append(generation)
        self._event.set()

    async def change(self, seconds: float) -> bool:
        """Wait until something was heard or the time is over; tell whether something was heard."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            self.must_ask = True
            return False
        self._event.clear()
        return True


class Publications:
    """Hands each notification to the requests that wait for its account."""

    def __init__(self, listen_url: str, notify_url: str) -> None:
        self._waiting: dict[UUID, set[Subscription]] = {}
        self.count = 0
        self.is_stopping = False
        self._hears_publications = False
        self._loop = asyncio.get_running_loop()
        self._listener = Listener(_SUBJECT, listen_url, self._hear, notify_url=notify_url)
        self._listener.start()
        # Many that were woken at once by a reconnection ask one after the other, beside the other calls.
        self.asking = asyncio.Semaphore(4)

    @property
    def is_proven(self) -> bool:
        """Tell whether the listener's own notifications come back."""
        return self._listener.is_proven

    @property
    def interval(self) -> float:
        """Seconds after which a waiting request asks the database again by itself."""
        longest = _ASK_AGAIN if self.is_proven and self._hears_publications else _ASK_AGAIN_UNPROVEN
        return longest * random.uniform(0.75, 1.25)

    @contextmanager
    def subscription(self, user_id: UUID) -> Iterator[Subscription]:
        """Yield what is heard of `user_id` from now on. Raises a 503 Problem where too many wait."""
        if self.count >= MOST_WAITING:
            raise unavailable("Too many requests wait.", seconds=5)
        ours = Subscription()
        self._waiting.setdefault(user_id, set()).add(ours)
        self.count += 1
        try:
            yield ours
        finally:
            self.count -= 1
            others = self._waiting[user_id]
            others.discard(ours)
            if not others:
                del self._waiting[user_id]

    def miss(self) -> None:
        """Note that a publication was found which nothing was heard of: they may be switched off."""
        self._hears_publications = False

    def stop_waiting(self) -> None:
        """Let everybody who waits answer with what there is."""
        self.is_stopping = True
        self._wake_all()

    def close(self) -> None:
        """Stop listening."""
        self._listener.stop()

    def _hear(self, payloads: list[str]) -> None:
        self._loop.call_soon_threadsafe(self._spread, payloads)

    def _spread(self, payloads: list[str]) -> None:
        if not payloads:
            self._wake_all()
        for payload in payloads:
            try:
                said = json.loads(payload)
                user_id, generation = UUID(said["user_id"]), int(said["generation"])
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                logger.warning(
                    "a notification of %d bytes can't be read: dropped",
                    len(payload),
                    extra={"action": "listen"},
                )
                continue
            self._hears_publications = True
            for waiting in self._waiting.get(user_id, ()):
                waiting.hear(generation)

    def _wake_all(self) -> None:
        for waiting in self._waiting.values():
            for one in waiting:
                one.hear(None)
