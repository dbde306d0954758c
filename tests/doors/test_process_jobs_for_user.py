"""The scoped door: an account drains its own queue."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from interleavings.scene import (
    OUTPUT,
    admin_session,
    answer_of,
    change_settings,
    gate,
    on_insert,
    outcome,
    session,
    undo_on_insert,
)
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount
from support.races import wait_until_blocked

from doors.scene import (
    COUNTS,
    SCOPED,
    assert_equals_reckoning,
    call,
    counts,
    gate_of,
    hold,
    process,
    process_own,
)
from tasks.transaction import account

KEYS = {*COUNTS, "remaining_count", "has_more", "worker_timed_out", "results"}


def test_an_account_without_work_is_drained(database, app_account):
    assert process_own(database, app_account.user_id) == {
        **dict.fromkeys(COUNTS, 0),
        "results": [],
        "remaining_count": 0,
        "has_more": False,
        "worker_timed_out": False,
    }


def test_an_account_publishes_its_own_save_and_nobody_elses(database, app_account):
    other = AppAccount(database)
    other.save()
    app_account.save()
    answer = process_own(database, app_account.user_id, lock_owner="a phone", validate_integrity=True)
    assert answer.keys() == KEYS
    assert counts(answer) == (1, 1, 0, 0)
    assert (answer["remaining_count"], answer["has_more"], answer["worker_timed_out"]) == (0, False, False)
    assert answer["results"][0]["generation"] == 1
    assert app_account.jobs("status", "lock_owner") == [("completed", "a phone")]
    assert other.state() == (1, 0)
    assert_equals_reckoning(database, app_account.user_id)


@pytest.mark.parametrize(("limit", "taken"), [(-5, 0), (0, 0), (1000, 1), (None, 1)])
def test_the_limit_is_taken_as_0_to_100(database, app_account, limit, taken):
    app_account.save()
    answer = process_own(database, app_account.user_id, limit=limit)
    assert counts(answer) == (taken, taken, 0, 0)
    assert (answer["remaining_count"], answer["has_more"]) == (1 - taken, not taken)


def test_only_the_own_account_unless_an_administrator_or_the_service_asks(database, app_account):
    app_account.save()
    stranger = AppAccount(database)
    statement = call(SCOPED, {"user_id": 0})
    for forbidden in (
        lambda: database.as_account(stranger.user_id).value(statement, user_id=app_account.user_id),
        lambda: database.admin(f"set local role anon; {SCOPED.format('gen_random_uuid()')}"),
        lambda: database.as_service().value(SCOPED.format("null")),
    ):
        with pytest.raises(DBAPIError) as error:
            forbidden()
        assert error.value.orig.pgcode == "42501"
    assert app_account.state() == (1, 0)
    as_admin = database.as_account(stranger.user_id, admin=True)
    assert counts(as_admin.value(statement, user_id=app_account.user_id)) == (1, 1, 0, 0)
    app_account.save()
    assert counts(database.as_service().value(statement, user_id=app_account.user_id)) == (1, 1, 0, 0)
    app_account.save()
    assert counts(database.as_account(app_account.user_id).value(SCOPED.format("null"))) == (1, 1, 0, 0)


def test_a_second_call_returns_at_once_and_says_that_there_is_more(database, app_account):
    app_account.save()
    with gate(database, OUTPUT) as keeper, session(database, "first", account(app_account.user_id)) as first:
        running = first.start(call(SCOPED, {"user_id": 0}), user_id=app_account.user_id)
        wait_until_blocked(database, first, keeper)
        answer = process_own(database, app_account.user_id)
        assert (counts(answer), answer["has_more"]) == ((0, 0, 0, 0), True)
        keeper.rollback()
        assert counts(outcome(running)) == (1, 1, 0, 0)
        first.commit()
    assert process_own(database, app_account.user_id)["has_more"] is False


def test_accounts_do_not_wait_for_each_other_nor_for_the_maintenance_door(database, app_account):
    first, other = AppAccount(database), AppAccount(database)
    first.save()
    other.save()
    app_account.save()
    with gate(database, OUTPUT) as keeper, session(database, "maintenance") as maintenance:
        running = maintenance.start("select public.process_user_exercise_stats_refresh_jobs()")
        wait_until_blocked(database, maintenance, keeper)
        with session(database, "scoped", account(app_account.user_id)) as scoped:
            also_running = scoped.start(call(SCOPED, {"user_id": 0}), user_id=app_account.user_id)
            wait_until_blocked(database, scoped, keeper)
            keeper.rollback()
            assert counts(outcome(also_running)) == (1, 1, 0, 0)
            scoped.commit()
            assert app_account.state() == (1, 1), "published while the other door's transaction is open"
        assert counts(outcome(running)) == (1, 1, 0, 0)
        maintenance.commit()
    assert (first.state(), other.state()) == ((1, 1), (1, 0))


def test_a_row_that_a_worker_holds_is_not_a_drained_queue(database, stages, app_account):
    app_account.save()
    run = stages.claim()
    app_account.save()
    answer = answer_of(process_own, database, app_account.user_id)
    assert "raised" not in answer
    assert counts(answer) == (0, 0, 0, 0)
    assert (answer["remaining_count"], answer["has_more"]) == (2, True)
    stages.compute(run)
    stages.publish(run)
    assert counts(process_own(database, app_account.user_id)) == (1, 1, 0, 0)
    assert app_account.state() == (2, 2)


def test_an_account_in_batches_is_deferred(database, app_account):
    change_settings(database, batch_size=2)
    app_account.save(*(app_account.block(f"exercise {number}", (100, 5)) for number in range(5)))
    answer = process_own(database, app_account.user_id, validate_integrity=True)
    assert counts(answer) == (1, 0, 0, 1)
    assert (answer["results"][0]["reason"], answer["remaining_count"], answer["has_more"]) == (
        "batches",
        1,
        True,
    )
    assert counts(process_own(database, app_account.user_id)) == (0, 0, 0, 0)


def test_a_failure_waits_for_its_retry_time_whatever_the_app_asks(database, app_account):
    app_account.save()
    on_insert(database, OUTPUT, "raise exception 'planted';")
    assert counts(process_own(database, app_account.user_id)) == (1, 0, 1, 0)
    undo_on_insert(database, OUTPUT)
    answer = process_own(database, app_account.user_id)
    assert (counts(answer), answer["has_more"]) == ((0, 0, 0, 0), True)
    assert app_account.jobs("status", "attempts") == [("pending", 1)]


# ---------------------------------------------------------------- the statement_timeout


@pytest.fixture
def timed_out(database, app_account):
    """Call the door while somebody holds up the computation, or the publication, for longer than the timeout."""

    def timed_out(table, **arguments):
        arguments = {"user_id": app_account.user_id} | arguments
        with gate(database, table), session(database, "door", account(app_account.user_id)) as door:
            door.run("set local statement_timeout = '300ms'")
            answer = door.run(call(SCOPED, arguments), **arguments)
            door.commit()
        return answer

    return timed_out


@pytest.mark.parametrize("table", [OUTPUT, "public.user_pr_overview_snapshot_headers"])
def test_a_statement_timeout_leaves_the_job_pending_without_an_attempt(
    database, app_account, timed_out, table
):
    app_account.save()
    answer = timed_out(table)
    assert counts(answer) == (0, 0, 0, 0)
    assert answer["results"] == []
    assert (answer["worker_timed_out"], answer["remaining_count"], answer["has_more"]) == (True, 1, True)
    assert app_account.jobs("status", "attempts", "retry_not_before", "run_id") == [
        ("pending", 0, None, None)
    ]
    assert database.admin("select 1 from public.user_stats_projection_runs") == []
    assert counts(process_own(database, app_account.user_id)) == (1, 1, 0, 0)


def test_a_statement_timeout_of_the_comparison_takes_the_publication_back(
    database, stages, app_account, timed_out
):
    app_account.save()
    stages.drain()
    app_account.save(app_account.block("Row", (50, 5)))
    with session(database, "door", account(app_account.user_id)) as door, gate_of(database, door, 2):
        door.run("set local statement_timeout = '1s'")
        answer = outcome(
            door.start(
                "select public.process_user_exercise_stats_refresh_jobs_for_user(null, p_validate_integrity => true)"
            )
        )
        door.commit()
    assert answer.get("worker_timed_out") is True
    assert app_account.state() == (2, 1)
    assert app_account.jobs("status")[1:] == [("pending",)]


def test_a_persons_cancel_is_raised(database, app_account):
    app_account.save()
    with gate(database, OUTPUT) as keeper, session(database, "door", account(app_account.user_id)) as door:
        running = door.start(call(SCOPED, {"user_id": 0}), user_id=app_account.user_id)
        wait_until_blocked(database, door, keeper)
        database.admin("select pg_cancel_backend(:pid)", pid=door.pid)
        raised = outcome(running)
    assert (raised.get("raised"), raised.get("message")) == (
        "57014",
        "canceling statement due to user request",
    )
    assert app_account.jobs("status", "attempts") == [("pending", 0)]


def test_an_unknown_account_has_nothing(database):
    assert process_own(database, uuid4())["has_more"] is False


@pytest.mark.parametrize("what", ["job row", "worker"])
def test_what_somebody_holds_is_passed_by(database, app_account, what):
    app_account.save()
    with admin_session(database) as holder:
        hold(holder, what, app_account.user_id)
        answer = process_own(database, app_account.user_id)
    assert (counts(answer), answer["has_more"]) == ((0, 0, 0, 0), True)
    assert counts(process(database)) == (1, 1, 0, 0)


def test_a_save_and_its_refresh_in_one_transaction(database, app_account):
    """An import path: the write lock is already its own, and both are committed together or not at all."""
    payload = json.dumps(app_account.payload())
    statement = "select public.save_session_v5(cast(:payload as jsonb))"
    with session(database, "import", account(app_account.user_id)) as importing:
        importing.run(statement, payload=payload)
        assert counts(importing.run(call(SCOPED, {"user_id": 0}), user_id=app_account.user_id)) == (
            1,
            1,
            0,
            0,
        )
    assert app_account.state() == (0, 0)
    with session(database, "import", account(app_account.user_id)) as importing:
        importing.run(statement, payload=payload)
        importing.run(call(SCOPED, {"user_id": 0}), user_id=app_account.user_id)
        importing.commit()
    assert app_account.state() == (1, 1)
