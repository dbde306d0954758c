"""Everything at once on a few accounts: saves, deletes, catalog changes, stages and pages, and no deadlock."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy.exc import DBAPIError
from support.app import AppAccount, Stages

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
    ended, saves, answers, errors = time.monotonic() + SECONDS, [], Counter(), []

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

    def work(_: random.Random) -> None:
        run = stages.claim()
        if run["response"] == "claimed":
            computed = stages.compute(run)
            answers[computed["response"]] += 1
            if computed["response"] == "computed":
                answers[stages.publish(run)["response"]] += 1

    def page(dice: random.Random) -> None:
        answer = dice.choice([pages.rollover, pages.walk, pages.repair, pages.purge])(dice.randrange(1, 8))
        answers[f"page: {answer['response']}"] += 1

    steps = [save, save, save_global, change, work, work, work, page, page, page]
    with ThreadPoolExecutor(len(steps)) as threads:
        for done in [threads.submit(repeatedly, step, seed) for seed, step in enumerate(steps)]:
            done.result(SECONDS + 60)

    assert errors == []
    assert answers["page: failed"] == 0
    assert answers["published"] > 0, answers
    assert {"page: enqueued", "page: walked", "page: scanned", "page: purged"} <= set(answers), answers
    assert max(saves) < SLOWEST_SAVE_MS, f"a save waited {max(saves):.0f} ms"
    pages.walk_to_the_end()
    database.admin("update public.user_exercise_stats_refresh_jobs set retry_not_before = null")
    stages.drain()
    assert_all_equal_reckoning(database, accounts)
    assert [lap["found"] for lap in pages.repair_lap()] == [0]


def save_with_any_tracking(account: AppAccount, exercise: str, day: str) -> None:
    """Save a session that is valid however the exercise is tracked at the moment."""
    account.save({"exercise_id": exercise, "sets": [{"reps": 8, "duration_seconds": 60}]}, session_date=day)
