"""A maintenance page waits for nobody: neither for the worker on the same page nor for an account's writer."""

from __future__ import annotations

import pytest
from maintenance.scene import (
    PURGE,
    REPAIR,
    ROLLOVER,
    WALK,
    change_global,
    exhaust,
    global_exercise,
    let_days_pass,
    published_accounts,
    save_with,
    write_lock,
)

from .scene import admin_session, outcome, session, wait_until_blocked_or_done


def answer_at_once(database, page, statement):
    """Start the page and return its answer, which it has to give while the others hold what they hold."""
    answer = page.start(statement, limit=5)
    wait_until_blocked_or_done(database, page, answer)
    assert answer.done(), "the page waited"
    return outcome(answer)


@pytest.mark.parametrize("statement", [REPAIR, WALK], ids=["repair", "walk"])
def test_a_page_that_another_worker_runs_is_left_to_it(database, statement):
    with session(database, "first") as first, session(database, "second") as second:
        first.run(statement, limit=5)
        assert answer_at_once(database, second, statement) == {"response": "idle", "has_more": False}


def test_a_page_passes_by_an_account_that_somebody_writes_to(database, app_account, stages):
    app_account.save()
    stages.drain()
    let_days_pass(database, 1, [app_account])
    with admin_session(database, "writer") as writer, session(database, "page") as page:
        write_lock(writer, app_account)
        answer = answer_at_once(database, page, ROLLOVER)
        assert (answer.get("requested"), answer.get("skipped")) == (0, 1)
        page.commit()
    assert app_account.state() == (1, 1)


def test_two_pages_of_the_rollover_take_different_accounts(database, app_account, stages):
    app_account.save()
    stages.drain()
    let_days_pass(database, 1, [app_account])
    with session(database, "first") as first, session(database, "second") as second:
        assert first.run(ROLLOVER, limit=5)["requested"] == 1
        assert answer_at_once(database, second, ROLLOVER).get("response") == "idle"
        first.commit()
    assert app_account.state() == (2, 1)


def test_a_page_of_the_repair_passes_by_an_account_that_somebody_writes_to(database, app_account, stages):
    app_account.save()
    stages.drain()
    database.admin("delete from public.user_calendar_day_summaries")
    with admin_session(database, "writer") as writer, session(database, "page") as page:
        write_lock(writer, app_account)
        answer = answer_at_once(database, page, REPAIR)
        assert (answer.get("checked"), answer.get("found")) == (1, 0)
        page.commit()
    assert app_account.state() == (1, 1)


def test_a_rollover_waits_for_nobody_who_looks_at_its_cursor(database, app_account, stages):
    app_account.save()
    stages.drain()
    let_days_pass(database, 1, [app_account])
    with admin_session(database, "operator") as operator, session(database, "page") as page:
        operator.run("select job from public.stats_maintenance_cursors where job = 'rollover' for update")
        assert answer_at_once(database, page, ROLLOVER).get("requested") == 1


@pytest.fixture
def walked(database, stages):
    """An account that uses a global exercise, which has just changed."""
    exercise = global_exercise(database)
    [account] = published_accounts(database, 1)
    save_with(account, exercise)
    stages.drain()
    change_global(database, exercise, "Plank", "duration")
    return account, exercise


def test_a_walk_leaves_a_scope_that_somebody_is_changing_to_the_next_page(database, walked):
    with admin_session(database, "late") as late, session(database, "page") as page:
        late.run("update public.exercises set tracking = 'reps_only' where id = :id", id=walked[1])
        assert answer_at_once(database, page, WALK).get("response") == "idle"


def test_a_page_waits_for_nobody_who_resumes_an_exhausted_job(database, walked):
    account, _ = walked
    account.save()
    exhaust(database, account)
    with admin_session(database, "operator") as operator, session(database, "page") as page:
        operator.run(
            "select id from public.user_exercise_stats_refresh_jobs where status = 'failed' for update"
        )
        assert answer_at_once(database, page, WALK).get("requested") == 1


def test_a_purge_waits_for_nobody_who_holds_what_is_old(database, app_account, stages):
    app_account.save()
    stages.drain()
    database.admin(
        "update public.user_exercise_stats_refresh_jobs"
        " set created_at = now() - interval '8 days', completed_at = now() - interval '8 days'"
    )
    database.admin("update public.user_stats_projection_runs set completed_at = now() - interval '8 days'")
    database.admin("update public.stats_mutation_receipts set created_at = now() - interval '31 days'")
    database.admin(
        "insert into stats_private.stats_input_days values (gen_random_uuid(), current_date, 1, '{}', 0)"
    )
    with admin_session(database, "operator") as operator, session(database, "page") as page:
        for table in (
            "public.user_exercise_stats_refresh_jobs",
            "public.user_stats_projection_runs",
            "public.stats_mutation_receipts",
            "stats_private.stats_input_days",
        ):
            operator.run(f"select 1 from {table} for update")
        answer = answer_at_once(database, page, PURGE)
        assert answer.get("response") == "purged"
        assert set(answer["deleted"].values()) == {0}
