"""Around every request: its id, its line of the log, the bounds of its body, and errors as problem details."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import traceback
import uuid
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edge.service.metrics import Metrics
from edge.service.problems import Problem, unavailable

logger = logging.getLogger(__name__)

MOST_REQUESTS = 6000
"""In flight at once, those that wait included."""
LARGEST_BODY = 3 * 1024 * 1024
LARGEST_FILE = 64 * 1024 * 1024
IMPORTS = "/v1/imports"
CLIENT_LEFT = 499
"""The status in the log and the metrics where the client went away before it had sent all."""
BODY_SECONDS = 20.0
FILE_SECONDS = 120.0
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Limits:
    """The outermost application: nothing of a request is read past its bounds, and no error leaves it raw."""

    def __init__(self, app: ASGIApp, metrics: Callable[[], Metrics]) -> None:
        self._app, self._metrics = app, metrics
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(Headers(scope=scope))
        scope.setdefault("state", {})["request_id"] = request_id
        exchange = _Exchange(request_id, send)
        began = time.monotonic()
        self._running += 1
        self._metrics().running.set(self._running)
        try:
            await self._answer(scope, receive, exchange)
        finally:
            self._running -= 1
            self._metrics().running.set(self._running)
            self._record(scope, exchange, time.monotonic() - began)

    async def _answer(self, scope: Scope, receive: Receive, exchange: _Exchange) -> None:
        try:
            if self._running > MOST_REQUESTS:
                raise unavailable("Too many requests at once.")
            await self._app(scope, _bounded(scope, receive), exchange.send)
        except Problem as problem:
            await exchange.problem(scope, receive, problem)
        except ClientDisconnect:
            # Nobody is there to be answered, and nothing of the service failed.
            exchange.status = CLIENT_LEFT
        except Exception as error:
            # The kind and the place alone: the text of an error may hold what the caller sent.
            logger.error(
                "request %s failed with %s\n%s",
                exchange.request_id,
                type(error).__name__,
                "".join(traceback.format_tb(error.__traceback__)),
                extra={"action": "request", "request_id": exchange.request_id},
            )
            failed = Problem(500, "The service failed; its log has the request id.")
            await exchange.problem(scope, receive, failed)

    def _record(self, scope: Scope, exchange: _Exchange, seconds: float) -> None:
        # The route, not the path: a path is the caller's text, and would make a time series of each.
        route = getattr(scope.get("route"), "path_format", "unknown")
        status = exchange.status or 0
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics().requests.labels(method, route, str(status)).inc()
        self._metrics().seconds.labels(route).observe(seconds)
        logger.info(
            "%s %s %d %.1f ms request=%s",
            method,
            route,
            status,
            seconds * 1000,
            exchange.request_id,
            extra={"action": "request", "request_id": exchange.request_id, "ms": round(seconds * 1000, 1)},
        )


_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class _Exchange:
    """One answer as it goes out."""

    def __init__(self, request_id: str, send: Send) -> None:
        self.request_id, self._send = request_id, send
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.request_id
            headers["X-Content-Type-Options"] = "nosniff"
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)

    async def problem(self, scope: Scope, receive: Receive, problem: Problem) -> None:
        if self.status is None:
            await problem.response(self.request_id)(scope, receive, self.send)
        else:
            raise RuntimeError("an answer that had begun can't be finished") from problem


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _bounded(scope: Scope, receive: Receive) -> Receive:
    """Return `receive`, which raises a Problem where the body is too large, or not there in time."""
    is_file = scope["path"] == IMPORTS
    most, seconds = (LARGEST_FILE, FILE_SECONDS) if is_file else (LARGEST_BODY, BODY_SECONDS)
    announced = Headers(scope=scope).get("content-length", "")
    too_large = Problem(413, f"At most {most} bytes.", headers={"Connection": "close"})
    deadline = time.monotonic() + seconds
    taken, is_complete = 0, False

    async def bounded() -> Message:
        nonlocal taken, is_complete
        if is_complete:  # what follows is the end of the connection, whenever that comes
            return await receive()
        if announced.isdecimal() and int(announced[:20]) > most:
            raise too_large
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                message = await receive()
        except TimeoutError as error:
            slow = f"The whole body has to be here within {seconds:.0f} s."
            raise Problem(408, slow, headers={"Connection": "close"}) from error
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            is_complete = not message.get("more_body", False)
            if taken > most:
                raise too_large
        return message

    return bounded
