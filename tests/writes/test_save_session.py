"""A save: the rows it leaves, its receipt, replacing, and repeating it."""

import json
import re
import uuid
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from support.races import session as open_session
from support.races import wait_until_blocked

from tasks.transaction import account
from writes.refusals import refused, writes_nothing


def test_a_new_session_is_stored_whole_and_its_receipt_says_so(database, app_account):
    squat, run = app_account.exercise("Squat"), app_account.exercise("Run", "distance_duration")
    blocks = [
        {
            **app_account.block("Squat", {"set_type": "warmup", "weight_kg": 60, "reps": 5, "rpe": 6.5}),
            "notes": "slow",
        },
        app_account.block("Run", {"distance_m": 5000.25, "duration_seconds": 1500, "is_completed": False}),
        app_account.block("Squat", (100, 5)),
        app_account.block("Squat"),
    ]
    payload = app_account.payload(
        *blocks, title="Legs", started_at="2026-03-10T18:00:00+01:00", duration_seconds=3600
    )

    receipt = app_account.save_payload(payload)

    assert {
        key: receipt[key] for key in ("mutation_id", "operation", "statsRequestedVersion", "replayed")
    } == {
        "mutation_id": payload["mutation_id"],
        "operation": "session_created",
        "statsRequestedVersion": 1,
        "replayed": False,
    }
    [(session_id, user_id, day, title, started_at, seconds, updated_at)] = database.admin(
        "select id, user_id, session_date::text, title, started_at, duration_seconds, updated_at"
        " from public.workout_sessions"
    )
    assert (str(session_id), user_id, day, title, seconds) == (
        receipt["session_id"],
        app_account.user_id,
        "2026-03-10",
        "Legs",
        3600,
    )
    assert started_at == datetime.fromisoformat("2026-03-10T17:00:00+00:00")
    assert updated_at == datetime.fromisoformat(receipt["updated_at"])
    assert stored_sets(database) == [
        (1, squat, "slow", 1, "warmup", 60, 5, None, None, 6.5, True),
        (2, run, None, 1, "normal", None, None, 5000.25, 1500, None, False),
        (3, squat, None, 1, "normal", 100, 5, None, None, None, True),
        (4, squat, None, None, None, None, None, None, None, None, None),
    ]


def stored_sets(database):
    return [
        tuple(float(value) if hasattr(value, "as_tuple") else value for value in row)
        for row in database.admin(
            "select p.position, p.exercise_id, p.notes, s.set_no, s.set_type, s.weight_kg, s.reps, s.distance_m,"
            " s.duration_seconds, s.rpe, s.is_completed from public.session_exercise_part p"
            " left join public.session_sets s on s.part_id = p.id order by p.position, s.set_no"
        )
    ]


def test_a_replacement_leaves_only_the_new_rows(database, app_account):
    first = app_account.save(app_account.block("Squat", (100, 5), (100, 4)), title="Legs", notes="old")

    second = app_account.save(app_account.block("Bench", (80, 5)), session_id=first["session_id"])

    assert (second["operation"], second["session_id"]) == ("session_updated", first["session_id"])
    assert second["updated_at"] > first["updated_at"]
    assert [(row[1], row[5]) for row in stored_sets(database)] == [(app_account.exercise("Bench"), 80)]
    assert database.admin("select title, notes from public.workout_sessions") == [(None, None)]


def test_a_save_that_changes_nothing_still_gets_a_receipt_and_a_generation(app_account):
    payload = app_account.payload()
    first = app_account.save_payload(payload)

    again = app_account.save_payload(
        {**payload, "session_id": first["session_id"], "mutation_id": str(uuid.uuid4())}
    )

    assert (again["statsRequestedVersion"], again["replayed"]) == (2, False)


def test_the_same_mutation_again_answers_the_stored_receipt_and_writes_nothing(database, app_account):
    payload = app_account.payload()
    receipt = app_account.save_payload(payload)
    app_account.delete(receipt["session_id"])

    with writes_nothing(database):
        replayed = app_account.save_payload(dict(reversed(payload.items())))

    assert replayed == {**receipt, "replayed": True}


def test_a_replay_answers_even_where_the_payload_would_no_longer_pass(app_account):
    payload = app_account.payload()
    receipt = app_account.save_payload(payload)
    app_account.call("select public.archive_exercise_v1(:id, :user)", id=app_account.exercise("Squat"))

    assert app_account.save_payload(payload) == {**receipt, "replayed": True}


