"""Contention is no failure: a stage that meets it keeps its work, gives its slot away and comes back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from maintenance.scene import write_lock
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount
from support.races import DEADLINE

from sql.migrate import migrate
from tasks.pipeline import COMPUTE, PUBLISH
from tasks.transaction import run_stage, service, transaction

from .scene import (
    HEADERS,
    OUTPUT,
    READ_MODELS,
    admin_session,
    answer_of,
    assert_converges,
    change_settings,
    end_waits,
    expire_lease,
    on_insert,
    outcome,
    picture,
    run_row,
    session,
    start_compute,
    start_publish,
    undo_on_insert,
    wait_until_blocked_or_done,
    wait_until_waiting,
)

STAGES = pytest.mark.parametrize("stage", ["compute", "publish"])
INSIDE = {"compute": OUTPUT, "publish": HEADERS}
START = {"compute": start_compute, "publish": start_publish}
JOBS = "public.user_exercise_stats_refresh_jobs"


def ready(account, stages, stage):
    """Return a run that is to be computed, or one that is to be published."""
    account.save()
    run = stages.claim()
    if stage == "publish":
        assert stages.compute(run)["response"] == "computed"
    return run


def as_a_worker(database, stage, run):
    """Run the stage as a task does, its budget armed."""
    arguments = {"run_id": run["run_id"], "lease_token": run["lease_token"], "expected_offset": None}
    return run_stage(
        database.engine, stage, COMPUTE if stage == "compute" else PUBLISH, arguments, lambda answer: None
    )


def assert_waits(database, account, run, answer, sqlstate, phase):
    assert (answer["response"], answer["sqlstate"]) == ("busy", sqlstate)
    assert run_row(database, run, "phase", "attempts", "lease_until > retry_not_before") == (phase, 1, True)
    assert account.jobs("status", "attempts") == [("processing", 1)]


# ---------------------------------------------------------------- what counts as contention


@STAGES
@pytest.mark.parametrize("sqlstate", ["55P03", "40001", "40P01"])
def test_contention_costs_no_attempt_and_no_finished_work(database, app_account, stages, stage, sqlstate):
    run = ready(app_account, stages, stage)
    outputs = picture(database, (OUTPUT,))
    on_insert(database, INSIDE[stage], f"raise exception using errcode = '{sqlstate}', message = 'held';")
    answer = getattr(stages, stage)(run)
    undo_on_insert(database, INSIDE[stage])

    assert_waits(
        database, app_account, run, answer, sqlstate, "claimed" if stage == "compute" else "computed"
    )
    assert picture(database, (OUTPUT,)) == outputs
    assert getattr(stages, stage)(run) == {"response": "idle"}, "it comes back through claim"
    end_waits(database)
    resumed = stages.claim()
    assert (resumed["run_id"], resumed["lease_token"]) == (run["run_id"], run["lease_token"])
    assert resumed["phase"] == run_row(database, run, "phase")[0]
    if stage == "compute":
        assert stages.compute(resumed)["response"] == "computed"
    assert stages.publish(resumed)["response"] == "published"
    assert app_account.jobs("status", "attempts") == [("completed", 1)]
    assert_converges(stages, app_account)


@STAGES
def test_the_fences_refusal_is_none(database, app_account, stages, stage):
    run = ready(app_account, stages, stage)
    on_insert(
        database,
        INSIDE[stage],
        "raise exception using errcode = '55P03', constraint = 'stats_projection_run_lease_fence_v1',"
        " message = 'leased';",
    )
    answer = getattr(stages, stage)(run)
    assert (answer["response"], answer["sqlstate"]) == ("failed", "55P03")


@pytest.mark.parametrize("end", ["failed", "invalidated", "rejected"])
def test_an_end_that_cannot_be_recorded_is_put_off(database, app_account, stages, end):
    """Somebody holds the run's job: it is neither waited for nor raised, which would leave the run to its lease."""
    run = ready(app_account, stages, stage := "publish" if end == "rejected" else "compute")
    if end == "failed":
        on_insert(database, OUTPUT, "raise exception 'sabotage';")
    elif end == "invalidated":
        database.admin("update public.stats_projection_policy set policy_version = policy_version + 1")
    else:
        database.admin("update public.user_stats_refresh_state set applied_version = requested_version")
    with admin_session(database, "operator") as operator, session(database, "worker") as worker:
        operator.run(f"select id from {JOBS} for update")
        answer = START[stage](worker, run)
        wait_until_blocked_or_done(database, worker, answer)
        assert answer.done(), "a stage waits for no job row to record its end"
        assert outcome(answer)["response"] == "busy"
        worker.commit()
    end_waits(database)
    assert getattr(stages, stage)(stages.claim())["response"] == end


# ---------------------------------------------------------------- a writer that does not finish


