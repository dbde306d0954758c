"""Accounts in batches leave a slot to the small ones."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from batches.scene import Account, Run, claim, claim_run, publish, set_settings
from tasks.transaction import service, transaction


@pytest.fixture(autouse=True)
def _small_batches(database):
    set_settings(database, batch_size=2, active_lease_cap=3)


def test_one_slot_is_kept_from_accounts_that_need_batches(database):
    for _ in range(3):
        Account(database, 4)
    assert [claim(database)["response"] for _ in range(3)] == ["claimed", "claimed", "idle"]
    assert database.admin(
        "select status, count(*) from public.user_exercise_stats_refresh_jobs group by status order by status"
    ) == [("pending", 1), ("processing", 2)]


def test_a_small_account_behind_large_ones_is_claimed_at_once(database):
    for _ in range(4):
        Account(database, 4)
    small = Account(database, 2)
    claim_run(database)
    claim_run(database)
    run = claim_run(database)
    assert run.claimed["user_id"] == str(small.user_id)
    assert run.finish()[-1]["response"] == "computed"
    publish(database, run)
    assert small.is_fresh()


def test_a_large_account_takes_the_slot_that_another_one_leaves(database):
    for _ in range(3):
        Account(database, 4)
    first = claim_run(database)
    claim_run(database)
    assert claim(database)["response"] == "idle"
    first.finish()
    publish(database, first)
    assert claim(database)["response"] == "claimed"


def test_with_a_single_slot_nothing_is_kept(database):
    set_settings(database, active_lease_cap=1)
    account = Account(database, 4)
    run = claim_run(database)
    assert run.finish()[-1]["response"] == "computed"
    publish(database, run)
    account.assert_converged()


def test_a_small_scope_of_a_large_account_needs_no_batches(database):
    set_settings(database, active_lease_cap=2)
    edited, full = Account(database, 4), Account(database, 4)
    run = claim_run(database)
    run.finish()
    publish(database, run)
    edited.edit(edited.exercise_ids[0], "2026-03-08", 99)
    runs = [claim_run(database), claim_run(database)]
    by_account: dict[str, Run] = {run.claimed["user_id"]: run for run in runs}
    assert by_account[str(full.user_id)].column("needs_batches")
    assert not by_account[str(edited.user_id)].column("needs_batches")


def test_a_claim_does_not_lock_every_large_account_that_waits(database):
    set_settings(database, active_lease_cap=2)
    Account(database, 4)
    claim_run(database)
    # Three exercises by name need batches, whatever the account has.
    database.admin(
        "select public.enqueue_user_exercise_stats_refresh_job(gen_random_uuid(), null, '{a,b,c}', 'manual_refresh')"
        " from generate_series(1, 120)"
    )
    # As if published before: the first run of an account goes by what it has.
    database.admin("update public.user_stats_refresh_state set applied_policy_version = 1")
    small = Account(database, 2)
    answers, locks = [], []
    while not answers or answers[-1]["response"] == "idle":
        assert len(answers) < 4
        with transaction(database.engine, service()) as connection:
            answers.append(connection.scalar(text("select public.stats_projection_claim_v1('test')")))
            locks.append(
                connection.scalar(
                    text(
                        "select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'"
                    )
                )
            )
    assert answers[-1]["user_id"] == str(small.user_id)
    assert max(locks) <= 60
    assert answers[-1]["has_more"] is False


def test_a_large_account_that_was_passed_by_is_claimed_when_a_slot_is_free(database):
    set_settings(database, active_lease_cap=2)
    accounts = [Account(database, 4) for _ in range(3)]
    for _ in accounts:
        run = claim_run(database)
        assert claim(database)["response"] == "idle"
        assert run.finish()[-1]["response"] == "computed"
        publish(database, run)
    for account in accounts:
        account.assert_converged()
        assert account.jobs("metadata ? 'needs_batches'") == [(False,)]
