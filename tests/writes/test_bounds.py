"""What a caller sends is bounded before anything prints, hashes or expands it, and no row grows without bound."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount

from tasks.transaction import account, service
from writes.refusals import refused, writes_nothing

MANY = "[" + ",".join(["1e131071"] * 4000) + "]"
"""36 kB that print as 524 MB."""
SMALL = "[" + ",".join(["0e-16383"] * 30000) + "]"
"""270 kB that print as 490 MB."""
DEEP = "[" * 5000 + "]" * 5000
ALLOWED_MB = 100

SAVE = "select public.save_session_v5(cast(:sent as jsonb))"
IMPORT = "select public.import_wodup_batch_to_canonical(cast(:sent as jsonb))"
SETTINGS = "select public.update_stats_projection_settings_v1(cast(:sent as jsonb))"
ENQUEUE = (
    "select public.enqueue_user_exercise_stats_refresh_job("
    "gen_random_uuid(), null, '{}', 'manual_refresh', null, '', cast(:sent as jsonb))"
)


def peak_mb(pid):
    """The most memory that the server process of a connection ever had, in MB: servers of the tests run here."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def call(database, identity, statement, sent):
    """Return how the call ended, and by how many MB its backend grew at most."""
    with database.engine.connect() as connection:
        connection.detach()
        pid = connection.scalar(text("select pg_catalog.pg_backend_pid()"))
        connection.execute(
            text("select set_config('role', :role, true), set_config('request.jwt.claims', :claims, true)"),
            {"role": identity.role, "claims": identity.claims},
        )
        connection.execute(text("set local statement_timeout = '60s'"))
        before = peak_mb(pid)
        try:
            connection.execute(text(statement), {"sent": sent})
            ended = "answered"
        except DBAPIError as error:
            ended = f"{error.orig.pgcode} {error.orig.diag.message_primary}"
        return ended, peak_mb(pid) - before


def spliced(value, **places):
    """The JSON text of `value` with a text of JSON where each of its strings HERE stands."""
    return json.dumps(value).replace('"HERE"', places["here"])


def session(account, **fields):
    return account.payload({"exercise_id": "squat", "sets": [{"reps": 5}]}, **fields)


def one_set(account, **fields):
    return account.payload({"exercise_id": "squat", "sets": [fields]})


def batch(account, result=None, **fields):
    squat = {"movementId": "squat", "reps": 5}
    day = {"day": "2026-03-09", "results": [{"id": "r1", "sets": [squat], **(result or {})}]}
    return {"user_id": str(account.user_id), "movements": [], "days": [day], **fields}


PLACES = {
    "an unknown field": (SAVE, lambda one: session(one, anything="HERE")),
    "the account": (SAVE, lambda one: session(one, expected_user_id="HERE")),
    "the mutation": (SAVE, lambda one: session(one, mutation_id="HERE")),
    "the session": (SAVE, lambda one: session(one, session_id="HERE")),
    "the version": (SAVE, lambda one: session(one, expected_updated_at="HERE")),
    "the day": (SAVE, lambda one: session(one, session_date="HERE")),
    "the moment": (SAVE, lambda one: session(one, started_at="HERE")),
    "the title": (SAVE, lambda one: session(one, title="HERE")),
    "the exercises": (SAVE, lambda one: session(one, exercises="HERE")),
    "a weight": (SAVE, lambda one: one_set(one, weight_kg="HERE")),
    "a kind of set": (SAVE, lambda one: one_set(one, set_type="HERE")),
    "a flag": (SAVE, lambda one: one_set(one, is_completed="HERE")),
    "an unknown field of a set": (SAVE, lambda one: one_set(one, anything="HERE")),
    "an unknown field of a batch": (IMPORT, lambda one: batch(one, anything="HERE")),
    "an unknown field of a result": (IMPORT, lambda one: batch(one, {"anything": "HERE"})),
    "the id of a result": (IMPORT, lambda one: batch(one, {"id": "HERE"})),
    "the account of a batch": (IMPORT, lambda one: batch(one, user_id="HERE")),
    "the metadata of a refresh": (ENQUEUE, lambda _: {"anything": "HERE"}),
    "a setting": (SETTINGS, lambda _: {"claim_budget_ms": "HERE"}),
}


@pytest.mark.parametrize("place", PLACES)
def test_no_value_grows_the_backend(database, app_account, place):
    statement, value = PLACES[place]
    identity = account(app_account.user_id) if statement == SAVE else service()
    # Under a mutation that is known: the receipt of an earlier release is compared by the text as it was sent.
    known = app_account.save()["mutation_id"]
    for here in (MANY, SMALL, DEEP):
        sent = value(app_account)
        if statement == SAVE and sent["mutation_id"] != "HERE":
            sent["mutation_id"] = known
        with writes_nothing(database):
            ended, grown = call(database, identity, statement, spliced(sent, here=here))
            assert ended[:5] in {"22023", "42501"}, ended
            assert len(ended) < 1000
            assert grown < ALLOWED_MB, f"{place}: {grown:.0f} MB, then {ended}"


