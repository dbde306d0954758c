"""All other times that a clock which ran ahead left behind: no page, alert, lease or purge waits for them to come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from interleavings.scene import admin_session, expire_lease, run_row, wait_until_blocked_or_done
from support.app import AppAccount, Json

from maintenance.scene import (
    ONE_SECOND_JOBS,
    Pages,
    assert_all_equal_reckoning,
    change_global,
    global_exercise,
    let_days_pass,
    printed_status,
    published_accounts,
    requested,
    save_with,
    settings,
)
from maintenance.test_alerts import alerts, status
from maintenance.test_clock_ahead import SIX_MONTHS, assert_readable_today

if TYPE_CHECKING:
    from conftest import Database

CLAIM = "select public.stats_projection_claim_v1('lease')"


# ---------------------------------------------------------------- the pages


@pytest.mark.parametrize("job", ["rollover", "catalog", "repair", "history"])
def test_a_success_of_days_to_come_does_not_hide_that_no_page_runs(database, pages, job):
    run = {"rollover": pages.rollover, "catalog": pages.walk, "repair": pages.repair, "history": pages.purge}[
        job
    ]
    assert run()["response"] != "failed"
    database.admin(
        "update public.stats_maintenance_cursors set last_success_at = last_success_at + interval '183 days',"
        " updated_at = updated_at + interval '183 days' where job = :job",
        job=job,
    )
    assert alerts(database, job) == [
        "no page has succeeded since the clock was put back: the last one is dated in days to come"
    ]
    assert status(database)["maintenance"][job]["last_success_seconds"] is None
    assert f"{job} dated ahead of the clock" in printed_status(database)

    assert run()["response"] != "failed"
    assert alerts(database, job) == []
    assert f"{job} 0." in printed_status(database)


def test_a_walk_of_days_to_come_is_not_put_off_by_later_ones(database, pages):
    exercise = global_exercise(database)
    [account] = published_accounts(database, 1)
    save_with(account, exercise)
    own = account.exercise("Bench")
    change_global(database, exercise, "Plank", "duration")
    database.admin(
        "insert into public.stats_catalog_scopes (scope, pending_exercise_ids, token) values (:user, :ids, 1)",
        user=str(account.user_id),
        ids=[own],
    )
    database.admin(
        "update public.stats_catalog_scopes set updated_at = now()"
        " + case scope when 'global' then interval '183 days' else interval '-1 hour' end"
    )
    assert pages.walk()["scope"] == "global"
    assert pages.walk()["scope"] == str(account.user_id)


# ---------------------------------------------------------------- the queue and its alert


def test_publications_of_days_to_come_do_not_hide_that_nothing_is_published(database, stages):
    published, waiting = AppAccount(database), AppAccount(database)
    published.save()
    stages.drain()
    waiting.save()
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set created_at = now() - interval '3 minutes'"
    )
    assert alerts(database, "queue") == []
    assert status(database)["last_hour"]["completed"] == 1
    database.admin(
        "update public.user_stats_projection_runs set completed_at = completed_at + interval '183 days'"
    )
    assert alerts(database, "queue") == [
        "1 account is waiting for up to 3 min, and nothing has been published for two"
    ]
    assert status(database)["last_hour"]["completed"] == 0


def test_a_clock_that_was_a_minute_ahead_makes_no_account_wait_for_that_minute(database, stages):
    settings(database, active_lease_cap=4)
    ahead, put_off, waits = AppAccount(database), AppAccount(database), AppAccount(database)
    for account in (ahead, put_off, waits):
        account.save()
    set_times(database, ahead, "created_at = now() + interval '1 minute'")
    set_times(
        database,
        put_off,
        "retry_not_before = now() + interval '1 minute', updated_at = now() + interval '50 s'",
    )
    set_times(database, waits, "retry_not_before = now() + interval '1 minute'")
    assert stages.claim()["response"] == "idle", (
        "the waits of a clock ahead are ended where nothing else is due"
    )
    assert {stages.claim()["user_id"] for _ in range(2)} == {str(ahead.user_id), str(put_off.user_id)}
    assert stages.claim()["response"] == "idle", "a wait that a right clock has written goes on"


def test_a_run_that_a_clock_a_minute_ahead_made_wait_comes_back(database, stages):
    settings(database, active_lease_cap=4)
    runs = {}
    for seconds in (50, 0):
        AppAccount(database).save()
        runs[seconds] = stages.claim()
        database.admin(
            "select stats_private.declare_lease(:token);"
            " update public.user_stats_projection_runs set retry_not_before = now() + interval '1 minute',"
            " updated_at = now() + :seconds * interval '1 second' where id = :run",
            token=runs[seconds]["lease_token"],
            seconds=seconds,
            run=runs[seconds]["run_id"],
        )
    assert stages.claim()["response"] == "idle"
    assert stages.claim()["run_id"] == runs[50]["run_id"]
    assert stages.claim()["response"] == "idle", "a wait that a right clock has written goes on"


def set_times(database: Database, account: AppAccount, times: str) -> None:
    database.admin(
        f"update public.user_exercise_stats_refresh_jobs set {times} where user_id = :user",
        user=account.user_id,
    )


def test_a_job_of_days_to_come_and_one_that_waits_for_them_are_seen_to_wait(database):
    account = AppAccount(database)
    account.save()
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set created_at = now() + interval '183 days'"
    )
    assert alerts(database, "queue") == [
        "1 account is waiting since before the clock was put back, and nothing has been published for two"
    ]
    assert status(database)["jobs"]["oldest_wait_seconds"] == 0

    database.admin(
        "update public.user_exercise_stats_refresh_jobs set created_at = now() - interval '3 minutes',"
        " retry_not_before = now() + interval '89 seconds'"
    )
    assert alerts(database, "queue") == []
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set retry_not_before = now() + interval '183 days'"
    )
    assert len(alerts(database, "queue")) == 1


# ---------------------------------------------------------------- leases


def shift_lease(database: Database, run: Json, interval: str) -> None:
    with admin_session(database, "clock") as clock:
        clock.run("select set_config('lift_guild.stats_lease_token', :token, true)", token=run["lease_token"])
        clock.run(
            "update public.user_stats_projection_runs set lease_until = lease_until + cast(:interval as interval)",
            interval=interval,
        )
        clock.commit()


def lease_seconds(database: Database, run: Json) -> float:
    [seconds] = run_row(database, run, "extract(epoch from lease_until - clock_timestamp())")
    return float(seconds)


def test_a_lease_of_days_to_come_is_bounded_and_its_holder_goes_on(database, stages):
    account = AppAccount(database)
    account.save()
    run = stages.claim()
    shift_lease(database, run, "183 days")

    assert stages.claim()["response"] == "idle"

    assert 200 < lease_seconds(database, run) <= 300
    assert stages.compute(run)["response"] == "computed"
    shift_lease(database, run, "183 days")
    assert stages.claim()["response"] == "idle"
    assert 200 < lease_seconds(database, run) <= 300
    assert stages.publish(run)["response"] == "published"
    assert account.jobs("status", "attempts") == [("completed", 1)]


def test_the_lease_of_a_dead_holder_ends_like_any_other(database, stages):
    account = AppAccount(database)
    account.save()
    run = stages.claim()
    shift_lease(database, run, "183 days")
    assert stages.claim()["response"] == "idle"
    expire_lease(database, run)

    assert stages.claim()["response"] == "claimed"
    assert account.jobs("attempts") == [(2,)]


@pytest.mark.parametrize(
    ("changes", "longest"),
    [
        ({}, 300 + 3 * 30),
        ({"lease_seconds": 900}, 900 + 3 * 30),
        ({"max_attempts": 9, "retry_backoff_seconds": 3600}, 300 + 9 * 3600),
        ({"max_attempts": 1, "retry_backoff_seconds": 1}, 300 + 30),
    ],
)
def test_a_lease_that_the_settings_explain_is_left_alone(database, stages, changes, longest):
    if changes:
        settings(database, **changes)
    AppAccount(database).save()
    run = stages.claim()
    shift_lease(database, run, f"{longest - lease_seconds(database, run)} seconds")
    before = run_row(database, run, "lease_until")

    assert stages.claim()["response"] == "idle"
    assert run_row(database, run, "lease_until") == before

    shift_lease(database, run, "2 minutes")
    assert stages.claim()["response"] == "idle"
    assert lease_seconds(database, run) <= changes.get("lease_seconds", 300)


def test_a_stage_at_work_is_waited_for_by_nobody_who_bounds_leases(database, stages):
    AppAccount(database).save()
    run = stages.claim()
    shift_lease(database, run, "183 days")
    with admin_session(database, "claim") as claim, admin_session(database, "stage") as stage:
        stage.run("select id from public.user_stats_projection_runs for update")
        bounding = claim.start(CLAIM)
        wait_until_blocked_or_done(database, claim, bounding)
        assert bounding.done()
        claim.commit()
    assert lease_seconds(database, run) > 86_400


@pytest.mark.parametrize(("began", "milliseconds"), [(-SIX_MONTHS, 3_600_000), (SIX_MONTHS, 0)])
def test_a_clock_that_is_set_during_a_stage_gives_a_duration_that_can_be_stored(
    database, began, milliseconds
):
    [(measured,)] = database.admin(
        "select stats_private.elapsed_ms(now() + :days * interval '1 day')", days=began
    )
    assert measured == milliseconds


# ---------------------------------------------------------------- what only grows


def history_ahead(database: Database, count: int, days: float, status: str = "succeeded") -> None:
    database.admin(
        "insert into public.cron_run_history (job_name, status, started_at, ended_at)"
        " select :job, :status, at, case when :status <> 'running' then at end"
        " from (select now() + :days * interval '1 day' as at) t, generate_series(1, :count)",
        job=ONE_SECOND_JOBS[0],
        status=status,
        days=days,
        count=count,
    )


def purge_all(pages: Pages) -> dict[str, int]:
    deleted: dict[str, int] = {}
    while True:
        page = pages.purge()
        assert page["response"] == "purged"
        for kind, count in page["deleted"].items():
            deleted[kind] = deleted.get(kind, 0) + count
        if not page["behind"]:
            return deleted


def test_history_of_days_to_come_does_not_hold_up_the_purge(database, pages):
    """Two hours of a clock ahead are more rows than a page reads."""
    history_ahead(database, 21_000, SIX_MONTHS)
    history_ahead(database, 1, SIX_MONTHS, "running")
    history_ahead(database, 10, -8)
    history_ahead(database, 5, -1)
    assert purge_all(pages)["cron_run_history"] == 21_010
    assert database.admin("select status, count(*) from public.cron_run_history group by 1 order by 1") == [
        ("running", 1),
        ("succeeded", 5),
    ]
    history_ahead(database, 3, -8)
    assert purge_all(pages)["cron_run_history"] == 3


def test_work_of_days_to_come_is_not_kept_until_then(database, stages, pages):
    """A job's two times may be of two clocks: it goes when neither is of the last week."""
    cases = {
        ("-8 days", "-8 days"): 1,
        ("-8 days", "183 days"): 1,
        ("183 days", "183 days"): 1,
        ("183 days", "-8 days"): 1,
        ("183 days", "-6 days"): 0,
        ("-6 days", "183 days"): 0,
        ("-8 days", "-6 days"): 0,
    }
    for (created, completed), gone in cases.items():
        database.admin(
            "insert into public.user_exercise_stats_refresh_jobs"
            " (user_id, event_type, requested_version, status, created_at, completed_at) values"
            " (gen_random_uuid(), 'manual_refresh', 1, 'completed', now() + cast(:created as interval),"
            " now() + cast(:completed as interval))",
            created=created,
            completed=completed,
        )
        assert purge_all(pages)["jobs"] == gone, (created, completed)
        database.admin("delete from public.user_exercise_stats_refresh_jobs")

    for completed, gone in (("183 days", 1), ("-6 days", 0), ("-8 days", 1)):
        AppAccount(database).save()
        stages.drain()
        database.admin(
            "update public.user_stats_projection_runs set completed_at = now() + cast(:completed as interval)",
            completed=completed,
        )
        assert purge_all(pages)["runs"] == gone, completed
        database.admin("delete from public.user_stats_projection_runs")

    database.admin(
        "insert into public.exercise_catalog_changes (exercise_id, change, changed_at) values"
        " ('a', 'x', now() + interval '183 days'), ('b', 'x', now() - interval '29 days')"
    )
    assert purge_all(pages)["catalog_changes"] == 1


