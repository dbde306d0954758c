"""No account's open transaction holds up a change of the catalog, nor the other way round, and every number is right.

An import of a batch, which is the service's, computes before its commit: it and a change wait for each other.
"""

from __future__ import annotations

import json
import uuid

import pytest
from interleavings.scene import gate, outcome, session, start_save, wait_until_blocked_or_done
from maintenance.scene import Pages, assert_all_equal_reckoning, change_global
from support.races import wait_until_blocked

from tasks.transaction import account

CHANGE = "select public.upsert_exercise_v1('Squat', 'reps_only', :admin, :exercise, true)"
ARCHIVE = "select public.archive_exercise_v1(:exercise, :admin)"


@pytest.fixture
def squat(database, app_account):
    """Everybody's squat, which has a weight, and is the account's too."""
    app_account.exercises["Squat"] = change_global(database, None, "Squat", "weight_reps")
    database.admin(
        "insert into public.exercise_external_mappings (provider, external_id, exercise_id)"
        " values ('wodup', 'squat', :squat)",
        squat=app_account.exercises["Squat"],
    )
    return app_account.exercises["Squat"]


def a_save(app, app_account):
    return start_save(app, app_account, app_account.payload())


def a_stated_1rm(app, app_account):
    return app.start(
        "select public.set_manual_pr_v1(:exercise, 150, '2026-03-10', 'manual', :user, :mutation)",
        exercise=app_account.exercise(),
        user=app_account.user_id,
        mutation=uuid.uuid4(),
    )


def an_import(app, app_account):
    squat = {"movementId": "squat", "load": 100, "loadUnit": "kg", "reps": 5}
    day = {"results": [{"id": 1, "doneOn": "2026-03-09", "sets": [squat]}]}
    batch = {"user_id": str(app_account.user_id), "movements": [], "days": [day]}
    return app.start(
        "select public.import_wodup_batch_to_canonical(cast(:batch as jsonb))", batch=json.dumps(batch)
    )


@pytest.mark.parametrize("write", [a_save, a_stated_1rm], ids=["a save", "a stated 1RM"])
@pytest.mark.parametrize("change", [CHANGE, ARCHIVE], ids=["changes", "archives"])
def test_an_open_write_of_an_account_holds_up_no_administrator(
    database, app_account, stages, squat, write, change
):
    admin = uuid.uuid4()
    with (
        session(database, "app", account(app_account.user_id)) as app,
        session(database, "catalog", account(admin, admin=True)) as catalog,
    ):
        assert "raised" not in outcome(write(app, app_account))
        changing = catalog.start(change, admin=admin, exercise=squat)
        wait_until_blocked_or_done(database, catalog, changing)
        assert changing.done(), "the administrator waits for an account's open transaction"
        assert "raised" not in outcome(changing)
        catalog.commit()
        # The walk ends before the write is there to be seen: the write's own generation covers it.
        stages.drain()
        Pages(database).walk_to_the_end()
        app.commit()

    stages.drain()
    assert_all_equal_reckoning(database, [app_account])


@pytest.mark.parametrize("write", [a_save, a_stated_1rm], ids=["a save", "a stated 1RM"])
def test_an_open_change_of_the_catalog_holds_up_no_account(database, app_account, stages, squat, write):
    admin = uuid.uuid4()
    with (
        session(database, "app", account(app_account.user_id)) as app,
        session(database, "catalog", account(admin, admin=True)) as catalog,
    ):
        catalog.run(CHANGE, admin=admin, exercise=squat)
        writing = write(app, app_account)
        wait_until_blocked_or_done(database, app, writing)
        assert writing.done(), "the account waits for an administrator's open transaction"
        assert "raised" not in outcome(writing)
        app.commit()
        stages.drain()
        catalog.commit()

    Pages(database).walk_to_the_end()
    stages.drain()
    assert_all_equal_reckoning(database, [app_account])


def test_an_administrator_waits_for_another_one_for_a_bounded_time(database, squat):
    one, two = uuid.uuid4(), uuid.uuid4()
    with (
        session(database, "one", account(one, admin=True)) as first,
        session(database, "two", account(two, admin=True)) as second,
    ):
        first.run(CHANGE, admin=one, exercise=squat)
        changing = second.start(CHANGE, admin=two, exercise=squat)
        wait_until_blocked(database, second, by=first)
        assert outcome(changing)["raised"] == "55P03"


def test_a_change_of_the_catalog_waits_for_an_import_that_relies_on_it(database, app_account, stages, squat):
    admin = uuid.uuid4()
    with (
        session(database, "import") as app,
        session(database, "catalog", account(admin, admin=True)) as catalog,
    ):
        with gate(database, "public.workout_sessions") as keeper:
            writing = an_import(app, app_account)
            wait_until_blocked(database, app, by=keeper)
            changing = catalog.start(CHANGE, admin=admin, exercise=squat)
            wait_until_blocked_or_done(database, catalog, changing)
            assert not changing.done(), "the exercise changed under an import that computes with it"
        assert outcome(writing).get("refresh") == "published"
        app.commit()
        assert outcome(changing).get("tracking") == "reps_only"
        catalog.commit()

    Pages(database).walk_to_the_end()
    stages.drain()
    assert_all_equal_reckoning(database, [app_account])


def test_an_import_waits_for_an_open_change_of_the_catalog_for_a_bounded_time(database, app_account, squat):
    admin = uuid.uuid4()
    with (
        session(database, "import") as app,
        session(database, "catalog", account(admin, admin=True)) as catalog,
    ):
        catalog.run(CHANGE, admin=admin, exercise=squat)
        writing = an_import(app, app_account)
        wait_until_blocked(database, app, by=catalog)
        assert outcome(writing)["raised"] == "55P03"
