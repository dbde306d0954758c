"""No generation is lost or stepped over, whoever holds which row at the moment of the claim."""

from __future__ import annotations

import pytest
from support.app import AppAccount
from support.races import DEADLINE

from tasks.transaction import account as account_identity

from .scene import OUTPUT as COMPUTE
from .scene import (
    admin_session,
    answer_of,
    assert_converges,
    change_settings,
    keep_scopes,
    on_insert,
    outcome,
    run_row,
    session,
    start_claim,
    start_enqueue,
    start_save,
    undo_on_insert,
    wait_until_blocked_or_done,
)


def leave_failed_4_and_pending_6(database, account, stages):
    """Generations 1 to 4 in a failed row, 5 and 6 in a pending one, nothing published."""
    change_settings(database, max_attempts=1)
    on_insert(database, COMPUTE, "raise exception 'sabotage';")
    for month in (1, 2, 3, 4):
        account.save(session_date=f"2026-0{month}-01")
    stages.claim()
    assert stages.compute()["exhausted"] is True
    undo_on_insert(database, COMPUTE)
    for month in (5, 6):
        account.save(account.block("Bench", (60, 5)), session_date=f"2026-0{month}-01")
    keep_scopes(database)
    assert account.jobs("requested_version", "status") == [(4, "failed"), (6, "pending")]


def hold_job(holder, account, generation):
    assert holder.run(
        "select requested_version from public.user_exercise_stats_refresh_jobs"
        " where user_id = :user and requested_version = :generation for update",
        user=account.user_id,
        generation=generation,
    )


def claim_that_waits_for_nobody(database):
    """Claim in a session of its own and return the answer; it has to come while others hold their rows."""
    with session(database, "claim") as claimer:
        answer = start_claim(claimer)
        wait_until_blocked_or_done(database, claimer, answer)
        assert answer.done(), "a claim waits for nobody's job row"
        claimer.commit()
        return outcome(answer)


@pytest.mark.parametrize("held", [4, 6])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_held_row_holds_back_the_whole_account(database, app_account, stages, held, end):
    leave_failed_4_and_pending_6(database, app_account, stages)
    other = AppAccount(database)
    other.save()
    with admin_session(database, "enqueuer") as enqueuer:
        hold_job(enqueuer, app_account, held)
        run = claim_that_waits_for_nobody(database)
        assert run["user_id"] == str(other.user_id), "the next account is taken instead"
        assert claim_that_waits_for_nobody(database)["response"] == "idle"
        assert app_account.jobs("requested_version", "status") == [(4, "failed"), (6, "pending")]
        getattr(enqueuer, end)()
    run = stages.claim()
    assert (run["user_id"], run["target_version"]) == (str(app_account.user_id), 6)
    assert run_row(database, run, "from_date::text") == ("2026-01-01",)
    stages.compute(run)
    stages.publish(run)
    assert_converges(stages, app_account)


def test_a_failed_row_alone_held_never_lets_the_newer_generation_pass(database, app_account, stages):
    leave_failed_4_and_pending_6(database, app_account, stages)
    with admin_session(database, "enqueuer") as enqueuer:
        hold_job(enqueuer, app_account, 4)
        assert stages.claim() == {"response": "idle"}
        assert stages.drain() == []
    assert app_account.state() == (6, 0)


def test_an_uncommitted_newest_generation_stays_for_its_own_run(database, app_account, stages):
    leave_failed_4_and_pending_6(database, app_account, stages)
    payload = app_account.payload(session_date="2026-07-01")
    with admin_session(database, "holder") as holder:
        hold_job(holder, app_account, 6)  # so that 7 begins a row of its own
        with session(database, "enqueuer", account_identity(app_account.user_id)) as enqueuer:
            assert start_save(enqueuer, app_account, payload).result(DEADLINE)["statsRequestedVersion"] == 7
            holder.rollback()
            run = claim_that_waits_for_nobody(database)
            assert run["target_version"] == 6
            enqueuer.commit()
    assert app_account.jobs("requested_version", "status") == [
        (4, "processing"),
        (6, "processing"),
        (7, "pending"),
    ]
    stages.compute(run)
    assert stages.publish(run)["generation"] == 6
    assert app_account.state() == (7, 6)
    assert_converges(stages, app_account)


def test_an_uncommitted_newest_generation_that_rolls_back_leaves_nothing(database, app_account, stages):
    leave_failed_4_and_pending_6(database, app_account, stages)
    payload = app_account.payload(session_date="2026-07-01")
    with session(database, "enqueuer", account_identity(app_account.user_id)) as enqueuer:
        start_save(enqueuer, app_account, payload).result(DEADLINE)
        assert claim_that_waits_for_nobody(database)["response"] == "idle", (
            "it merged into 6 and holds its row"
        )
        enqueuer.rollback()
    assert app_account.state() == (6, 0)
    assert_converges(stages, app_account)
    assert app_account.state() == (6, 6)


