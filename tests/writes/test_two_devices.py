"""Two devices of one account at the same moment: the second one waits, and then sees what the first one did.

Saves and deletes are in interleavings/test_receipts.py. A batch comes by the service; its two devices are two workers.
"""

from __future__ import annotations

import json
import uuid

import pytest
from interleavings.scene import outcome, session, start_save, wait_until_blocked_or_done

from tasks.transaction import account

SET_PR = "select public.set_manual_pr_v1(:exercise, :one_rm, '2026-03-10', :source, :user, :mutation)"
DELETE_PR = "select public.delete_manual_pr_v1(cast(:record as uuid), :user, :mutation)"
UPSERT = "select public.upsert_exercise_v1('Squat', :tracking, :user, :exercise)"
ARCHIVE = "select public.archive_exercise_v1(:exercise, :user)"
IMPORT = "select public.import_wodup_batch_to_canonical(cast(:batch as jsonb))"
RESOLVE = "select public.resolve_external_exercise_v1('strong', 'squat', 'Squat', 'weight_reps', :user)"


@pytest.fixture
def devices(database, app_account):
    """The account's phone and watch, each in a transaction of its own."""
    identity = account(app_account.user_id)
    with session(database, "phone", identity) as phone, session(database, "watch", identity) as watch:
        yield phone, watch


@pytest.fixture
def second(database, devices):
    """What the watch answers to a statement that it begins while the phone's transaction is open."""
    phone, watch = devices

    def second(start):
        answering = start(watch)
        wait_until_blocked_or_done(database, watch, answering)
        phone.commit()
        answer = outcome(answering)
        watch.commit()
        return answer

    return second


def test_one_stated_1rm_is_written_once(database, app_account, devices, second):
    arguments = {
        "exercise": app_account.exercise(),
        "one_rm": 150,
        "source": "manual",
        "user": app_account.user_id,
        "mutation": uuid.uuid4(),
    }
    receipt = devices[0].run(SET_PR, **arguments)
    assert second(lambda watch: watch.start(SET_PR, **arguments)) == {**receipt, "replayed": True}
    assert app_account.state() == (1, 0)


def test_an_initial_1rm_is_one_whoever_states_it(database, app_account, devices, second):
    arguments = {"exercise": app_account.exercise(), "source": "onboarding", "user": app_account.user_id}
    first = devices[0].run(SET_PR, **arguments, one_rm=100, mutation=uuid.uuid4())
    answer = second(lambda watch: watch.start(SET_PR, **arguments, one_rm=120, mutation=uuid.uuid4()))
    assert answer.get("manual_pr_id") == first["manual_pr_id"]
    assert database.admin("select one_rm_kg from public.user_manual_pr_records") == [(120,)]


def test_one_stated_1rm_is_deleted_once(database, app_account, devices, second):
    stated = app_account.call(
        SET_PR, exercise=app_account.exercise(), one_rm=150, source="manual", mutation=uuid.uuid4()
    )
    arguments = {"record": stated["manual_pr_id"], "user": app_account.user_id, "mutation": uuid.uuid4()}
    receipt = devices[0].run(DELETE_PR, **arguments)
    assert second(lambda watch: watch.start(DELETE_PR, **arguments)) == {**receipt, "replayed": True}
    assert app_account.state() == (2, 0)


def test_a_change_of_tracking_that_is_changed_back_is_two_generations(app_account, devices, second):
    arguments = {"exercise": app_account.exercise(), "user": app_account.user_id}
    devices[0].run(UPSERT, **arguments, tracking="reps_only")
    back = second(lambda watch: watch.start(UPSERT, **arguments, tracking="weight_reps"))
    assert back.get("statsRequestedVersion") == 2, back


def test_no_session_takes_an_exercise_that_is_being_archived(app_account, devices, second):
    payload = app_account.payload()
    devices[0].run(ARCHIVE, exercise=app_account.exercise(), user=app_account.user_id)
    refusal = second(lambda watch: start_save(watch, app_account, payload))
    assert refusal.get("raised") == "22023", refusal
    assert refusal["message"] == "$.exercises[0].exercise_id: is archived"


def test_one_external_identity_becomes_one_exercise(app_account, devices, second):
    made = devices[0].run(RESOLVE, user=app_account.user_id)
    found = second(lambda watch: watch.start(RESOLVE, user=app_account.user_id))
    assert found == {**made, "created": False}


def test_one_batch_is_imported_once(database, app_account):
    swing = {"movementId": "swing", "load": 24, "loadUnit": "kg", "reps": 5}
    day = {"results": [{"id": 1, "doneOn": "2026-03-09", "sets": [swing]}]}
    batch = json.dumps({"user_id": str(app_account.user_id), "movements": [], "days": [day]})
    with session(database, "first") as first, session(database, "second") as second:
        assert first.run(IMPORT, batch=batch)["results_saved"] == 1
        importing = second.start(IMPORT, batch=batch)
        wait_until_blocked_or_done(database, second, importing)
        first.commit()
        assert outcome(importing).get("results_already_there") == 1
        second.commit()
    assert app_account.state() == (1, 1)
