"""Whose write it is: the named owner must be the signed-in account, and other accounts' rows look like missing ones."""

import json
import uuid
from dataclasses import replace

import pytest
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount

from tasks.transaction import Identity
from writes.refusals import refused, writes_nothing

MISSING = object()
WRITES = {
    "delete_session_v5": "select public.delete_session_v5(gen_random_uuid(), cast(:owner as uuid), gen_random_uuid())",
    "upsert_exercise_v1": "select public.upsert_exercise_v1('Squat', 'weight_reps', cast(:owner as uuid))",
    "archive_exercise_v1": "select public.archive_exercise_v1('squat', cast(:owner as uuid))",
    "resolve_external_exercise_v1": (
        "select public.resolve_external_exercise_v1('strong', 'x', 'X', 'duration', cast(:owner as uuid))"
    ),
    "set_manual_pr_v1": (
        "select public.set_manual_pr_v1('squat', 100, '2026-03-10', 'manual', cast(:owner as uuid), gen_random_uuid())"
    ),
    "delete_manual_pr_v1": (
        "select public.delete_manual_pr_v1(gen_random_uuid(), cast(:owner as uuid), gen_random_uuid())"
    ),
}


@pytest.fixture
def stranger(database):
    """Another account, with a session, an exercise and a stated 1RM of its own."""
    other = AppAccount(database)
    other.save()
    return other


def test_a_save_for_another_owner_writes_nothing(database, app_account):
    for owner in [
        MISSING,
        None,
        "",
        "not-a-uuid",
        str(uuid.uuid4()),
        5,
        True,
        [str(app_account.user_id)],
        {},
    ]:
        payload = app_account.payload(expected_user_id=owner)
        if owner is MISSING:
            del payload["expected_user_id"]
        with writes_nothing(database), refused("42501", "expected_user_id: "):
            app_account.save_payload(payload)


def test_the_owner_is_asked_before_anything_else(database, app_account):
    with writes_nothing(database), refused("42501"):
        app_account.save_payload(
            {"expected_user_id": str(uuid.uuid4()), "mutation_id": 5, "exercises": "none"}
        )


def test_no_other_write_takes_another_owner(database, app_account):
    with writes_nothing(database):
        for statement in WRITES.values():
            for owner in (None, str(uuid.uuid4())):
                with refused("42501", "expected_user_id: "):
                    app_account.call(statement, owner=owner)


def test_nobody_signed_in_writes_nothing(database, app_account):
    owner = str(app_account.user_id)
    payload = json.dumps(app_account.payload())
    nobody = Identity("authenticated", json.dumps({"role": "authenticated"}))
    call = replace(database.as_account(app_account.user_id), identity=nobody)

    with writes_nothing(database):
        with refused("42501", "expected_user_id: nobody is signed in"):
            call("select public.save_session_v5(cast(:payload as jsonb))", payload=payload)
        for statement in WRITES.values():
            with refused("42501", "expected_user_id: nobody is signed in"):
                call(statement, owner=owner)


@pytest.mark.parametrize("claims", ["no JSON", "{", '{"sub": "nobody"}', '{"sub": 5}', '{"sub": "\\u0000"}'])
def test_claims_that_cannot_be_read_are_nobodys(database, app_account, claims):
    owner = str(app_account.user_id)
    payload = json.dumps(app_account.payload())
    call = replace(database.as_account(app_account.user_id), identity=Identity("authenticated", claims))
    message = "request.jwt.claims: must be JSON whose sub is a uuid"

    with writes_nothing(database):
        with refused("42501", message):
            call("select public.save_session_v5(cast(:payload as jsonb))", payload=payload)
        for statement in WRITES.values():
            with refused("42501", message):
                call(statement, owner=owner)
        for statement in (
            "select public.get_pr_overview('2026-03-10')",
            "select public.get_pr_overview('2026-03-10', :owner)",
            "select public.enqueue_user_exercise_stats_refresh(:owner, null, '{}', '')",
        ):
            with refused("42501", message):
                call(statement, **({"owner": app_account.user_id} if ":owner" in statement else {}))
        with refused("42501"):
            call("select public.stats_projection_worker_status_v1()")


def test_an_administrator_whose_claims_are_no_json_is_none(database, app_account):
    call = replace(database.as_account(app_account.user_id), identity=Identity("authenticated", "no JSON"))

    with refused("42501", "request.jwt.claims: is not JSON"):
        call("select public.stats_projection_worker_status_v1()")


def test_an_administrator_does_not_write_for_others_either(database, app_account, stranger):
    payload = json.dumps(stranger.payload())

    with writes_nothing(database), refused("42501"):
        database.as_account(app_account.user_id, admin=True)(
            "select public.save_session_v5(cast(:payload as jsonb))", payload=payload
        )


def test_anothers_session_cannot_be_told_from_a_missing_one(database, app_account, stranger):
    """Neither by a save nor by a delete, whatever else is wrong with the request."""
    [[theirs]] = database.admin("select id::text from public.workout_sessions")
    archived = _archived_global_exercise(database)
    database.admin("update public.session_exercise_part set exercise_id = :id", id=archived)
    variants = [
        {},
        {"expected_updated_at": "2026-03-10T10:00:00Z"},
        {"exercises": [{"exercise_id": archived, "sets": []}]},
        {"exercises": [{"exercise_id": stranger.exercise(), "sets": []}]},
    ]
    app_account.exercise()

    with writes_nothing(database):
        for fields in variants:
            assert _answer(app_account.save, **fields, session_id=theirs) == _answer(
                app_account.save, **fields, session_id=str(uuid.uuid4())
            )
        assert _answer(app_account.delete, theirs) == _answer(app_account.delete, str(uuid.uuid4()))