def test_a_replay_answers_even_where_the_payload_has_a_field_that_was_once_ignored(database, app_account):
    receipt = app_account.save_payload(app_account.payload())
    payload = app_account.payload(mutation_id=receipt["mutation_id"], anything=1)
    database.admin(
        "update public.stats_mutation_receipts set payload_hash ="
        " stats_private.payload_hash('save_session_v5', cast(:payload as jsonb)::text)",
        payload=json.dumps(payload),
    )

    assert app_account.save_payload(payload) == {**receipt, "replayed": True}


ROOT = Path(__file__).parents[2]
PROMISES = {
    "README.md": r"\*\*A committed write is never lost\.\*\*.*?\n- ",
    "sql/functions/writes/receipts.sql": r"-- Durable receipts:.*?\n-- Promises:",
    "sql/functions/writes/import_wodup_batch.sql": r"-- Promises:.*?\n-- Locks:",
    "docs/importing.md": r"One result is one session;.*?has every field",
    "docs/maintenance.md": r"\n\| receipts, .*?\n",
}
"""Where somebody is told how long a write is known again, with what they are told."""


@pytest.mark.parametrize("file", PROMISES)
def test_a_write_is_promised_to_be_known_for_as_long_as_its_receipt_is_kept(file):
    purge = (ROOT / "sql/functions/maintenance/purge.sql").read_text()
    [days] = re.findall(
        r"from public.stats_mutation_receipts o\s+where o.created_at < p_now - interval '(\d+ days)'", purge
    )
    [promise] = re.findall(PROMISES[file], (ROOT / file).read_text(), flags=re.DOTALL)
    assert days in promise
    assert "ever after" not in promise


def test_another_write_under_a_used_mutation_is_refused(database, app_account):
    payload = app_account.payload()
    receipt = app_account.save_payload(payload)
    message = "$.mutation_id: was already used for another write"

    with writes_nothing(database):
        with refused("22023", message):
            app_account.save_payload({**payload, "title": "Another"})
        with refused("22023", message):
            app_account.delete(receipt["session_id"], payload["mutation_id"])


def test_two_devices_with_the_same_mutation_at_the_same_moment_write_once(database, app_account):
    payload = app_account.payload()
    who = account(app_account.user_id)
    with open_session(database, "phone", who) as phone, open_session(database, "watch", who) as watch:
        receipt = phone.run(SAVE, payload=json.dumps(payload))
        answer = watch.start(SAVE, payload=json.dumps(payload))
        wait_until_blocked(database, watch, by=phone)
        phone.commit()
        replayed = answer.result(20)
        watch.commit()

    assert replayed == {**receipt, "replayed": True}
    assert app_account.state() == (1, 0)
    assert database.admin("select count(*) from public.workout_sessions") == [(1,)]


def test_two_devices_with_different_writes_under_one_mutation_get_one_refusal(database, app_account):
    payload = app_account.payload()
    who = account(app_account.user_id)
    with open_session(database, "phone", who) as phone, open_session(database, "watch", who) as watch:
        phone.run(SAVE, payload=json.dumps(payload))
        answer = watch.start(SAVE, payload=json.dumps({**payload, "title": "Other"}))
        wait_until_blocked(database, watch, by=phone)
        phone.commit()
        with refused("22023", "$.mutation_id: was already used"):
            answer.result(20)

    assert database.admin("select title from public.workout_sessions") == [(None,)]


def test_the_second_device_writes_where_the_first_rolled_back(database, app_account):
    payload = app_account.payload()
    who = account(app_account.user_id)
    with open_session(database, "phone", who) as phone, open_session(database, "watch", who) as watch:
        phone.run(SAVE, payload=json.dumps(payload))
        answer = watch.start(SAVE, payload=json.dumps(payload))
        wait_until_blocked(database, watch, by=phone)
        phone.rollback()
        receipt = answer.result(20)
        watch.commit()

    assert (receipt["replayed"], receipt["statsRequestedVersion"]) == (False, 1)
    assert database.admin("select count(*) from public.workout_sessions") == [(1,)]


SAVE = "select public.save_session_v5(cast(:payload as jsonb))"


