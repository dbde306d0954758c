"""What one process of the service has: its databases, its listener, its tokens and its counters."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from edge.service.database import Database
from edge.service.metrics import Metrics
from edge.service.publications import Publications
from edge.service.tokens import Caller, Tokens


@dataclass
class Parts:
    """The parts, made when the process starts."""

    apps: Database
    """For calls that take milliseconds."""
    refreshes: Database
    """For refreshes at once, which take seconds; an import that takes minutes leaves them their connections."""
    work: Database
    """For what takes longer: imports and rounds of the worker entry point."""
    uploads: asyncio.Semaphore
    """Who sends a file. What is sent lies on the disk until it is imported."""
    publications: Publications
    tokens: Tokens
    metrics: Metrics


def parts_of(request: Request) -> Parts:
    """Return the parts of the process that serves `request`."""
    parts: Parts = request.app.state.parts
    return parts


_bearer = HTTPBearer(
    auto_error=False, bearerFormat="JWT", description="A JWT with exp, sub and role, or the service token."
)


def caller_of(
    request: Request, _documented: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    """Return who calls. Raises a 401 Problem."""
    return parts_of(request).tokens.caller(request.headers.get("authorization"))


Here = Annotated[Parts, Depends(parts_of)]
SignedIn = Annotated[Caller, Depends(caller_of)]