def test_a_writer_that_holds_its_account_and_rolls_back_leaves_no_exhausted_job(
    database, app_account, stages
):
    """More publications give up on it than the attempts that the job has."""
    change_settings(database, publish_budget_ms=400, max_attempts=2)
    run = ready(app_account, stages, "publish")
    before = picture(database, READ_MODELS)
    waits = []
    with admin_session(database, "writer") as writer:
        write_lock(writer, app_account)
        answer = as_a_worker(database, "publish", run)
        assert_waits(database, app_account, run, answer, "55P03", "computed")
        for _ in range(6):
            waits += run_row(database, run, "retry_not_before - updated_at")
            end_waits(database)
            # It finds the account held, and is not even given a slot.
            answer = stages.claim()
            assert (answer["response"], "retry_not_before" in answer) == ("idle", True)
        assert run_row(database, run, "busy_waits", "retry_not_before > clock_timestamp()") == (7, True)
        assert picture(database, READ_MODELS) == before
    assert [round(wait / timedelta(seconds=1)) for wait in waits] == [1, 2, 4, 8, 16, 30]
    end_waits(database)
    assert as_a_worker(database, "publish", stages.claim())["response"] == "published"
    assert app_account.jobs("status", "attempts") == [("completed", 1)]
    assert_converges(stages, app_account)


def test_a_run_that_waits_leaves_its_slot_to_others_and_comes_back_under_the_cap(
    database, app_account, stages
):
    change_settings(database, publish_budget_ms=400, active_lease_cap=1)
    run = ready(app_account, stages, "publish")
    other = AppAccount(database)
    other.save()
    with admin_session(database, "writer") as writer:
        write_lock(writer, app_account)
        assert as_a_worker(database, "publish", run)["response"] == "busy"
        taken = stages.claim()
    assert taken.get("user_id") == str(other.user_id)
    end_waits(database)
    assert stages.claim() == {"response": "at_capacity"}
    stages.compute(taken)
    another = AppAccount(database)
    another.save()
    stages.publish(taken)
    assert stages.claim().get("run_id") == run["run_id"], "before anything new"
    assert stages.publish(run)["response"] == "published"


def test_a_run_that_waits_loses_no_attempt_when_its_lease_runs_out(database, app_account, stages):
    run = ready(app_account, stages, "publish")
    on_insert(database, HEADERS, "raise exception using errcode = '55P03', message = 'held';")
    assert stages.publish(run)["response"] == "busy"
    undo_on_insert(database, HEADERS)
    expire_lease(database, run)
    assert stages.claim() == {"response": "idle"}
    end_waits(database)
    expire_lease(database, run)
    assert stages.claim().get("run_id") == run["run_id"]
    assert run_row(database, run, "phase", "attempts", "lease_until > clock_timestamp()") == (
        "computed",
        1,
        True,
    )
    assert stages.publish(run)["response"] == "published"


def test_many_accounts_that_others_hold_keep_no_slot_from_the_rest(database, stages):
    change_settings(database, publish_budget_ms=200, active_lease_cap=1)
    held = [AppAccount(database) for _ in range(4)]
    with admin_session(database, "writer") as writer:
        for account in held:
            run = ready(account, stages, "publish")
            write_lock(writer, account)
            assert as_a_worker(database, "publish", run)["response"] == "busy"
        free = AppAccount(database)
        free.save()
        end_waits(database)
        run = stages.claim()
        assert run.get("user_id") == str(free.user_id)
        stages.compute(run)
        assert stages.publish(run)["response"] == "published"


def test_what_a_save_adds_while_the_run_waits_stands_out_of_the_way(database, app_account, stages):
    run = ready(app_account, stages, "publish")
    app_account.save()
    on_insert(database, HEADERS, "raise exception using errcode = '55P03', message = 'held';")
    assert stages.publish(run)["response"] == "busy"
    undo_on_insert(database, HEADERS)
    assert app_account.jobs("status", "retry_not_before > clock_timestamp()") == [
        ("processing", None),
        ("pending", True),
    ]
    assert_converges(stages, app_account)


def test_a_success_begins_the_waits_anew(database, app_account, stages):
    run = ready(app_account, stages, "compute")
    on_insert(database, OUTPUT, "raise exception using errcode = '55P03', message = 'held';")
    for waits in (1, 2):
        assert stages.compute(run)["busy_waits"] == waits
        end_waits(database)
        run = stages.claim()
    undo_on_insert(database, OUTPUT)
    stages.compute(run)
    assert run_row(database, run, "busy_waits", "busy_since") == (0, None)


@pytest.mark.parametrize("table", [JOBS, "public.user_calendar_day_summaries"])
def test_a_publication_waits_for_no_row_longer_than_its_lock_timeout(database, app_account, stages, table):
    app_account.save()
    stages.drain()
    app_account.save(app_account.block("Squat", (120, 5)))
    run = stages.claim()
    stages.compute(run)
    change_settings(database, publish_budget_ms=400)
    with admin_session(database, "operator") as operator:
        operator.run(f"select user_id from {table} for update")
        assert as_a_worker(database, "publish", run)["response"] == "busy"
    change_settings(database, publish_budget_ms=6000)
    assert app_account.jobs("attempts") == [(1,), (1,)]
    assert_converges(stages, app_account)


