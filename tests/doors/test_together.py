"""Both doors, workers and writers at once on the same accounts: nobody fails, and all is published in the end."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from interleavings.scene import assert_converges, drop_backoff
from support.app import AppAccount, Stages

from doors.scene import process, process_own

ENOUGH = 3
DEADLINE = 60


@pytest.mark.parametrize("seed", [1, 2])
def test_doors_workers_and_writers_at_once(database, stages, seed):
    """The accounts are written to until each door has published some of it between the others."""
    accounts = [AppAccount(database) for _ in range(3)]
    for one in accounts:
        one.save()
    ends_at, written = time.monotonic() + DEADLINE, threading.Event()
    completed: dict[str, list[str]] = {"own": [], "maintenance": []}

    def note(door: str, answer: dict) -> None:
        completed[door] += [one["user_id"] for one in answer["results"] if one["outcome"] == "completed"]

    def saves() -> None:
        choice = random.Random(seed)
        while min(map(len, completed.values())) < ENOUGH and time.monotonic() < ends_at:
            one = choice.choice(accounts)
            one.save(one.block("Squat", (choice.randint(60, 90), 5)), session_date="2026-03-11")
        written.set()

    def maintenance(validate: bool) -> None:
        while not written.is_set():
            note("maintenance", process(database, validate_integrity=validate))

    def own(one: AppAccount, validate: bool) -> None:
        while not written.is_set():
            note("own", process_own(database, one.user_id, validate_integrity=validate))

    def workers() -> None:
        while not written.is_set():
            Stages(database).drain()

    with ThreadPoolExecutor(7) as pool:
        running = [
            pool.submit(saves),
            *(pool.submit(own, one, number == 0) for number, one in enumerate(accounts)),
            *(pool.submit(maintenance, validate) for validate in (True, False)),
            pool.submit(workers),
        ]
        try:
            for one in running:
                one.result(DEADLINE + 30)
        finally:
            written.set()
    assert min(map(len, completed.values())) >= ENOUGH, "a door was passed by all the time"
    failed = "select error from public.user_stats_projection_runs where phase = 'failed'"
    assert {error for (error,) in database.admin(failed)} <= {"base_moved"}
    drop_backoff(database)
    for one in accounts:
        assert_converges(stages, one)
