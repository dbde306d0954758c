"""What the worker status alerts on: in time, with what to do, and no longer than it lasts."""

from __future__ import annotations

import pytest
from conftest import Database
from rich.console import Console
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount, Json

from maintenance.scene import (
    assert_all_equal_reckoning,
    end_waits,
    exhaust,
    let_days_pass,
    published_accounts,
    settings,
)
from ops.status_summary import status_table

STATUS = "select public.stats_projection_worker_status_v1()"


def status(database: Database) -> Json:
    return database.as_service().value(STATUS)


def alerts(database: Database, subject: str) -> list[str]:
    """Return the texts of the subject's alerts; each names something to do."""
    found = [alert for alert in status(database)["alerts"] if alert["subject"] == subject]
    assert all(alert["action"] for alert in found)
    return [alert["text"] for alert in found]


def says(database: Database, beginning: str) -> bool:
    """Tell whether an alert about the rollover begins so."""
    return any(text.startswith(beginning) for text in alerts(database, "rollover"))


def due_since(database: Database, hours: float, accounts: list[AppAccount]) -> None:
    database.admin(
        "update public.user_pr_overview_rollover_state set due_at = now() - :hours * interval '1 hour'"
        " where user_id = any (:users)",
        hours=hours,
        users=[account.user_id for account in accounts],
    )


def overview(account: AppAccount, days_from_today: int = 0) -> Json:
    return account.call(
        "select public.get_pr_overview((now() at time zone 'UTC')::date + cast(:days as integer), :user)",
        days=days_from_today,
    )


def test_nothing_alerts_where_all_is_well_and_just_after_midnight(database):
    accounts = published_accounts(database, 2)
    due_since(database, 5.9, accounts)
    assert status(database)["alerts"] == []


def test_two_days_of_failed_rollover_alert_before_any_reader_is_refused(database, stages, pages):
    accounts = published_accounts(database, 2)
    let_days_pass(database, 1, accounts)
    database.admin(
        "alter table public.user_pr_overview_rollover_state add constraint broken check (next_retry_at is null)"
    )
    assert pages.rollover()["response"] == "failed"
    due_since(database, 6.1, accounts)

    assert says(database, "2 accounts are late, the first due since 6 h")
    assert says(database, "1 page(s) failed in a row, the last with 23514: ")
    assert [overview(account)["stale"] for account in accounts] == [False, False]

    # Nobody acts: the second midnight. Now they are refused, and the alert has stood all the time.
    let_days_pass(database, 1, accounts)
    assert pages.rollover()["response"] == "failed"
    assert says(database, "2 accounts are late, the first due since 30 h")
    with pytest.raises(DBAPIError) as refusal:
        overview(accounts[0])
    assert refusal.value.orig.diag.message_detail == "behind"

    database.admin("alter table public.user_pr_overview_rollover_state drop constraint broken")
    end_waits(database)
    assert pages.rollover()["requested"] == 2
    stages.drain()
    assert alerts(database, "rollover") == []
    assert_all_equal_reckoning(database, accounts)


def test_the_reader_furthest_east_is_refused_after_the_alert(database):
    """On the day that an account falls due, those whose clock is ahead of UTC come to a day that it lacks."""
    [account] = published_accounts(database, 1)
    let_days_pass(database, 1, [account])
    with pytest.raises(DBAPIError) as refusal:
        overview(account, days_from_today=1)
    assert refusal.value.orig.diag.message_detail == "behind"
    due_since(database, 10, [account])  # 00:00 in UTC+14
    assert alerts(database, "rollover") != []


def test_accounts_held_by_an_exhausted_job_alert_at_once(database, pages):
    [account] = published_accounts(database, 1)
    let_days_pass(database, 1, [account])
    pages.rollover()
    exhaust(database, account)
    end_waits(database)
    pages.rollover()
    due_since(database, 1, [account])
    assert alerts(database, "rollover") == ["1 account is held by an exhausted job: their day does not turn"]
    assert alerts(database, "jobs") == ["1 job has used up its attempts: its account stays stale"]


