"""Requests: their answers or errors, and what is sent again."""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx2

from edge.client.errors import ContractError, Refused, Unanswered, Unavailable, kind_of

TokenSource = str | Callable[[], Awaitable[str]]
"""A bearer token, or what returns the one that is valid now."""

_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_LONGEST_RETRY_AFTER = 10.0
"""Who is asked to come later than in so many seconds is told at once instead."""


@dataclass(frozen=True)
class Request:
    """One request, which may be sent several times."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    mutation_id: UUID | None = None
    wait: float = 0
    """How long the service may take on purpose."""
    is_repeatable: bool = True
    """Whether it does the same when it is done twice."""
    attempts: int | None = None
    """How often it is sent at most; None: as often as the client sends."""


class Http:
    """The connections to one service."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout: float,
        attempts: int,
        connections: int,
        transport: httpx2.AsyncBaseTransport | None,
    ) -> None:
        if attempts < 1:
            raise ValueError("attempts: must be at least 1")
        self._timeout, self._attempts = timeout, attempts
        self._client = httpx2.AsyncClient(
            base_url=base_url.rstrip("/"),
            limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
            transport=transport,
            headers={"User-Agent": "stats-refresh-client"},
        )

    async def ask(self, token: TokenSource, request: Request) -> object:
        """Return the parsed answer. Raises Refused, Unanswered or ContractError."""
        attempts = request.attempts or self._attempts
        for attempt in range(1, attempts + 1):
            try:
                return await self._once(token, request)
            except (Unavailable, Unanswered) as error:
                pause = _pause(request, attempt, error)
                if attempt == attempts or pause is None:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt answers or raises")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _once(self, token: TokenSource, request: Request) -> object:
        headers = {"Authorization": f"Bearer {token if isinstance(token, str) else await token()}"}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        if request.mutation_id is not None:
            headers["Idempotency-Key"] = str(request.mutation_id)
        try:
            answer = await self._client.request(
                request.method,
                request.path,
                params=request.query or None,
                content=request.body,
                headers=headers,
                timeout=httpx2.Timeout(self._timeout, read=self._timeout + request.wait),
            )
        except httpx2.TransportError as error:
            raise Unanswered(f"no answer to {request.method} {request.path}: {error!r}") from error
        except httpx2.DecodingError as error:
            raise ContractError(f"{request.path}: the answer can't be decoded") from error
        return _content(answer)


def _pause(request: Request, attempt: int, error: Unavailable | Unanswered) -> float | None:
    """Return the seconds until the next attempt; None where there should be none."""
    if not request.is_repeatable and not isinstance(error.__cause__, _NOT_SENT):
        return None
    # Twice as long each time, and never all callers at once.
    pause = random.uniform(0.5, 1) * min(0.1 * 2.0**attempt, 5)
    if isinstance(error, Unavailable) and error.retry_after is not None:
        return max(pause, error.retry_after) if error.retry_after <= _LONGEST_RETRY_AFTER else None
    return pause


def _content(answer: httpx2.Response) -> dict[str, Any]:
    try:
        content = answer.json()
    except (ValueError, RecursionError):
        content = None
    if answer.is_success:
        if not isinstance(content, dict):
            raise ContractError(f"{answer.request.url.path}: the answer is no JSON object")
        return content
    raise _problem(answer, content if isinstance(content, dict) else {})


def _problem(answer: httpx2.Response, content: dict[str, Any]) -> Refused:
    # PostgREST, where its address was given by mistake, has `code` and `message`.
    sqlstate = _text(content, "sqlstate", "code")
    kind = kind_of(answer.status_code, sqlstate)
    return kind(
        answer.status_code,
        _text(content, "detail", "message") or answer.reason_phrase,
        sqlstate=sqlstate,
        hint=_text(content, "hint"),
        reason=_text(content, "reason"),
        request_id=_text(content, "request_id"),
        retry_after=_seconds(answer.headers.get("Retry-After")),
    )


def _text(content: dict[str, Any], *names: str) -> str | None:
    return next((content[name] for name in names if isinstance(content.get(name), str)), None)


def _seconds(retry_after: str | None) -> float | None:
    """Return the seconds that a Retry-After stands for: a number of them, or a moment."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdecimal():
        return float(retry_after[:9])
    try:
        moment = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, float(moment.timestamp()) - time.time())
