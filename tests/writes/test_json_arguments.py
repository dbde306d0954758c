"""A function that takes jsonb takes json too, and what has no type, whatever a driver makes of a document."""

from __future__ import annotations

import json
import uuid

import pytest
from sqlalchemy import text

from tasks.transaction import account
from writes.refusals import refused, writes_nothing

SPELLINGS = {
    "json": "cast(:sent as json)",
    "jsonb": "cast(:sent as jsonb)",
    "text": "cast(:sent as text)",
    "no type": ":sent",
}
ENQUEUE = (
    "select public.enqueue_user_exercise_stats_refresh_job(:user, null, '{}', 'manual_refresh', '', '', "
)
WITHOUT_SISTERS = {
    "record_stats_cron_run_v1",
    "import_exercises_v1",
    "remember_imported_workouts_v1",
    "save_imported_session_v1",
}
"""Called by the workers alone, and by our own command of import."""


@pytest.mark.parametrize("sent", SPELLINGS)
def test_every_spelling_of_a_document_saves_it(database, app_account, sent):
    payload = json.dumps(app_account.payload())
    receipt = app_account.call(f"select public.save_session_v5({SPELLINGS[sent]})", sent=payload)
    named = app_account.call(
        "select public.save_session_v5(p_payload => cast(:sent as jsonb))", sent=payload.replace(": ", ":  ")
    )

    assert receipt["replayed"] is False
    assert named == {**receipt, "replayed": True}


@pytest.mark.parametrize("sent", SPELLINGS)
def test_every_spelling_reaches_the_services_functions(database, app_account, sent):
    service, value = database.as_service(), SPELLINGS[sent]
    batch = {"user_id": str(app_account.user_id), "movements": [], "days": []}
    statement = f"select public.import_wodup_batch_to_canonical({value})"
    assert service.value(statement, sent=json.dumps(batch))["refresh"] == "not_needed"
    changes = '{"batch_size": 50}'
    statement = f"select public.update_stats_projection_settings_v1({value})"
    assert service.value(statement, sent=changes)["batch_size"] == 50
    assert service.value(f"{ENQUEUE}{value})", user=app_account.user_id, sent='{"a": 1}') == 1
    assert app_account.jobs("metadata -> 'a'") == [(1,)]


def test_a_literal_without_a_type_and_a_call_by_names_are_not_ambiguous(database, app_account):
    payload = json.dumps(app_account.payload()).replace(":", r"\:")
    assert app_account.call(f"select public.save_session_v5('{payload}')")["replayed"] is False
    assert app_account.call(f"select public.save_session_v5(p_payload => '{payload}')")["replayed"] is True


@pytest.mark.parametrize("sent", SPELLINGS)
def test_a_parameter_whose_type_the_server_finds_is_one_document(database, app_account, sent):
    """As asyncpg and pgx ask: a prepared statement whose parameter has no type of its own."""
    payload = json.dumps(app_account.payload())
    value = SPELLINGS[sent].replace(":sent", "$1")
    with database.engine.begin() as connection:
        who = account(app_account.user_id)
        connection.execute(
            text("select set_config('role', :role, true), set_config('request.jwt.claims', :claims, true)"),
            {"role": who.role, "claims": who.claims},
        )
        connection.exec_driver_sql(f"prepare a_save as select public.save_session_v5({value})")
        try:
            [[receipt]] = connection.exec_driver_sql("execute a_save(%s)", (payload,))
        finally:
            connection.exec_driver_sql("deallocate a_save")
    assert receipt["operation"] == "session_created"


def test_every_public_function_that_takes_jsonb_has_its_sisters(database):
    rows = database.admin(
        "select p.proname::text, pg_catalog.oidvectortypes(p.proargtypes) from pg_catalog.pg_proc p"
        " where p.pronamespace = 'public'::regnamespace"
    )
    functions = {(name, arguments) for name, arguments in rows}
    with_jsonb = [(name, arguments) for name, arguments in functions if "jsonb" in arguments]

    assert len(with_jsonb) > 5
    assert {name for name, _ in with_jsonb} >= WITHOUT_SISTERS
    for name, arguments in with_jsonb:
        if name not in WITHOUT_SISTERS:
            for sent in ("json", "text"):
                assert (name, arguments.replace("jsonb", sent)) in functions


def test_a_call_by_names_has_one_function_to_mean(database):
    """PostgREST picks by the names of the arguments, and refuses where two functions fit."""
    rows = database.admin(
        "select p.proname::text, p.proargnames, p.pronargs, p.pronargdefaults from pg_catalog.pg_proc p"
        " where p.pronamespace = 'public'::regnamespace"
    )
    seen: dict[str, list[tuple]] = {}
    for name, arguments, count, defaults in rows:
        names = (arguments or [])[:count]
        if all(names) and names:
            seen.setdefault(name, []).append((set(names[: count - defaults]), set(names)))
    for name, signatures in seen.items():
        for required, _ in signatures:
            fitting = [one for one in signatures if one[0] <= required <= one[1]]
            assert len(fitting) == 1, name


def test_what_is_no_json_or_too_long_to_be_any_is_refused(database, app_account):
    app_account.exercise()
    with writes_nothing(database):
        with refused("22P02"):
            app_account.call("select public.save_session_v5(:sent)", sent="{")
        for sent in ("json", "text"):
            with refused("22023", "$: must be at most 2 MB"):
                app_account.call(
                    f"select public.save_session_v5({SPELLINGS[sent]})", sent='"' + "x" * 17_000_000 + '"'
                )
        for sent in SPELLINGS.values():
            other = json.dumps({**app_account.payload(), "expected_user_id": str(uuid.uuid4())})
            with refused("42501"):
                app_account.call(f"select public.save_session_v5({sent})", sent=other)
