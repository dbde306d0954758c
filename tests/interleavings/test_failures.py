"""A stage that fails records it in the one transaction that it is; a person's cancel and a lost connection don't."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError
from support.races import wait_until_blocked

from tasks.pipeline import COMPUTE, PUBLISH
from tasks.transaction import run_stage

from .scene import (
    HEADERS,
    OUTPUT,
    OUTPUTS,
    READ_MODELS,
    answer_of,
    assert_converges,
    change_settings,
    drop_backoff,
    gate,
    on_insert,
    outcome,
    picture,
    raised,
    run_row,
    session,
    start_compute,
    start_publish,
    undo_on_insert,
)

STAGES = pytest.mark.parametrize("stage", ["compute", "publish"])
INSIDE = {"compute": OUTPUT, "publish": HEADERS}
START = {"compute": start_compute, "publish": start_publish}
TIMEOUT = "canceling statement due to statement timeout"


def ready(app_account, stages, stage):
    """Return a run that is to be computed, or one that is to be published."""
    app_account.save()
    run = stages.claim()
    if stage == "publish":
        stages.compute(run)
    return run


def as_a_worker(database, stage, run):
    """Run the stage as a task does, its budget armed; return the answer or what it raised."""
    arguments = {"run_id": run["run_id"], "lease_token": run["lease_token"], "expected_offset": None}
    statement = COMPUTE if stage == "compute" else PUBLISH
    try:
        return run_stage(database.engine, stage, statement, arguments, lambda answer: None)
    except DBAPIError as error:
        return raised(error)


@STAGES
@pytest.mark.parametrize(
    ("body", "sqlstate"),
    [
        ("raise exception 'sabotage';", "P0001"),
        ("perform 1 / 0;", "22012"),
        ("raise exception using errcode = '53100', message = 'disk full';", "53100"),
    ],
    ids=["raise", "division", "disk"],
)
def test_an_error_inside_is_recorded_and_leaves_nothing_partial(
    database, app_account, stages, stage, body, sqlstate
):
    run = ready(app_account, stages, stage)
    before = picture(database, READ_MODELS)
    on_insert(database, INSIDE[stage], body)
    answer = answer_of(getattr(stages, stage), run)
    undo_on_insert(database, INSIDE[stage])

    assert (answer.get("response"), answer.get("sqlstate")) == ("failed", sqlstate)
    assert (answer["attempts"], answer["exhausted"]) == (1, False)
    assert picture(database, READ_MODELS) == before
    assert picture(database, OUTPUTS) == {table: [] for table in OUTPUTS}
    assert run_row(database, run, "phase", "error") == ("failed", answer["error"])
    [(status, last_error)] = app_account.jobs("status", "metadata -> 'last_error'")
    assert status == "pending"
    assert (last_error["sqlstate"], last_error["message"]) == (sqlstate, answer["error"])
    drop_backoff(database)
    assert_converges(stages, app_account)


def test_each_attempt_waits_longer_and_the_last_one_stays_failed(database, app_account, stages):
    change_settings(database, max_attempts=3, retry_backoff_seconds=40)
    on_insert(database, OUTPUT, "raise exception 'sabotage';")
    app_account.save()
    waits = []
    for _ in range(3):
        drop_backoff(database)
        answer = stages.compute(stages.claim())
        waits += app_account.jobs(
            "status", "attempts", "round(extract(epoch from retry_not_before - updated_at))::integer"
        )
    assert waits == [("pending", 1, 40), ("pending", 2, 80), ("failed", 3, None)]
    assert answer["exhausted"] is True
    assert answer["retry_not_before"] is None
    assert stages.claim() == {"response": "idle"}


@STAGES
def test_the_statement_timeout_is_recorded(database, app_account, stages, stage):
    run = ready(app_account, stages, stage)
    on_insert(database, INSIDE[stage], "perform pg_catalog.pg_sleep(60);")
    change_settings(database, **{f"{stage}_budget_ms": 400})
    answer = as_a_worker(database, stage, run)
    assert (answer.get("response"), answer.get("sqlstate"), answer.get("error")) == (
        "failed",
        "57014",
        TIMEOUT,
    )
    assert run_row(database, run, "phase", "error") == ("failed", TIMEOUT)
    assert picture(database, OUTPUTS) == {table: [] for table in OUTPUTS}
    undo_on_insert(database, INSIDE[stage])
    change_settings(database, compute_budget_ms=60000, publish_budget_ms=6000)
    drop_backoff(database)
    assert_converges(stages, app_account)


@STAGES
def test_a_persons_cancel_is_raised_on_and_the_run_stays_as_it_was(database, app_account, stages, stage):
    run = ready(app_account, stages, stage)
    with gate(database, INSIDE[stage]) as keeper:
        before = picture(database)
        with session(database, "worker") as worker:
            answer = START[stage](worker, run)
            wait_until_blocked(database, worker, by=keeper)
            database.admin("select pg_catalog.pg_cancel_backend(:pid)", pid=worker.pid)
            answer = outcome(answer)
            worker.commit()
        assert answer.get("raised") == "57014"
        assert "user request" in answer["message"]
        assert picture(database) == before
    if stage == "compute":
        assert stages.compute(run)["response"] == "computed"
    assert stages.publish(run)["response"] == "published"
    assert_converges(stages, app_account)


@STAGES
def test_a_lost_connection_leaves_the_run_to_its_lease(database, app_account, stages, stage):
    run = ready(app_account, stages, stage)
    with gate(database, INSIDE[stage]) as keeper:
        before = picture(database)
        with session(database, "worker") as worker:
            answer = START[stage](worker, run)
            wait_until_blocked(database, worker, by=keeper)
            database.admin("select pg_catalog.pg_terminate_backend(:pid)", pid=worker.pid)
            assert outcome(answer)["raised"] in ("57P01", None), "the connection is gone"
        assert picture(database) == before
    if stage == "compute":
        assert stages.compute(run)["response"] == "computed"
    assert stages.publish(run)["response"] == "published"


def test_a_failure_while_a_newer_save_waits_keeps_both_scopes(database, app_account, stages):
    change_settings(database, max_attempts=1)
    app_account.save(session_date="2026-01-05")
    run = stages.claim()
    on_insert(database, OUTPUT, "raise exception 'sabotage';")
    app_account.save(app_account.block("Bench", (60, 5)), session_date="2026-02-05")
    assert stages.compute(run)["exhausted"] is True
    undo_on_insert(database, OUTPUT)
    assert app_account.jobs("requested_version", "status") == [(1, "failed"), (2, "pending")]
    assert stages.claim()["target_version"] == 2
    stages.compute()
    stages.publish()
    assert app_account.jobs("status") == [("completed",), ("completed",)]
    assert_converges(stages, app_account)
