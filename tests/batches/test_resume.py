"""A worker that dies between two batches: its run goes on from the last committed one, with the same token."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from batches.scene import Account, claim, claim_run, outputs, publish, set_settings
from tasks.transaction import service, transaction


@pytest.fixture
def account(database):
    set_settings(database, batch_size=2)
    return Account(database, 5)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_killed_between_any_two_batches_it_goes_on_with_its_token_and_cursor(database, account, steps):
    run = claim_run(database)
    last = run.steps(steps)
    run.let_the_lease_run_out()
    assert run.step(last["next_offset"]) == {"response": "lease_lost"}

    resumed = claim_run(database)
    assert (resumed.id, resumed.token) == (run.id, run.token)
    assert (resumed.batch["next_offset"], resumed.batch["retries"]) == (last["next_offset"], 1)
    assert resumed.finish()[-1]["response"] == "computed"
    publish(database, resumed)
    account.assert_converged()
    assert account.jobs("attempts") == [(1,)]


def test_a_connection_that_breaks_in_the_middle_of_a_batch_leaves_nothing_of_it(database, account):
    run = claim_run(database)
    run.steps(2)
    before = outputs(database), run.batch
    connection = database.engine.connect()
    connection.execute(
        text("select set_config('role', 'service_role', true), public.stats_projection_compute_v1()")
    )
    connection.invalidate()
    connection.close()
    assert (outputs(database), run.batch) == before
    assert run.finish()[-1]["response"] == "computed"


def test_it_is_resumed_a_bounded_number_of_times_and_then_begins_anew(database, account):
    run = claim_run(database)
    run.steps(2)
    for retries in (1, 2, 3):
        run.let_the_lease_run_out()
        assert claim_run(database).token == run.token
        assert run.batch["retries"] == retries
    run.let_the_lease_run_out()
    anew = claim_run(database)
    assert anew.token != run.token
    assert account.jobs("attempts") == [(2,)]
    assert outputs(database) == 0
    assert anew.finish()[-1]["response"] == "computed"
    publish(database, anew)
    account.assert_converged()


@pytest.mark.parametrize(
    "change",
    [
        "update public.stats_projection_policy set policy_version = policy_version + 1",
        "update public.user_stats_refresh_state set source_revision = source_revision + 1",
        "update public.user_stats_refresh_state set applied_version = requested_version",
        "delete from stats_private.stats_output_daily_rollups",
    ],
    ids=["policy", "source", "base", "outputs"],
)
def test_it_is_not_resumed_where_an_input_moved_meanwhile(database, account, change):
    run = claim_run(database)
    run.steps(2)
    run.let_the_lease_run_out()
    database.admin(change)
    anew = claim_run(database)
    assert anew.token != run.token
    assert outputs(database) == 0
    assert anew.finish()[-1]["response"] == "computed"
    publish(database, anew)
    account.assert_converged()


def test_a_worker_that_died_before_the_first_batch_costs_an_attempt(database, account):
    run = claim_run(database)
    run.let_the_lease_run_out()
    anew = claim_run(database)
    assert anew.token != run.token
    assert account.jobs("attempts") == [(2,)]


def test_a_run_that_somebody_still_holds_is_not_resumed(database, account):
    run = claim_run(database)
    run.steps(2)
    run.let_the_lease_run_out()
    with transaction(database.admin_engine, service()) as holder:
        holder.execute(text("reset role"))
        holder.execute(text("select from public.user_stats_projection_runs for update"))
        assert claim(database)["response"] == "idle"
    assert claim_run(database).token == run.token


def test_a_paused_compute_uses_up_no_attempts_and_no_retries(database, account):
    run = claim_run(database)
    run.steps(2)
    set_settings(database, paused_stages=["compute"])
    for _ in range(5):
        run.let_the_lease_run_out()
        assert claim(database)["response"] != "claimed"
    assert run.batch["retries"] == 0
    set_settings(database, paused_stages=[])
    assert claim_run(database).token == run.token
    assert run.batch["retries"] == 1
    assert run.finish()[-1]["response"] == "computed"
    publish(database, run)
    account.assert_converged()
