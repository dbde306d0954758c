"""Two workers on one run, late messages, wrong tokens: the second changes nothing."""

from __future__ import annotations

import uuid

import pytest
from batches import scene as batches
from support.app import AppAccount
from support.races import DEADLINE, wait_until_blocked

from .scene import (
    HEADERS,
    OUTPUT,
    assert_converges,
    expire_lease,
    gate,
    outcome,
    picture,
    run_row,
    session,
    start_compute,
    start_publish,
    wait_until_blocked_or_done,
)


@pytest.mark.parametrize("named", [True, False], ids=["by its message", "by a beat"])
def test_a_second_compute_finds_the_run_held(database, app_account, stages, named):
    app_account.save()
    run = stages.claim()
    with (
        gate(database, OUTPUT) as keeper,
        session(database, "first") as first,
        session(database, "second") as second,
    ):
        computing = start_compute(first, run)
        wait_until_blocked(database, first, by=keeper)
        doubled = start_compute(second, run if named else None)
        wait_until_blocked_or_done(database, second, doubled)
        keeper.rollback()
        assert outcome(computing)["response"] == "computed"
        first.commit()
        assert outcome(doubled) == {"response": "idle"}
        second.commit()
    assert stages.publish(run)["response"] == "published"
    assert_converges(stages, app_account)


@pytest.mark.parametrize("named", [True, False], ids=["by its message", "by a beat"])
def test_a_second_publication_finds_the_run_held(database, app_account, stages, named):
    app_account.save()
    run = stages.claim()
    stages.compute(run)
    with (
        gate(database, HEADERS) as keeper,
        session(database, "first") as first,
        session(database, "second") as second,
    ):
        publishing = start_publish(first, run)
        wait_until_blocked(database, first, by=keeper)
        doubled = start_publish(second, run if named else None)
        wait_until_blocked_or_done(database, second, doubled)
        keeper.rollback()
        assert outcome(publishing)["response"] == "published"
        first.commit()
        assert outcome(doubled) == {"response": "idle"}
        second.commit()
    assert_converges(stages, app_account)


def test_a_beat_takes_the_next_run_while_the_first_is_held(database, stages):
    for account in (AppAccount(database), AppAccount(database)):
        account.save()
    first_run, second_run = stages.claim(), stages.claim()
    with (
        gate(database, OUTPUT) as keeper,
        session(database, "first") as first,
        session(database, "second") as second,
    ):
        computing = start_compute(first)
        wait_until_blocked(database, first, by=keeper)
        other = start_compute(second)
        wait_until_blocked(database, second, by=keeper)
        keeper.rollback()
        assert outcome(computing)["run_id"] == first_run["run_id"]
        assert outcome(other)["run_id"] == second_run["run_id"]


def test_messages_that_come_late_or_twice_change_nothing(database, app_account, stages):
    """Every message of one run, sent again at each later moment of it."""
    app_account.save()
    run = stages.claim()
    assert_no_effect(database, stages.publish(run), stages.publish, run)
    stages.compute(run)
    assert_no_effect(database, stages.compute(run), stages.compute, run)
    stages.publish(run)
    assert_no_effect(database, stages.compute(run), stages.compute, run)
    assert_no_effect(database, stages.publish(run), stages.publish, run)
    app_account.save()
    stages.claim()
    assert_no_effect(database, stages.compute(run), stages.compute, run)
    assert_no_effect(database, stages.publish(run), stages.publish, run)


def assert_no_effect(database, first_answer, stage, run):
    before = picture(database)
    assert first_answer["response"] in ("idle", "lease_lost")
    assert stage(run) == first_answer
    assert picture(database) == before


