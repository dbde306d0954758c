"""What to send after a stage's commit, so that work does not wait for the next beat.

Messages only hint: a lost or doubled one changes nothing but latency. Each names its run and token, which make the
second copy a no-op, and the beats find what a lost one was about.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from celery import Celery
from kombu.exceptions import OperationalError

from core.stages import Stage
from tasks.transaction import Answer

logger = logging.getLogger(__name__)

_LONGEST_WAIT = timedelta(seconds=45)
"""A worker holds a message with a time until then, one of its few: what has longer to wait is left to the beats."""

_WAKES_CLAIM = ("published", "failed")
_WAITS = ("busy", "retry_pending", "rejected", "invalidated")


@dataclass(frozen=True)
class Message:
    """One task to send: its name, its keyword arguments, and when (UTC; None: at once)."""

    task: str
    arguments: dict[str, object] = field(default_factory=dict)
    not_before: datetime | None = None


def follow_ups(stage: Stage, answer: Answer) -> list[Message]:
    """Return what the stage's answer leaves for the next stages. Pure."""
    response = answer["response"]
    if response == "claimed":
        # Where all slots are taken, the end of one wakes the next claim.
        more = [Message("stats.claim")] if answer["has_more"] and answer["has_capacity"] else []
        stage_of_run = "stats.publish" if answer.get("phase") == "computed" else "stats.compute"
        return [Message(stage_of_run, _lease(answer)), *more, *_at_its_time(answer)]
    if response == "computed":
        return [Message("stats.publish", _lease(answer))]
    if response == "batch_pending" and "reason" not in answer:
        return [Message("stats.compute", {**_lease(answer), "expected_offset": answer["next_offset"]})]
    if response in _WAITS:
        # Through claim, which lets the work go on under its lock and the cap. The slot is free till then.
        return [Message("stats.claim"), *_at_its_time(answer)]
    if stage != "claim" and response in _WAKES_CLAIM:
        # The account's successor may wait, and a slot is free.
        return [Message("stats.claim")]
    # A claim finds a run's account still held.
    return _at_its_time(answer) if stage == "claim" else []


def _lease(answer: Answer) -> dict[str, object]:
    return {"run_id": answer["run_id"], "lease_token": answer["lease_token"]}


def _at_its_time(answer: Answer) -> list[Message]:
    not_before = answer.get("retry_not_before")
    return [Message("stats.claim", not_before=datetime.fromisoformat(not_before))] if not_before else []


def send(app: Celery, messages: list[Message]) -> None:
    """Send `messages`. An unreachable broker is logged, not raised: the work is committed, the beats go on.

    One for a later time than a worker should hold it is left to the beats.
    """
    for message in messages:
        if message.not_before is not None and message.not_before > datetime.now(UTC) + _LONGEST_WAIT:
            continue
        try:
            app.send_task(message.task, kwargs=message.arguments, eta=message.not_before, retry=False)
        except OperationalError as error:
            logger.warning(
                "%s not sent, the next beat takes it: %s",
                message.task,
                error,
                extra={"action": "wake", "task": message.task},
            )
