"""The scan over all accounts: damage of every kind is found within a lap; what is healthy or stale is left alone."""

from __future__ import annotations

import pytest
from interleavings.scene import admin_session, on_insert
from support.app import AppAccount, Stages
from support.races import session

from maintenance.damage import READ_MODELS, add, alter, remove, remove_all
from maintenance.scene import (
    REPAIR,
    assert_all_equal_reckoning,
    exhaust,
    let_days_pass,
    open_jobs,
    published_accounts,
    requested,
    settings,
    write_lock,
)

ENQUEUE_DAMAGED = "select stats_private.enqueue_damaged(cast(:damaged as jsonb))"


@pytest.fixture
def accounts(database):
    """Four published accounts with a history that fills every read model, in the order of their ids."""
    made = published_accounts(database, 4)
    for account in made:
        account.save(account.block("Bench", (60, 8), (62.5, 6)), session_date="2025-11-02", title="Morning")
        account.save(account.block("Squat", (110, 4)), session_date="2026-03-12")
    Stages(database).drain()
    return made


@pytest.mark.parametrize(
    "damage", [remove, remove_all, alter, add], ids=["removed", "all removed", "altered", "added"]
)
@pytest.mark.parametrize("table", READ_MODELS, ids=[name.partition(".")[2] for name in READ_MODELS])
def test_damage_is_found_within_a_lap_and_repaired(database, stages, pages, accounts, table, damage):
    damaged = accounts[2]
    before = database.admin(f"select t::text from {table} t order by 1")
    damage(database, table, damaged)
    assert database.admin(f"select t::text from {table} t order by 1") != before

    lap = pages.repair_lap(limit=2)

    assert sum(page["found"] for page in lap) == 1
    assert open_jobs(
        database, "user_id", "event_type", "priority", "from_date", "exercise_ids", "window_only"
    ) == [(damaged.user_id, "scheduled_stats_backfill", 1, None, [], False)]
    stages.drain()
    assert_all_equal_reckoning(database, accounts)
    assert [page["found"] for page in pages.repair_lap()] == [0]


def test_header_of_another_generation_is_damage(database, stages, pages, accounts):
    database.admin(
        "update public.user_pr_overview_snapshot_headers set generation = 1 where user_id = :user",
        user=accounts[0].user_id,
    )

    assert pages.repair()["found"] == 1
    stages.drain()
    assert pages.repair()["found"] == 0


@pytest.mark.parametrize(
    "damage",
    [
        "delete from public.user_pr_overview_rollover_state where user_id = :user",
        "update public.user_pr_overview_rollover_state set due_at = due_at + interval '1 day' where user_id = :user",
    ],
    ids=["lost", "too late"],
)
def test_an_account_whose_window_would_not_move_is_repaired(database, stages, pages, accounts, damage):
    due = "select user_id, due_at from public.user_pr_overview_rollover_state order by 1"
    before = database.admin(due)
    database.admin(damage, user=accounts[1].user_id)

    assert pages.repair()["found"] == 1
    stages.drain()

    assert database.admin(due) == before
    assert pages.repair()["found"] == 0


def test_healthy_accounts_are_left_alone(database, stages, pages, accounts):
    let_days_pass(database, 1, accounts)
    pages.rollover()
    stages.drain()
    database.admin("update public.user_stats_refresh_state set updated_at = now() - interval '9 days'")

    page = pages.repair()

    assert page == {"response": "scanned", "checked": 4, "found": 0, "lap_ended": True, "has_more": False}
    assert requested(database) == []


def test_stale_accounts_are_left_alone(database, stages, pages, accounts):
    """Their own generation mends them: the scan adds none, to a waiting, a running or an exhausted one."""
    waiting, running, exhausted, _ = accounts
    for account in accounts[:3]:
        remove_all(database, "public.user_calendar_day_summaries", account)
        account.save()
    exhaust(database, exhausted)
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set priority = 1 where user_id = :user and status = 'pending'",
        user=waiting.user_id,
    )
    run = stages.claim()
    assert run["user_id"] == str(running.user_id)
    before = [account.state() for account in accounts]

    assert pages.repair()["found"] == 0

    assert [account.state() for account in accounts] == before
    assert exhausted.jobs("status")[-1] == ("failed",)


def test_an_account_that_was_saved_since_its_comparison_is_left_to_its_own_generation(
    database, stages, pages, accounts
):
    """The difference may have been the new session; damage that is left is found in the next lap."""
    account = accounts[0]
    remove_all(database, "public.user_calendar_day_summaries", account)
    with admin_session(database, "page") as page:
        damaged = page.run("select (stats_private.compare_page(null, 100)).damaged::text")
        assert str(account.user_id) in damaged
        account.save(session_date="2026-05-05")
        assert page.run(ENQUEUE_DAMAGED, damaged=damaged) == 0

    assert account.state() == (4, 3)
    stages.drain()
    assert pages.repair()["found"] == 1
    stages.drain()
    assert_all_equal_reckoning(database, accounts)


def test_an_account_that_somebody_writes_to_is_left_for_the_next_lap(database, stages, pages, accounts):
    remove(database, "public.user_calendar_day_summaries", accounts[1])
    with admin_session(database, "writer") as writer:
        write_lock(writer, accounts[1])
        assert pages.repair()["found"] == 0

    assert pages.repair()["found"] == 1


