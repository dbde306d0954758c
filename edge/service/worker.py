"""The worker entry point: drives claim, compute and publish, each in its own transaction, within a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy import Engine, TextClause, text
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import JSONResponse, Response

from core.stages import Stage
from edge.service.problems import of_database
from edge.service.shapes import PROBLEMS, WorkReport, WorkRequest
from edge.service.state import Here, SignedIn, caller_of
from tasks.statements import CLAIM, COMPUTE, PUBLISH
from tasks.transaction import Answer, run_stage, service, transaction

router = APIRouter(tags=["worker"])
PATH = "/stats-process-refresh-jobs"
ROUND_SECONDS = 20.0
"""After which nothing new is begun; a stage that runs is finished, within its own budget."""
_SCAN = text("select public.enqueue_stale_user_exercise_stats_refresh_jobs(:limit)")
_VALIDATE = text("select public.validate_user_exercise_stats_integrity(cast(:user_id as uuid))")
_STATUS = text("select public.stats_projection_worker_status_v1()")


@router.post(
    PATH,
    summary="Refresh what waits",
    response_model=WorkReport,
    responses=PROBLEMS(400, 401, 403, 408, 409, 413, 422, 503),
)
async def process(request: Request, parts: Here, caller: SignedIn, work: WorkRequest) -> Response:
    """For services and administrators. Takes the oldest waiting accounts through claim, compute and publish, up to
    `limit` of them and for about 20 s; stops where a batch has to wait. A loop on `has_more` ends."""
    caller.operator_identity()
    owner = (work.lock_owner or f"edge:{request.state.request_id}").replace("\x00", "")
    drive = Drive(parts.work.engine, owner, work, lambda: parts.publications.is_stopping)
    return JSONResponse(await parts.work.run(drive.report))


@router.get(
    PATH,
    summary="Health, and with a token the worker status",
    responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}, **PROBLEMS(401, 403, 409, 503)},
)  # fmt: skip
async def health(request: Request, parts: Here) -> Response:
    """Without a token: {"status": "ok"}. With one of a service or an administrator also `worker`, the answer of
    `stats_projection_worker_status_v1`."""
    if "authorization" not in request.headers:
        return JSONResponse({"status": "ok"})
    identity = caller_of(request, None).operator_identity()
    answer = await parts.apps.call(identity, "public.stats_projection_worker_status_v1()")
    return Response(f'{{"status": "ok", "worker": {answer.json}}}', media_type="application/json")


@dataclass
class Drive:
    """One round of the worker entry point."""

    engine: Engine
    owner: str
    work: WorkRequest
    is_stopping: Callable[[], bool]
    batches: int = 0
    retry_not_before: str | None = None
    has_more: bool = False
    results: list[dict[str, Any]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """Do the round and say what was done."""
        self._ends_at = time.monotonic() + ROUND_SECONDS
        scan = (
            self._run("maintenance", _SCAN, limit=self.work.enqueue_limit)
            if self.work.enqueue_stale
            else None
        )
        while len(self.results) < self.work.limit and self._goes_on():
            if not self._take_one():
                break
        outcomes = [result["outcome"] for result in self.results]
        with transaction(self.engine, service()) as connection:
            status: Answer = connection.execute(_STATUS).scalar_one()
        return {
            "processed_count": len(outcomes),
            **{f"{name}_count": outcomes.count(name) for name in ("completed", "failed", "deferred")},
            "batch_count": self.batches,
            "pending_count": status["jobs"]["pending_users"],
            "retry_not_before": self.retry_not_before,
            "has_more": self.has_more,
            "scan": scan,
            "results": self.results,
        }

    def _goes_on(self) -> bool:
        return time.monotonic() < self._ends_at and not self.is_stopping()

    def _take_one(self) -> bool:
        """Take one account as far as it goes; tell whether to take another."""
        run = self._run("claim", CLAIM, lock_owner=self.owner)
        if run["response"] != "claimed":
            self.has_more = False
            self._note_wait(run)
            return False
        self.has_more = bool(run["has_more"] and run["has_capacity"])
        answer = self._compute(run) if run.get("phase") != "computed" else {"response": "computed"}
        if answer["response"] == "computed":
            answer = self._run("publish", PUBLISH, run_id=run["run_id"], lease_token=run["lease_token"])
        return self._record(run, answer)

    def _compute(self, run: Answer) -> Answer:
        offset: int | None = None
        while True:
            answer = self._run(
                "compute",
                COMPUTE,
                run_id=run["run_id"],
                lease_token=run["lease_token"],
                expected_offset=offset,
            )
            if answer["response"] == "batch_pending":
                self.batches += answer["next_offset"] > (offset or 0)
            if answer["response"] != "batch_pending" or not self._goes_on():
                return answer
            offset = answer["next_offset"]

    def _record(self, run: Answer, answer: Answer) -> bool:
        response = answer["response"]
        outcome = {"published": "completed", "failed": "failed"}.get(response, "deferred")
        result = {"user_id": run["user_id"], "response": response, "outcome": outcome}
        if response == "published":
            result["generation"] = answer["generation"]
            if self.work.validate_integrity:
                result["integrity"] = self._validated(run["user_id"])
        if response == "failed":
            result["sqlstate"] = answer.get("sqlstate")
        self._note_wait(answer)
        self.results.append(result)
        # What was begun in batches and not finished is taken up by the compute beat.
        return response not in ("retry_pending", "batch_pending")

    def _validated(self, user_id: str) -> dict[str, Any]:
        try:
            with transaction(self.engine, service(), budget_of="maintenance") as connection:
                found: Answer = connection.execute(_VALIDATE, {"user_id": user_id}).scalar_one()
        except SQLAlchemyError as error:
            # What is published stays published: the report says that nobody has looked.
            return {"valid": None, "error": of_database(error).detail}
        return {name: found[name] for name in ("valid", "stale", "moved")}

    def _note_wait(self, answer: Answer) -> None:
        times = [moment for moment in (self.retry_not_before, answer.get("retry_not_before")) if moment]
        self.retry_not_before = min(times, default=None)

    def _run(self, stage: Stage, statement: TextClause, **arguments: object) -> Answer:
        return run_stage(self.engine, stage, statement, arguments, lambda _answer: None)
