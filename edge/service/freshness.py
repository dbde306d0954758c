"""How fresh an account is: once, as a stream of events, or why it is not; and the refresh at once."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from edge.service import rules
from edge.service.problems import Problem
from edge.service.readers import freshness
from edge.service.shapes import PROBLEMS, Freshness, RefreshReport, RefreshRequest
from edge.service.state import Here, Parts, SignedIn
from edge.service.tokens import Caller

router = APIRouter(prefix="/v1", tags=["freshness"])
_PING_SECONDS = 15.0
_EVENT_STREAM = "text/event-stream"


@router.get(
    "/freshness",
    summary="How fresh the account is",
    responses={
        200: {
            "model": Freshness,
            "content": {_EVENT_STREAM: {"schema": {"type": "string"}, "example": "id: 7\ndata: {...}\n\n"}},
        },
        **PROBLEMS(401, 403, 422, 503),
    },
)
async def read_freshness(
    request: Request,
    parts: Here,
    caller: SignedIn,
    explain: Annotated[bool, Query(description="For operators: why `user_id` is not fresh.")] = False,
    user_id: Annotated[rules.Id | None, Query(description="With `explain`: the account.")] = None,
    last_event_id: Annotated[
        str | None, Header(description="The id of the last event that was read.")
    ] = None,
) -> Response:
    """Requested and published generation of the token's account. With `Accept: text/event-stream` an event at each
    publication, whose id is the generation; it ends with the token, and a client resumes by Last-Event-ID."""
    if explain:
        return await _explained(parts, caller, user_id)
    if _EVENT_STREAM in request.headers.get("accept", ""):
        # The first look is taken here, so that what is wrong is an error and not an empty stream.
        first = await freshness(parts.apps, caller)
        events = _events(parts, caller, first, last_event_id)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(events, media_type=_EVENT_STREAM, headers=headers)
    return Response(json.dumps(_shown(await freshness(parts.apps, caller))), media_type="application/json")


@router.post(
    "/refresh",
    summary="Refresh the account at once",
    responses={
        200: {"model": RefreshReport, "description": "What was done, or that there was no time for it."},
        **PROBLEMS(400, 401, 403, 408, 409, 413, 422, 503),
    },
)
async def refresh(request: Request, parts: Here, caller: SignedIn, how: RefreshRequest) -> Response:
    """Drains the account's own queue through `process_user_exercise_stats_refresh_jobs_for_user`. Best effort:
    the workers do the same. `worker_timed_out` is an answer, not an error."""
    function = (
        "public.process_user_exercise_stats_refresh_jobs_for_user("
        "p_user_id => :user_id, p_limit => :limit, p_validate_integrity => :validate, p_lock_owner => :owner)"
    )
    answer = await parts.refreshes.call(
        caller.identity(),
        function,
        user_id=caller.account,
        limit=how.limit,
        validate=how.validate_integrity,
        owner=(how.lock_owner or f"edge:{request.state.request_id}").replace("\x00", ""),
    )
    return Response(answer.json, media_type="application/json")


async def _explained(parts: Parts, caller: Caller, user_id: object) -> Response:
    identity = caller.operator_identity()
    if user_id is None:
        raise Problem(422, "user_id: is required with explain")
    answer = await parts.apps.call(identity, "public.explain_freshness_v1(:user_id)", user_id=user_id)
    return Response(answer.json, media_type="application/json")


async def _events(
    parts: Parts, caller: Caller, state: dict[str, int], last_event_id: str | None
) -> AsyncIterator[str]:
    """Yield an event for each publication, and a comment now and then, which finds out whether somebody reads."""
    publications = parts.publications
    sent: int | None = _generation(last_event_id)
    with publications.subscription(caller.account) as heard:
        # What was published between the look and the subscription.
        heard.must_ask = True
        while True:
            if heard.must_ask or heard.generations:
                heard.must_ask = False
                passed = list(heard.generations)
                heard.generations.clear()
                async with publications.asking:
                    state = await _state_or_last(parts, caller, state)
                newest = state["applied_version"]
                for generation in passed:
                    if generation < newest and (sent is None or generation > sent):
                        yield _event({**state, "applied_version": generation})
                if newest != sent:
                    yield _event(state)
                    sent = newest
            left = _seconds_left(caller)
            if publications.is_stopping or left <= 0:
                return
            if not await heard.change(min(left, _PING_SECONDS, publications.interval)):
                yield ": still here\n\n"


async def _state_or_last(parts: Parts, caller: Caller, last: dict[str, int]) -> dict[str, int]:
    try:
        return await freshness(parts.apps, caller)
    except Problem as problem:
        if problem.status != 503:
            raise
        return last


def _generation(event_id: str | None) -> int | None:
    """Return the generation that an event's id stands for; None for what is none of ours."""
    return (
        int(event_id)
        if event_id and event_id.isascii() and event_id.isdecimal() and len(event_id) < 20
        else None
    )


def _seconds_left(caller: Caller) -> float:
    return float("inf") if caller.expires_at is None else caller.expires_at - time.time()


def _shown(state: dict[str, int]) -> dict[str, Any]:
    requested, applied = state["requested_version"], state["applied_version"]
    return {"requested_version": requested, "applied_version": applied, "stale": applied < requested}


def _event(state: dict[str, int]) -> str:
    return f"id: {state['applied_version']}\nevent: published\ndata: {json.dumps(_shown(state))}\n\n"
