"""A batch that ran over its budget: when its run comes back, how often, and what does not hold it up."""

from __future__ import annotations

import pytest
from batches import scene as batches

from .cases import TIMEOUT
from .scene import (
    OUTPUT,
    admin_session,
    on_insert,
    outcome,
    session,
    start_claim,
    undo_on_insert,
    wait_until_blocked_or_done,
)


@pytest.fixture
def run(database):
    """A run in batches whose next step runs over its budget, whenever it is tried."""
    batches.set_settings(database, batch_size=2, max_attempts=2)
    batches.Account(database, 5)
    run = batches.claim_run(database)
    run.step()
    on_insert(database, OUTPUT, f"raise exception using errcode = '57014', message = '{TIMEOUT}';")
    return run


def test_a_run_that_backs_off_comes_back_when_its_time_has_come_and_not_before(database, run):
    assert run.step()["response"] == "retry_pending"
    assert batches.claim(database) == {"response": "idle"}
    run.let_the_backoff_run_out()
    assert batches.claim_run(database).token == run.token


@pytest.mark.parametrize("named", [True, False], ids=["by its message", "by a beat"])
def test_a_run_that_backs_off_is_not_computed_before_a_claim_brings_it_back(database, stages, run, named):
    run.step()
    before = run.batch
    run.let_the_backoff_run_out()
    undo_on_insert(database, OUTPUT)
    assert stages.compute(run.claimed if named else None) == {"response": "idle"}
    assert run.batch == before


def test_a_batch_is_tried_again_as_often_as_the_attempts_and_no_more(database, run):
    answers = [run.step()["response"]]
    while answers[-1] == "retry_pending" and len(answers) < 5:
        run.let_the_backoff_run_out()
        assert batches.claim_run(database).token == run.token
        answers.append(run.step()["response"])
    assert answers == ["retry_pending", "retry_pending", "failed"]


def test_a_run_that_backs_off_and_whose_row_somebody_holds_keeps_no_claim_waiting(database, run):
    run.step()
    run.let_the_backoff_run_out()
    with admin_session(database, "operator") as operator, session(database, "claim") as claimer:
        operator.run("select id from public.user_stats_projection_runs for update")
        answer = start_claim(claimer)
        wait_until_blocked_or_done(database, claimer, answer)
        assert answer.done(), "a claim waits for nobody's run row"
        assert outcome(answer) == {"response": "idle"}
    assert batches.claim_run(database).token == run.token


def test_a_run_that_comes_back_has_a_whole_lease_and_ends(database, run):
    run.step()
    undo_on_insert(database, OUTPUT)
    run.let_the_backoff_run_out()
    run.change("lease_until = clock_timestamp() + interval '2 seconds'")
    resumed = batches.claim_run(database)
    assert resumed.column("lease_until > clock_timestamp() + interval '10 seconds'")
    assert resumed.finish()[-1]["response"] == "computed"
    assert batches.publish(database, resumed)["response"] == "published"
