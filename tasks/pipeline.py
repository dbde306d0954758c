"""The three stages as Celery tasks: claim, compute, publish. Each runs one SQL function in one transaction."""

from __future__ import annotations

from celery import Task

from core.config import config
from core.stages import Stage
from tasks.app import app
from tasks.execution import StageFailed, execute
from tasks.statements import CLAIM, COMPUTE, PUBLISH
from tasks.transaction import Answer
from tasks.wake import follow_ups, send


@app.task(name="stats.claim", bind=True, throws=(StageFailed,))
def claim(self: Task) -> Answer:
    """Give the account that is due first to a run."""
    return _run(self, "claim", lock_owner=f"{self.request.hostname}:{self.request.id}")


@app.task(name="stats.compute", bind=True, throws=(StageFailed,))
def compute(
    self: Task, run_id: str | None = None, lease_token: str | None = None, expected_offset: int | None = None
) -> Answer:
    """Compute the given run, or the oldest one that nobody holds."""
    return _run(self, "compute", run_id=run_id, lease_token=lease_token, expected_offset=expected_offset)


@app.task(name="stats.publish", bind=True, throws=(StageFailed,))
def publish(self: Task, run_id: str | None = None, lease_token: str | None = None) -> Answer:
    """Publish the given run, or the oldest computed one that nobody holds."""
    return _run(self, "publish", run_id=run_id, lease_token=lease_token)


_STATEMENTS = {"claim": CLAIM, "compute": COMPUTE, "publish": PUBLISH}


def _run(task: Task, stage: Stage, **arguments: object) -> Answer:
    """Run the stage and return what Flower should show of it: response, account, milliseconds."""
    answer = execute(task, stage, _STATEMENTS[stage], arguments, lambda done: _wake(stage, done))
    return {"response": answer["response"], "user": answer.get("user_id"), "ms": answer["ms"]}


def _wake(stage: Stage, answer: Answer) -> None:
    if config().wake == "on":
        send(app, follow_ups(stage, answer))
