"""A write holds the catalog's exercises from its check to its commit: none changes under a set that relies on it."""

from __future__ import annotations

import json
import uuid

import pytest
from interleavings.scene import gate, outcome, session, start_save, wait_until_blocked_or_done
from maintenance.scene import change_global
from support.races import wait_until_blocked

from tasks.transaction import account

CHANGE = "select public.upsert_exercise_v1('Squat', 'reps_only', :admin, :exercise, true)"


@pytest.fixture
def squat(database, app_account):
    """Everybody's squat, which has a weight, and is the account's too."""
    app_account.exercises["Squat"] = change_global(database, None, "Squat", "weight_reps")
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


@pytest.mark.parametrize(
    ("write", "table"),
    [
        (a_save, "public.workout_sessions"),
        (a_stated_1rm, "public.user_manual_pr_records"),
        (an_import, "public.workout_sessions"),
    ],
    ids=["a save", "a stated 1RM", "an import"],
)
def test_a_change_of_the_catalog_waits_for_a_write_that_has_checked_it(
    database, app_account, squat, write, table
):
    database.admin(
        "insert into public.exercise_external_mappings (provider, external_id, exercise_id)"
        " values ('wodup', 'squat', :squat)",
        squat=squat,
    )
    admin = uuid.uuid4()
    identity = None if write is an_import else account(app_account.user_id)
    with (
        session(database, "app", identity) as app,
        session(database, "catalog", account(admin, admin=True)) as catalog,
    ):
        with gate(database, table) as keeper:
            # After the check, before the first row.
            writing = write(app, app_account)
            wait_until_blocked(database, app, by=keeper)
            changing = catalog.start(CHANGE, admin=admin, exercise=squat)
            wait_until_blocked_or_done(database, catalog, changing)
            assert not changing.done(), "the exercise changed under a write that relies on it"
        assert "raised" not in outcome(writing)
        app.commit()
        assert outcome(changing).get("tracking") == "reps_only"
        catalog.commit()
