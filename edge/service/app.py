"""The application: its routes, its parts and its OpenAPI document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Lifespan, Receive, Scope, Send

from core.config import Config
from core.errors import OperatorError
from edge.service import freshness, health, imports, readers, worker, writes
from edge.service.database import Database
from edge.service.limits import Limits
from edge.service.metrics import Metrics
from edge.service.problems import Problem
from edge.service.publications import Publications
from edge.service.shapes import DOCUMENTED_ONLY
from edge.service.state import Parts
from edge.service.tokens import Tokens

_DESCRIPTION = """Save completed workouts, and read the statistics that follow from them.

A write answers a receipt with `statsRequestedVersion`. Readers take it as `min_generation`, and `wait` until it is
published. Errors are problem details (RFC 9457) with the SQLSTATE of the database where it refused."""


_MOST_UPLOADS = 8
"""Files on the way at once, each up to 64 MB."""


class Service:
    """The ASGI application of one process."""

    def __init__(self, config: Config) -> None:
        if config.database_url is None:
            raise OperatorError("STATS_REFRESH_DATABASE_URL is not set: the HTTP service needs a database")
        self._url, self._config = config.database_url, config
        # A key that can't be read is found before anything listens.
        self._tokens, self._metrics = Tokens(config), Metrics()
        self._parts: Parts | None = None
        self.api = _api(self._lifespan)
        self._app = Limits(self.api, lambda: self._metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def stop_waiting(self) -> None:
        """Let requests that wait answer now: the process is told to stop."""
        if self._parts is not None:
            self._parts.publications.stop_waiting()

    @asynccontextmanager
    async def _lifespan(self, api: FastAPI) -> AsyncIterator[None]:
        threads = self._config.http_connections
        self._parts = api.state.parts = Parts(
            Database(self._url, threads=threads, connections=threads, most_waiting=2000),
            Database(self._url, threads=2, connections=2, most_waiting=8),
            # An import has two connections.
            Database(self._url, threads=2, connections=4, most_waiting=8),
            asyncio.Semaphore(_MOST_UPLOADS),
            Publications(self._config.listen_database_url or self._url, self._url),
            self._tokens,
            self._metrics,
        )
        try:
            yield
        finally:
            self._parts.publications.close()
            self._parts.apps.close()
            self._parts.refreshes.close()
            self._parts.work.close()


def _api(lifespan: Lifespan[FastAPI]) -> FastAPI:
    api = FastAPI(
        title="stats-refresh",
        version="1",
        description=_DESCRIPTION,
        lifespan=lifespan,
        # Their pages load scripts from a CDN.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for part in (writes, readers, freshness, imports, worker, health):
        api.include_router(part.router)
    api.add_exception_handler(Problem, _problem)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HTTPException, _http_error)
    documented = api.openapi

    def openapi() -> dict[str, Any]:
        if api.openapi_schema is None:
            _complete(documented())
        assert api.openapi_schema is not None
        return api.openapi_schema

    api.openapi = openapi  # type: ignore[method-assign]
    return api


def _complete(document: dict[str, Any]) -> None:
    """Add the shapes that routes only name, and take out FastAPI's own of an error, which no route answers."""
    _, shapes = models_json_schema(
        [(model, "validation") for model in DOCUMENTED_ONLY], ref_template="#/components/schemas/{model}"
    )
    schemas = document["components"]["schemas"]
    schemas |= shapes["$defs"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path in document["paths"].values():
        for operation in path.values():
            refused = operation["responses"].get("422", {}).get("content", {})
            refused.pop("application/json", None)
            if not refused:
                operation["responses"].pop("422", None)


def _id(request: Request) -> str:
    return str(request.state.request_id)


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response(_id(request))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    # A body that is not JSON, and a missing key, are requests that can't be read; all others are values.
    unreadable = first["type"] == "json_invalid" or (
        first["type"] == "missing" and first["loc"][0] == "header"
    )
    return Problem(400 if unreadable else 422, f"{place}: {first['msg']}").response(_id(request))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Problem(error.status_code, str(error.detail), headers=error.headers).response(_id(request))
