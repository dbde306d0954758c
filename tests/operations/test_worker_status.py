"""What the worker status says, for each state that an operator has to tell apart."""

from __future__ import annotations

import uuid

import pytest
from batches.scene import Account, claim_run, publish, set_settings
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount


@pytest.fixture
def status(database):
    return lambda: database.as_service().value("select public.stats_projection_worker_status_v1()")


def test_an_empty_system(status):
    found = status()
    nobody = {"users": 0, "jobs": 0}
    no_timings = {"count": 0, "p50": None, "p95": None, "max": None}
    assert found["jobs"] == {
        "pending_users": 0,
        "pending": 0,
        "pending_by_priority": {"0": nobody, "1": nobody},
        "backing_off": 0,
        "processing": 0,
        "exhausted": 0,
        "oldest_wait_seconds": None,
    }
    assert found["leases"] == {
        "active": 0,
        "expired": 0,
        "backing_off": 0,
        "busy": 0,
        "longest_busy_seconds": None,
    }
    assert found["last_hour"] == {
        "completed": 0,
        "failed": 0,
        "invalidated": 0,
        "rejected": 0,
        "compute_ms": no_timings,
        "publish_ms": no_timings,
    }
    assert found["accounts"] == {
        "all": 0,
        "stale": 0,
        "oldest_staleness_seconds": None,
        "requested": 0,
        "applied": 0,
    }
    assert found["paused_stages"] == []
    assert found["settings"]["batch_size"] == 100


def test_pending_users_and_jobs_by_priority(database, status):
    first, second = AppAccount(database), AppAccount(database)
    for account in (first, second):
        account.save()
    database.as_service().value(
        "select public.enqueue_user_exercise_stats_refresh_job(:user, null, '{}', 'scheduled_stats_backfill',"
        " p_priority => 1)",
        user=uuid.uuid4(),
    )
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set created_at = created_at - interval '100 seconds'"
        " where user_id = :user",
        user=first.user_id,
    )
    jobs = status()["jobs"]
    assert (jobs["pending_users"], jobs["pending"]) == (3, 3)
    assert jobs["pending_by_priority"] == {"0": {"users": 2, "jobs": 2}, "1": {"users": 1, "jobs": 1}}
    assert 100 <= jobs["oldest_wait_seconds"] < 200
    assert status()["accounts"]["stale"] == 3


def test_active_expired_and_backing_off_leases(database, status):
    set_settings(database, batch_size=2, active_lease_cap=9)
    for _ in range(4):
        Account(database, 3)
    claim_run(database)
    expired, backing_off = claim_run(database), claim_run(database)
    expired.let_the_lease_run_out()
    backing_off.steps(1)
    backing_off.change("retry_not_before = clock_timestamp() + interval '60 seconds'")
    found = status()
    assert (found["leases"]["active"], found["leases"]["expired"], found["leases"]["backing_off"]) == (
        1,
        1,
        1,
    )
    assert (found["jobs"]["processing"], found["jobs"]["pending"]) == (3, 1)


def test_runs_that_others_hold_up_and_for_how_long(database, app_account, stages, status):
    app_account.save()
    run = stages.claim()
    database.admin(
        "update public.user_stats_projection_runs set retry_not_before = clock_timestamp() + interval '9 seconds',"
        " busy_waits = 4, busy_since = clock_timestamp() - interval '100 seconds'"
    )
    # Its lease may run out meanwhile: nobody has to recover it.
    with_token = "select set_config('lift_guild.stats_lease_token', :token, true)"
    with database.admin_engine.begin() as connection:
        connection.execute(text(with_token), {"token": run["lease_token"]})
        connection.execute(
            text("update public.user_stats_projection_runs set lease_until = clock_timestamp()")
        )
    leases = status()["leases"]
    assert 100 <= leases.pop("longest_busy_seconds") < 200
    assert leases == {"active": 0, "expired": 0, "backing_off": 0, "busy": 1}


def test_exhausted_failures_and_those_that_wait_for_their_retry(database, app_account, stages, status):
    app_account.save()
    database.admin(
        "alter table stats_private.stats_output_daily_rollups add constraint broken check (sets > 5)"
    )
    stages.compute(stages.claim())
    assert (status()["jobs"]["backing_off"], status()["last_hour"]["failed"]) == (1, 1)
    for _ in range(2):
        database.admin("update public.user_exercise_stats_refresh_jobs set retry_not_before = null")
        stages.compute(stages.claim())
    found = status()
    assert (found["jobs"]["exhausted"], found["jobs"]["pending"], found["jobs"]["backing_off"]) == (1, 0, 0)
    assert found["last_hour"]["failed"] == 3
    assert found["accounts"]["stale"] == 1
    assert found["accounts"]["oldest_staleness_seconds"] > 0


def test_timings_of_the_last_hours_completions(database, status):
    for _ in range(3):
        Account(database, 1)
        run = claim_run(database)
        run.finish()
        publish(database, run)
    for number, ms in enumerate([10, 20, 90]):
        database.admin(
            "update public.user_stats_projection_runs set compute_ms = :ms, publish_ms = :ms + 1 where id ="
            " (select id from public.user_stats_projection_runs order by created_at offset :number limit 1)",
            ms=ms,
            number=number,
        )
    hour = status()["last_hour"]
    assert hour["completed"] == 3
    assert hour["compute_ms"] == {"count": 3, "p50": 20, "p95": pytest.approx(83), "max": 90}
    assert hour["publish_ms"] == {"count": 3, "p50": 21, "p95": pytest.approx(84), "max": 91}
    database.admin(
        "update public.user_stats_projection_runs set completed_at = completed_at - interval '2 hours'"
    )
    assert status()["last_hour"]["completed"] == 0


def test_rejections_are_told_from_failures(database, app_account, stages, status):
    session = app_account.save()["session_id"]
    run = stages.claim()
    stages.compute(run)
    app_account.delete(session)
    assert stages.publish(run)["reason"] == "canonical_deleted"
    hour = status()["last_hour"]
    assert (hour["rejected"], hour["failed"], hour["invalidated"]) == (1, 0, 0)


def test_paused_stages(database, status):
    set_settings(database, paused_stages=["publish"])
    assert status()["paused_stages"] == ["publish"]


def test_only_service_and_administrators_read_it(database):
    read = "select public.stats_projection_worker_status_v1()"
    with pytest.raises(DBAPIError) as error:
        database.as_account(uuid.uuid4()).value(read)
    assert error.value.orig.pgcode == "42501"
    assert "jobs" in database.as_account(uuid.uuid4(), admin=True).value(read)
