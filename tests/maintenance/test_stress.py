"""Everything at once on a few accounts: saves, deletes, changes, accounts that come and go, stages and pages."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from conftest import Database
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount, Json, Stages

from core.processes import wait_until
from maintenance.scene import (
    Pages,
    assert_all_equal_reckoning,
    change_global,
    global_exercise,
    let_days_pass,
    private_outputs,
    published_accounts,
    settings,
    traces,
)

SECONDS = 8
SLOWEST_SAVE_MS = 2000
DELETION_DEADLINE = 20
DAYS = [f"2026-03-{day:02}" for day in range(10, 20)]
TRACKINGS = ["weight_reps", "duration", "reps_only"]
CHANGE_POLICY = "select public.update_stats_projection_policy_v1(:formula, :most_reps, :week_start)"
DELETE_ACCOUNT = "select public.delete_account_v1(:user)"


def test_pages_saves_and_stages_never_deadlock_and_end_equal_to_the_reckoning(database):
    exercise = global_exercise(database, "Plank", "weight_duration")
    accounts = published_accounts(database, 6)
    settings(database, active_lease_cap=4)
    let_days_pass(database, 1, accounts)
    [[budget_ms]] = database.admin(
        "select maintenance_budget_ms from public.stats_projection_worker_settings"
    )

    everybody = Everybody(database, exercise, accounts)
    everybody.at_once()

    answers, pages = everybody.answers, everybody.pages
    assert everybody.errors == []
    assert everybody.failures == []
    assert recorded_deadlocks(database) == []
    assert answers["publish: published"] > 0, answers
    assert {"page: enqueued", "page: walked", "page: scanned", "page: purged"} <= set(answers), answers
    assert {"walk: global", "walk: own", "walk: policy"} <= set(answers), answers
    assert max(everybody.saves) < SLOWEST_SAVE_MS, f"a save waited {max(everybody.saves):.0f} ms"
    assert max(everybody.page_times) < budget_ms, f"a page took {max(everybody.page_times):.0f} ms"
    assert answers["deletion: done"] == len(everybody.gone) > 0, answers
    assert answers["deletion: worker"] + answers["deletion: run"] > 0, answers
    pages.walk_to_the_end()
    database.admin("update public.user_exercise_stats_refresh_jobs set retry_not_before = null")
    everybody.stages.drain()
    assert_all_equal_reckoning(database, accounts)
    assert [lap["found"] for lap in pages.repair_lap()] == [0]
    assert traces(database, everybody.gone) == {}
    assert private_outputs(database) == {}
    # The purge would have hidden what a deletion left.
    assert answers["purge: outputs without a run"] == 0, answers


@dataclass
class Everybody:
    """Who does what at once, and what came of it."""

    database: Database
    exercise: str
    """Of the catalog."""
    accounts: Sequence[AppAccount]
    stages: Stages = field(init=False)
    pages: Pages = field(init=False)
    gone: list[AppAccount] = field(default_factory=list)
    saves: list[float] = field(default_factory=list)
    page_times: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    errors: list[tuple[str, str]] = field(default_factory=list)
    failures: list[tuple[str, Json]] = field(default_factory=list)
    _ends_at: float = 0.0

    def __post_init__(self) -> None:
        self.stages, self.pages = Stages(self.database), Pages(self.database)

    def at_once(self) -> None:
        """Let everybody do the same again and again for SECONDS."""
        steps = [self.save, self.save, self.save_global, self.change]
        steps += 4 * [self.come_and_go] + 3 * [self.work] + 3 * [self.page]
        self._ends_at = time.monotonic() + SECONDS
        with ThreadPoolExecutor(len(steps)) as threads:
            for done in [threads.submit(self._repeatedly, step, seed) for seed, step in enumerate(steps)]:
                done.result(SECONDS + 60)

    def is_over(self) -> bool:
        return time.monotonic() > self._ends_at

    def _repeatedly(self, step: Callable[[random.Random], object], seed: int) -> None:
        dice = random.Random(seed)
        while not self.is_over():
            try:
                step(dice)
            except DBAPIError as error:
                self.errors.append((error.orig.pgcode, str(error.orig)))

    def count(self, kind: str, answer: Json) -> str:
        """A deadlock within a function is caught there: its answer is `failed`, and says why."""
        self.answers[f"{kind}: {answer['response']}"] += 1
        if answer["response"] in ("failed", "retry_pending"):
            self.failures.append((kind, answer))
        return answer["response"]

    # ------------------------------------------------------------ steps

    def save(self, dice: random.Random) -> None:
        account = dice.choice(self.accounts)
        started = time.monotonic()
        receipt = account.save(
            account.block("Squat", (None, dice.randrange(1, 15))), session_date=dice.choice(DAYS)
        )
        self.saves.append((time.monotonic() - started) * 1000)
        if dice.random() < 0.4:
            account.delete(receipt["session_id"])

    def save_global(self, dice: random.Random) -> None:
        save_with_any_tracking(dice.choice(self.accounts), self.exercise, dice.choice(DAYS))

    def change(self, dice: random.Random) -> None:
        """Change the catalog, an account's own exercise by hand, and the policy, and let the account's day turn."""
        change_global(self.database, self.exercise, "Plank", dice.choice(TRACKINGS))
        account = dice.choice(self.accounts)
        change_own(account, dice.choice(TRACKINGS))
        let_its_day_turn(account)
        change_policy(self.database, dice)

    def come_and_go(self, dice: random.Random) -> None:
        """Make an account, and delete it before, while or after somebody works on it."""
        account = AppAccount(self.database)
        account.save(account.block("Squat", (100, 5), (110, 2)), session_date=dice.choice(DAYS))
        save_with_any_tracking(account, self.exercise, dice.choice(DAYS))
        change_own(account, dice.choice(TRACKINGS))
        reached = dice.choice([lambda _: True, was_taken_up, was_taken_up, is_published, is_published])
        wait_until(lambda: self.is_over() or reached(account), SECONDS)
        if reached is is_published:
            save_with_any_tracking(account, self.exercise, dice.choice(DAYS))
            let_its_day_turn(account)
        assert wait_until(partial(self._is_deleted, account), DELETION_DEADLINE), "never deleted"
        self.gone.append(account)

    def _is_deleted(self, account: AppAccount) -> bool:
        """Ask once; while somebody is at work on the account nothing is deleted, and one asks again."""
        answer = self.database.as_service().value(DELETE_ACCOUNT, user=account.user_id)
        self.answers[f"deletion: {'done' if answer['done'] else answer['waiting_for']}"] += 1
        if not answer["done"]:
            assert answer["waiting_for"] in ("worker", "run"), answer
            assert answer["deleted"] == 0, answer
        return answer["done"]

    def work(self, _: random.Random) -> None:
        run = self.stages.claim()
        if (
            self.count("claim", run) == "claimed"
            and self.count("compute", self.stages.compute(run)) == "computed"
        ):
            self.count("publish", self.stages.publish(run))

    def page(self, dice: random.Random) -> None:
        pages = self.pages
        started = time.monotonic()
        answer = dice.choice([pages.rollover, pages.walk, pages.repair, pages.purge])(dice.randrange(1, 8))
        self.page_times.append((time.monotonic() - started) * 1000)
        response = self.count("page", answer)
        if response == "walked":
            is_shared = answer["scope"] in ("global", "policy")
            self.answers[f"walk: {answer['scope'] if is_shared else 'own'}"] += 1
        elif response == "purged":
            self.answers["purge: outputs without a run"] += answer["deleted"]["private_outputs"]


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


def change_own(account: AppAccount, tracking: str) -> None:
    """Change the account's own exercise by hand: a walk of the account's own follows."""
    account.database.admin(
        "update public.exercises set tracking = :tracking where id = :id",
        tracking=tracking,
        id=account.exercises["Squat"],
    )


def let_its_day_turn(account: AppAccount) -> None:
    account.database.admin(
        "update public.user_pr_overview_rollover_state set due_at = now(), next_retry_at = null"
        " where user_id = :user",
        user=account.user_id,
    )


def change_policy(database: Database, dice: random.Random) -> None:
    database.as_service()(
        CHANGE_POLICY,
        formula=dice.choice(["brzycki", "epley", "lombardi"]),
        most_reps=dice.randrange(8, 13),
        week_start=dice.choice([1, 7]),
    )


def was_taken_up(account: AppAccount) -> bool:
    """Tell whether a claim has come to the account."""
    return bool(
        account.database.admin(
            "select from public.user_stats_projection_runs where user_id = :user", user=account.user_id
        )
    )


def is_published(account: AppAccount) -> bool:
    requested, applied = account.state()
    return applied == requested
