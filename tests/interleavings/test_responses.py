"""Every answer of the three stages: from SQL, through the task as a worker runs it, and what is sent after it."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from tasks import pipeline
from tasks.transaction import service, transaction
from tasks.wake import follow_ups

from .cases import CASES, TASK_CASES, contract, prepare, reasons, responses_written
from .counting import one_transaction
from .scene import run_row


def run_task(case, run):
    """Call the stage's task as a plain function; return what Flower shows, or the text of its failure."""
    arguments = {key: run[key] for key in ("run_id", "lease_token")} if run else {}
    try:
        return getattr(pipeline, case.stage)(**arguments)
    except pipeline.StageFailed as failure:
        return {"response": "failed", "text": str(failure)}


@pytest.fixture
def scheduler(database):
    """An engine of one connection, as an SQL scheduler has it."""
    engine = create_engine(database.url, pool_size=1, max_overflow=0)
    yield engine
    engine.dispose()


@pytest.mark.parametrize("name", CASES)
def test_from_sql(database, app_account, stages, scheduler, name):
    case = CASES[name]
    run = prepare(case, database, app_account, stages)
    with (
        one_transaction(database, scheduler, writes=case.writes),
        transaction(scheduler, service()) as connection,
    ):
        for _ in range(case.calls):
            answer = connection.scalar(text(case.sql(run)))
    assert (answer["response"], answer.get("reason")) == (case.response, case.reason)
    assert case.keys <= answer.keys()
    sent = follow_ups(case.stage, answer)
    assert tuple(message.task for message in sent) == case.sends
    if sent and case.response in ("claimed", "computed", "batch_pending"):
        lease = {"run_id": answer["run_id"], "lease_token": answer["lease_token"]}
        assert lease.items() <= sent[0].arguments.items()


@pytest.mark.parametrize("name", TASK_CASES)
def test_through_the_task(database, app_account, stages, worker_process, name):
    case = CASES[name]
    run = prepare(case, database, app_account, stages)
    with one_transaction(database, worker_process, writes=case.writes):
        shown = run_task(case, run)
    assert shown["response"] == case.response
    if case.response == "failed":
        assert "sabotage" in shown["text"], "Flower shows why"
        assert app_account.jobs("status", "error_message") == [("pending", "sabotage")], (
            "after the record committed"
        )
    elif case.writes:
        assert shown["user"] == str(app_account.user_id)
    if case.response == "invalidated":
        assert run_row(database, run, "phase") == ("failed",)
        assert case.reason in run_row(database, run, "error")[0]


def test_the_table_has_every_answer_of_the_contract():
    assert {(case.stage, case.response) for case in CASES.values()} == contract()
    assert {(case.response, case.reason) for case in CASES.values() if case.reason} == reasons()


def test_the_headers_promise_all_that_the_functions_answer():
    """Guards the reading of both against a pattern that no longer matches anything."""
    assert len(contract()) == 4 + 9 + 7
    assert {response for _, response in contract()} - responses_written() == {"lease_lost"}, (
        "take_run's refusal"
    )
    assert responses_written() <= {response for _, response in contract()}
    assert len(reasons()) == 5 + 3 + 1
    by_task = {(CASES[name].stage, CASES[name].response) for name in TASK_CASES}
    assert by_task == contract(), "a second call in one transaction adds a reason, no answer"
