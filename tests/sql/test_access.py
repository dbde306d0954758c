"""Who may do what: the catalog of a migrated database against the manifest below, in both directions."""

import uuid

import pytest
from sqlalchemy.exc import DBAPIError

AUTHENTICATED = {
    "archive_exercise_v1(text,uuid)",
    "delete_completed_session_v4(json)",
    "delete_completed_session_v4(jsonb)",
    "delete_completed_session_v4(text)",
    "delete_completed_session_v4(uuid)",
    "delete_manual_pr_v1(uuid,uuid,uuid)",
    "delete_session_v5(uuid,uuid,uuid)",
    "import_exercise_v1(text,text,text,boolean,uuid)",
    "import_exercises_v1(text,jsonb,uuid)",
    "imported_workouts_v1(text,uuid)",
    "remember_imported_workouts_v1(text,jsonb,uuid)",
    "take_import_turn_v1(boolean,uuid)",
    "resolve_external_exercise_v1(text,text,text,text,uuid)",
    "save_imported_session_v1(jsonb,jsonb)",
    *(f"save_session_v5({sent})" for sent in ("json", "jsonb", "text")),
    *(f"save_workout_v4({sent})" for sent in ("json", "jsonb", "text")),
    "set_manual_pr_v1(text,numeric,date,text,uuid,uuid)",
    *(f"update_completed_session_v4({sent})" for sent in ("json", "jsonb", "text")),
    *(f"update_completed_session_v4(uuid,{sent})" for sent in ("json", "jsonb", "text")),
    "upsert_exercise_v1(text,text,uuid,text,boolean)",
}
BOTH = {
    # For the own account; service and administrators may name one.
    "enqueue_user_exercise_stats_refresh(uuid,date,text[],text)",
    "get_calendar_month(date,uuid)",
    "get_home_overview(date,uuid)",
    "get_pr_detail(text,date,uuid)",
    "get_pr_overview(date,uuid)",
    "get_volume_overview(date,text,uuid)",
    # For service and administrators: the functions themselves refuse anybody else.
    *(f"import_wodup_batch_to_canonical({sent})" for sent in ("json", "jsonb", "text")),
    "pause_stats_stages_v1(text[],boolean)",
    "process_user_exercise_stats_refresh_jobs(integer,boolean,text)",
    "process_user_exercise_stats_refresh_jobs_for_user(uuid,integer,boolean,text)",
    "refresh_stats_now_v1(uuid)",
    "stats_account_freshness_v1(uuid)",
    "stats_account_standing_v1(uuid)",
    "stats_accounts_v1(uuid,integer)",
    "stats_cron_history_v1(text,boolean,integer)",
    "stats_projection_jobs_v1(text[],integer)",
    "stats_projection_resume_job_v1(uuid)",
    "stats_projection_settings_v1()",
    "stats_projection_worker_status_v1()",
    "update_stats_projection_policy_v1(text,integer,integer)",
    *(f"update_stats_projection_settings_v1({sent})" for sent in ("json", "jsonb", "text")),
    "validate_user_exercise_stats_integrity(uuid)",
}
SERVICE = {
    "delete_account_v1(uuid)",
    "enqueue_stale_user_exercise_stats_refresh_jobs(integer)",
    *(
        f"enqueue_user_exercise_stats_refresh_job(uuid,date,text[],text,text,text,{sent},integer,boolean)"
        for sent in ("json", "jsonb", "text")
    ),
    "purge_stats_history_v1(integer)",
    "record_stats_cron_run_v1(text,text,text,text,jsonb,text,timestamp with time zone)",
    "refresh_user_exercise_stats_from(uuid,date,text[])",
    "refresh_user_pr_overview_snapshot_window(uuid)",
    "run_stats_catalog_walk_v1(integer)",
    "run_user_exercise_stats_backfill_scan_cron(integer)",
    "run_user_pr_overview_rollover_v1(integer)",
    "stats_projection_claim_v1(text)",
    "stats_projection_compute_v1(uuid,uuid,integer)",
    "stats_projection_publish_v1(uuid,uuid)",
    "stats_projection_statement_budget_v1(text)",
    "stats_refresh_release_v1()",
    "stats_try_beat_lock_v1(text)",
}
FUNCTIONS = {
    **{name: {"authenticated"} for name in AUTHENTICATED},
    **{name: {"authenticated", "service_role"} for name in BOTH},
    **{name: {"service_role"} for name in SERVICE},
}
OWN_ROWS = {
    "exercises",
    "exercise_external_mappings",
    "workout_sessions",
    "session_exercise_part",
    "session_sets",
    "user_manual_pr_records",
}
"""What an account may read, its own rows of it; nobody but the owner's functions writes any table."""