def test_numbers_within_their_rules_print_nothing_large_either(database, app_account):
    sets = ",".join(
        ['{"weight_kg": 0e-16383, "reps": 0e-16383, "rpe": 1e-16383, "distance_m": 0e-16383}'] * 2000
    )
    payload = session(app_account, exercises="HERE")
    exercise = app_account.exercise()
    sent = spliced(payload, here=f'[{{"exercise_id": "{exercise}", "sets": [{sets}]}}]')
    for _ in range(2):  # the second time is compared with the receipt of the first
        ended, grown = call(database, account(app_account.user_id), SAVE, sent)
        assert (ended, grown < ALLOWED_MB) == ("answered", True), grown


def test_a_list_is_counted_before_it_is_read(database, app_account):
    many = "[" + ",".join(["0"] * 400_000) + "]"
    for exercises in (many, f'[{{"exercise_id": "squat", "sets": {many}}}]'):
        sent = spliced(session(app_account, exercises="HERE"), here=exercises)
        ended, grown = call(database, account(app_account.user_id), SAVE, sent)
        assert ended.startswith("22023 $.exercises: must have at most")
        assert grown < ALLOWED_MB, grown


ASK = "select public.enqueue_user_exercise_stats_refresh(:user, '2026-03-01', cast(:ids as text []), :reason)"


def test_a_hundred_requests_of_made_up_exercises_leave_one_small_row(database, app_account):
    for number in range(100):
        ids = [f"{number}-{one}-{'x' * 180}" for one in range(2000 if number % 2 else 600)]
        app_account.call(ASK, ids=ids, reason=f"{number}" + "y" * 400)

    [(ids, size)] = app_account.jobs("exercise_ids", "pg_column_size(exercise_ids)")
    assert (ids, size < 1000) == ([], True)
    [(reason, metadata)] = app_account.jobs("length(reason)", "length(metadata::text)")
    assert reason <= 2000
    assert metadata < 1000


def test_a_thousand_exercises_are_kept_and_one_more_stands_for_all(database, app_account):
    app_account.call(ASK, ids=[f"a{number:03}" for number in range(600)], reason="")
    app_account.call(ASK, ids=[f"b{number:03}" for number in range(400)], reason="")
    assert app_account.jobs("cardinality(exercise_ids)") == [(1000,)]
    app_account.call(ASK, ids=["a000"], reason="")
    assert app_account.jobs("cardinality(exercise_ids)") == [(1000,)]
    app_account.call(ASK, ids=["c"], reason="")
    assert app_account.jobs("cardinality(exercise_ids)") == [(0,)]


def test_a_claim_that_merges_more_than_a_thousand_takes_all(database, app_account, stages):
    for first in (0, 600):
        # Two pending rows, as an enqueuer leaves them that met an open claim.
        database.admin(
            "insert into public.user_exercise_stats_refresh_jobs"
            " (user_id, event_type, requested_version, exercise_ids)"
            " select :user, 'manual_refresh', :version, array_agg(n::text) from generate_series(:first, :last) n",
            user=app_account.user_id,
            version=first // 600 + 1,
            first=first,
            last=first + 599,
        )
    database.admin(
        "insert into public.user_stats_refresh_state (user_id, requested_version, applied_policy_version)"
        " values (:user, 2, 1)",
        user=app_account.user_id,
    )
    assert stages.claim()["response"] == "claimed"
    assert database.admin("select exercise_ids from public.user_stats_projection_runs") == [([],)]


def test_metadata_of_many_events_stays_small(database, app_account):
    for number in range(40):
        database.as_service().value(
            ENQUEUE.replace("gen_random_uuid()", ":user"),
            user=app_account.user_id,
            sent=json.dumps({f"key {number}": "x" * 1000}),
        )

    [(metadata,)] = app_account.jobs("metadata")
    assert len(json.dumps(metadata)) < 20_000
    assert metadata["merge_count"] == 39


def test_what_the_service_enqueues_is_bounded(database):
    enqueue = (
        "select public.enqueue_user_exercise_stats_refresh_job(:user, null, cast(:ids as text []),"
        " 'manual_refresh', :source_ref, :reason, cast(:metadata as jsonb))"
    )
    right = {"user": uuid.uuid4(), "ids": [], "source_ref": "", "reason": "", "metadata": "{}"}
    for given, message in [
        ({"ids": ["x" * 201]}, "exercise_ids: must have at most 200 characters each"),
        ({"source_ref": "x" * 501}, "source_ref: must have at most 500 characters"),
        ({"reason": "x" * 2001}, "reason: must have at most 2000 characters"),
        ({"metadata": json.dumps({"x": "y" * 8192})}, "metadata: must be at most 8 kB"),
        ({"metadata": '{"x": ' + "[" * 60 + "]" * 60 + "}"}, "metadata: must be nested in at most 50 levels"),
    ]:
        with writes_nothing(database), refused("22023", message):
            database.as_service().value(enqueue, **{**right, **given})


def test_texts_as_arguments_are_bounded(database):
    one = AppAccount(database)
    set_pr = (
        "select public.set_manual_pr_v1(:exercise, 150, '2026-03-10', 'manual', :user, gen_random_uuid())"
    )
    with refused("22023", "exercise_id: must have at most 200 characters"):
        one.call(set_pr, exercise="x" * 201)
    with refused("22023", "$.exercises[0].exercise_id: must have at most 200 characters"):
        one.save({"exercise_id": "x" * 201, "sets": []})
