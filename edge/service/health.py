"""Whether the process lives, whether it can serve, and what it counts."""

from __future__ import annotations

import ipaddress

from fastapi import APIRouter, Request
from starlette.responses import Response

from edge.service.shapes import PROBLEMS
from edge.service.state import Here, caller_of
from tasks.transaction import service

router = APIRouter(tags=["operations"])
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/livez", summary="Alive")
async def live() -> dict[str, str]:
    """The process answers. Asks nobody else, so that a database that is away restarts nothing."""
    return {"status": "alive"}


@router.get("/readyz", summary="Ready", responses=PROBLEMS(503))
async def ready(parts: Here) -> dict[str, str]:
    """The database answers and is at a release. `listener`: proven while notifications arrive; else waiting requests
    ask every few seconds, which is no reason to be taken out."""
    await parts.apps.call(service(), "public.stats_refresh_release_v1()")
    return {"status": "ready", "listener": "proven" if parts.publications.is_proven else "not proven"}


@router.get(
    "/metrics",
    summary="Counters for Prometheus",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **PROBLEMS(401, 403)},
    response_class=Response,
)
async def metrics(request: Request, parts: Here) -> Response:
    """Open on loopback, else for services and administrators."""
    if not _is_loopback(request):
        caller_of(request, None).operator_identity()
    text = parts.metrics.text(
        waiting=parts.publications.count,
        is_listening=parts.publications.is_proven,
        apps=parts.apps.in_hand,
        work=parts.work.in_hand,
    )
    return Response(text, headers={"Content-Type": _PROMETHEUS})


def _is_loopback(request: Request) -> bool:
    # Behind a proxy on this machine everybody comes from loopback.
    if any(name in request.headers for name in ("forwarded", "x-forwarded-for", "x-real-ip")):
        return False
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