GUARDED_BY_THEMSELVES = {
    "import_wodup_batch_to_canonical": "cast('{}' as jsonb)",
    "pause_stats_stages_v1": "array['claim'], true",
    "process_user_exercise_stats_refresh_jobs": "",
    "process_user_exercise_stats_refresh_jobs_for_user": "gen_random_uuid()",
    "refresh_stats_now_v1": "gen_random_uuid()",
    "stats_account_freshness_v1": "gen_random_uuid()",
    "stats_account_standing_v1": "gen_random_uuid()",
    "stats_accounts_v1": "",
    "stats_cron_history_v1": "",
    "stats_projection_jobs_v1": "",
    "stats_projection_resume_job_v1": "gen_random_uuid()",
    "stats_projection_settings_v1": "",
    "stats_projection_worker_status_v1": "",
    "update_stats_projection_policy_v1": "'epley', 12, 1",
    "update_stats_projection_settings_v1": "cast('{}' as jsonb)",
    "validate_user_exercise_stats_integrity": "gen_random_uuid()",
    "get_calendar_month": "'2026-03-01', gen_random_uuid()",
    "get_home_overview": "'2026-03-01', gen_random_uuid()",
    "get_pr_detail": "'squat', '2026-03-01', gen_random_uuid()",
    "get_pr_overview": "'2026-03-01', gen_random_uuid()",
    "get_volume_overview": "'2026-03-01', 'week', gen_random_uuid()",
    "enqueue_user_exercise_stats_refresh": "gen_random_uuid(), null, '{}', ''",
}
"""Each function of BOTH with the arguments of a call that an ordinary account must not make."""

SEARCH_PATH = "search_path=pg_catalog, pg_temp"
BY_INDEX = {"enable_seqscan=off", "jit=off"}
PLANNED_ONCE = "plan_cache_mode=force_generic_plan"
OTHER_SETTINGS = {
    "stats_projection_claim_v1(text)": {"enable_sort=off", "enable_bitmapscan=off", *BY_INDEX},
    "stats_projection_compute_v1(uuid,uuid,integer)": {PLANNED_ONCE, *BY_INDEX},
    "stats_projection_publish_v1(uuid,uuid)": {
        PLANNED_ONCE,
        "enable_hashjoin=off",
        "enable_mergejoin=off",
        *BY_INDEX,
    },
}
"""What a function sets besides its search_path: planner settings alone, none that lifts a restriction."""

FUNCTION_RIGHTS = """
select p.oid::regprocedure::text,
    array(
        select case a.grantee when 0 then 'public' else a.grantee::regrole::text end
        from pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) a
        where a.grantee <> p.proowner
    )
from pg_catalog.pg_proc p
where p.pronamespace = cast(:schema as regnamespace)
"""
TABLE_RIGHTS = """
select c.relname::text, a.grantee::regrole::text, pg_catalog.lower(a.privilege_type)
from pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
where c.relnamespace = cast(:schema as regnamespace) and c.relkind in ('r', 'v', 'S')
    and a.grantee <> c.relowner
"""


def test_exactly_the_listed_roles_execute_exactly_the_listed_functions(database):
    found = {name: set(roles) for name, roles in database.admin(FUNCTION_RIGHTS, schema="public")}

    assert found == FUNCTIONS


