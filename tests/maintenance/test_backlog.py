"""A midnight with 100,000 due accounts: whoever saves is published as if they weren't there."""

from __future__ import annotations

import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.app import AppAccount

from maintenance.scene import published_accounts, requested
from ops.embedded.process import wait_until

ACCOUNTS = 100_000


def make_accounts(database):
    """Let 100,000 published accounts without any history be due since midnight."""
    database.admin(
        "insert into public.user_stats_refresh_state"
        " (user_id, requested_version, applied_version, applied_policy_version, published_anchor)"
        " select gen_random_uuid(), 1, 1, p.policy_version, (now() at time zone 'UTC')::date - 1"
        " from generate_series(1, :accounts), public.stats_projection_policy p",
        accounts=ACCOUNTS,
    )
    database.admin(
        "insert into public.user_pr_overview_rollover_state (user_id, due_at, generation)"
        " select s.user_id, (s.published_anchor + 1)::timestamp at time zone 'UTC', 1"
        " from public.user_stats_refresh_state s"
    )


def request_all(database):
    """Let every one of them wait for its run, as when the pages had never stopped."""
    database.admin(
        "insert into public.user_exercise_stats_refresh_jobs"
        " (user_id, event_type, requested_version, priority, window_only)"
        " select s.user_id, 'pr_snapshot_rollover', 2, 1, true from public.user_stats_refresh_state s"
    )
    database.admin("update public.user_stats_refresh_state set requested_version = 2")


def milliseconds(call, *arguments):
    started = time.perf_counter()
    answer = call(*arguments)
    return answer, (time.perf_counter() - started) * 1000


def test_with_100000_rollovers_pending_a_save_is_claimed_first_and_at_once(database, stages):
    make_accounts(database)
    request_all(database)
    person = AppAccount(database)
    person.exercise()

    receipt, save_ms = milliseconds(person.save)
    run, claim_ms = milliseconds(stages.claim)
    assert run["user_id"] == str(person.user_id)
    stages.compute(run)
    published = stages.publish(run)

    assert published["response"] == "published"
    assert published["generation"] == receipt["statsRequestedVersion"]
    assert save_ms < 1000, f"the save took {save_ms:.0f} ms"
    assert claim_ms < 1000, f"the claim took {claim_ms:.0f} ms"


def test_a_save_is_published_within_a_second_while_rollovers_hold_every_slot(database, stages, pages):
    """Two workers go through the backlog without a pause, beside page after page, and somebody saves seven times."""
    make_accounts(database)
    request_all(database)
    person = AppAccount(database)
    person.exercise()
    published, rolled_over, done = {}, [], threading.Event()

    def work():
        while not done.is_set():
            run = stages.claim()
            if run["response"] != "claimed":
                continue
            stages.compute(run)
            answer = stages.publish(run)
            if run["user_id"] == str(person.user_id):
                published[answer["generation"]] = time.monotonic()
            else:
                rolled_over.append(answer["response"])

    def turn_pages():
        while not done.wait(0.1):
            pages.rollover()

    def seconds_to_publication():
        """Save while both slots are taken by rollovers; return how long after its commit it is published."""
        before = len(rolled_over)
        assert wait_until(lambda: len(rolled_over) >= before + 4, 20)
        generation = person.save()["statsRequestedVersion"]
        saved_at = time.monotonic()
        assert wait_until(lambda: generation in published, 20)
        return published[generation] - saved_at

    with ThreadPoolExecutor(3) as workers:
        running = [workers.submit(work), workers.submit(work), workers.submit(turn_pages)]
        try:
            waits = [seconds_to_publication() for _ in range(7)]
        finally:
            done.set()
        for one in running:
            one.result(20)

    assert set(rolled_over) == {"published"}
    # One of the seven may fall on a moment when other processes have the machine; usual are 20 to 80 ms.
    assert sorted(waits)[-2] < 1, f"published after {waits} s"


@pytest.mark.parametrize("statistics_of", ["nothing", "the empty queue", "the full queue"])
def test_a_claim_costs_milliseconds_whatever_waits(database, stages, statistics_of):
    """Not in proportion to what waits: the queue is read in its order, from the front."""
    make_accounts(database)
    if statistics_of == "the empty queue":
        # As it was before midnight: rows of work that is done, none that waits.
        database.admin(
            "insert into public.user_exercise_stats_refresh_jobs (user_id, event_type, requested_version, status)"
            " select s.user_id, 'session_created', 1, 'completed' from public.user_stats_refresh_state s"
        )
        database.admin("analyze")
    request_all(database)
    if statistics_of == "the full queue":
        database.admin("analyze")
    claims = []
    for _ in range(9):
        run, claim_ms = milliseconds(stages.claim)
        stages.compute(run)
        assert stages.publish(run)["response"] == "published"
        claims.append(claim_ms)

    assert statistics.median(claims) < 40, f"claims took {claims} ms"


def test_a_page_costs_milliseconds_whatever_is_due(database, pages):
    make_accounts(database)
    durations = [milliseconds(pages.rollover, 10)[1] for _ in range(9)]

    assert len(requested(database)) == 90
    assert statistics.median(durations) < 150, f"pages took {durations} ms"


def test_a_page_of_the_rollover_holds_up_no_save(database, pages):
    """A save of an account in the page waits for no more than the rest of the page."""
    make_accounts(database)
    [person] = published_accounts(database, 1)
    for _ in range(3):
        pages.rollover(25)
        _, save_ms = milliseconds(person.save)
        assert save_ms < 1000
