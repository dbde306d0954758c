"""Stated 1RMs: setting, replacing the initial one, deleting, receipts and what is refused."""

import uuid
from decimal import Decimal

import pytest
from support.app import AppAccount

from writes.refusals import refused, writes_nothing

SET = (
    "select public.set_manual_pr_v1(:exercise, cast(:kg as numeric), cast(:day as date), :source, :user,"
    " cast(:mutation as uuid))"
)
DELETE = "select public.delete_manual_pr_v1(cast(:id as uuid), :user, cast(:mutation as uuid))"


@pytest.fixture
def state_1rm(app_account):
    def state(kg=140, day="2026-03-10", source="manual", **given):
        exercise = given.pop("exercise", None) or app_account.exercise()
        return app_account.call(
            SET,
            **{
                "exercise": exercise,
                "kg": kg,
                "day": day,
                "source": source,
                "mutation": str(uuid.uuid4()),
                **given,
            },
        )

    return state


def records(database):
    return database.admin(
        "select id::text, achieved_on::text, one_rm_kg, source from public.user_manual_pr_records order by created_at"
    )


def test_a_stated_1rm_is_stored_with_its_receipt_and_its_event(database, app_account, state_1rm):
    mutation = str(uuid.uuid4())

    receipt = state_1rm("140.005", mutation=mutation)

    assert records(database) == [(receipt["manual_pr_id"], "2026-03-10", Decimal("140.01"), "manual")]
    assert receipt == {
        "manual_pr_id": receipt["manual_pr_id"],
        "mutation_id": mutation,
        "operation": "manual_pr_set",
        "statsRequestedVersion": 1,
        "replayed": False,
    }
    assert app_account.jobs("event_type", "source_ref") == [
        ("manual_pr_changed", f"manual_pr:{receipt['manual_pr_id']}")
    ]


def test_every_manual_statement_is_a_record_of_its_own(database, state_1rm):
    state_1rm(140)
    state_1rm(135)

    assert [kg for _, _, kg, _ in records(database)] == [140, 135]


def test_an_exercise_has_one_initial_1rm_and_setting_it_again_replaces_it(database, app_account, state_1rm):
    first = state_1rm(140, "2026-03-10", source="onboarding")
    manual = state_1rm(150, "2026-03-10")
    again = state_1rm(130, "2026-03-12", source="onboarding")

    assert again["manual_pr_id"] == first["manual_pr_id"]
    assert records(database) == [
        (first["manual_pr_id"], "2026-03-12", 130, "onboarding"),
        (manual["manual_pr_id"], "2026-03-10", 150, "manual"),
    ]
    assert [row[0] for row in app_account.jobs("metadata ->> 'event_type'")] == ["onboarding_1rm"]


def test_it_reaches_the_board_and_leaves_it_again(database, app_account, state_1rm, stages):
    board = "select public.get_pr_overview((now() at time zone 'utc')::date) -> 'exercises'"
    app_account.save()
    receipt = state_1rm(200, "2026-03-10")
    stages.drain()
    [shown] = app_account.call(board)
    assert (shown["one_rm_kg"], shown["one_rm_source"]) == (200, "manual")

    app_account.call(DELETE, id=receipt["manual_pr_id"], mutation=str(uuid.uuid4()))
    stages.drain()
    [shown] = app_account.call(board)
    assert shown["one_rm_source"] == "estimate"


def test_both_replay(database, app_account, state_1rm):
    set_mutation, delete_mutation = str(uuid.uuid4()), str(uuid.uuid4())
    receipt = state_1rm(140, mutation=set_mutation)
    deleted = app_account.call(DELETE, id=receipt["manual_pr_id"], mutation=delete_mutation)
    assert (deleted["operation"], deleted["statsRequestedVersion"]) == ("manual_pr_deleted", 2)

    with writes_nothing(database):
        assert state_1rm("140.00", mutation=set_mutation) == {**receipt, "replayed": True}
        assert app_account.call(DELETE, id=receipt["manual_pr_id"], mutation=delete_mutation) == {
            **deleted,
            "replayed": True,
        }
        with refused("22023", "$.mutation_id: was already used"):
            state_1rm(141, mutation=set_mutation)
        with refused("P0002", "manual_pr_id: this account has no such record"):
            app_account.call(DELETE, id=receipt["manual_pr_id"], mutation=str(uuid.uuid4()))


def test_nonsense_is_refused_by_name(database, app_account, state_1rm):
    archived = app_account.exercise("Old")
    app_account.call("select public.archive_exercise_v1(:id, :user)", id=archived)
    plank = app_account.exercise("Plank", "duration")
    app_account.exercise()
    with writes_nothing(database):
        for given, message in [
            ({"kg": None}, "one_rm_kg: is required"),
            *[
                ({"kg": kg}, "one_rm_kg: must be from 0.01 to 9999.99")
                for kg in (0, -1, "0.004", "NaN", "Infinity", 10000)
            ],
            ({"day": None}, "achieved_on: is required"),
            *[
                ({"day": day}, "achieved_on: must be from 1900-01-01 to one year from now")
                for day in ("1899-12-31", "infinity", "-infinity", "9999-12-31")
            ],
            ({"source": None}, "source: must be manual or onboarding"),
            ({"source": "guess"}, "source: must be manual or onboarding"),
            ({"exercise": "missing"}, "exercise_id: is not an exercise of this account"),
            ({"exercise": archived}, "exercise_id: is archived"),
            ({"exercise": plank}, "exercise_id: a duration exercise has no weight"),
            ({"mutation": None}, "mutation_id: is required"),
        ]:
            with refused("22023", message):
                state_1rm(**given)
        with refused("22023", "exercise_id: is required"):
            app_account.call(
                SET, exercise=None, kg=1, day="2026-03-10", source="manual", mutation=str(uuid.uuid4())
            )
        with refused("22023", "manual_pr_id: is required"):
            app_account.call(DELETE, id=None, mutation=str(uuid.uuid4()))


def test_a_global_exercise_takes_one_from_every_account(database, app_account, state_1rm):
    admin = AppAccount(database)
    squat = database.as_account(admin.user_id, admin=True).value(
        "select public.upsert_exercise_v1('Squat', 'weight_reps', :user, null, true)", user=admin.user_id
    )["exercise_id"]

    assert state_1rm(exercise=squat)["statsRequestedVersion"] == 1