def test_a_claim_takes_nothing_of_what_an_enqueuer_is_merging(database, app_account, stages):
    app_account.save(session_date="2026-03-01")
    keep_scopes(database)
    payload = app_account.payload(app_account.block("Bench", (60, 5)), session_date="2026-01-01")
    with (
        session(database, "enqueuer", account_identity(app_account.user_id)) as enqueuer,
        session(database, "claim") as claimer,
    ):
        start_save(enqueuer, app_account, payload).result(DEADLINE)
        answer = start_claim(claimer)
        wait_until_blocked_or_done(database, claimer, answer)
        enqueuer.commit()
        assert outcome(answer) == {"response": "idle"}
        claimer.commit()
    run = stages.claim()
    assert (run["target_version"], *run_row(database, run, "from_date::text")) == (2, "2026-01-01")
    stages.compute(run)
    stages.publish(run)
    assert_converges(stages, app_account)


def test_a_save_meets_an_open_claim_and_neither_waits_nor_touches_what_it_took(database, app_account, stages):
    app_account.save(session_date="2026-03-01")
    payload = app_account.payload(app_account.block("Bench", (60, 5)), session_date="2026-01-01")
    with (
        session(database, "claim") as claimer,
        session(database, "save", account_identity(app_account.user_id)) as writer,
    ):
        run = start_claim(claimer).result(DEADLINE)
        receipt = start_save(writer, app_account, payload)
        wait_until_blocked_or_done(database, writer, receipt)
        save_waited = not receipt.done()
        claimer.commit()
        assert outcome(receipt)["statsRequestedVersion"] == 2
        writer.commit()
    assert app_account.jobs("requested_version", "status", "from_date::text") == [
        (1, "processing", "2026-03-01"),
        (2, "pending", "2026-01-01"),
    ]
    assert not save_waited, "a save waits for no claim"
    stages.compute(run)
    assert stages.publish(run)["generation"] == 1
    assert_converges(stages, app_account)


def test_a_target_that_was_already_applied_becomes_a_new_generation(database, app_account, stages):
    app_account.save()
    stages.drain()
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set status = 'pending', run_id = null, completed_at = null"
    )
    run = answer_of(stages.claim)
    assert run.get("target_version") == 2
    assert app_account.state() == (2, 1)
    stages.compute(run)
    assert stages.publish(run)["generation"] == 2


def test_a_claim_requests_a_generation_only_where_no_writer_is_at_work(database, app_account, stages):
    app_account.save()
    stages.drain()
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set status = 'pending', run_id = null, completed_at = null"
    )
    with admin_session(database, "writer") as writer:
        writer.run("select stats_private.lock_writes(:user)", user=app_account.user_id)
        assert claim_that_waits_for_nobody(database) == {"response": "idle"}
        assert app_account.state() == (1, 1)
    assert stages.claim()["target_version"] == 2


def test_two_enqueuers_of_one_account_get_two_generations_in_commit_order(database, app_account, stages):
    with session(database, "first") as first, session(database, "second") as second:
        assert start_enqueue(first, app_account, "first").result(DEADLINE) == 1
        waiting = start_enqueue(second, app_account, "second")
        wait_until_blocked_or_done(database, second, waiting)
        assert not waiting.done(), "the later generation waits for the earlier one's commit"
        first.commit()
        assert outcome(waiting) == 2
        second.commit()
    assert app_account.jobs("requested_version", "status", "reason") == [(2, "pending", "first; second")]


def test_a_generation_that_rolls_back_is_given_out_again(database, app_account, stages):
    with session(database, "first") as first, session(database, "second") as second:
        start_enqueue(first, app_account, "never").result(DEADLINE)
        waiting = start_enqueue(second, app_account, "second")
        wait_until_blocked_or_done(database, second, waiting)
        first.rollback()
        assert outcome(waiting) == 1
        second.commit()
    assert app_account.jobs("requested_version", "reason") == [(1, "second")]


def test_two_accounts_never_wait_for_each_other(database, stages):
    first, second = AppAccount(database), AppAccount(database)
    with session(database, "first") as one, session(database, "second") as two:
        start_enqueue(one, first).result(DEADLINE)
        answer = start_enqueue(two, second)
        wait_until_blocked_or_done(database, two, answer)
        assert answer.done()
