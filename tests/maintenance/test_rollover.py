"""Midnight: who is due gets a generation that moves the window, and readers never notice."""

from __future__ import annotations

import pytest
from interleavings.scene import READ_MODELS, admin_session, assert_converges, picture
from sqlalchemy.exc import DBAPIError
from support.races import session

from maintenance.scene import (
    ROLLOVER,
    Pages,
    assert_all_equal_reckoning,
    end_waits,
    exhaust,
    let_days_pass,
    open_jobs,
    published_accounts,
    requested,
    settings,
    write_lock,
)

TODAY = "(now() at time zone 'UTC')::date"


def overview(account, day=TODAY):
    """Return the PR board of `day`, or why there is none."""
    try:
        return account.call(f"select public.get_pr_overview({day})")
    except DBAPIError as error:
        if error.orig.pgcode != "55000":
            raise
        return error.orig.diag.message_detail


def rollover_row(database, account, *columns):
    [row] = database.admin(
        f"select {', '.join(columns)} from public.user_pr_overview_rollover_state where user_id = :user",
        user=account.user_id,
    )
    return row


def test_a_publication_is_due_again_at_the_next_midnight_utc(database, stages, app_account):
    app_account.save()
    stages.drain()

    [(due_at, expected, generation)] = database.admin(
        f"select due_at, ({TODAY} + 1)::timestamp at time zone 'UTC', generation"
        " from public.user_pr_overview_rollover_state"
    )
    assert due_at == expected
    assert generation == 1


def test_nobody_is_due_before_midnight(database, pages):
    published_accounts(database, 2)

    assert pages.rollover() == {"response": "idle", "requested": 0, "skipped": 0, "has_more": False}
    assert requested(database) == []


def test_a_due_account_gets_a_generation_that_moves_the_window_alone(database, stages, pages):
    [account] = published_accounts(database, 1)
    let_days_pass(database, 1, [account])
    before = picture(database, READ_MODELS)

    page = pages.rollover()

    assert (page["response"], page["requested"], page["has_more"]) == ("enqueued", 1, False)
    assert picture(database, READ_MODELS) == before
    assert open_jobs(database, "event_type", "priority", "window_only", "from_date", "exercise_ids") == [
        ("pr_snapshot_rollover", 1, True, None, [])
    ]
    assert_converges(stages, account)
    assert rollover_row(database, account, "failures", "next_retry_at", "generation") == (0, None, 2)


def test_today_is_read_all_day_long_before_the_rollover_came(database, pages):
    """The window reaches a day ahead, so midnight itself refuses nobody."""
    [account] = published_accounts(database, 1)
    let_days_pass(database, 1, [account])

    assert overview(account)["generation"] == 1


def test_after_a_missed_day_the_reader_waits_only_for_the_rollover(database, stages, pages):
    [account] = published_accounts(database, 1)
    let_days_pass(database, 2, [account])
    assert overview(account) == "behind"

    pages.rollover()
    stages.drain()

    assert overview(account)["generation"] == 2
    assert overview(account, f"{TODAY} - 1")["generation"] == 2
    assert overview(account, f"{TODAY} + 1")["generation"] == 2
    assert_all_equal_reckoning(database, [account])
    assert pages.rollover()["response"] == "idle"


def test_a_page_takes_ten_or_as_many_as_the_setting_says_but_never_over_25(database, pages):
    let_days_pass(database, 1, published_accounts(database, 60))

    assert pages.rollover()["requested"] == 10
    settings(database, rollover_page=3)
    assert pages.rollover()["requested"] == 3
    page = pages.rollover(1000)
    assert (page["requested"], page["has_more"]) == (25, True)
    page = pages.rollover(25)
    assert (page["requested"], page["has_more"]) == (22, False)


def test_the_one_that_is_due_longest_is_taken_first(database, pages):
    accounts = published_accounts(database, 4)
    let_days_pass(database, 1, accounts)
    let_days_pass(database, 1, accounts[2:3])

    pages.rollover(1)

    assert requested(database) == [accounts[2].user_id]


def test_two_pages_at_once_take_different_accounts(database, pages):
    accounts = published_accounts(database, 4)
    let_days_pass(database, 1, accounts)

    with session(database, "other worker") as other:
        assert other.run(ROLLOVER, limit=2)["requested"] == 2
        page = pages.rollover(2)
        other.commit()

    assert page["requested"] == 2
    assert requested(database) == [account.user_id for account in accounts]
    assert pages.rollover()["response"] == "idle"


