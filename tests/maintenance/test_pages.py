"""What all pages share: a failed one leaves nothing, is counted and seen; paused ones wait; budgets hold."""

from __future__ import annotations

import pytest
from interleavings.scene import admin_session, on_insert, picture, undo_on_insert
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from support.app import Stages

from maintenance.scene import (
    Pages,
    change_global,
    global_exercise,
    let_days_pass,
    published_accounts,
    requested,
    save_with,
    settings,
)
from tasks.transaction import service, transaction

JOBS = ("rollover", "walk", "repair", "purge")
CURSOR_OF = {"rollover": "rollover", "walk": "catalog", "repair": "repair", "purge": "history"}
WRITES = (
    "public.user_exercise_stats_refresh_jobs",
    "public.user_stats_refresh_state",
    "public.stats_catalog_scopes",
    "public.user_pr_overview_rollover_state",
    "public.cron_run_history",
)


@pytest.fixture
def work(database):
    """Three accounts, and something to do for every page."""
    exercise = global_exercise(database)
    accounts = published_accounts(database, 3)
    for account in accounts:
        save_with(account, exercise)
    Stages(database).drain()
    let_days_pass(database, 1, accounts)
    change_global(database, exercise, "Plank", "duration")
    database.admin("delete from public.user_exercise_records where user_id = :user", user=accounts[2].user_id)
    database.admin(
        "insert into public.cron_run_history (job_name, status, started_at, ended_at)"
        " select 'lift-guild-stats-refresh', 'succeeded', now() - interval '8 days', now() - interval '8 days'"
        " from generate_series(1, 3)"
    )
    return accounts


def run_page(pages: Pages, job: str):
    return getattr(pages, job)(2)


def break_page(database, job: str, body: str) -> None:
    """Run `body` in the middle of the page: where it asks for a generation, or reads what it removes."""
    if job == "purge":
        database.admin(
            f"create function public.scene() returns trigger language plpgsql as"
            f" $scene$ begin {body} return old; end $scene$"
        )
        database.admin(
            "create trigger scene before delete on public.cron_run_history for each row"
            " execute function public.scene()"
        )
    else:
        on_insert(database, "public.user_exercise_stats_refresh_jobs", body)


def mend_page(database, job: str) -> None:
    if job == "purge":
        database.admin("drop trigger scene on public.cron_run_history")
    else:
        undo_on_insert(database, "public.user_exercise_stats_refresh_jobs")


@pytest.mark.parametrize("job", JOBS)
def test_a_failed_page_rolls_back_is_counted_and_the_next_begins_where_it_did(database, pages, work, job):
    before, cursor = picture(database, WRITES), pages.cursor(CURSOR_OF[job])
    break_page(database, job, "raise exception using errcode = 'P0999', message = 'sand in the gears';")

    answers = [run_page(pages, job) for _ in range(2)]

    for answer in answers:
        assert (answer["response"], answer["sqlstate"], answer["error"]) == (
            "failed",
            "P0999",
            "sand in the gears",
        )
        assert not answer.get("has_more")
        assert not answer.get("behind")
    assert picture(database, WRITES) == before
    failed = pages.cursor(CURSOR_OF[job])
    assert (failed["cursor"], failed["laps"]) == (cursor["cursor"], cursor["laps"])
    assert (failed["attempt_count"], failed["last_error"]) == (2, "P0999: sand in the gears")
    assert failed["next_retry_at"] > failed["updated_at"]
    assert failed["last_success_at"] is None

    mend_page(database, job)
    assert run_page(pages, job)["response"] != "failed"
    after = pages.cursor(CURSOR_OF[job])
    assert (after["attempt_count"], after["last_error"], after["next_retry_at"]) == (0, None, None)
    assert after["last_success_at"]


@pytest.mark.parametrize("job", JOBS)
def test_a_page_that_runs_into_its_budget_is_a_failed_one(database, pages, work, job):
    settings(database, maintenance_budget_ms=1500)
    before = picture(database, WRITES)
    break_page(database, job, "perform pg_catalog.pg_sleep(20);")

    answer = run_page(pages, job)

    assert (answer["response"], answer["sqlstate"]) == ("failed", "57014")
    assert picture(database, WRITES) == before


@pytest.mark.parametrize("job", JOBS)
def test_a_persons_cancel_is_no_failure_of_the_page(database, pages, work, job):
    break_page(
        database,
        job,
        "raise exception using errcode = '57014', message = 'canceling statement due to user request';",
    )

    with pytest.raises(DBAPIError, match="user request"):
        run_page(pages, job)
    assert pages.cursor(CURSOR_OF[job])["attempt_count"] == 0


@pytest.mark.parametrize("job", JOBS)
def test_a_paused_stage_does_nothing_whoever_calls_it(database, pages, work, job):
    before = picture(database, WRITES)
    settings(database, paused_stages=["maintenance"])

    assert run_page(pages, job)["response"] == "paused"
    assert picture(database, WRITES) == before


def test_a_page_waits_for_a_lock_at_most_half_its_budget(database, work):
    settings(database, maintenance_budget_ms=1000)
    with transaction(database.engine, service()) as connection:
        connection.execute(text("select public.stats_projection_statement_budget_v1('maintenance')"))
        assert connection.execute(text("show statement_timeout")).scalar_one() == "1s"
        assert connection.execute(text("show lock_timeout")).scalar_one() == "500ms"


def test_a_page_waits_for_no_account(database, pages, work):
    """Somebody holds every write lock and state row: the pages end at once and take nothing."""
    with admin_session(database, "writer") as writer:
        for account in work:
            writer.run("select stats_private.lock_writes(:user)", user=account.user_id)
        writer.run("select user_id from public.user_stats_refresh_state for update")
        answers = {job: run_page(pages, job) for job in JOBS}

    assert {job: answer["response"] for job, answer in answers.items()} == {
        "rollover": "enqueued",
        "walk": "walked",
        "repair": "scanned",
        "purge": "purged",
    }
    assert (answers["rollover"]["requested"], answers["rollover"]["skipped"]) == (0, 2)
    assert (answers["walk"]["requested"], answers["repair"]["found"]) == (0, 0)
    assert requested(database) == []


def test_the_status_shows_what_is_due_and_how_each_job_stands(database, pages, work):
    let_days_pass(database, 1, work[:1])
    for job in JOBS:
        run_page(pages, job)

    status = database.as_service().value("select public.stats_projection_worker_status_v1()")

    assert (status["rollover"]["due"], status["rollover"]["failing"]) == (3, 0)
    assert 86_400 < status["rollover"]["oldest_due_seconds"] < 2 * 86_400 + 60
    assert set(status["maintenance"]) == set(CURSOR_OF.values())
    for row in status["maintenance"].values():
        assert row["attempt_count"] == 0
        assert 0 <= row["last_success_seconds"] < 60
    assert status["catalog_walks"] == 1