def test_source_rows_that_no_generation_stands_for_are_found(database, stages, pages, accounts):
    """Loaded past the save functions: another session of a published account, and an account of nothing else."""
    stranger = AppAccount(database)
    for account in (accounts[3], stranger):
        database.admin(
            "with s as (insert into public.workout_sessions (user_id, session_date)"
            " values (:user, '2026-04-04') returning id),"
            " p as (insert into public.session_exercise_part (session_id, user_id, exercise_id, position)"
            " select id, :user, :exercise, 1 from s returning id)"
            " insert into public.session_sets (part_id, set_no, weight_kg, reps) select id, 1, 80, 5 from p",
            user=account.user_id,
            exercise=account.exercise(),
        )

    assert sum(page["found"] for page in pages.repair_lap(2)) == 2
    stages.drain()
    assert_all_equal_reckoning(database, [*accounts, stranger])


def test_orphans_of_an_account_that_has_nothing_else_are_removed(database, stages, pages, accounts):
    gone = accounts[1]
    database.admin("delete from public.workout_sessions where user_id = :user", user=gone.user_id)
    database.admin("delete from public.user_stats_refresh_state where user_id = :user", user=gone.user_id)

    assert sum(page["found"] for page in pages.repair_lap(2)) == 1
    stages.drain()
    assert database.admin(
        "select count(*) from public.user_pr_exercise_summary_snapshots where user_id = :user",
        user=gone.user_id,
    ) == [(0,)]
    assert sum(page["found"] for page in pages.repair_lap()) == 0


def test_a_deleted_account_is_not_brought_back(database, pages, accounts):
    gone = accounts[1]
    remove(database, "public.user_calendar_day_summaries", gone)
    with admin_session(database, "page") as page:
        damaged = page.run("select (stats_private.compare_page(null, 100)).damaged::text")
        while not database.as_service().value("select public.delete_account_v1(:user)", user=gone.user_id)[
            "done"
        ]:
            pass
        assert page.run(ENQUEUE_DAMAGED, damaged=damaged) == 0
        page.commit()

    assert database.admin("select user_id from public.user_stats_refresh_state order by 1") == [
        (account.user_id,) for account in accounts if account is not gone
    ]


def test_the_cursor_survives_a_worker_that_dies_and_laps_are_counted(database, pages, accounts):
    remove(database, "public.user_exercise_records", accounts[3])
    assert pages.repair(2)["lap_ended"] is False
    cursor = pages.cursor("repair")
    assert (cursor["cursor"], cursor["laps"]) == (str(accounts[1].user_id), 0)
    assert cursor["lap_started_at"]

    with session(database, "dying worker") as dying:
        assert dying.run(REPAIR, limit=2)["found"] == 1
    assert pages.cursor("repair") == cursor

    page = pages.repair(2)
    assert (page["found"], page["lap_ended"]) == (1, True)
    cursor = pages.cursor("repair")
    assert (cursor["cursor"], cursor["laps"], cursor["lap_started_at"]) == (None, 1, None)


def test_two_scans_at_once_are_one(database, pages, accounts):
    with session(database, "other worker") as other:
        other.run(REPAIR, limit=2)
        assert pages.repair(2) == {"response": "idle", "has_more": False}


def test_a_page_ends_when_half_its_budget_is_used_and_the_next_goes_on(database, pages, accounts):
    """Each comparison takes 600 ms here, of a budget of 2 s."""
    remove(database, "public.user_exercise_records", accounts[3])
    settings(database, maintenance_budget_ms=2000)
    on_insert(database, "stats_private.stats_input_days", "perform pg_catalog.pg_sleep(0.6);")

    lap = pages.repair_lap()

    assert {page["response"] for page in lap} == {"scanned"}
    assert len(lap) >= 2
    assert sum(page["checked"] for page in lap) == 4
    assert sum(page["found"] for page in lap) == 1


def test_an_account_that_takes_longer_than_the_budget_does_not_keep_the_lap_from_the_others(
    database, pages, accounts
):
    settings(database, maintenance_budget_ms=1000)
    slow, damaged = accounts[1], accounts[3]
    for account in (accounts[0], damaged):
        remove(database, "public.user_exercise_records", account)
    database.admin(
        "create function public.scene_slow() returns trigger language plpgsql as $scene$ begin"
        " if new.day = '2001-01-01' then perform pg_catalog.pg_sleep(30); end if; return new; end $scene$"
    )
    database.admin(
        "create trigger scene_slow before insert on stats_private.stats_input_days for each row"
        " execute function public.scene_slow()"
    )
    # Healthy otherwise: the day is in its history.
    database.admin(
        "insert into public.workout_sessions (user_id, session_date) values (:user, '2001-01-01')",
        user=slow.user_id,
    )

    first = pages.repair()
    assert (first["response"], first["checked"], first["found"]) == ("scanned", 1, 1)
    failures = [pages.repair() for _ in range(3)]
    assert [page["response"] for page in failures] == ["failed"] * 3
    assert [page.get("passed_user_id") for page in failures] == [None, None, str(slow.user_id)]
    assert pages.cursor("repair")["attempt_count"] == 3

    page = pages.repair()
    assert (page["checked"], page["found"], page["lap_ended"]) == (2, 1, True)
    assert requested(database) == [accounts[0].user_id, damaged.user_id]


def test_the_scan_as_the_schedule_calls_it(database, pages, accounts):
    remove(database, "public.user_exercise_records", accounts[0])

    answer = database.as_service().value("select public.run_user_exercise_stats_backfill_scan_cron()")

    assert (answer["response"], answer["checked"], answer["found"]) == ("scanned", 4, 1)