def test_nobody_executes_a_private_function(database):
    found = database.admin(FUNCTION_RIGHTS, schema="stats_private")

    assert len(found) > 20
    assert [name for name, roles in found if roles] == []
    for role in ("public", "anon", "authenticated", "service_role"):
        assert not database.admin(
            "select from pg_catalog.pg_namespace n, pg_catalog.aclexplode(n.nspacl) a where n.nspname = 'stats_private'"
            " and case a.grantee when 0 then 'public' else a.grantee::regrole::text end = :role",
            role=role,
        )


def test_every_api_function_runs_as_the_owner_with_a_search_path_of_its_own(database):
    rows = database.admin(
        "select p.oid::regprocedure::text, p.prosecdef, p.proowner::regrole::text, p.proconfig"
        " from pg_catalog.pg_proc p where p.prosecdef or p.pronamespace = 'public'::regnamespace"
    )

    assert {name for name, *_ in rows} >= set(FUNCTIONS)
    assert [row for row in rows if row[1:3] != (True, "stats_refresh_owner")] == []
    configurations = {name: set(configuration or []) for name, _, _, configuration in rows}
    assert [name for name, found in configurations.items() if SEARCH_PATH not in found] == []
    assert {
        name: found - {SEARCH_PATH} for name, found in configurations.items() if found != {SEARCH_PATH}
    } == OTHER_SETTINGS


def test_accounts_read_their_own_rows_and_the_service_reads_all_and_neither_writes(database):
    rights = database.admin(TABLE_RIGHTS, schema="public")
    tables = {
        name
        for [name] in database.admin(
            "select relname::text from pg_catalog.pg_class"
            " where relnamespace = 'public'::regnamespace and relkind = 'r'"
        )
    }

    assert {name for name, role, _ in rights if role == "authenticated"} == OWN_ROWS
    assert {name for name, role, _ in rights if role == "service_role"} == tables
    assert {right for *_, right in rights} == {"select"}
    assert {role for _, role, _ in rights} == {"authenticated", "service_role"}
    assert database.admin(TABLE_RIGHTS, schema="stats_private") == []


def test_every_table_that_accounts_read_has_row_security(database):
    rows = database.admin(
        "select relname::text from pg_catalog.pg_class where relrowsecurity and relkind = 'r'"
    )

    assert {name for [name] in rows} == OWN_ROWS


@pytest.mark.parametrize("table", sorted(OWN_ROWS))
def test_no_api_role_writes_a_canonical_table(database, app_account, table):
    app_account.save()
    for caller in (database.as_account(app_account.user_id), database.as_service()):
        for statement in (
            f"insert into public.{table} default values",
            f"delete from public.{table}",
            f"truncate public.{table}",
        ):
            assert _sqlstate(caller, statement) == "42501", statement


def test_anonymous_callers_reach_nothing(database):
    statements = [
        "select public.save_session_v5('{}')",
        "select public.get_pr_overview('2026-03-01')",
        "select * from public.exercises",
        "select stats_private.is_service()",
    ]
    for statement in statements:
        with database.engine.connect() as connection:
            connection.exec_driver_sql("set local role anon")
            with pytest.raises(DBAPIError) as caught:
                connection.exec_driver_sql(statement)
        assert caught.value.orig.pgcode == "42501", statement


def test_what_both_may_call_refuses_an_ordinary_account_by_itself(database):
    caller = database.as_account(uuid.uuid4())

    assert set(GUARDED_BY_THEMSELVES) == {name.partition("(")[0] for name in BOTH}
    for name, arguments in GUARDED_BY_THEMSELVES.items():
        assert _sqlstate(caller, f"select public.{name}({arguments})") == "42501", name


def _sqlstate(caller, statement):
    with pytest.raises(DBAPIError) as caught:
        caller(statement)
    return caught.value.orig.pgcode