@pytest.mark.parametrize("stage", ["compute", "publish"])
@pytest.mark.parametrize("token", ["another", "none", "another run's"])
def test_a_token_that_is_not_the_runs_loses(database, app_account, stages, stage, token):
    app_account.save()
    run = stages.claim()
    if stage == "publish":
        stages.compute(run)
    other = AppAccount(database)
    other.save()
    tokens = {"another": str(uuid.uuid4()), "none": None, "another run's": stages.claim()["lease_token"]}
    before = picture(database)
    assert getattr(stages, stage)({**run, "lease_token": tokens[token]}) == {"response": "lease_lost"}
    assert picture(database) == before


@pytest.mark.parametrize("stage", ["compute", "publish"])
def test_a_run_that_never_was_is_a_lost_lease(stages, stage):
    nowhere = {"run_id": str(uuid.uuid4()), "lease_token": str(uuid.uuid4())}
    assert getattr(stages, stage)(nowhere) == {"response": "lease_lost"}


@pytest.mark.parametrize("stage", ["compute", "publish"])
def test_a_beat_leaves_an_expired_run_to_the_claim(database, app_account, stages, stage):
    app_account.save()
    run = stages.claim()
    if stage == "publish":
        stages.compute(run)
    expire_lease(database, run)
    before = picture(database)
    assert getattr(stages, stage)() == {"response": "idle"}
    assert picture(database) == before


@pytest.mark.parametrize("stage", ["compute", "publish"])
def test_a_stage_renews_its_lease(database, app_account, stages, stage):
    app_account.save()
    run = stages.claim()
    if stage == "publish":
        stages.compute(run)
    with session(database, "worker") as worker:
        before = run_row(database, run, "lease_until")
        (start_compute if stage == "compute" else start_publish)(worker, run).result(DEADLINE)
        worker.commit()
    assert run_row(database, run, "lease_until") > before


def test_a_message_of_a_batch_chain_that_comes_late_or_twice_changes_nothing(database):
    batches.set_settings(database, batch_size=2)
    account = batches.Account(database, 5)
    run = batches.claim_run(database)
    assert run.step()["next_offset"] == 0
    assert run.step(0)["next_offset"] == 2
    assert run.step(2)["next_offset"] == 4
    before = picture(database)
    assert [run.step(offset)["response"] for offset in (0, 2, 5, 99)] == ["idle"] * 4
    assert picture(database) == before
    assert run.finish()[-1]["response"] == "computed"
    before = picture(database)
    assert [run.step(offset)["response"] for offset in (0, 4, 5)] == ["idle"] * 3
    assert picture(database) == before
    assert batches.publish(database, run)["response"] == "published"
    account.assert_converged()


def test_a_second_step_of_a_batch_finds_the_run_held(database):
    batches.set_settings(database, batch_size=2)
    account = batches.Account(database, 5)
    run = batches.claim_run(database)
    run.step()
    with (
        gate(database, OUTPUT) as keeper,
        session(database, "first") as first,
        session(database, "second") as second,
    ):
        computing = start_compute(first, run.claimed)
        wait_until_blocked(database, first, by=keeper)
        doubled = start_compute(second, run.claimed)
        wait_until_blocked_or_done(database, second, doubled)
        keeper.rollback()
        assert outcome(computing)["next_offset"] == 2
        first.commit()
        assert outcome(doubled) == {"response": "idle"}
        second.commit()
    run.finish()
    assert batches.publish(database, run)["response"] == "published"
    account.assert_converged()


def test_a_transaction_advances_a_run_by_one_step_however_often_it_calls(database):
    batches.set_settings(database, batch_size=2)
    batches.Account(database, 5)
    run = batches.claim_run(database)
    with session(database, "sql scheduler") as scheduler:
        assert start_compute(scheduler, run.claimed).result(DEADLINE)["next_offset"] == 0
        for _ in range(3):
            again = start_compute(scheduler, run.claimed).result(DEADLINE)
            assert (again.get("reason"), again["next_offset"]) == ("transaction_boundary_required", 0)
        scheduler.commit()
    assert run.step(0)["next_offset"] == 2
