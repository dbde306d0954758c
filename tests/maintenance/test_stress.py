"""Everything at once on a few accounts: saves, deletes, catalog changes, stages and pages, and no deadlock."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from conftest import Database
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount, Json, Stages

from maintenance.scene import (
    Pages,
    assert_all_equal_reckoning,
    change_global,
    global_exercise,
    let_days_pass,
    published_accounts,
    settings,
)

SECONDS = 8
SLOWEST_SAVE_MS = 2000
DAYS = [f"2026-03-{day:02}" for day in range(10, 20)]
TRACKINGS = ["weight_reps", "duration", "reps_only"]


def test_pages_saves_and_stages_never_deadlock_and_end_equal_to_the_reckoning(database):
    exercise = global_exercise(database, "Plank", "weight_duration")
    accounts = published_accounts(database, 6)
    stages, pages = Stages(database), Pages(database)
    settings(database, active_lease_cap=4)
    let_days_pass(database, 1, accounts)
    ended, saves, page_times = time.monotonic() + SECONDS, [], []
    answers, errors, failures = Counter(), [], []
    [[budget_ms]] = database.admin(
        "select maintenance_budget_ms from public.stats_projection_worker_settings"
    )

    def repeatedly(step: Callable[[random.Random], object], seed: int) -> None:
        dice = random.Random(seed)
        while time.monotonic() < ended:
            try:
                step(dice)
            except DBAPIError as error:
                errors.append((error.orig.pgcode, str(error.orig)))

    def save(dice: random.Random) -> None:
        account = dice.choice(accounts)
        started = time.monotonic()
        receipt = account.save(
            account.block("Squat", (None, dice.randrange(1, 15))), session_date=dice.choice(DAYS)
        )
        saves.append((time.monotonic() - started) * 1000)
        if dice.random() < 0.4:
            account.delete(receipt["session_id"])

    def save_global(dice: random.Random) -> None:
        save_with_any_tracking(dice.choice(accounts), exercise, dice.choice(DAYS))

    def change(dice: random.Random) -> None:
        """Change the catalog, an account's own exercise by hand, and let its day turn."""
        change_global(database, exercise, "Plank", dice.choice(TRACKINGS))
        account = dice.choice(accounts)
        database.admin(
            "update public.exercises set tracking = :tracking where id = :id",
            tracking=dice.choice(TRACKINGS),
            id=account.exercises["Squat"],
        )
        database.admin(
            "update public.user_pr_overview_rollover_state set due_at = now(), next_retry_at = null"
            " where user_id = :user",
            user=account.user_id,
        )

    def count(kind: str, answer: Json) -> str:
        """A deadlock within a function is caught there: its answer is `failed`, and says why."""
        answers[f"{kind}: {answer['response']}"] += 1
        if answer["response"] in ("failed", "retry_pending"):
            failures.append((kind, answer))
        return answer["response"]

    def work(_: random.Random) -> None:
        run = stages.claim()
        if count("claim", run) == "claimed" and count("compute", stages.compute(run)) == "computed":
            count("publish", stages.publish(run))

    def page(dice: random.Random) -> None:
        started = time.monotonic()
        answer = dice.choice([pages.rollover, pages.walk, pages.repair, pages.purge])(dice.randrange(1, 8))
        page_times.append((time.monotonic() - started) * 1000)
        count("page", answer)

    steps = [save, save, save_global, change, work, work, work, page, page, page]
    with ThreadPoolExecutor(len(steps)) as threads:
        for done in [threads.submit(repeatedly, step, seed) for seed, step in enumerate(steps)]:
            done.result(SECONDS + 60)

    assert errors == []
    assert failures == []
    assert recorded_deadlocks(database) == []
    assert answers["publish: published"] > 0, answers
    assert {"page: enqueued", "page: walked", "page: scanned", "page: purged"} <= set(answers), answers
    assert max(saves) < SLOWEST_SAVE_MS, f"a save waited {max(saves):.0f} ms"
    assert max(page_times) < budget_ms, f"a page took {max(page_times):.0f} ms"
    pages.walk_to_the_end()
    database.admin("update public.user_exercise_stats_refresh_jobs set retry_not_before = null")
    stages.drain()
    assert_all_equal_reckoning(database, accounts)
    assert [lap["found"] for lap in pages.repair_lap()] == [0]


def recorded_deadlocks(database: Database) -> list[tuple]:
    """Return every trace of a deadlock that a stage or a page was the victim of and recorded."""
    return database.admin("""
        select 'run', r.id::text, r.error
        from public.user_stats_projection_runs r where r::text ~* '40P01|deadlock'
        union all
        select 'job', j.id::text, j.metadata::text
        from public.user_exercise_stats_refresh_jobs j where j::text ~* '40P01|deadlock'
        union all
        select 'page', c.job, c.last_error
        from public.stats_maintenance_cursors c where c.last_error ~* '40P01|deadlock'
        union all
        select 'rollover', s.user_id::text, s.last_error
        from public.user_pr_overview_rollover_state s where s.last_error ~* '40P01|deadlock'
        union all
        select 'server', d.datname, d.deadlocks::text
        from pg_stat_database d where d.datname = current_database() and d.deadlocks > 0
    """)


def save_with_any_tracking(account: AppAccount, exercise: str, day: str) -> None:
    """Save a session that is valid however the exercise is tracked at the moment."""
    account.save({"exercise_id": exercise, "sets": [{"reps": 8, "duration_seconds": 60}]}, session_date=day)
