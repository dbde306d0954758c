"""A client that keeps its transaction open holds up its own account for a bounded time, and is told apart."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import wait

import pytest
from interleavings.scene import outcome, session, start_save, wait_until_blocked_or_done
from support.races import DEADLINE, wait_until_blocked

from tasks.transaction import account
from writes.refusals import writes_nothing

MEANING = "another open transaction holds the writes of this account; nothing was written"
ENQUEUE = "select public.enqueue_user_exercise_stats_refresh(:user, null, '{}', '')"
BY_SERVICE = {
    "a refresh": ENQUEUE,
    "a deletion": "select public.delete_account_v1(:user)",
    "a refresh at once": "select public.refresh_stats_now_v1(:user)",
    "the engine": "select public.refresh_user_exercise_stats_from(:user)",
}


def test_a_save_waits_for_an_idle_one_for_ten_seconds_at_most(database, app_account):
    payload = app_account.payload()
    who = account(app_account.user_id)
    with session(database, "idle", who) as idle, session(database, "app", who) as app:
        idle.run(ENQUEUE, user=app_account.user_id)
        assert app.run("show lock_timeout") == "0"
        saving = start_save(app, app_account, payload)
        wait_until_blocked(database, app, by=idle)
        assert wait([saving], DEADLINE).done, "it waits for longer than ten seconds"
        assert (outcome(saving)["raised"], outcome(saving)["message"]) == ("55P03", MEANING)
        app.rollback()
        idle.rollback()

    assert app_account.save_payload(payload)["replayed"] is False


def test_a_wait_that_ends_well_leaves_the_callers_own_limit(database, app_account):
    who = account(app_account.user_id)
    with session(database, "idle", who) as idle, session(database, "app", who) as app:
        app.run("set local lock_timeout = '31s'")
        idle.run(ENQUEUE, user=app_account.user_id)
        asking = app.start(ENQUEUE, user=app_account.user_id)
        wait_until_blocked(database, app, by=idle)
        idle.commit()
        assert outcome(asking) == 2
        assert app.run("show lock_timeout") == "31s"


def test_a_shorter_limit_of_the_caller_stays(database, app_account):
    who = account(app_account.user_id)
    with session(database, "idle", who) as idle, session(database, "app", who) as app:
        idle.run(ENQUEUE, user=app_account.user_id)
        app.run("set local lock_timeout = '50ms'")
        app.run("set local statement_timeout = '9s'")
        assert outcome(app.start(ENQUEUE, user=app_account.user_id))["raised"] == "55P03"


@pytest.mark.parametrize("call", BY_SERVICE)
def test_an_idle_client_holds_up_the_service_for_a_bounded_time(database, app_account, call):
    with session(database, "idle", account(app_account.user_id)) as idle:
        idle.run(ENQUEUE, user=app_account.user_id)
        with session(database, "service") as service:
            calling = service.start(BY_SERVICE[call], user=app_account.user_id)
            wait_until_blocked(database, service, by=idle)
            assert (outcome(calling)["raised"], outcome(calling)["message"]) == ("55P03", MEANING)


# ---------------------------------------------------------------- above READ COMMITTED

LEVELS = ("repeatable read", "serializable")
CHANGED = "the account was changed after this transaction began; nothing was written"


def snapshot(session, app_account, level):
    """Begin the session's transaction again at `level`, as the account, with its snapshot taken now."""
    who = account(app_account.user_id)
    session.rollback()
    session.run(f"set transaction isolation level {level}")
    session.run(
        "select set_config('role', :role, true) || set_config('request.jwt.claims', :claims, true)",
        role=who.role,
        claims=who.claims,
    )


@pytest.fixture
def calls(app_account):
    """Each write of the account, to be called twice with the same arguments."""
    user, exercise = app_account.user_id, app_account.exercise()
    doomed = app_account.save()["session_id"]
    set_pr = "select public.set_manual_pr_v1(:exercise, 150, '2026-03-10', 'manual', :user, cast(:mutation as uuid))"
    record = app_account.call(set_pr, exercise=exercise, mutation=str(uuid.uuid4()))["manual_pr_id"]
    mutation = str(uuid.uuid4())
    return {
        "save": (
            "select public.save_session_v5(cast(:payload as jsonb))",
            {"payload": json.dumps(app_account.payload())},
        ),
        "replace": (
            "select public.save_session_v5(cast(:payload as jsonb))",
            {"payload": json.dumps(app_account.payload(session_id=doomed))},
        ),
        "delete": (
            "select public.delete_session_v5(cast(:doomed as uuid), :user, cast(:mutation as uuid))",
            {"doomed": doomed, "user": user, "mutation": mutation},
        ),
        "set a 1RM": (set_pr, {"exercise": exercise, "user": user, "mutation": mutation}),
        "delete a 1RM": (
            "select public.delete_manual_pr_v1(cast(:record as uuid), :user, cast(:mutation as uuid))",
            {"record": record, "user": user, "mutation": mutation},
        ),
    }


WRITES = ("save", "replace", "delete", "set a 1RM", "delete a 1RM")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_in_a_snapshot_that_lacks_its_receipt_is_told_to_begin_anew(
    database, app_account, stages, calls, write, level
):
    statement, arguments = calls[write]
    before = app_account.state()[0]
    with session(database, "app", account(app_account.user_id)) as app:
        snapshot(app, app_account, level)
        receipt = app_account.call(statement, **arguments)
        with writes_nothing(database):
            answer = outcome(app.start(statement, **arguments))
            assert (answer.get("raised"), answer.get("message")) == ("40001", CHANGED)
        snapshot(app, app_account, level)
        assert outcome(app.start(statement, **arguments)) == {**receipt, "replayed": True}

    stages.drain()
    assert app_account.state() == (before + 1, before + 1)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_waited_in_an_old_snapshot_loses_nothing(database, app_account, calls, write, level):
    statement, arguments = calls[write]
    before = app_account.state()[0]
    who = account(app_account.user_id)
    with session(database, "app", who) as app, session(database, "other", who) as other:
        snapshot(app, app_account, level)
        other.run(ENQUEUE, user=app_account.user_id)
        writing = app.start(statement, **arguments)
        wait_until_blocked_or_done(database, app, writing)
        other.commit()
        assert (outcome(writing).get("raised"), outcome(writing).get("message")) == ("40001", CHANGED)
        snapshot(app, app_account, level)
        receipt = outcome(app.start(statement, **arguments))
        app.commit()

    assert receipt["statsRequestedVersion"] == before + 2
    assert app_account.state()[0] == before + 2


@pytest.mark.parametrize("level", LEVELS)
def test_the_very_first_write_of_an_account_is_no_exception(database, app_account, level):
    payload = app_account.payload()
    with session(database, "app", account(app_account.user_id)) as app:
        snapshot(app, app_account, level)
        app_account.save_payload(payload)
        answer = outcome(start_save(app, app_account, payload))
        assert (answer.get("raised"), answer.get("message")) == ("40001", CHANGED)

    assert app_account.state() == (1, 0)


@pytest.mark.parametrize("level", LEVELS)
def test_two_writes_of_one_transaction_at_a_higher_level_are_two_generations(database, app_account, level):
    app_account.exercise()
    with session(database, "app", account(app_account.user_id)) as app:
        snapshot(app, app_account, level)
        for generation in (1, 2):
            receipt = start_save(app, app_account, app_account.payload()).result(20)
            assert receipt["statsRequestedVersion"] == generation
        app.commit()

    assert app_account.state() == (2, 0)
