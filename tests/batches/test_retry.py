"""A batch that runs into its budget is tried again alone, a bounded number of times; one that meets a lock waits."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from batches.scene import Account, Run, claim, claim_run, drain, outputs, publish, set_settings
from core.processes import wait_until

BACKOFF = 40


@pytest.fixture
def account(database):
    set_settings(
        database, batch_size=2, retry_backoff_seconds=BACKOFF, compute_budget_ms=1000, publish_budget_ms=2000,
        lease_seconds=30,
    )  # fmt: skip
    return Account(database, 6)


@pytest.fixture
def run(database, account) -> Run:
    """A run whose third and fourth exercise can't be computed."""
    hold_up(database, account.exercise_ids[3])
    run = claim_run(database)
    assert run.steps(2)["next_offset"] == 2
    return run


def hold_up(database, exercise_id, by="pg_catalog.pg_sleep(30)"):
    """Let every output of the exercise wait for `by`."""
    database.admin(
        "create or replace function stats_private.hold_up() returns trigger language plpgsql as $$"
        f" begin perform {by}; return new; end $$"
    )
    database.admin(
        "create trigger hold_up before insert on stats_private.stats_output_daily_rollups"
        f" for each row when (new.exercise_id = '{exercise_id}') execute function stats_private.hold_up()"
    )


def release(database):
    database.admin("drop trigger hold_up on stats_private.stats_output_daily_rollups")


def waiting_time(run) -> timedelta:
    return run.column("retry_not_before - updated_at")


def test_a_timeout_rolls_back_that_batch_alone_and_the_run_backs_off(database, account, run):
    before = outputs(database), run.batch
    answer = run.step()
    assert (answer["response"], answer["sqlstate"]) == ("retry_pending", "57014")
    assert (answer["stage"], answer["next_offset"], answer["total_exercises"]) == ("exercises", 2, 6)
    assert (outputs(database), {**run.batch, "retries": 0}) == before
    assert run.batch["retries"] == 1
    assert abs(waiting_time(run) - timedelta(seconds=BACKOFF)) < timedelta(seconds=1)
    assert run.column("error").startswith("57014: ")

    assert run.step() == {"response": "idle"}
    release(database)
    run.let_the_backoff_run_out()
    readmitted = claim_run(database)
    assert (readmitted.id, readmitted.token) == (run.id, run.token)
    assert readmitted.step()["next_offset"] == 4
    assert readmitted.finish()[-1]["response"] == "computed"
    publish(database, readmitted)
    account.assert_converged()
    assert account.jobs("attempts", "status") == [(1, "completed")]


def test_the_lease_of_a_run_that_backs_off_covers_the_wait_a_compute_and_a_publication(database, run):
    run.step()
    covers = timedelta(seconds=BACKOFF, milliseconds=1000 + 2000)
    assert run.column("lease_until - updated_at") > covers - timedelta(seconds=1)


def test_each_retry_waits_longer_and_after_the_last_one_the_attempt_has_failed(database, account, run):
    for retry in (1, 2, 3):
        assert run.step()["response"] == "retry_pending"
        assert abs(waiting_time(run) - timedelta(seconds=retry * BACKOFF)) < timedelta(seconds=1)
        run.let_the_backoff_run_out()
        assert claim_run(database).token == run.token
    answer = run.step()
    assert (answer["response"], answer["sqlstate"], answer["attempts"]) == ("failed", "57014", 1)
    assert outputs(database) == 0
    assert account.jobs("status", "attempts", "retry_not_before > clock_timestamp()") == [
        ("pending", 1, True)
    ]

    release(database)
    assert drain(database)[-1] == "computed"
    account.assert_converged()


def test_a_lock_that_is_not_to_be_had_is_waited_for_and_counts_as_no_retry(database, account):
    hold_up(database, account.exercise_ids[3], "pg_advisory_xact_lock(7)")
    run = claim_run(database)
    run.steps(2)
    with database.admin_engine.begin() as holder:
        holder.execute(text("select pg_advisory_xact_lock(7)"))
        answer = run.step()
    assert (answer["response"], answer["sqlstate"]) == ("busy", "55P03")
    assert (run.batch["next_offset"], run.batch["retries"]) == (2, 0)
    assert drain(database)[-1] == "computed"
    account.assert_converged()


def test_any_other_error_fails_the_attempt_at_once(database, account):
    hold_up(database, account.exercise_ids[3], "1 / 0")
    run = claim_run(database)
    run.steps(2)
    answer = run.step()
    assert (answer["response"], answer["sqlstate"]) == ("failed", "22012")
    assert outputs(database) == 0


def test_a_timeout_before_the_first_batch_has_nothing_to_keep_and_fails_the_attempt(database, account):
    database.admin(
        "create or replace function stats_private.candidate_exercises(p_user_id uuid, p_exercise_ids text [])"
        " returns table (exercise_id text) language sql as $$ select pg_catalog.pg_sleep(30)::text $$"
    )
    # Claim counts candidates too, so the run is claimed as one in batches by hand.
    run = claim_with_batches(database, account)
    answer = run.step()
    assert (answer["response"], answer["sqlstate"]) == ("failed", "57014")


def claim_with_batches(database, account) -> Run:
    database.admin(
        "create or replace function stats_private.needs_batches(p_user_id uuid, p_exercise_ids text [],"
        " p_invalidations integer) returns boolean language sql as $$ select true $$"
    )
    return claim_run(database)


def test_a_persons_cancel_is_raised_and_the_batch_is_as_before(database, run):
    before = outputs(database), run.batch
    set_settings(database, compute_budget_ms=20000)
    raised = []

    def compute():
        try:
            run.step()
        except OperationalError as error:
            raised.append(error.orig.pgcode)

    worker = threading.Thread(target=compute)
    worker.start()
    assert wait_until(
        lambda: (
            database.admin(
                "select pg_catalog.pg_cancel_backend(pid) from pg_catalog.pg_stat_activity"
                " where wait_event = 'PgSleep' and datname = current_database()"
            )
            != []
        ),
        10,
    )
    worker.join(10)
    assert raised == ["57014"]
    assert (outputs(database), run.batch) == before


def test_a_run_that_backs_off_leaves_its_slot_to_others_and_waits_for_one(database, account, run):
    set_settings(database, active_lease_cap=1)
    run.step()
    small = Account(database, 1)
    other = claim_run(database)
    assert other.claimed["user_id"] == str(small.user_id)
    run.let_the_backoff_run_out()
    assert claim(database) == {"response": "at_capacity"}
    other.finish()
    publish(database, other)
    assert claim_run(database).token == run.token


def test_a_run_whose_lease_ran_out_while_it_backed_off_still_waits_for_a_slot(database, account, run):
    set_settings(database, active_lease_cap=1)
    run.step()
    Account(database, 1)
    other = claim_run(database)
    run.let_the_backoff_run_out()
    run.let_the_lease_run_out()
    assert claim(database) == {"response": "at_capacity"}
    other.finish()
    publish(database, other)
    assert claim_run(database).token == run.token


def test_a_run_that_comes_back_does_not_take_the_slot_of_the_small_accounts(database, account, run):
    set_settings(database, active_lease_cap=2)
    run.step()
    big = Account(database, 6)
    other = claim_run(database)
    assert other.claimed["user_id"] == str(big.user_id)
    run.let_the_backoff_run_out()
    small = Account(database, 1)
    assert claim_run(database).claimed["user_id"] == str(small.user_id)
    assert claim(database)["response"] == "at_capacity"