def test_an_edit_of_a_version_that_is_no_longer_the_newest_is_refused(database, app_account):
    first = app_account.save()
    newer = app_account.save(session_id=first["session_id"], expected_updated_at=first["updated_at"])

    with writes_nothing(database), refused("40001", "expected_updated_at: the session was changed meanwhile"):
        app_account.save(session_id=first["session_id"], expected_updated_at=first["updated_at"])

    assert app_account.save(session_id=first["session_id"], expected_updated_at=newer["updated_at"])


def test_the_version_is_a_moment_whatever_zone_it_is_written_in(app_account):
    first = app_account.save()
    moment = datetime.fromisoformat(first["updated_at"])
    elsewhere = moment.astimezone(tz=moment.tzinfo) + timedelta(hours=9)

    assert app_account.save(
        session_id=first["session_id"], expected_updated_at=elsewhere.isoformat().replace("+00:00", "+09:00")
    )


def test_an_unknown_or_deleted_session_is_not_found(database, app_account):
    deleted = app_account.save()["session_id"]
    app_account.delete(deleted)
    app_account.exercise()

    with writes_nothing(database):
        for session_id in (deleted, str(uuid.uuid4())):
            with refused("P0002", "session_id: this account has no such session"):
                app_account.save(session_id=session_id)
            with refused("P0002", "session_id: this account has no such session"):
                app_account.delete(session_id)


def test_a_delete_takes_the_session_with_everything_in_it(database, app_account):
    gone, kept = app_account.save(), app_account.save()
    mutation_id = uuid.uuid4()

    receipt = app_account.delete(gone["session_id"], mutation_id)

    assert (receipt["operation"], receipt["session_id"]) == ("session_deleted", gone["session_id"])
    assert database.admin("select id::text from public.workout_sessions") == [(kept["session_id"],)]
    assert len(stored_sets(database)) == 1
    with writes_nothing(database):
        assert app_account.delete(gone["session_id"], mutation_id) == {**receipt, "replayed": True}


def test_a_delete_needs_its_arguments(database, app_account):
    statement = "select public.delete_session_v5(cast(:session as uuid), :user, cast(:mutation as uuid))"
    with writes_nothing(database):
        with refused("22023", "session_id: is required"):
            app_account.call(statement, session=None, mutation=str(uuid.uuid4()))
        with refused("22023", "mutation_id: is required"):
            app_account.call(statement, session=str(uuid.uuid4()), mutation=None)


def test_one_source_ref_is_one_session(database, app_account):
    taken = app_account.save(source="strong", source_ref="1")
    other = app_account.save(source="strong", source_ref="2")
    message = "$.source_ref: this account already has a session with this source and source_ref"

    with writes_nothing(database):
        with refused("22023", message):
            app_account.save(source="strong", source_ref="1")
        with refused("22023", message):
            app_account.save(session_id=other["session_id"], source_ref="1")

    # An edit in the app knows nothing of where the session came from.
    app_account.save(session_id=taken["session_id"], title="edited")
    assert database.admin(
        "select source, source_ref from public.workout_sessions where title = 'edited'"
    ) == [("strong", "1")]


def test_an_archived_exercise_stays_in_the_sessions_that_have_it(database, app_account):
    old = app_account.save(app_account.block("Squat", (100, 5)))
    app_account.call("select public.archive_exercise_v1(:id, :user)", id=app_account.exercise("Squat"))

    with writes_nothing(database), refused("22023", "$.exercises[0].exercise_id: is archived"):
        app_account.save()

    assert app_account.save(app_account.block("Squat", (105, 5)), session_id=old["session_id"])


def test_the_account_is_found_whatever_the_case_of_its_id(app_account):
    assert app_account.save(expected_user_id=str(app_account.user_id).upper())["statsRequestedVersion"] == 1


def test_a_save_in_a_snapshot_that_began_before_the_last_one_is_a_conflict(database, app_account):
    app_account.save()
    payload = json.dumps(app_account.payload())
    who = account(app_account.user_id)
    with database.engine.connect().execution_options(isolation_level="REPEATABLE READ") as old:
        old.execute(
            text("select set_config('role', :role, true), set_config('request.jwt.claims', :claims, true)"),
            {"role": who.role, "claims": who.claims},
        )
        app_account.save()
        with refused("40001"):
            old.execute(text(SAVE), {"payload": payload})

    assert app_account.state() == (2, 0)