def test_a_receipt_of_days_to_come_is_kept_and_replays(database, pages):
    """Without it the same write, sent once more, would be stored twice."""
    account = AppAccount(database)
    payload = account.payload()
    account.save_payload(payload)
    database.admin("update public.stats_mutation_receipts set created_at = now() + interval '183 days'")
    assert purge_all(pages)["receipts"] == 0
    assert account.save_payload(payload)["replayed"] is True


@pytest.mark.parametrize("pages_before", [0, 1])
def test_nothing_becomes_old_while_the_clock_is_six_months_ahead(database, stages, pages, pages_before):
    """To a clock that is ahead, all that was just written is half a year old."""
    for _ in range(pages_before):
        assert pages.purge()["response"] == "purged"
    account = AppAccount(database)
    payload = account.payload()
    account.save_payload(payload)
    stages.drain()
    history_ahead(database, 3, 0)
    database.admin("insert into public.exercise_catalog_changes (exercise_id, change) values ('a', 'x')")
    shift_every_time(database, -SIX_MONTHS)

    kinds = ("cron_run_history", "jobs", "runs", "receipts", "catalog_changes", "private_outputs")
    for _ in range(12):
        assert purge_all(pages) == dict.fromkeys(kinds, 0)
        shift_every_time(database, -1 / 24)
    assert account.save_payload(payload)["replayed"] is True


