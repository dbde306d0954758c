"""Both doors, workers and writers at once on the same accounts: nobody fails, and all is published in the end."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from interleavings.scene import assert_converges, drop_backoff
from support.app import AppAccount, Stages

from doors.scene import process, process_own

ROUNDS = 12


@pytest.mark.parametrize("seed", [1, 2])
def test_doors_workers_and_writers_at_once(database, stages, seed):
    accounts = [AppAccount(database) for _ in range(3)]
    for one in accounts:
        one.save()

    completed = {"own": 0, "maintenance": 0}

    def saves(one: AppAccount) -> None:
        for number in range(ROUNDS):
            one.save(one.block("Squat", (60 + number, 5)), session_date=f"2026-03-{number + 10}")

    def maintenance(validate: bool) -> None:
        for _ in range(ROUNDS):
            answer = process(database, validate_integrity=validate)
            completed["maintenance"] += answer["completed_count"]

    def own(one: AppAccount) -> None:
        choice = random.Random(f"{seed} {accounts.index(one)}")
        for _ in range(ROUNDS):
            answer = process_own(database, one.user_id, validate_integrity=choice.random() < 0.5)
            completed["own"] += answer["completed_count"]

    def workers() -> None:
        for _ in range(ROUNDS):
            Stages(database).drain()

    with ThreadPoolExecutor(9) as pool:
        running = [
            *(pool.submit(saves, one) for one in accounts),
            *(pool.submit(own, one) for one in accounts),
            *(pool.submit(maintenance, validate) for validate in (True, False)),
            pool.submit(workers),
        ]
        for one in running:
            one.result(60)
    assert all(completed.values()), "they have met at no account"
    failed = "select error from public.user_stats_projection_runs where phase = 'failed'"
    assert {error for (error,) in database.admin(failed)} <= {"base_moved"}
    drop_backoff(database)
    for one in accounts:
        assert_converges(stages, one)
        assert one.state() == (ROUNDS + 1, ROUNDS + 1)