# ---------------------------------------------------------------- isolation


def set_default(database, setting, value):
    """Let every new connection to the database begin with the setting."""
    database.admin(
        "do $$ begin execute format('alter database %I set "
        f"{setting} = %L', current_database(), '{value}'); end $$"
    )
    database.engine.dispose()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_stages_run_read_committed_whatever_the_default_is(database, app_account, stages, level):
    set_default(database, "default_transaction_isolation", level)
    assert database.admin("show transaction_isolation") == [(level,)]
    with transaction(database.engine, service()) as connection:
        assert connection.scalar(text("show transaction_isolation")) == "read committed"
    # A publication waits for a writer, and then has to see what it committed.
    run = ready(app_account, stages, "publish")
    with ThreadPoolExecutor(1) as worker, admin_session(database, "writer") as writer:
        write_lock(writer, app_account)
        publishing = worker.submit(stages.publish, run)
        wait_until_waiting(database, 1)
        writer.run("update public.user_stats_refresh_state set requested_version = requested_version + 1")
        writer.commit()
        assert publishing.result(DEADLINE)["response"] == "published"
    app_account.save()
    assert_converges(stages, app_account)


REFUSING = [
    "public.stats_projection_claim_v1('sql')",
    "public.stats_projection_compute_v1()",
    "public.stats_projection_publish_v1()",
    "public.run_user_pr_overview_rollover_v1()",
    "public.run_stats_catalog_walk_v1()",
    "public.run_user_exercise_stats_backfill_scan_cron()",
    "public.purge_stats_history_v1()",
]


@pytest.mark.parametrize("call", REFUSING)
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_stage_or_page_at_another_level_refuses_and_says_what_to_do(database, call, level):
    with database.admin_engine.connect() as connection:
        connection.execute(text(f"set transaction isolation level {level}"))
        with pytest.raises(DBAPIError) as error:
            connection.execute(text(f"select {call}"))
    diagnostics = error.value.orig.diag
    assert diagnostics.sqlstate == "25000"
    assert level.upper() in diagnostics.message_primary
    assert "BEGIN ISOLATION LEVEL READ COMMITTED" in diagnostics.message_hint


def test_a_refresh_at_once_at_another_level_is_left_to_the_workers(database, app_account, stages):
    app_account.save()
    with database.admin_engine.begin() as connection:
        connection.execute(text("set transaction isolation level repeatable read"))
        answer = connection.scalar(
            text("select stats_private.refresh_at_once(:user, true, 'test')"), {"user": app_account.user_id}
        )
    assert answer == {"response": "deferred", "reason": "isolation"}
    assert app_account.jobs("status") == [("pending",)]
    assert_converges(stages, app_account)


def test_a_migration_that_waited_for_another_sees_what_that_one_did(database):
    set_default(database, "default_transaction_isolation", "repeatable read")
    with ThreadPoolExecutor(1) as second, admin_session(database, "first") as first:
        first.run(
            "select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('stats-refresh:migrate', 0))"
        )
        migrating = second.submit(migrate, database.admin_engine)
        wait_until_waiting(database, 1)
        first.run("update stats_private.applied_sql_files set sha256 = '' where name = 'numbers/e1rm.sql'")
        first.commit()
        assert "numbers/e1rm.sql" in migrating.result(DEADLINE).functions


def test_a_refresh_at_once_that_meets_a_lock_is_left_to_the_workers(database, app_account, stages):
    """Before it has a run that could wait: nothing is recorded as failed."""
    app_account.save()
    on_insert(
        database,
        "public.user_stats_projection_runs",
        "raise exception using errcode = '55P03', message = 'held';",
    )
    answer = database.as_service().value(
        "select public.refresh_stats_now_v1(:user)", user=app_account.user_id
    )
    assert (answer["response"], answer.get("reason")) == ("deferred", "busy")
    undo_on_insert(database, "public.user_stats_projection_runs")
    assert_converges(stages, app_account)


# ---------------------------------------------------------------- transaction_timeout


@STAGES
def test_a_transaction_timeout_of_the_database_ends_no_stage(database, app_account, stages, stage):
    [[known]] = database.admin("select current_setting('transaction_timeout', true) is not null")
    run = ready(app_account, stages, stage)
    on_insert(database, INSIDE[stage], "perform pg_catalog.pg_sleep(0.6);")
    if known:
        set_default(database, "transaction_timeout", "300ms")
    answer = answer_of(as_a_worker, database, stage, run)
    assert answer.get("response") == {"compute": "computed", "publish": "published"}[stage]