def _archived_global_exercise(database):
    admin = AppAccount(database)
    call = database.as_account(admin.user_id, admin=True)
    made = call.value(
        "select public.upsert_exercise_v1('Old', 'weight_reps', :user, null, true)", user=admin.user_id
    )
    call("select public.archive_exercise_v1(:id, :user)", id=made["exercise_id"], user=admin.user_id)
    return made["exercise_id"]


def test_anothers_exercise_cannot_be_told_from_a_missing_one(database, app_account, stranger):
    theirs = stranger.exercise()
    calls = [
        lambda id: app_account.save(exercises=[{"exercise_id": id, "sets": []}]),
        lambda id: app_account.call(
            "select public.upsert_exercise_v1('Mine', 'duration', :user, :id)", id=id
        ),
        lambda id: app_account.call("select public.archive_exercise_v1(:id, :user)", id=id),
        lambda id: app_account.call(
            "select public.set_manual_pr_v1(:id, 100, '2026-03-10', 'manual', :user, gen_random_uuid())",
            id=id,
        ),
        lambda id: app_account.call(
            "select public.upsert_exercise_v1('Mine', 'duration', :user, :id, null)", id=id
        ),
    ]
    app_account.exercise()

    with writes_nothing(database):
        for call in calls:
            assert _answer(call, theirs) == _answer(call, "missing")


def test_anothers_manual_record_cannot_be_told_from_a_missing_one(database, app_account, stranger):
    theirs = stranger.call(
        "select public.set_manual_pr_v1(:id, 100, '2026-03-10', 'manual', :user, gen_random_uuid())",
        id=stranger.exercise(),
    )["manual_pr_id"]
    delete = "select public.delete_manual_pr_v1(cast(:id as uuid), :user, gen_random_uuid())"

    with writes_nothing(database):
        assert _answer(app_account.call, delete, id=theirs) == _answer(
            app_account.call, delete, id=str(uuid.uuid4())
        )


def test_anothers_receipt_is_no_obstacle_and_no_answer(database, app_account, stranger):
    [[used]] = database.admin("select mutation_id::text from public.stats_mutation_receipts")

    receipt = app_account.save(mutation_id=used)

    assert (receipt["replayed"], receipt["statsRequestedVersion"]) == (False, 1)


def _answer(call, *arguments, **fields):
    """SQLSTATE, message, detail and hint of the refusal."""
    with pytest.raises(DBAPIError) as caught:
        call(*arguments, **fields)
    diag = caught.value.orig.diag
    return diag.sqlstate, diag.message_primary, diag.message_detail, diag.message_hint


def test_an_account_reads_its_own_rows_and_the_catalog_and_no_others(database, app_account, stranger):
    pr = "select public.set_manual_pr_v1(:id, 100, '2026-03-10', 'manual', :user, gen_random_uuid())"
    resolve = "select public.resolve_external_exercise_v1('strong', 'x', 'X', 'duration', :user)"
    for each in (app_account, stranger):
        each.save()
        each.call(pr, id=each.exercise())
        each.call(resolve)
    shared = _archived_global_exercise(database)
    call = database.as_account(app_account.user_id)

    def owners(table, column="user_id"):
        return {row[0] for row in call(f"select {column} from public.{table}")}

    for table in ("workout_sessions", "session_exercise_part", "user_manual_pr_records"):
        assert owners(table) == {app_account.user_id}, table
    assert owners("exercise_external_mappings", "owner_user_id") == {app_account.user_id}
    assert owners("exercises", "owner_user_id") == {app_account.user_id, None}
    assert shared in owners("exercises", "id")
    assert len(call("select from public.session_sets")) == 1


def test_the_queue_takes_only_the_own_account(database, app_account, stranger):
    enqueue = "select public.enqueue_user_exercise_stats_refresh(:whose, null, '{}', 'because')"

    with writes_nothing(database), refused("42501", "user_id: only your own account"):
        app_account.call(enqueue, whose=stranger.user_id)

    assert app_account.call(enqueue, whose=app_account.user_id) == 1
    assert database.as_service().value(enqueue, whose=app_account.user_id) == 2
    assert database.as_account(stranger.user_id, admin=True).value(enqueue, whose=app_account.user_id) == 3


def test_an_admin_flag_outside_app_metadata_is_none(database, app_account, stranger):
    claims = {"sub": str(app_account.user_id), "role": "authenticated", "user_metadata": {"role": "admin"}}
    call = replace(
        database.as_account(app_account.user_id), identity=Identity("authenticated", json.dumps(claims))
    )

    with writes_nothing(database):
        with refused("42501"):
            call(
                "select public.enqueue_user_exercise_stats_refresh(:whose, null, '{}', '')",
                whose=stranger.user_id,
            )
        with refused("42501", "global: only an administrator"):
            call(
                "select public.upsert_exercise_v1('X', 'duration', :user, null, true)",
                user=app_account.user_id,
            )
