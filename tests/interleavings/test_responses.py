"""Every answer of the three stages: from SQL, through the task as a worker runs it, and what is sent after it."""

from __future__ import annotations

import pytest

import tasks.config
import tasks.database
from tasks import pipeline
from tasks.wake import follow_ups

from .cases import CASES, prepare


@pytest.fixture
def worker_process(database, monkeypatch):
    """This process, configured as a worker that leaves the hand-off to the beats: no broker is needed."""
    monkeypatch.setenv(
        "STATS_REFRESH_DATABASE_URL", database.engine.url.render_as_string(hide_password=False)
    )
    monkeypatch.setenv("STATS_REFRESH_WAKE", "off")
    tasks.config.config.cache_clear()
    tasks.database.engine.cache_clear()
    yield
    tasks.database.engine().dispose()
    tasks.database.engine.cache_clear()
    tasks.config.config.cache_clear()


def run_task(case, run):
    """Call the stage's task as a plain function; return what Flower shows, or the text of its failure."""
    arguments = {key: run[key] for key in ("run_id", "lease_token")} if run else {}
    try:
        return getattr(pipeline, case.stage)(**arguments)
    except pipeline.StageFailed as failure:
        return {"response": "failed", "text": str(failure)}


@pytest.mark.parametrize("name", CASES)
def test_from_sql(database, app_account, stages, name):
    case = CASES[name]
    run = prepare(case, database, app_account, stages)
    answer = database.as_service().value(case.sql(run))
    assert (answer["response"], answer.get("reason")) == (case.response, case.reason)
    assert case.keys <= answer.keys()
    sent = follow_ups(case.stage, answer)
    assert tuple(message.task for message in sent) == case.sends
    if case.response in ("claimed", "computed"):
        assert sent[0].arguments == {"run_id": answer["run_id"], "lease_token": answer["lease_token"]}


@pytest.mark.parametrize("name", CASES)
def test_through_the_task(database, app_account, stages, worker_process, name):
    case = CASES[name]
    run = prepare(case, database, app_account, stages)
    shown = run_task(case, run)
    assert shown["response"] == case.response
    if case.response == "failed":
        assert "sabotage" in shown["text"], "Flower shows why"
        assert app_account.jobs("status", "error_message") == [("pending", "sabotage")], (
            "after the record committed"
        )
    elif case.writes:
        assert shown["user"] == str(app_account.user_id)


def test_the_table_names_every_answer_of_the_contract():
    answers = {(case.stage, case.response) for case in CASES.values()}
    assert answers == {
        *(("claim", response) for response in ("claimed", "idle", "at_capacity")),
        *(("compute", response) for response in ("computed", "failed", "idle", "lease_lost")),
        *(("publish", response) for response in ("published", "rejected", "failed", "idle", "lease_lost")),
    }
    assert {case.reason for case in CASES.values()} == {None, "base_moved", "canonical_deleted", "manifest"}
