"""The five readers, each with "read your own write": wait until a generation is published, holding no connection."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Awaitable, Callable
from typing import Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from edge.service import rules
from edge.service.database import Answer, Database
from edge.service.problems import Problem
from edge.service.publications import Publications
from edge.service.shapes import PROBLEMS, CalendarMonth, HomeOverview, PrDetail, PrOverview, VolumeOverview
from edge.service.state import Here, Parts, SignedIn
from edge.service.tokens import Caller
from tasks.transaction import service

router = APIRouter(prefix="/v1", tags=["readers"])
_NOT_MODIFIED: dict[int | str, dict[str, object]] = {
    304: {"description": "What the caller has, by If-None-Match, still holds."}
}
FRESHNESS = "public.stats_account_freshness_v1(:user_id)"


def _answers(model: type) -> dict[int | str, dict[str, object]]:
    return {200: {"model": model}, **_NOT_MODIFIED, **PROBLEMS(401, 403, 409, 422, 503)}


@router.get("/pr-overview", summary="The PR board of one day", responses=_answers(PrOverview))
async def pr_overview(
    request: Request, parts: Here, caller: SignedIn, as_of: rules.AsOf,
    min_generation: rules.MinGeneration = None, wait: rules.Wait = 0, if_none_match: rules.IfNoneMatch = None,
) -> Response:  # fmt: skip
    """Best weights and estimated maxima of every exercise, as of a day of the published window: today (UTC), the day
    before and the day after. 409 with reason `not_in_window` for any other day, `building` before the first
    publication, `behind` while the window moves."""
    read = _reading(parts, caller, "public.get_pr_overview(:as_of)", as_of=as_of)
    return await _answer(request, parts, caller, read, min_generation, wait, if_none_match)


@router.get(
    "/home-overview", summary="Periods, days and records up to one day", responses=_answers(HomeOverview)
)
async def home_overview(
    request: Request, parts: Here, caller: SignedIn, as_of: rules.AsOf,
    min_generation: rules.MinGeneration = None, wait: rules.Wait = 0, if_none_match: rules.IfNoneMatch = None,
) -> Response:  # fmt: skip
    """The periods that the day lies in, and the calendar days and records of the thirty days up to it."""
    read = _reading(parts, caller, "public.get_home_overview(:as_of)", as_of=as_of)
    return await _answer(request, parts, caller, read, min_generation, wait, if_none_match)


@router.get("/volume-overview", summary="Training volume by period", responses=_answers(VolumeOverview))
async def volume_overview(
    request: Request, parts: Here, caller: SignedIn, as_of: rules.AsOf,
    grain: Literal["day", "week", "month", "quarter", "year"],
    min_generation: rules.MinGeneration = None, wait: rules.Wait = 0, if_none_match: rules.IfNoneMatch = None,
) -> Response:  # fmt: skip
    """The periods of one grain that began by the day, oldest first, at most the 400 latest."""
    read = _reading(parts, caller, "public.get_volume_overview(:as_of, :grain)", as_of=as_of, grain=grain)
    return await _answer(request, parts, caller, read, min_generation, wait, if_none_match)


@router.get("/pr-detail/{exercise_id:path}", summary="One exercise", responses=_answers(PrDetail))
async def pr_detail(
    request: Request, parts: Here, caller: SignedIn, exercise_id: rules.ExerciseId, as_of: rules.AsOf,
    min_generation: rules.MinGeneration = None, wait: rules.Wait = 0, if_none_match: rules.IfNoneMatch = None,
) -> Response:  # fmt: skip
    """Daily sums, records and rep maxes of one exercise as they stood on the day."""
    _refuse_nul(exercise_id)
    read = _reading(
        parts, caller, "public.get_pr_detail(:exercise_id, :as_of)", exercise_id=exercise_id, as_of=as_of
    )
    return await _answer(request, parts, caller, read, min_generation, wait, if_none_match)


@router.get("/calendar-month", summary="The days of one month", responses=_answers(CalendarMonth))
async def calendar_month(
    request: Request, parts: Here, caller: SignedIn, month: rules.MonthOf,
    min_generation: rules.MinGeneration = None, wait: rules.Wait = 0, if_none_match: rules.IfNoneMatch = None,
) -> Response:  # fmt: skip
    """The days of the month that have a session, oldest first."""
    read = _reading(parts, caller, "public.get_calendar_month(:month)", month=month)
    return await _answer(request, parts, caller, read, min_generation, wait, if_none_match)


Read = Callable[[], Awaitable[Answer]]


def _reading(parts: Parts, caller: Caller, function: str, **arguments: object) -> Read:
    identity = caller.identity()
    return lambda: parts.apps.call(identity, function, **arguments)


async def _answer(
    request: Request, parts: Parts, caller: Caller, read: Read, min_generation: int | None, wait: float,
    if_none_match: str | None,
) -> Response:  # fmt: skip
    resource = _resource(request, caller)
    if if_none_match is not None:
        now = await freshness(parts.apps, caller)
        if now["applied_version"] >= (min_generation or 0):
            tag = _tag(now["applied_version"], now["requested_version"], resource)
            if tag in [given.strip() for given in if_none_match.split(",")]:
                return Response(status_code=304, headers=_cache_headers(tag))
    if min_generation is not None and wait > 0:
        answer = await _read_when_published(parts.publications, caller, read, min_generation, wait)
    else:
        answer = await read()
    assert answer.generation is not None
    assert answer.requested_version is not None
    body, tag = answer.json, _tag(answer.generation, answer.requested_version, resource)
    if min_generation is not None and answer.generation < min_generation and not answer.stale:
        # The caller knows of a generation that this database has not been asked for: it was restored, say.
        body, tag = json.dumps({**json.loads(body), "stale": True}), f'{tag[:-1]}-behind"'
    return Response(body, media_type="application/json", headers=_cache_headers(tag))


async def _read_when_published(
    publications: Publications, caller: Caller, read: Read, wanted: int, seconds: float
) -> Answer:
    """Return the first answer of at least the generation `wanted`, or the last one when `seconds` are over.

    Refusals that pass (nothing published yet, the database away) are waited out, and raised at the end.
    """
    deadline = time.monotonic() + seconds
    with publications.subscription(caller.account) as heard:
        answer = await _try(read)
        while not (isinstance(answer, Answer) and (answer.generation or 0) >= wanted):
            left = deadline - time.monotonic()
            if left <= 0 or publications.is_stopping:
                break
            was_told = await heard.change(min(left, publications.interval))
            generations = list(heard.generations)
            heard.generations.clear()
            if not heard.must_ask and max(generations, default=0) < wanted:
                continue
            heard.must_ask = False
            async with publications.asking:
                answer = await _try(read)
            if not was_told and isinstance(answer, Answer) and (answer.generation or 0) >= wanted:
                publications.miss()
    if isinstance(answer, Problem):
        raise answer
    return answer


async def _try(read: Read) -> Answer | Problem:
    try:
        return await read()
    except Problem as problem:
        if problem.status == 503 or problem.reason in ("building", "behind"):
            return problem
        raise


async def freshness(database: Database, caller: Caller) -> dict[str, int]:
    """Return requested_version and applied_version of the caller's account."""
    # For operators alone in SQL; the account is the one of the token.
    answer = await database.call(service(), FRESHNESS, user_id=caller.account)
    state: dict[str, int] = json.loads(answer.json)
    return state


def _resource(request: Request, caller: Caller) -> str:
    """Return what tells this answer from those of other routes, arguments and accounts."""
    arguments = sorted(
        (n, v) for n, v in request.query_params.multi_items() if n not in ("wait", "min_generation")
    )
    return f"{zlib.crc32(repr((request.url.path, arguments, caller.user_id)).encode()):08x}"


def _tag(generation: int, requested_version: int, resource: str) -> str:
    return f'W/"{generation}-{requested_version}-{resource}"'


def _cache_headers(tag: str) -> dict[str, str]:
    return {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}


def _refuse_nul(text: str) -> None:
    if "\x00" in text:
        raise Problem(422, "exercise_id: must not have a zero byte")
