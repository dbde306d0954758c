"""What only grows is removed by age, a bounded page at a time, and nothing else goes."""

from __future__ import annotations

import uuid

import pytest
from support.races import session

from maintenance.scene import ONE_SECOND_JOBS, PURGE

OTHER_JOBS = (
    "barbelic-stats-cron-history-purge",
    "lift-guild-pr-overview-snapshot-rollover",
    "somebody-else's",
)


def history(database, count, *, days_ago=8.0, job=ONE_SECOND_JOBS[0], status="succeeded"):
    """Add `count` runs that ended (or, running, began) `days_ago` days ago."""
    database.admin(
        "insert into public.cron_run_history (job_name, status, started_at, ended_at)"
        " select :job, :status, at, case when :status <> 'running' then at + interval '20 ms' end"
        " from (select now() - :days * interval '1 day' as at) t, generate_series(1, :count)",
        count=count,
        days=days_ago,
        job=job,
        status=status,
    )


def left(database):
    [(count,)] = database.admin("select count(*) from public.cron_run_history")
    return count


def test_a_run_removes_at_most_5000_rows_and_says_that_it_is_behind(database, pages):
    history(database, 12_000)

    page = pages.purge(100_000)

    assert page["response"] == "purged"
    assert page["deleted"]["cron_run_history"] == 5_000
    assert page["behind"] is True
    assert left(database) == 7_000


def test_a_purge_that_was_off_for_a_day_catches_up_and_stops_saying_so(database, pages):
    """259,200 runs more than a week keeps, with the runs of other jobs among them and recent ones behind them."""
    database.admin(
        "insert into public.cron_run_history (job_name, status, started_at, ended_at)"
        " select case when n % 60 = 0 then :other else (cast(:jobs as text[]))[n % 3 + 1] end,"
        " case when n % 100 = 0 then 'failed' else 'succeeded' end, at, at + interval '20 ms'"
        " from generate_series(1, 290000) n,"
        " lateral (select now() - interval '8 days' + n * interval '333 ms' as at) t",
        other=OTHER_JOBS[0],
        jobs=list(ONE_SECOND_JOBS),
    )
    pages_ran = 0
    while (page := pages.purge())["behind"]:
        assert page["deleted"]["cron_run_history"] == 5_000
        pages_ran += 1
        assert pages_ran <= 60

    assert database.admin(
        "select count(*) from public.cron_run_history"
        " where job_name = any (:jobs) and ended_at < now() - interval '7 days 1 minute'",
        jobs=list(ONE_SECOND_JOBS),
    ) == [(0,)]
    assert database.admin(
        "select count(*) from public.cron_run_history where job_name = :other", other=OTHER_JOBS[0]
    ) == [(290_000 // 60,)]
    assert database.admin(
        "select count(*) > 25000 from public.cron_run_history where job_name = any (:jobs)",
        jobs=list(ONE_SECOND_JOBS),
    ) == [(True,)]


@pytest.mark.parametrize("job", ONE_SECOND_JOBS)
@pytest.mark.parametrize("status", ["succeeded", "failed"])
def test_old_runs_of_the_three_one_second_jobs_go(database, pages, job, status):
    history(database, 3, job=job, status=status)
    history(database, 2, job=job, status=status, days_ago=6.99)

    page = pages.purge()

    assert (page["deleted"]["cron_run_history"], page["behind"]) == (3, False)
    assert left(database) == 2


def test_other_jobs_running_and_recent_rows_stay(database, pages):
    for job in OTHER_JOBS:
        history(database, 2, job=job, days_ago=400)
    history(database, 2, status="running", days_ago=400)
    history(database, 2, status="running", days_ago=0)
    history(database, 2, status="failed", days_ago=1)

    for _ in range(3):
        page = pages.purge()
        assert (page["deleted"]["cron_run_history"], page["behind"]) == (0, False)
    assert left(database) == 12


def test_the_order_of_rows_makes_no_difference(database, pages):
    """Recent, running and other rows lie before and between the old ones."""
    for _ in range(3):
        history(database, 2, days_ago=1)
        history(database, 2, days_ago=9)
        history(database, 1, days_ago=30, status="running")
        history(database, 2, days_ago=9, job=OTHER_JOBS[0])

    removed = [pages.purge(5)["deleted"]["cron_run_history"] for _ in range(3)]

    assert removed == [5, 1, 0]
    assert left(database) == 15


def test_rows_that_stay_are_not_read_again(database, pages):
    history(database, 100, job=OTHER_JOBS[0], days_ago=30)
    history(database, 3)
    assert pages.purge(10)["behind"] is True
    while pages.purge(10)["behind"]:
        pass
    [(newest_kept,)] = database.admin(
        "select max(id) from public.cron_run_history where job_name = :job", job=OTHER_JOBS[0]
    )
    assert int(pages.cursor("history")["cursor"]) >= newest_kept

    # They may lie a whole year deep: the next page begins behind them.
    history(database, 3)
    assert pages.purge(1)["deleted"]["cron_run_history"] == 1


def test_a_recent_row_is_not_passed_by_the_cursor(database, pages):
    history(database, 2, days_ago=6.5)
    history(database, 2, days_ago=1, status="running")
    pages.purge()

    database.admin(
        "update public.cron_run_history set started_at = started_at - interval '8 days', status = 'failed',"
        " ended_at = coalesce(ended_at, started_at) - interval '8 days'"
    )
    assert pages.purge()["deleted"]["cron_run_history"] == 4


def test_completed_jobs_and_ended_runs_go_after_a_week(database, stages, pages, app_account):
    for day in ("2026-03-10", "2026-03-11"):
        app_account.save(session_date=day)
        stages.drain()
    app_account.save()
    run = stages.claim()
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set created_at = created_at - interval '8 days',"
        " completed_at = completed_at - interval '8 days' where requested_version <> 2"
    )
    database.admin(
        "update public.user_stats_projection_runs set completed_at = completed_at - interval '8 days'"
        " where target_version = 1"
    )

    deleted = pages.purge()["deleted"]

    assert (deleted["jobs"], deleted["runs"]) == (1, 1)
    assert app_account.jobs("status") == [("completed",), ("processing",)]
    stages.compute(run)
    assert stages.publish(run)["response"] == "published"


def test_jobs_that_wait_or_are_exhausted_stay_however_old(database, pages, app_account):
    app_account.save()
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set created_at = now() - interval '90 days'"
    )
    assert pages.purge()["deleted"]["jobs"] == 0
    database.admin("update public.user_exercise_stats_refresh_jobs set status = 'failed'")
    assert pages.purge()["deleted"]["jobs"] == 0


