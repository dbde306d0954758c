"""A write sent again is the same where its values are, however a client spells them the second time."""

import json
import uuid

import pytest
from interleavings.scene import answer_of

from tasks.transaction import account
from writes.refusals import refused, writes_nothing

SAVE = "select public.save_session_v5(cast(:payload as jsonb))"
IMPORT = "select public.import_wodup_batch_to_canonical(cast(:batch as jsonb))"
EARLIER_HASH = (
    "update public.stats_mutation_receipts"
    " set payload_hash = sha256(convert_to(:operation || ':' || cast(:spelling as jsonb)::text, 'UTF8'))"
)
"""What the releases before stored: the hash of the text as it was sent."""


@pytest.fixture
def sent(app_account):
    """A session with a value in every field, and its receipt."""
    old = app_account.save()
    one = {
        "weight_kg": 100,
        "reps": 5,
        "distance_m": 1000,
        "duration_seconds": 60,
        "rpe": 8,
    }
    payload = app_account.payload(
        app_account.block("Squat", one),
        session_id=old["session_id"],
        expected_updated_at=old["updated_at"],
        started_at="2026-03-03T18:00:00Z",
        duration_seconds=3600,
        notes="n",
    )
    return json.dumps(payload), app_account.save_payload(payload)


SPELLINGS = {
    "a float for a whole number": [('"reps": 5', '"reps": 5.0'), ("3600", "3600.00")],
    "an exponent": [('"reps": 5', '"reps": 5e0'), ('"weight_kg": 100', '"weight_kg": 1e2')],
    "zeros after the point": [('"weight_kg": 100', '"weight_kg": 100.000'), ('"rpe": 8', '"rpe": 8.00')],
    "digits that are not stored": [('"weight_kg": 100', '"weight_kg": 100.00000000000001')],
    "nulls for missing fields": [('"notes": "n"', '"notes": "n", "title": null, "source": null')],
    "nulls for missing fields of a set": [('"reps": 5', '"reps": 5, "set_type": null, "is_completed": null')],
    "the defaults of a set": [('"reps": 5', '"reps": 5, "set_type": "normal", "is_completed": true')],
    "a null for missing notes": [('"sets"', '"notes": null, "sets"')],
    "an offset for Z": [("18:00:00Z", "18:00:00+00:00")],
    "a fraction of zeros": [("18:00:00Z", "18:00:00.000Z")],
    "no seconds": [("18:00:00Z", "18:00Z")],
    "the moment in another zone": [("2026-03-03T18:00:00Z", "2026-03-04 03:00:00+09")],
    "a key that stands twice": [('"reps": 5', '"reps": 9, "reps": 5')],
}


@pytest.mark.parametrize("changes", SPELLINGS.values(), ids=SPELLINGS)
def test_another_spelling_of_a_save_replays(database, app_account, sent, changes):
    text, receipt = sent
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)

    with writes_nothing(database):
        assert answer_of(lambda: app_account.call(SAVE, payload=text)) == {**receipt, "replayed": True}


def test_ids_in_upper_case_replay(database, app_account, sent):
    text, receipt = sent
    for name in ("expected_user_id", "mutation_id", "session_id"):
        text = text.replace(json.loads(text)[name], json.loads(text)[name].upper())

    with writes_nothing(database):
        assert answer_of(lambda: app_account.call(SAVE, payload=text)) == {**receipt, "replayed": True}


def test_the_settings_of_the_connection_change_no_value(database, app_account, sent):
    text, receipt = sent
    with database.engine.begin() as connection:
        for setting in ("set local timezone = 'Asia/Tokyo'", "set local datestyle = 'SQL, DMY'"):
            connection.exec_driver_sql(setting)
        who = account(app_account.user_id)
        connection.exec_driver_sql(
            "select set_config('role', %s, true), set_config('request.jwt.claims', %s, true)",
            (who.role, who.claims),
        )
        replayed = connection.exec_driver_sql(
            "select public.save_session_v5(%s::jsonb)", (text,)
        ).scalar_one()

    assert (replayed["session_id"], replayed["replayed"]) == (receipt["session_id"], True)


DIFFERENT = {
    "another number": ('"reps": 5', '"reps": 6'),
    "another weight": ('"weight_kg": 100', '"weight_kg": 100.01'),
    "no number": ('"reps": 5', '"reps": null'),
    "another moment": ("18:00:00Z", "18:00:00.000001Z"),
    "an empty text": ('"notes": "n"', '"notes": ""'),
    "another set": ('"reps": 5', '"is_completed": false, "reps": 5'),
}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT)
def test_another_value_is_another_write(database, app_account, sent, change):
    text, _ = sent
    with writes_nothing(database), refused("22023", "$.mutation_id: was already used for another write"):
        app_account.call(SAVE, payload=text.replace(*change))


