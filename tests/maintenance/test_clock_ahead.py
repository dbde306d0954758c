"""A clock that once ran ahead (or behind): the window that it published is due at once, and nothing says meanwhile that
all is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from interleavings.scene import admin_session
from reckoning.compare import assert_account_equals_reckoning
from support.app import AppAccount

from maintenance.scene import (
    assert_all_equal_reckoning,
    clock_off_by,
    end_waits,
    exhaust,
    let_days_pass,
    make_due_accounts,
    open_jobs,
    printed_status,
    publish_ahead,
    published_accounts,
    requested,
    write_lock,
)
from maintenance.test_alerts import alerts, status
from maintenance.test_backlog import rows_read
from maintenance.test_rollover import TODAY, overview, rollover_row
from ops.verify import verify_account

if TYPE_CHECKING:
    from conftest import Database

THREE_DAYS, SIX_MONTHS = 3, 183
AHEAD = "published for days to come, by a clock that ran ahead: readers of today may be refused until the rollover"


def findings(database: Database, account: AppAccount) -> dict[str, str]:
    """Return what `verify` says of the account: what differs, and how."""
    verified = verify_account(database.url, account.user_id)
    assert verified.left_out is None
    return {finding.what: finding.detail for finding in verified.findings}


def assert_readable_today(database: Database, account: AppAccount) -> None:
    """The day, the one before and the one after are there; nothing is left of other days; nothing alerts."""
    for day in (TODAY, f"{TODAY} - 1", f"{TODAY} + 1"):
        assert overview(account, day)["stale"] is False
    for table in ("user_pr_overview_snapshot_headers", "user_pr_exercise_summary_snapshots"):
        assert database.admin(
            f"select count(*) from public.{table} where user_id = :user and abs(as_of_date - {TODAY}) > 1",
            user=account.user_id,
        ) == [(0,)]
    assert findings(database, account) == {}
    with database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection, account.user_id)


# ---------------------------------------------------------------- the published window


@pytest.mark.parametrize("days", [2, THREE_DAYS, SIX_MONTHS])
def test_what_was_published_ahead_is_due_at_once(database, stages, pages, days):
    [account] = publish_ahead(database, days)
    assert overview(account) == "behind"

    page = pages.rollover()

    assert (page["response"], page["requested"]) == ("enqueued", 1)
    assert open_jobs(database, "event_type", "priority", "window_only") == [("pr_snapshot_rollover", 1, True)]
    stages.drain()
    assert_readable_today(database, account)
    assert pages.rollover()["response"] == "idle"


def test_a_clock_that_was_past_midnight_too_early_is_noticed_before_anybody_is_refused(
    database, stages, pages
):
    """The window still has today, but not yesterday, which is today for those in the far west."""
    [account] = publish_ahead(database, 1)
    assert overview(account)["generation"] == 1
    assert overview(account, f"{TODAY} - 1") == "behind"
    assert set(findings(database, account)) == {"headers", "pr_summaries"}

    assert pages.rollover()["requested"] == 1
    stages.drain()
    assert_readable_today(database, account)


def test_a_run_computed_ahead_and_published_by_the_right_clock_is_due_at_once(database, stages, pages):
    account = AppAccount(database)
    account.save()
    with clock_off_by(database, SIX_MONTHS):
        run = stages.claim()
        stages.compute(run)
    stages.publish(run)
    assert overview(account) == "behind"

    assert pages.rollover()["requested"] == 1
    stages.drain()
    assert_readable_today(database, account)


def test_a_run_claimed_ahead_and_computed_by_the_right_clock_is_of_today(database, stages):
    account = AppAccount(database)
    account.save()
    with clock_off_by(database, SIX_MONTHS):
        run = stages.claim()
    stages.compute(run)
    stages.publish(run)
    assert_readable_today(database, account)


def test_a_save_after_the_clock_is_right_again_needs_no_rollover(database, stages, pages):
    [account] = publish_ahead(database, SIX_MONTHS)
    account.save(session_date="2026-03-11")
    stages.drain()
    assert_readable_today(database, account)
    assert pages.rollover()["response"] == "idle"


def test_a_midnight_under_a_wrong_clock_is_taken_back_for_everybody(database, stages, pages):
    """The rollover itself ran ahead: every account hangs on a day to come, more than a page of them."""
    accounts = published_accounts(database, 25)
    with clock_off_by(database, THREE_DAYS):
        database.admin("update public.user_pr_overview_rollover_state set due_at = due_at - interval '1 day'")
        while pages.rollover()["has_more"]:
            pass
        stages.drain()
    assert {overview(account) for account in accounts} == {"behind"}

    taken = [pages.rollover()]
    while taken[-1]["has_more"]:
        taken.append(pages.rollover())
    assert [page["requested"] for page in taken] == [10, 10, 5]
    stages.drain()
    assert [overview(account)["generation"] for account in accounts] == [3] * 25
    assert_all_equal_reckoning(database, accounts)


def test_readers_who_are_refused_now_come_before_those_of_tomorrow(database, pages):
    *due, ahead = accounts = [*published_accounts(database, 3), *publish_ahead(database, SIX_MONTHS)]
    let_days_pass(database, 1, due)

    assert pages.rollover(1)["requested"] == 1

    assert requested(database) == [ahead.user_id]
    pages.rollover()
    assert requested(database) == sorted(account.user_id for account in accounts)


def test_one_that_is_held_is_looked_at_again_in_time_and_holds_up_nobody(database, stages, pages):
    held, busy, free = publish_ahead(database, SIX_MONTHS, 3)
    held.save()
    exhaust(database, held)

    with admin_session(database, "writer") as writer:
        write_lock(writer, busy)
        page = pages.rollover()

    assert (page["requested"], page["skipped"]) == (1, 2)
    assert requested(database) == sorted([held.user_id, free.user_id])
    assert rollover_row(database, held, "failures", "next_retry_at <= now() + interval '2 minutes'") == (
        1,
        True,
    )
    assert pages.rollover()["response"] == "idle"
    assert "1 account is held by an exhausted job: their day does not turn" in alerts(database, "rollover")
    end_waits(database)
    assert (pages.rollover()["requested"], pages.rollover()["response"]) == (1, "idle")
    stages.drain()
    for account in (busy, free):
        assert_readable_today(database, account)


def test_nobody_is_due_for_a_window_of_today(database, pages):
    """The latest window that a right clock publishes is due at the next midnight, the earliest one that is not is a
    day further."""
    today, tomorrow = published_accounts(database, 2)
    assert pages.rollover()["response"] == "idle"
    database.admin(
        "update public.user_pr_overview_rollover_state set due_at = due_at + interval '1 day' where user_id = :user",
        user=tomorrow.user_id,
    )
    assert (pages.rollover()["requested"], requested(database)) == (1, [tomorrow.user_id])
    assert today.state() == (1, 1)


@pytest.mark.parametrize(
    ("wait", "is_over"),
    [("59 minutes", False), ("61 minutes", True), ("3 days", True), ("183 days", True)],
)
def test_a_retry_time_that_no_backoff_explains_is_over(database, pages, wait, is_over):
    [account] = published_accounts(database, 1)
    let_days_pass(database, 1, [account])
    database.admin(
        "update public.user_pr_overview_rollover_state set next_retry_at = now() + cast(:wait as interval)",
        wait=wait,
    )
    assert pages.rollover()["requested"] == is_over


def test_an_account_ahead_with_a_retry_time_ahead_is_taken_once(database, pages):
    """Both were written by the same clock: it is due by either, and gets one generation."""
    [account] = publish_ahead(database, SIX_MONTHS)
    database.admin(
        "update public.user_pr_overview_rollover_state set next_retry_at = now() + interval '183 days'"
    )
    page = pages.rollover()
    assert (page["requested"], page["skipped"]) == (1, 0)
    assert account.state() == (2, 1)


def test_a_page_without_anything_due_reads_only_some_of_those_who_wait(database):
    """None of those who are due at midnight; of those who wait for a retry, the ones that wait past midnight."""
    make_due_accounts(database, 2000)
    database.admin(
        "update public.user_pr_overview_rollover_state set due_at = due_at + interval '1 day',"
        " next_retry_at = case when random() < 0.01 then now() + interval '10 minutes' end"
    )
    response, read = rows_read(
        database, "public.run_user_pr_overview_rollover_v1(10)", "user_pr_overview_rollover_state"
    )
    assert response == "idle"
    assert read < 100, f"the page read {read} rows of 2000"


def test_a_new_account_is_published_beside_what_is_ahead(database, stages, pages):
    publish_ahead(database, SIX_MONTHS)
    fresh = AppAccount(database)
    fresh.save()
    stages.drain()
    assert_readable_today(database, fresh)


# ---------------------------------------------------------------- a clock that ran behind


@pytest.mark.parametrize("days", [THREE_DAYS, SIX_MONTHS])
def test_what_was_published_behind_is_due_at_once(database, stages, pages, days):
    [account] = publish_ahead(database, -days)
    assert overview(account) == "behind"
    assert "its rollover is late" in findings(database, account)["snapshot window"]

    assert pages.rollover()["requested"] == 1
    stages.drain()
    assert_readable_today(database, account)
    assert pages.rollover()["response"] == "idle"


# ---------------------------------------------------------------- what is said of it meanwhile


@pytest.mark.parametrize("days", [THREE_DAYS, SIX_MONTHS])
def test_status_and_verify_say_what_is_wrong_until_it_is_mended(database, stages, pages, days):
    [account] = publish_ahead(database, days)

    assert alerts(database, "rollover") == [f"1 account is {AHEAD}"]
    rollover = status(database)["rollover"]
    assert (rollover["due"], rollover["ahead"], rollover["oldest_due_seconds"]) == (1, 1, None)
    assert "1 due, 1 published for days to come" in printed_status(database)
    found = findings(database, account)
    assert set(found) == {"headers", "pr_summaries", "snapshot window"}
    assert found["headers"] == "3 rows missing, 0 wrong, 3 too many"
    assert "published by a clock that ran ahead" in found["snapshot window"]

    pages.rollover()
    stages.drain()
    assert (alerts(database, "rollover"), status(database)["rollover"]["due"]) == ([], 0)
    assert findings(database, account) == {}


def test_a_window_that_has_passed_is_no_success_of_verify(database, stages, pages):
    """Nothing differs from a rebuild of its window, but readers of today are refused."""
    [account] = published_accounts(database, 1)
    let_days_pass(database, 1, [account])
    assert findings(database, account) == {}
    let_days_pass(database, 1, [account])
    assert set(findings(database, account)) == {"snapshot window"}

    pages.rollover()
    stages.drain()
    assert findings(database, account) == {}


@pytest.mark.parametrize("days", [1, THREE_DAYS, SIX_MONTHS])
def test_the_repair_finds_a_window_ahead_by_itself(database, stages, pages, days):
    """Also where nothing says when it is due."""
    account, healthy = [*publish_ahead(database, days), *published_accounts(database, 1)]
    database.admin(
        f"update public.user_pr_overview_rollover_state set due_at = ({TODAY} + 1)::timestamp at time zone 'UTC'"
    )
    assert sum(page["found"] for page in pages.repair_lap()) == 1
    assert requested(database) == [account.user_id]
    stages.drain()
    assert_readable_today(database, account)
    assert healthy.state() == (1, 1)
    assert pages.repair()["found"] == 0