def test_receipts_and_the_catalogs_log_go_after_30_days(database, pages, app_account):
    kept, old = app_account.payload(), app_account.payload()
    app_account.save_payload(kept)
    app_account.save_payload(old)
    database.admin(
        "update public.stats_mutation_receipts set created_at = now()"
        " - case when mutation_id = :old then interval '31 days' else interval '29 days' end",
        old=uuid.UUID(old["mutation_id"]),
    )
    database.admin(
        "insert into public.exercise_catalog_changes (exercise_id, change, changed_at)"
        " values ('a', 'x', now() - interval '31 days'), ('b', 'x', now() - interval '29 days')"
    )

    deleted = pages.purge()["deleted"]

    assert (deleted["receipts"], deleted["catalog_changes"]) == (1, 1)
    assert app_account.save_payload(kept)["replayed"] is True
    assert database.admin("select exercise_id from public.exercise_catalog_changes") == [("b",)]


def test_outputs_of_no_run_go_and_those_of_a_run_in_flight_stay(database, stages, pages, app_account):
    app_account.save()
    [ended] = stages.drain()
    app_account.save()
    run = stages.claim()
    stages.compute(run)
    for run_id in (ended["run_id"], str(uuid.uuid4())):
        database.admin(
            "insert into stats_private.stats_output_calendar (run_id, day, op)"
            " select cast(:run as uuid), current_date + n, 'd' from generate_series(1, 4) n",
            run=run_id,
        )
        database.admin(
            "insert into stats_private.stats_batch_exercises (run_id, position, exercise_id)"
            " values (cast(:run as uuid), 0, 'x')",
            run=run_id,
        )

    assert pages.purge(6)["behind"] is True
    pages.purge()

    assert database.admin("select distinct run_id::text from stats_private.stats_output_calendar") == [
        (run["run_id"],)
    ]
    assert database.admin("select count(*) from stats_private.stats_batch_exercises") == [(0,)]
    assert stages.publish(run)["response"] == "published"


def test_a_purge_waits_for_nobody(database, pages, app_account):
    """Rows that another session is removing are left to it."""
    app_account.save()
    stale = "insert into stats_private.stats_input_days values (:id, current_date, 1, '{}', 0)"
    database.admin(stale, id=uuid.uuid4())
    database.admin("update public.stats_mutation_receipts set created_at = now() - interval '31 days'")
    with database.admin_engine.begin() as other:
        other.exec_driver_sql("delete from stats_private.stats_input_days")
        other.exec_driver_sql("select from public.stats_mutation_receipts for update")
        page = pages.purge()

    assert page["response"] == "purged"
    assert (page["deleted"]["private_outputs"], page["deleted"]["receipts"]) == (0, 0)


def test_two_purges_at_once_are_one(database, pages):
    history(database, 3)
    with session(database, "other worker") as other:
        assert other.run(PURGE, limit=2)["deleted"]["cron_run_history"] == 2
        assert pages.purge() == {"response": "idle", "behind": False}


def test_a_run_of_a_beat_is_recorded_as_it_ended(database):
    call = database.as_service()
    call(
        "select public.record_stats_cron_run_v1('lift-guild-stats-refresh', 'task', 'worker@host', 'failed',"
        " '{\"response\": \"failed\"}', 'it broke', now() - interval '1 second')"
    )

    assert database.admin(
        "select job_name, task_id, worker, status, response ->> 'response', error, ended_at > started_at"
        " from public.cron_run_history"
    ) == [("lift-guild-stats-refresh", "task", "worker@host", "failed", "failed", "it broke", True)]