def test_a_purge_makes_up_for_a_pause_and_then_keeps_to_the_clock(database, pages):
    assert pages.purge()["response"] == "purged"
    lag = "select extract(day from now() - counted_until) from public.stats_maintenance_cursors where job = 'history'"

    shift_every_time(database, -10)
    found = []
    for _ in range(10):
        assert pages.purge()["response"] == "purged"
        found.append(int(database.admin(lag)[0][0]))
        shift_every_time(database, -1)
    assert found == [8, 7, 6, 5, 4, 3, 2, 1, 0, 0]


# ---------------------------------------------------------------- everything at once


def test_a_whole_database_written_six_months_ahead_goes_on(database, stages, pages):
    """Every time that is stored lies ahead, whichever column it is in: saves, pages and readers go on at once."""
    exercise = global_exercise(database)
    accounts = published_accounts(database, 3)
    for account in accounts:
        save_with(account, exercise)
    stages.drain()
    change_global(database, exercise, "Plank", "duration")
    for page in (pages.rollover, pages.purge):
        assert page()["response"] != "failed"
    accounts[0].save(session_date="2026-03-12")
    history_ahead(database, 10, 0)
    let_days_pass(database, -SIX_MONTHS, accounts)
    shift_every_time(database, SIX_MONTHS)

    assert pages.walk_to_the_end()
    assert pages.rollover()["response"] == "enqueued"
    stages.drain()

    for account in accounts:
        assert_readable_today(database, account)
    for account in accounts:
        account.save(session_date="2026-03-14")
    stages.drain()
    assert requested(database) == []
    for page in (pages.rollover, pages.walk, pages.repair, pages.purge):
        assert page()["response"] != "failed"
    assert status(database)["alerts"] == []
    assert (pages.rollover()["response"], pages.repair()["found"]) == ("idle", 0)
    assert database.admin("select count(*) from public.cron_run_history") == [(0,)]
    assert_all_equal_reckoning(database, accounts)


def shift_every_time(database: Database, days: int) -> None:
    """Let every time of every table lie `days` later, except for the rollover's, which hangs on the anchor."""
    columns = database.admin(
        "select c.oid::regclass::text, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.atttypid = 'timestamptz'::regtype"
        " and not a.attisdropped and a.attname <> 'due_at' and a.attnum > 0 order by 1, 2"
    )
    assert len(columns) > 30
    for table, column in columns:
        database.admin(
            f"update {table} set {column} = {column} + :days * interval '1 day' where {column} is not null",
            days=days,
        )