def test_jobs_without_attempts_alert_until_they_are_resumed_or_saved_over(database, stages):
    resumed, saved_over = accounts = published_accounts(database, 2)
    for account in accounts:
        account.save()
    assert alerts(database, "jobs") == []

    exhaust(database, resumed)
    assert alerts(database, "jobs") == ["1 job has used up its attempts: its account stays stale"]
    exhaust(database, saved_over)
    assert alerts(database, "jobs") == ["2 jobs have used up their attempts: their accounts stay stale"]

    [(job,)] = database.admin(
        "select id from public.user_exercise_stats_refresh_jobs where status = 'failed' and user_id = :user",
        user=resumed.user_id,
    )
    database.as_service().value("select public.stats_projection_resume_job_v1(:job)", job=job)
    assert alerts(database, "jobs") == ["1 job has used up its attempts: its account stays stale"]
    saved_over.save()
    stages.drain()
    assert status(database)["alerts"] == []
    assert_all_equal_reckoning(database, accounts)


@pytest.mark.parametrize("job", ["rollover", "catalog", "repair", "history"])
def test_a_job_that_is_not_heard_of_alerts(database, job):
    for column, hours in (("updated_at", 2), ("last_success_at", 3)):
        database.admin(
            f"update public.stats_maintenance_cursors set {column} = now() - :hours * interval '61 minutes'"
            " where job = :job",
            hours=hours,
            job=job,
        )
        assert alerts(database, job) == [f"no page has succeeded for {hours} h"]
    assert len(status(database)["alerts"]) == 1


def test_a_job_that_is_not_heard_of_because_it_is_paused_says_how_to_resume_it(database):
    settings(database, paused_stages=["maintenance"])
    database.admin("update public.stats_maintenance_cursors set updated_at = now() - interval '2 hours'")
    assert {alert["action"] for alert in status(database)["alerts"]} == {"stats-refresh resume maintenance"}


@pytest.mark.parametrize("status", ["pending", "processing"])
def test_work_that_waits_while_nothing_is_published_alerts(database, app_account, stages, status):
    app_account.save()
    assert alerts(database, "queue") == []
    let_jobs_wait(database, "3 minutes")
    if status == "processing":
        stages.claim()
    assert alerts(database, "queue") == [
        "1 account is waiting for up to 3 min, and nothing has been published for two"
    ]
    settings(database, paused_stages=["compute"])
    [alert] = [one for one in database.as_service().value(STATUS)["alerts"] if one["subject"] == "queue"]
    assert alert["action"] == "stats-refresh resume STAGE: paused are compute"


def test_a_backlog_that_is_worked_off_and_a_retry_that_is_not_due_do_not_alert(database, stages):
    waiting, published = AppAccount(database), AppAccount(database)
    published.save()
    stages.drain()
    waiting.save()
    let_jobs_wait(database, "3 minutes")
    assert alerts(database, "queue") == []  # another was published just now

    database.admin(
        "update public.user_stats_projection_runs set completed_at = completed_at - interval '3 minutes'"
    )
    assert len(alerts(database, "queue")) == 1
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set retry_not_before = now() + interval '1 minute'"
        " where status = 'pending'"
    )
    assert alerts(database, "queue") == []


def let_jobs_wait(database: Database, interval: str) -> None:
    database.admin(
        "update public.user_exercise_stats_refresh_jobs"
        " set created_at = created_at - cast(:interval as interval) where status = 'pending'",
        interval=interval,
    )


def test_a_job_that_fails_alerts_until_a_page_succeeds(database, pages):
    database.admin("alter table public.cron_run_history rename job_name to elsewhere")
    assert [pages.purge()["response"], pages.purge()["response"]] == ["failed", "failed"]
    [text] = alerts(database, "history")
    assert text.startswith("2 page(s) failed in a row, the last with 42703: ")

    database.admin("alter table public.cron_run_history rename elsewhere to job_name")
    assert pages.purge()["response"] == "purged"
    assert status(database)["alerts"] == []


def test_the_command_prints_alerts_first_and_in_red(database):
    accounts = published_accounts(database, 1)
    due_since(database, 7, accounts)
    with (console := Console(width=200, force_terminal=True, color_system="standard")).capture() as shown:
        console.print(status_table(status(database)))
    [line] = [line for line in shown.get().splitlines() if "alert: rollover" in line]
    assert "\x1b[31m" in line
    assert "1 account is late" in line
    assert shown.get().index("alert: rollover") < shown.get().index("\naccounts")
