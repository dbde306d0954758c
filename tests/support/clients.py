"""The Python client on a running service: accounts, and what the service has counted of their requests."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import httpx2

from core.processes import wait_until
from edge.client import AsyncAccount, AsyncClient, Session
from edge.service.tokens import sign
from support.serving import SECRET, Serving

DAY = date(2026, 3, 10)
_REQUESTS = re.compile(
    r'^stats_refresh_http_requests_total\{method="(\w+)",route="/v1/([\w-]+)[^"]*",status="(\d+)"\} (\S+)$',
    re.MULTILINE,
)


def today() -> date:
    """Return the UTC day, which is published; around midnight a neighbour is, too."""
    return datetime.now(UTC).date()


def address(serving: Serving) -> str:
    return f"http://127.0.0.1:{serving.port}"


def client_of(serving: Serving, **options: Any) -> AsyncClient:
    return AsyncClient(address(serving), **options)


def new_account(client: AsyncClient, user_id: UUID | None = None) -> AsyncAccount:
    """Return a signed-in account of its own."""
    user_id = user_id or uuid.uuid4()
    return client.account(user_id, sign(SECRET, user_id))


def session(exercise_id: str, kg: float = 100, reps: int = 5) -> Session:
    return {
        "session_date": DAY,
        "exercises": [{"exercise_id": exercise_id, "sets": [{"weight_kg": kg, "reps": reps}]}],
    }


async def squat(account: AsyncAccount) -> str:
    """Return the id of a new exercise."""
    return (await account.add_exercise("Squat", "weight_reps")).exercise_id


class Watched(httpx2.AsyncBaseTransport):
    """The network, with a look at each answer before the client gets it."""

    def __init__(self) -> None:
        self._network = httpx2.AsyncHTTPTransport()
        self.seen: list[str] = []
        self.on_answer: dict[str, Callable[[], Awaitable[object]]] = {}
        """By route: what is awaited between the service's answer and the client."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._network.handle_async_request(request)
        route = request.url.path.split("/")[2]
        self.seen.append(route)
        if route in self.on_answer:
            await self.on_answer[route]()
        return answer

    async def aclose(self) -> None:
        await self._network.aclose()


def until_true(condition: Callable[[], bool]) -> bool:
    """Wait until `condition` holds; tell whether it came to that."""
    return wait_until(condition, 20)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds, while other tasks go on."""
    assert await asyncio.to_thread(until_true, condition)


class Counts:
    """How many requests of each route the service has answered since this was made."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._before = self._all()

    def now(self) -> dict[str, int]:
        return dict(self._all() - self._before)

    def _all(self) -> Counter[str]:
        text = self._serving.ask("GET", "/metrics").body.decode()
        counts: Counter[str] = Counter()
        for _, route, _, count in _REQUESTS.findall(text):
            counts[route] += round(float(count))
        return counts