def test_ids_of_exercises_are_texts_whose_case_counts(database, app_account):
    for exercise in ("squat", "SQUAT"):
        database.admin(
            "insert into public.exercises (id, name, tracking) values (:id, 'Squat', 'weight_reps')",
            id=exercise,
        )
    payload = app_account.payload({"exercise_id": "squat", "sets": []})
    app_account.save_payload(payload)

    payload["exercises"][0]["exercise_id"] = "SQUAT"
    with writes_nothing(database), refused("22023", "$.mutation_id: was already used for another write"):
        app_account.save_payload(payload)


CALLS = {
    "set_manual_pr_v1": "select public.set_manual_pr_v1(:exercise, {kg}, '2026-03-10', 'manual', {user}, {mutation})",
    "delete_session_v5": "select public.delete_session_v5({session}, {user}, {mutation})",
    "delete_manual_pr_v1": "select public.delete_manual_pr_v1({record}, {user}, {mutation})",
}


@pytest.mark.parametrize("name", CALLS)
def test_another_spelling_of_arguments_replays(database, app_account, name):
    set_pr = CALLS["set_manual_pr_v1"].format(kg=150, user=":user", mutation="gen_random_uuid()")
    record = app_account.call(set_pr, exercise=app_account.exercise())["manual_pr_id"]
    ids = {
        "user": str(app_account.user_id),
        "mutation": str(uuid.uuid4()),
        "session": app_account.save()["session_id"],
        "record": record,
    }
    given = {"exercise": app_account.exercise()} if ":exercise" in CALLS[name] else {}
    lower = {key: f"'{value}'" for key, value in ids.items()}
    receipt = app_account.call(CALLS[name].format(kg=140, **lower), **given)

    with writes_nothing(database):
        upper = {key: f"'{{{value.upper()}}}'" for key, value in ids.items()}
        assert app_account.call(CALLS[name].format(kg="140.000", **upper), **given) == {
            **receipt,
            "replayed": True,
        }


def test_a_receipt_of_an_earlier_release_replays(database, app_account):
    payload = app_account.payload(app_account.block("Squat", {"reps": 5.0, "weight_kg": 100.5}), title=None)
    receipt = app_account.save_payload(payload)
    database.admin(EARLIER_HASH, operation="save_session_v5", spelling=json.dumps(payload))

    with writes_nothing(database):
        assert answer_of(app_account.save_payload, payload) == {**receipt, "replayed": True}
        with refused("22023", "$.mutation_id: was already used for another write"):
            app_account.save_payload({**payload, "title": "Legs"})


def a_batch(user, **result):
    squat = {"movementId": "squat", "load": 100, "loadUnit": "kg", "reps": 5}
    day = {"day": "2026-03-09", "results": [{"id": "r1", "title": "Legs", "sets": [squat], **result}]}
    return {"user_id": str(user), "movements": [{"id": "squat", "name": "Squat"}], "days": [day]}


def test_a_result_with_the_same_values_is_not_reported_as_changed(database, app_account):
    said = {"doneAt": "2026-03-09T18:00:00Z", "notes": None}
    database.as_service().value(IMPORT, batch=json.dumps(a_batch(app_account.user_id, **said)))
    again = a_batch(
        app_account.user_id,
        doneAt="2026-03-09T19:00:00.0",
        timeZone="Europe/Berlin",
        doneOn="2026-03-09",
        sets=[{"movementId": "squat", "load": 100.0, "loadUnit": "KG", "reps": 5.0, "distanceMeters": None}],
    )

    report = database.as_service().value(IMPORT, batch=json.dumps(again))
    assert (report["results_already_there"], report["contradictions"]) == (1, [])
    again["days"][0]["results"][0]["title"] = "Other"
    [changed] = database.as_service().value(IMPORT, batch=json.dumps(again))["contradictions"]
    assert "imported before with other content" in changed["reason"]


def test_a_result_that_an_earlier_release_imported_is_known(database, app_account):
    batch = a_batch(app_account.user_id)
    database.as_service().value(IMPORT, batch=json.dumps(batch))
    [result] = batch["days"][0]["results"]
    database.admin(
        EARLIER_HASH,
        operation="import_wodup_batch_to_canonical",
        spelling=json.dumps({**result, "doneOn": "2026-03-09"}),
    )

    report = database.as_service().value(IMPORT, batch=json.dumps(batch))
    assert (report["results_already_there"], report["contradictions"]) == (1, [])