def test_accounts_that_wait_already_are_out_of_the_way_of_those_behind_them(database, stages, pages):
    """A page full of stale accounts asks for the next page, which gets to the others."""
    accounts = published_accounts(database, 7)
    let_days_pass(database, 1, accounts)
    stale, due = accounts[:5], accounts[5:]
    let_days_pass(database, 1, stale)
    for account in stale:
        account.save()

    page = pages.rollover(5)
    assert (page["requested"], page["skipped"], page["has_more"]) == (0, 5, True)
    assert pages.rollover(5)["requested"] == 2
    assert {job for (job,) in open_jobs(database, "requested_version") if job > 2} == set()

    # Their own generation moves the window as well.
    stages.drain()
    end_waits(database)
    assert pages.rollover()["response"] == "idle"
    assert all(overview(account)["generation"] == 2 for account in [*stale, *due])
    assert_all_equal_reckoning(database, accounts)


def test_an_account_that_somebody_writes_to_is_left_for_later(database, pages):
    busy, free = published_accounts(database, 2)
    let_days_pass(database, 1, [busy, free])
    let_days_pass(database, 1, [busy])

    with admin_session(database, "writer") as writer:
        write_lock(writer, busy)
        page = pages.rollover(2)

    assert (page["requested"], page["skipped"]) == (1, 1)
    assert requested(database) == [free.user_id]
    end_waits(database)
    pages.rollover()
    assert requested(database) == sorted([busy.user_id, free.user_id])


def test_a_failed_rollover_counts_and_is_looked_at_ever_less_often_until_it_is_resumed(
    database, stages, pages
):
    [account] = published_accounts(database, 1)
    let_days_pass(database, 1, [account])
    pages.rollover()
    exhaust(database, account)

    waits = []
    for _ in range(8):
        end_waits(database)
        assert pages.rollover()["skipped"] == 1
        waits += rollover_row(database, account, "extract(epoch from next_retry_at - clock_timestamp())")
    assert [round(float(wait) / 60) for wait in waits] == [2, 4, 8, 16, 32, 60, 60, 60]
    assert rollover_row(database, account, "failures", "last_error") == (
        8,
        "an exhausted job holds the account",
    )
    # Maintenance does not revive it.
    assert account.jobs("status") == [("completed",), ("failed",)]
    assert (
        database.as_service().value("select public.stats_projection_worker_status_v1()")["rollover"][
            "failing"
        ]
        == 1
    )

    [(job,)] = account.database.admin(
        "select id from public.user_exercise_stats_refresh_jobs where status = 'failed'"
    )
    database.as_service()("select public.stats_projection_resume_job_v1(:job)", job=job)
    stages.drain()
    assert rollover_row(database, account, "failures", "last_error", "next_retry_at") == (0, None, None)
    assert_all_equal_reckoning(database, [account])


def test_a_rollover_that_no_state_stands_behind_holds_up_nobody(database, pages):
    [account] = published_accounts(database, 1)
    let_days_pass(database, 1, [account])
    database.admin(
        "insert into public.user_pr_overview_rollover_state (user_id, due_at, generation)"
        " select gen_random_uuid(), '2020-01-01', 1 from generate_series(1, 10)"
    )

    assert pages.rollover()["has_more"]
    assert pages.rollover()["requested"] == 1
    assert requested(database) == [account.user_id]


def test_a_new_policy_widens_the_rollover_to_everything(database, stages, pages):
    [account] = published_accounts(database, 1)
    let_days_pass(database, 1, [account])
    pages.rollover()
    database.as_service()("select public.update_stats_projection_policy_v1('epley')")

    assert_converges(stages, account)


@pytest.mark.parametrize("pending", [9_999, 10_000])
def test_pages_stop_while_too_many_wait(database, pages: Pages, pending: int):
    [account] = published_accounts(database, 1)
    let_days_pass(database, 1, [account])
    database.admin(
        "insert into public.user_exercise_stats_refresh_jobs (user_id, event_type, requested_version, priority)"
        " select gen_random_uuid(), 'pr_snapshot_rollover', 1, 1 from generate_series(1, :pending)",
        pending=pending,
    )

    page = pages.rollover()

    assert page["response"] == ("enqueued" if pending < 10_000 else "backlogged")
    assert account.state() == ((2, 1) if pending < 10_000 else (1, 1))
