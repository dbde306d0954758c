"""What an app writes: sessions, exercises, stated 1RMs. Each route is one SQL function, whose receipt is the answer."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from edge.service import rules
from edge.service.database import Answer
from edge.service.problems import Problem
from edge.service.shapes import (
    PROBLEMS,
    Archived,
    Exercise,
    ManualRecord,
    Receipt,
    Session,
    SessionEdit,
    StoredExercise,
    body_of,
)
from edge.service.state import Here, SignedIn

router = APIRouter(prefix="/v1", tags=["writes"])
_RECEIPT: dict[int | str, dict[str, Any]] = {
    200: {"model": Receipt},
    **PROBLEMS(400, 401, 403, 404, 408, 409, 413, 422, 503),
}
_OURS = ("expected_user_id", "mutation_id", "session_id")


@router.post(
    "/sessions",
    summary="Save a new session",
    status_code=201,
    responses={**_RECEIPT, 201: {"model": Receipt}},
    openapi_extra=body_of(Session),
)  # fmt: skip
async def create_session(
    request: Request, parts: Here, caller: SignedIn, mutation_id: rules.MutationId
) -> Response:
    """Saves a completed session. It is in the readers once their `generation` is at least the receipt's
    `statsRequestedVersion`. An exercise that the account does not have is a 422."""
    answer = await _save(request, parts, caller, mutation_id, {})
    return _json(answer, 200 if answer.replayed else 201)


@router.put(
    "/sessions/{session_id}", summary="Replace a session", responses=_RECEIPT, openapi_extra=body_of(SessionEdit)
)  # fmt: skip
async def replace_session(
    request: Request,
    parts: Here,
    caller: SignedIn,
    session_id: rules.SessionId,
    mutation_id: rules.MutationId,
) -> Response:
    """Replaces the whole session. With `expected_updated_at` a 409 where somebody else has changed it meanwhile."""
    return _json(await _save(request, parts, caller, mutation_id, {"session_id": str(session_id)}))


@router.delete("/sessions/{session_id}", summary="Delete a session", responses=_RECEIPT)
async def delete_session(
    parts: Here, caller: SignedIn, session_id: rules.SessionId, mutation_id: rules.MutationId
) -> Response:
    """Deletes the session; published numbers follow with the receipt's generation."""
    function = "public.delete_session_v5(:session_id, :user_id, :mutation_id)"
    answer = await parts.apps.call(
        caller.identity(), function, session_id=session_id, user_id=caller.account, mutation_id=mutation_id
    )
    return _json(answer)


@router.post(
    "/exercises",
    summary="Add or change an exercise",
    responses={200: {"model": StoredExercise}, **PROBLEMS(400, 401, 403, 404, 408, 409, 413, 422, 503)},
)
async def upsert_exercise(parts: Here, caller: SignedIn, exercise: Exercise) -> Response:
    """Adds an exercise of the account's own; with `exercise_id` changes it, and brings it back from the archive."""
    function = "public.upsert_exercise_v1(:name, :tracking, :user_id, :exercise_id)"
    answer = await parts.apps.call(
        caller.identity(),
        function,
        name=_text("name", exercise.name),
        tracking=exercise.tracking,
        user_id=caller.account,
        exercise_id=_text("exercise_id", exercise.exercise_id),
    )
    return _json(answer)


@router.delete(
    "/exercises/{exercise_id:path}",
    summary="Archive an exercise",
    responses={200: {"model": Archived}, **PROBLEMS(401, 403, 404, 409, 422, 503)},
)
async def archive_exercise(parts: Here, caller: SignedIn, exercise_id: rules.ExerciseId) -> Response:
    """No new session may name it; what is stored keeps it, and no published number changes."""
    function = "public.archive_exercise_v1(:exercise_id, :user_id)"
    answer = await parts.apps.call(
        caller.identity(), function, exercise_id=_text("exercise_id", exercise_id), user_id=caller.account
    )
    return _json(answer)


@router.put("/manual-records/{id:path}", summary="State a 1RM", responses=_RECEIPT)
async def set_manual_record(
    parts: Here, caller: SignedIn, id: rules.ExerciseId, record: ManualRecord, mutation_id: rules.MutationId
) -> Response:
    """`id` is the exercise. Source `manual` adds a record; `onboarding` sets the exercise's one initial 1RM."""
    function = "public.set_manual_pr_v1(:id, cast(:kg as numeric), :day, :source, :user_id, :mutation_id)"
    answer = await parts.apps.call(
        caller.identity(),
        function,
        id=_text("exercise_id", id),
        kg=record.one_rm_kg,
        day=record.achieved_on,
        source=record.source,
        user_id=caller.account,
        mutation_id=mutation_id,
    )
    return _json(answer)


@router.delete("/manual-records/{id:path}", summary="Delete a stated 1RM", responses=_RECEIPT)
async def delete_manual_record(
    parts: Here, caller: SignedIn, id: rules.Id, mutation_id: rules.MutationId
) -> Response:
    """`id` is the `manual_pr_id` of the receipt that stated it."""
    function = "public.delete_manual_pr_v1(:id, :user_id, :mutation_id)"
    answer = await parts.apps.call(
        caller.identity(), function, id=id, user_id=caller.account, mutation_id=mutation_id
    )
    return _json(answer)


async def _save(
    request: Request, parts: Here, caller: SignedIn, mutation_id: object, more: dict[str, str]
) -> Answer:
    """Save the session of the body. Its text goes to the database as it is: no number is read and printed again."""
    body = await _session_text(request)
    ours = {"expected_user_id": str(caller.account), "mutation_id": str(mutation_id), **more}
    function = "public.save_session_v5(cast(:body as jsonb) || cast(:ours as jsonb))"
    return await parts.apps.call(caller.identity(), function, body=body, ours=json.dumps(ours))


async def _session_text(request: Request) -> str:
    try:
        text = (await request.body()).decode()
        session = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Problem(400, "The body is not JSON, or is nested too deeply.") from error
    if not isinstance(session, dict):
        raise Problem(422, "$: must be an object", sqlstate="22023")
    if given := [name for name in _OURS if name in session]:
        raise Problem(422, f"$.{given[0]}: comes from the token, the path or Idempotency-Key")
    return text


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _text(name: str, value: str | None) -> str | None:
    # Postgres keeps no zero byte, and its driver raises before the server could say so.
    if value is not None and "\x00" in value:
        raise Problem(422, f"{name}: must not have a zero byte")
    return value


def _json(answer: Answer, status: int = 200) -> Response:
    return Response(answer.json, status, media_type="application/json")
