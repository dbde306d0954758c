"""The refresh that a person asks for, and the one after an import: at once, or a request that stands."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from reckoning.compare import assert_account_equals_reckoning
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount
from support.races import session, wait_until_blocked

REFRESH = "select public.refresh_stats_now_v1(:account)"
IMPORT = "select public.import_wodup_batch_to_canonical(cast(:batch as jsonb))"
SETTINGS = "update public.stats_projection_worker_settings set "


@pytest.fixture
def refresh(database, app_account):
    return lambda: database.as_service().value(REFRESH, account=app_account.user_id)


@pytest.fixture
def batch(app_account):
    """A batch of one session of Squat and one of Row."""
    result = {"doneOn": "2026-03-09", "sets": []}
    squat = {"movementId": "squat", "load": 100, "loadUnit": "kg", "reps": 5}
    row = {"movementId": "row", "distanceMeters": 2000, "durationSeconds": 480}
    results = [result | {"id": 1, "sets": [squat]}, result | {"id": 2, "sets": [row]}]
    return json.dumps({"user_id": str(app_account.user_id), "movements": [], "days": [{"results": results}]})


@pytest.fixture
def imported(database, batch):
    return lambda: database.as_service().value(IMPORT, batch=batch)


@pytest.fixture
def settle(database, stages, app_account):
    """Let the workers finish; then nothing waits and the account equals the reckoning."""

    def settle():
        stages.drain()
        assert_published(database, app_account)

    return settle


def assert_published(database, app_account):
    requested, applied = app_account.state()
    assert requested == applied > 0
    with database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection, app_account.user_id)


def sessions_of(database, app_account):
    [[count]] = database.admin(
        "select count(*) from public.workout_sessions where user_id = :user", user=app_account.user_id
    )
    return count


def hold_worker_lock(worker, app_account):
    """Take what a worker holds while it claims or refreshes the account."""
    worker.run(
        "select pg_advisory_xact_lock(hashtextextended('stats-refresh:worker:' || :user, 0))",
        user=str(app_account.user_id),
    )


def break_inserts(database, table, instead="raise exception 'the disk is full'"):
    """Let every insert into `table` do `instead`."""
    database.admin(
        "create function public.broken() returns trigger language plpgsql as"
        f" $$ begin {instead}; return new; end $$"
    )
    database.admin(f"create trigger broken before insert on {table} execute function public.broken()")


# --- who


def test_an_ordinary_account_may_not_refresh_itself_or_another(database, app_account):
    app_account.save()
    for caller in (app_account.user_id, uuid4()):
        with pytest.raises(DBAPIError) as refused:
            database.as_account(caller)(REFRESH, account=app_account.user_id)
        assert refused.value.orig.pgcode == "42501"
    assert app_account.state() == (1, 0)


def test_anonymous_callers_may_not(database, app_account):
    with database.engine.connect() as connection:
        connection.exec_driver_sql("set local role anon")
        with pytest.raises(DBAPIError) as refused:
            connection.exec_driver_sql(f"select public.refresh_stats_now_v1('{app_account.user_id}')")
    assert refused.value.orig.pgcode == "42501"


def test_an_administrator_may(database, app_account):
    app_account.save()

    answer = database.as_account(uuid4(), admin=True).value(REFRESH, account=app_account.user_id)

    assert answer["response"] == "published"
    assert_published(database, app_account)


def test_no_account_is_refused(database):
    with pytest.raises(DBAPIError, match="user_id: is required") as refused:
        database.as_service()(REFRESH, account=None)
    assert refused.value.orig.pgcode == "22023"


# --- at once


def test_it_publishes_what_waits_and_the_rest_of_the_history_too(database, app_account, refresh):
    app_account.save()
    refresh()
    app_account.save(session_date="2026-03-11")
    database.admin("delete from public.user_exercise_records")

    answer = refresh()

    assert (answer["response"], answer["statsRequestedVersion"]) == ("published", 4)
    assert answer["user_id"] == str(app_account.user_id)
    assert "lease_token" not in answer
    assert app_account.jobs("event_type", "status", "priority", "metadata ->> 'event_type'")[-1] == (
        "session_created",
        "completed",
        0,
        "manual_refresh",
    )
    assert_published(database, app_account)


def test_an_import_is_published_with_its_commit(database, app_account, imported):
    answer = imported()

    assert (answer["refresh"], answer["statsRequestedVersion"]) == ("published", 1)
    assert_published(database, app_account)
    assert imported()["refresh"] == "not_needed"


# --- deferred


def test_where_a_run_is_in_flight_the_request_stands(app_account, stages, refresh, settle):
    app_account.save()
    run = stages.claim()

    answer = refresh()

    assert (answer["response"], answer["reason"]) == ("deferred", "busy")
    assert app_account.jobs("status") == [("processing",), ("pending",)]
    stages.compute(run)
    stages.publish(run)
    assert app_account.state() == (2, 1)
    settle()


def test_where_a_run_is_in_flight_an_import_is_written_and_its_refresh_waits(
    database, app_account, stages, imported, settle
):
    app_account.save()
    stages.compute(stages.claim())

    assert imported()["refresh"] == "deferred"

    assert sessions_of(database, app_account) == 3
    assert stages.publish()["response"] == "published"
    assert app_account.state() == (2, 1)
    settle()


def test_where_somebody_holds_the_account_the_request_stands(database, app_account, refresh, settle):
    app_account.save()
    with session(database, "worker") as worker:
        hold_worker_lock(worker, app_account)
        assert refresh()["response"] == "deferred"
    assert app_account.jobs("status") == [("pending",)]
    settle()


def test_where_somebody_holds_the_account_an_import_neither_waits_nor_computes(
    database, app_account, imported, settle
):
    with session(database, "worker") as worker:
        hold_worker_lock(worker, app_account)
        assert imported()["refresh"] == "deferred"
    assert sessions_of(database, app_account) == 2
    settle()


def test_an_account_in_batches_is_claimed_and_left_to_the_compute_beat(
    database, app_account, stages, refresh
):
    database.admin(SETTINGS + "batch_size = 1")
    app_account.save(app_account.block("Squat", (100, 5)), app_account.block("Bench", (60, 5)))

    answer = refresh()

    assert (answer["response"], answer["reason"]) == ("deferred", "batches")
    assert app_account.jobs("status") == [("processing",)]
    finish_batches(stages)
    assert_published(database, app_account)


def test_an_import_that_needs_batches_is_written_and_left_to_the_compute_beat(
    database, app_account, stages, imported
):
    database.admin(SETTINGS + "batch_size = 1")

    assert imported()["refresh"] == "deferred"

    assert sessions_of(database, app_account) == 2
    finish_batches(stages)
    assert_published(database, app_account)


def finish_batches(stages):
    """Take the steps as the beats do, which know of no run and no token, and publish."""
    answers = []
    while (answer := stages.compute()["response"]) != "idle":
        answers.append(answer)
    assert answers == ["batch_pending"] * (len(answers) - 1) + ["computed"]
    assert stages.publish()["response"] == "published"


@pytest.mark.parametrize("stage", ["claim", "compute", "publish"])
def test_while_a_stage_is_paused_nothing_is_begun(database, app_account, refresh, imported, settle, stage):
    database.admin(SETTINGS + f"paused_stages = '{{{stage}}}'")

    answer = refresh()
    assert (answer["response"], answer["reason"]) == ("deferred", "paused")
    assert imported()["refresh"] == "deferred"

    assert app_account.jobs("status") == [("pending",)]
    database.admin(SETTINGS + "paused_stages = '{}'")
    settle()


# --- two at the same moment


def test_of_two_at_once_one_publishes_and_the_others_request_stands(database, app_account, settle):
    app_account.save()
    with session(database, "first") as first, session(database, "second") as second:
        published = first.run(REFRESH, account=app_account.user_id)
        waiting = second.start(REFRESH, account=app_account.user_id)
        wait_until_blocked(database, second, by=first)
        first.commit()
        deferred = waiting.result(20)
        second.commit()

    assert (published["response"], published["statsRequestedVersion"]) == ("published", 2)
    assert (deferred["response"], deferred["statsRequestedVersion"]) == ("deferred", 3)
    assert app_account.state() == (3, 2)
    settle()


def test_of_two_imports_at_once_one_saves_and_publishes(database, app_account, batch):
    with session(database, "first") as first, session(database, "second") as second:
        published = first.run(IMPORT, batch=batch)
        waiting = second.start(IMPORT, batch=batch)
        wait_until_blocked(database, second, by=first)
        first.commit()
        again = waiting.result(20)
        second.commit()

    assert (published["results_saved"], published["refresh"]) == (2, "published")
    assert (again["results_already_there"], again["refresh"]) == (2, "not_needed")
    assert_published(database, app_account)


def test_a_claim_passes_by_an_account_that_is_being_refreshed(database, app_account, stages):
    app_account.save()
    other = AppAccount(database)
    other.save()
    with session(database, "refresh") as refreshing:
        refreshing.run(REFRESH, account=app_account.user_id)

        assert stages.claim()["user_id"] == str(other.user_id)

        refreshing.commit()
    assert_published(database, app_account)


# --- failed


@pytest.mark.parametrize(
    ("table", "status"),
    [
        ("stats_private.stats_output_daily_rollups", "attempts = 1 and retry_not_before is not null"),
        ("public.user_exercise_daily_rollups", "attempts = 1 and retry_not_before is not null"),
        ("public.user_stats_projection_runs", "attempts = 0"),
    ],
    ids=["compute", "publish", "claim"],
)
def test_a_failing_refresh_leaves_what_was_imported(
    database, app_account, stages, imported, settle, table, status
):
    break_inserts(database, table)

    answer = imported()

    assert (answer["refresh"], answer["results_saved"]) == ("failed", 2)
    assert sessions_of(database, app_account) == 2
    assert app_account.state() == (1, 0)
    assert app_account.jobs("status", status) == [("pending", True)]
    assert database.admin("select count(*) from public.user_exercise_daily_rollups") == [(0,)]

    database.admin(f"drop trigger broken on {table}")
    database.admin("update public.user_exercise_stats_refresh_jobs set retry_not_before = null")
    settle()


def test_a_failing_refresh_says_why_and_its_request_waits(database, app_account, refresh, settle):
    app_account.save()
    break_inserts(database, "public.user_stats_projection_runs")

    answer = refresh()

    assert (answer["response"], answer["error"]) == ("failed", "the disk is full")
    assert answer["statsRequestedVersion"] == 2
    database.admin("drop trigger broken on public.user_stats_projection_runs")
    settle()


def test_a_refresh_that_runs_out_of_time_leaves_what_was_imported(database, app_account, batch, settle):
    table = "stats_private.stats_output_daily_rollups"
    break_inserts(database, table, instead="perform pg_advisory_xact_lock(1)")
    with session(database, "blocker") as blocker, session(database, "import") as importing:
        blocker.run("select pg_advisory_xact_lock(1)")
        importing.run("set local statement_timeout = '2s'")
        answer = importing.run(IMPORT, batch=batch)
        importing.commit()

    assert (answer["refresh"], answer["results_saved"]) == ("failed", 2)
    assert sessions_of(database, app_account) == 2
    database.admin(f"drop trigger broken on {table}")
    database.admin("update public.user_exercise_stats_refresh_jobs set retry_not_before = null")
    settle()
