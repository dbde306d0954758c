"""What every task does around its SQL function: one transaction, the beat's bookkeeping, the failure in Flower."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from celery import Task
from sqlalchemy import TextClause

from core.database import engine
from core.stages import Stage
from tasks.beat_counts import count_beat
from tasks.beats import beat_run
from tasks.transaction import Answer, run_stage


class StageFailed(Exception):
    """A stage recorded a failed attempt. The record is committed; this makes the task end in FAILURE."""


def execute(
    task: Task,
    stage: Stage,
    statement: TextClause,
    arguments: Mapping[str, object],
    after_commit: Callable[[Answer], None],
) -> Answer:
    """Run `statement` as `stage` of the pipeline and return its answer with the milliseconds that it took.

    Raises StageFailed, after the commit, where the answer is that it failed.
    """
    started = time.perf_counter()
    beat = beat_run(task.request)
    answer = run_stage(engine(), stage, statement, arguments, after_commit, beat)
    ms = round((time.perf_counter() - started) * 1000, 1)
    if answer["response"] == "overlap":
        count_beat("overlapped", task.request)
    if answer["response"] == "failed":
        raise StageFailed(
            f"{_subject(task, answer)} failed with {answer.get('sqlstate')}: {answer.get('error')}"
        )
    return {**answer, "ms": ms}


def _subject(task: Task, answer: Answer) -> str:
    if "user_id" not in answer:
        return str(task.name)
    return f"{task.name} of account {answer['user_id']}, attempt {answer.get('attempts')},"
