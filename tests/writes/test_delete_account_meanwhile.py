"""Deleting an account while a page, a walk or a person's statement changes its rows."""

from __future__ import annotations

from interleavings.scene import admin_session, gate, outcome
from maintenance.scene import ROLLOVER, Pages
from support.races import session, wait_until_blocked

from writes.test_delete_account import DELETE, traces

RENAME = "update public.exercises set name = 'x' where id = :id"
TRACK = "update public.exercises set tracking = :tracking where id = :id"


def test_a_row_that_a_rollover_page_postpones_goes_too(database, app_account, stages):
    app_account.save()
    stages.drain()
    app_account.save()
    database.admin("update public.user_pr_overview_rollover_state set due_at = now() - interval '7 hours'")
    with session(database, "page") as page, session(database, "deletion") as deletion:
        assert page.run(ROLLOVER, limit=5)["skipped"] == 1
        deleting = deletion.start(DELETE, user=app_account.user_id)
        wait_until_blocked(database, deletion, by=page)
        page.commit()
        assert outcome(deleting).get("done")
        deletion.commit()
    assert traces(database, app_account.user_id) == set()


def test_an_exercise_that_somebody_renames_by_hand_goes_too(database, app_account, stages):
    app_account.save()
    stages.drain()
    with admin_session(database, "hand") as hand, session(database, "deletion") as deletion:
        hand.run(RENAME, id=app_account.exercises["Squat"])
        deleting = deletion.start(DELETE, user=app_account.user_id)
        wait_until_blocked(database, deletion, by=hand)
        hand.commit()
        assert outcome(deleting).get("done")
        deletion.commit()
    assert traces(database, app_account.user_id) == set()


def test_a_change_of_tracking_by_hand_takes_exercise_and_scope_in_the_same_order(database, app_account):
    app_account.save()
    squat = app_account.exercises["Squat"]
    database.admin(TRACK, tracking="duration", id=squat)
    with (
        gate(database, "public.exercise_catalog_changes") as keeper,
        admin_session(database, "hand") as hand,
        session(database, "deletion") as deletion,
    ):
        changing = hand.start(TRACK, tracking="reps_only", id=squat)
        # It has the exercise's row, and not yet its scope's.
        wait_until_blocked(database, hand, by=keeper)
        deleting = deletion.start(DELETE, user=app_account.user_id)
        wait_until_blocked(database, deletion, by=hand)
        keeper.rollback()
        assert outcome(changing) is None
        hand.commit()
        assert outcome(deleting).get("done")
        deletion.commit()
    assert traces(database, app_account.user_id) == set()


def test_a_walk_that_has_ended_remembers_no_account(database, app_account, stages):
    app_account.save()
    stages.drain()
    database.as_service()("select public.update_stats_projection_policy_v1('epley', null, null)")
    Pages(database).walk_to_the_end()
    stages.drain()
    assert database.as_service().value(DELETE, user=app_account.user_id)["done"]
    assert traces(database, app_account.user_id) == set()
