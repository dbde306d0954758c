"""One row of history for each run that a beat fired, and none for the others; the tasks' frame without Celery."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from celery.app.task import Context
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount
from support.races import session

from core.processes import wait_until
from schedules.entries import ENTRY_HEADER
from tasks.beats import BeatRun, beat_run
from tasks.pipeline import CLAIM, COMPUTE
from tasks.transaction import Answer, run_stage

if TYPE_CHECKING:
    from conftest import Database

ENTRY = "lift-guild-stats-refresh"


def fired(entry: str = ENTRY) -> BeatRun:
    return BeatRun(entry, "task-1", "pipeline@here")


def rows(database: Database) -> list[tuple]:
    return database.admin(
        "select job_name, task_id, worker, status, response, error from public.cron_run_history order by id"
    )


def claim(database: Database, beat: BeatRun | None) -> Answer:
    return run_stage(database.engine, "claim", CLAIM, {"lock_owner": "me"}, lambda _: None, beat)


def test_a_beat_fired_run_has_one_row_a_woken_one_none(database: Database, app_account: AppAccount) -> None:
    claim(database, None)
    assert rows(database) == []

    app_account.save()
    answer = claim(database, fired())

    assert answer["response"] == "claimed"
    [(name, task_id, worker, status, response, error)] = rows(database)
    assert (name, task_id, worker, status, error) == (ENTRY, "task-1", "pipeline@here", "succeeded", None)
    assert (response["response"], response["user_id"]) == ("claimed", str(app_account.user_id))
    assert "lease_token" not in response
    [(started_at, ended_at)] = database.admin("select started_at, ended_at from public.cron_run_history")
    assert started_at < ended_at <= datetime.now(UTC)


def test_an_answer_of_failed_is_a_failed_run(database: Database) -> None:
    failing = text('select cast(\'{"response": "failed", "error": "out of plates"}\' as jsonb)')
    run_stage(database.engine, "maintenance", failing, {}, lambda _: None, fired())
    [(_, _, _, status, response, error)] = rows(database)
    assert (status, response["response"], error) == ("failed", "failed", "out of plates")


def test_the_row_commits_with_the_work_before_anything_is_sent(database: Database) -> None:
    seen: list[int] = []
    run_stage(
        database.engine,
        "claim",
        CLAIM,
        {"lock_owner": "me"},
        lambda _: seen.append(len(rows(database))),
        fired(),
    )
    assert seen == [1]


@pytest.mark.parametrize(
    ("ending", "problem"),
    [
        (
            "pg_terminate_backend",
            "terminating connection due to administrator command|server closed the connection",
        ),
        ("pg_cancel_backend", "QueryCanceled: canceling statement due to user request$"),
    ],
)
def test_a_run_that_rolled_back_has_its_row_as_failed(database: Database, ending: str, problem: str) -> None:
    sent: list[Answer] = []
    with ThreadPoolExecutor(1) as worker:
        working = text("select pg_catalog.pg_sleep(20)")
        run = worker.submit(run_stage, database.engine, "compute", working, {}, sent.append, fired())
        ended = f"select {ending}(pid) from pg_stat_activity where query = 'select pg_catalog.pg_sleep(20)'"
        assert wait_until(lambda: bool(database.admin(ended)), 10)
        with pytest.raises(DBAPIError):
            run.result(10)
    [(name, _, _, status, response, error)] = rows(database)
    assert (name, status, response) == (ENTRY, "failed", None)
    assert re.search(problem, error)
    assert sent == []


def test_a_run_steps_aside_while_its_entry_is_at_work(database: Database) -> None:
    with session(database, "the run before") as before:
        before.run("select public.stats_try_beat_lock_v1(:entry)", entry=ENTRY)
        assert claim(database, fired()) == {"response": "overlap"}
        assert claim(database, fired("another-entry"))["response"] == "idle"
        assert claim(database, None)["response"] == "idle"
    assert claim(database, fired())["response"] == "idle"
    assert [(row[0], row[4]["response"]) for row in rows(database)] == [
        (ENTRY, "overlap"),
        ("another-entry", "idle"),
        (ENTRY, "idle"),
    ]


def test_a_paused_stage_still_has_its_row(database: Database) -> None:
    database.as_service()("select public.pause_stats_stages_v1(cast('{compute}' as text[]), true)")
    nothing = {"run_id": None, "lease_token": None, "expected_offset": None}
    answer = run_stage(database.engine, "compute", COMPUTE, nothing, lambda _: None, fired())
    assert answer["response"] == "paused"
    assert rows(database)[0][3] == "succeeded"


def test_only_a_message_with_the_schedulers_header_counts_as_fired_by_a_beat() -> None:
    assert beat_run(Context(id="1", hostname="here")) is None
    assert beat_run(Context({"id": "1", "hostname": "here", "celery_beat_task": True})) is None
    found = beat_run(Context({"id": "1", "hostname": "here", ENTRY_HEADER: ENTRY}))
    assert found is not None
    assert (found.entry, found.task_id, found.worker) == (ENTRY, "1", "here")
