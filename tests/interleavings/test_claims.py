"""Who is claimed, when, and by how many at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from support.app import AppAccount
from support.races import DEADLINE

from .scene import OUTPUT as COMPUTE
from .scene import (
    admin_session,
    answer_of,
    assert_converges,
    change_settings,
    drop_backoff,
    expire_lease,
    keep_scopes,
    on_insert,
    outcome,
    run_row,
    runs_in_flight,
    session,
    start_claim,
    undo_on_insert,
    wait_until_blocked_or_done,
    wait_until_waiting,
)

# ---------------------------------------------------------------- the cap


@pytest.mark.parametrize(("claims", "cap"), [(2, 1), (2, 2), (8, 3), (8, 40), (32, 1), (32, 5), (32, 40)])
def test_claims_at_once_fill_the_cap_and_no_account_twice(database, stages, claims, cap):
    change_settings(database, active_lease_cap=cap)
    accounts = [AppAccount(database) for _ in range(6)]
    for account in accounts:
        account.call("select public.enqueue_user_exercise_stats_refresh(:user, null, '{}', 'due')")

    with ThreadPoolExecutor(claims) as pool, admin_session(database) as starter:
        starter.run("select stats_private.lock_claim()")
        answers = [pool.submit(stages.claim, f"worker {number}") for number in range(claims)]
        wait_until_waiting(database, claims)
        starter.rollback()
        answers = [answer.result(DEADLINE) for answer in answers]

    claimed = [answer["user_id"] for answer in answers if answer["response"] == "claimed"]
    assert len(claimed) == min(claims, cap, len(accounts))
    assert len(set(claimed)) == len(claimed)
    assert len(runs_in_flight(database)) == len(claimed)
    rest = {answer["response"] for answer in answers} - {"claimed"}
    assert rest <= {"at_capacity" if len(claimed) == cap else "idle"}


def test_a_claim_counts_what_an_unfinished_claim_takes(database, stages):
    change_settings(database, active_lease_cap=1)
    for _ in range(2):
        AppAccount(database).save()
    with session(database, "first") as first, session(database, "second") as second:
        first_answer = start_claim(first).result(DEADLINE)
        second_answer = start_claim(second)
        wait_until_blocked_or_done(database, second, second_answer)
        first.commit()
        second_answer = outcome(second_answer)
        second.commit()
    assert len(runs_in_flight(database)) == 1
    assert (first_answer["response"], second_answer["response"]) == ("claimed", "at_capacity")


def test_a_claim_that_rolls_back_gives_its_account_to_the_next(database, app_account, stages):
    app_account.save()
    with session(database, "first") as first, session(database, "second") as second:
        start_claim(first).result(DEADLINE)
        second_answer = start_claim(second)
        wait_until_blocked_or_done(database, second, second_answer)
        first.rollback()
        answer = outcome(second_answer)
        second.commit()
    # The server gives locks back one by one: the claim's own may go before the account's.
    assert "claimed" in (answer["response"], stages.claim()["response"])
    assert runs_in_flight(database) == [app_account.user_id]


def test_the_last_slot_is_taken_and_no_more(database, stages):
    change_settings(database, active_lease_cap=2)
    for _ in range(3):
        AppAccount(database).save()
    assert [stages.claim()["response"] for _ in range(4)] == [
        "claimed",
        "claimed",
        "at_capacity",
        "at_capacity",
    ]
    computed = stages.compute()
    assert stages.claim()["response"] == "at_capacity", "a computed run keeps its slot"
    stages.publish(computed)
    assert stages.claim()["response"] == "claimed"


def test_an_account_in_flight_is_not_claimed_again(database, app_account, stages):
    app_account.save()
    stages.claim()
    app_account.save()
    assert answer_of(stages.claim) == {"response": "idle"}
    assert runs_in_flight(database) == [app_account.user_id]


def test_an_account_whose_worker_lock_is_held_is_left_for_the_next(database, stages):
    first, second = AppAccount(database), AppAccount(database)
    first.save()
    second.save()
    with admin_session(database, "a door") as door:
        assert door.run("select stats_private.try_worker_lock(:user)", user=first.user_id)
        assert stages.claim()["user_id"] == str(second.user_id)
        assert stages.claim()["response"] == "idle"
    assert stages.claim()["user_id"] == str(first.user_id)


# ---------------------------------------------------------------- the order


def test_a_persons_write_goes_before_maintenance_and_the_older_before_the_newer(database, stages):
    change_settings(database, active_lease_cap=10)
    accounts = [AppAccount(database) for _ in range(4)]
    for account, priority in zip(accounts, (1, 0, 1, 0), strict=True):
        database.admin(
            "select public.enqueue_user_exercise_stats_refresh_job("
            ":user, null, '{}', 'manual_refresh', p_priority => :priority)",
            user=account.user_id,
            priority=priority,
        )
    order = [accounts[index] for index in (1, 3, 0, 2)]
    assert [stages.claim()["user_id"] for _ in order] == [str(account.user_id) for account in order]


def test_a_write_lifts_the_account_out_of_maintenance_and_keeps_its_age(database, stages):
    waiting, other = AppAccount(database), AppAccount(database)
    database.admin(
        "select public.enqueue_user_exercise_stats_refresh_job(:user, null, '{}', 'manual_refresh', p_priority => 1)",
        user=waiting.user_id,
    )
    other.save()
    waiting.save()
    assert stages.claim()["user_id"] == str(waiting.user_id)


def test_has_more_tells_whether_another_account_is_due(database, stages):
    first, second = AppAccount(database), AppAccount(database)
    first.save()
    second.save()
    assert stages.claim()["has_more"] is True
    assert stages.claim()["has_more"] is False


def test_has_capacity_tells_whether_a_slot_is_free(database, stages):
    """Two slots, as many accounts and one more."""
    for account in (AppAccount(database), AppAccount(database), AppAccount(database)):
        account.save()
    first, second = stages.claim(), stages.claim()
    assert (first["has_more"], first["has_capacity"]) == (True, True)
    assert (second["has_more"], second["has_capacity"]) == (True, False)


# ---------------------------------------------------------------- waiting, exhausted, revived


def test_a_backing_off_account_waits_with_everything_it_has(database, app_account, stages):
    on_insert(database, COMPUTE, "raise exception 'sabotage';")
    app_account.save()
    run = stages.claim()
    app_account.save()  # a second row: the first is being processed
    assert stages.compute(run)["response"] == "failed"
    undo_on_insert(database, COMPUTE)

    assert [waits for (waits,) in app_account.jobs("retry_not_before > clock_timestamp()")] == [True, True], (
        "the newer row may not go before the older one's retry time"
    )
    assert stages.claim() == {"response": "idle"}
    other = AppAccount(database)
    other.save()
    assert stages.claim()["user_id"] == str(other.user_id), "the next account does not wait with it"
    drop_backoff(database)
    assert stages.claim()["target_version"] == 2
    assert [status for (status,) in app_account.jobs("status")] == ["processing", "processing"]


def test_an_account_waits_for_the_latest_of_its_retry_times(database, app_account, stages):
    """A row that came while another transaction held the first one is due by itself."""
    app_account.save()
    database.admin(
        "insert into public.user_exercise_stats_refresh_jobs (user_id, event_type, requested_version, retry_not_before)"
        " values (:user, 'session_updated', 1, clock_timestamp() + interval '20 seconds')",
        user=app_account.user_id,
    )
    assert stages.claim() == {"response": "idle"}
    drop_backoff(database)
    assert stages.claim()["response"] == "claimed"


def test_exhausted_rows_stay_until_a_save_revives_their_scope(database, app_account, stages):
    change_settings(database, max_attempts=1)
    on_insert(database, COMPUTE, "raise exception 'sabotage';")
    app_account.save(app_account.block("Squat", (100, 5)), session_date="2026-01-05")
    stages.claim()
    assert stages.compute()["exhausted"] is True
    undo_on_insert(database, COMPUTE)
    assert app_account.jobs("status", "attempts") == [("failed", 1)]
    assert stages.claim() == {"response": "idle"}

    app_account.save(app_account.block("Bench", (60, 5)), session_date="2026-02-05")
    keep_scopes(database)
    run = stages.claim()
    assert run["target_version"] == 2
    assert run_row(database, run, "from_date::text", "attempts", "exercise_ids") == (
        "2026-01-05",
        1,
        sorted(app_account.exercises.values()),
    )
    assert stages.compute(run)["response"] == "computed"
    assert stages.publish(run)["generation"] == 2
    assert [(s, a is not None) for s, a in app_account.jobs("status", "metadata -> 'absorbed_by'")] == [
        ("completed", True),
        ("completed", False),
    ]
    assert_converges(stages, app_account)


# ---------------------------------------------------------------- leases that ran out


def test_an_expired_run_is_revived_at_once_without_backoff(database, app_account, stages):
    app_account.save()
    dead = stages.claim("a worker that dies")
    expire_lease(database, dead)
    run = stages.claim()
    assert run["response"] == "claimed"
    assert run["run_id"] != dead["run_id"]
    assert run["lease_token"] != dead["lease_token"]
    assert run_row(database, run, "attempts", "retry_not_before") == (2, None)
    [(phase, error)] = [run_row(database, dead, "phase", "error")]
    assert phase == "failed"
    assert "a worker that dies" in error
    assert_converges_from(stages, run, app_account)


def assert_converges_from(stages, run, account):
    stages.compute(run)
    assert stages.publish(run)["response"] == "published"
    assert_converges(stages, account)


def test_an_expired_run_at_the_attempt_cap_is_failed_for_good(database, app_account, stages):
    change_settings(database, max_attempts=2)
    app_account.save()
    expire_lease(database, stages.claim())
    expire_lease(database, stages.claim())
    assert stages.claim() == {"response": "idle"}
    assert app_account.jobs("status", "attempts", "run_id", "retry_not_before") == [("failed", 2, None, None)]
    assert runs_in_flight(database) == []


def test_a_computed_run_whose_worker_died_is_revived_too(database, app_account, stages):
    app_account.save()
    dead = stages.claim()
    stages.compute(dead)
    expire_lease(database, dead)
    run = stages.claim()
    assert run["response"] == "claimed"
    assert stages.publish(dead)["response"] in ("idle", "lease_lost")
    assert database.admin(f"select count(*) from {COMPUTE}") == [(0,)]
    assert_converges_from(stages, run, app_account)


def test_an_expired_run_whose_row_somebody_holds_is_left_alone(database, app_account, stages):
    app_account.save()
    run = stages.claim()
    expire_lease(database, run)
    with admin_session(database, "slow worker") as worker, session(database, "claim") as claimer:
        worker.run(
            "select id from public.user_stats_projection_runs where id = cast(:id as uuid) for update",
            id=run["run_id"],
        )
        answer = start_claim(claimer)
        wait_until_blocked_or_done(database, claimer, answer)
        assert answer.done(), "a claim waits for nobody's run"
        assert outcome(answer) == {"response": "idle"}
        claimer.commit()
    assert run_row(database, run, "phase", "attempts") == ("claimed", 1)
    assert stages.claim()["response"] == "claimed"
    assert run_row(database, run, "phase") == ("failed",)


def test_recovery_waits_for_no_job_row_and_the_next_account_is_claimed(database, app_account, stages):
    """An operator who looks at one job FOR UPDATE holds back that account, not every account's claim."""
    app_account.save()
    run = stages.claim()
    other = AppAccount(database)
    other.save()
    expire_lease(database, run)
    with admin_session(database, "operator") as operator, session(database, "claim") as claimer:
        operator.run(
            "select id from public.user_exercise_stats_refresh_jobs where user_id = :user for update",
            user=app_account.user_id,
        )
        answer = start_claim(claimer)
        wait_until_blocked_or_done(database, claimer, answer)
        assert answer.done(), "a claim waits for nobody's job row"
        assert outcome(answer)["user_id"] == str(other.user_id)
        claimer.commit()
    assert stages.claim()["user_id"] == str(app_account.user_id)


def test_a_claim_recovers_one_run_a_call(database, stages):
    change_settings(database, active_lease_cap=2)
    for _ in range(2):
        AppAccount(database).save()
    for run in [stages.claim(), stages.claim()]:
        expire_lease(database, run)
    assert stages.claim()["response"] == "claimed"
    assert len(runs_in_flight(database)) == 2, "one new, and the expired one that the next call recovers"
    assert stages.claim()["response"] == "claimed"
    assert len(runs_in_flight(database)) == 2
