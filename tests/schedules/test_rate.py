"""Beats and workers together: sixty runs a minute, and what becomes of beats that find no free process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta

import pytest
from support.app import AppAccount
from support.races import session
from support.rig import CeleryProcess, Rig, soon

from schedules.counters import counts
from schedules.operations import set_enabled

CLAIM = "lift-guild-stats-refresh"
COMPUTE = "barbelic-stats-projection-compute"
PUBLISH = "barbelic-stats-projection-publish"
EACH_SECOND = (CLAIM, COMPUTE, PUBLISH)
SIXTY = dict.fromkeys(EACH_SECOND, 60)

MINUTES = int(os.environ.get("STATS_REFRESH_TEST_MINUTES", "1"))
"""How many consecutive minutes the rate is watched; of several, the last under a busy compute pool."""


@pytest.fixture(scope="module", autouse=True)
def worker(full_rig: Rig) -> CeleryProcess:
    """One worker for all queues, beside a beat."""
    process = full_rig.worker("pipeline", "compute", "maintenance", processes=2)
    full_rig.beat()
    return process


def counted(rig: Rig, reason: str, entry: str) -> int:
    return counts(rig.redis)[reason].get(entry, 0)


def fired(rig: Rig) -> dict[str, int]:
    return {entry: rig.runs(entry) for entry in EACH_SECOND}


def until(moment: datetime) -> None:
    """Wait for the middle of a second, when its beats are out and those of the next are not."""
    middle = moment + timedelta(milliseconds=600)
    assert soon(lambda: datetime.now(UTC) >= middle, 70)


@contextmanager
def busy(rig: Rig) -> Iterator[None]:
    """Keep the compute pool at work with an account that never stops saving."""
    done = threading.Event()

    def save() -> None:
        account = AppAccount(rig.database)
        while not done.is_set():
            account.save()

    person = threading.Thread(target=save)
    person.start()
    try:
        yield
    finally:
        done.set()
        person.join()


def test_sixty_runs_a_minute_for_each_one_second_entry(full_rig: Rig) -> None:
    """One test of 65 seconds for all three; STATS_REFRESH_TEST_MINUTES=3 watches three minutes."""
    assert soon(lambda: min(fired(full_rig).values()) > 1, 10)
    began = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    until(began)
    for minute in range(MINUTES):
        before = fired(full_rig)
        with busy(full_rig) if minute and minute == MINUTES - 1 else nullcontext():
            until(began + timedelta(minutes=minute + 1))
        after = fired(full_rig)
        assert {entry: after[entry] - before[entry] for entry in EACH_SECOND} == SIXTY, minute

    # What a busy pool drops or lets overlap is counted elsewhere; an idle one does the work of every beat.
    for minute in range(max(1, MINUTES - 1)):
        runs = dict(
            full_rig.database.admin(
                "select job_name, count(*) from public.cron_run_history"
                " where started_at > :began and started_at <= :ended group by job_name",
                began=began + timedelta(minutes=minute),
                ended=began + timedelta(minutes=minute + 1),
            )
        )
        assert {entry: runs[entry] for entry in EACH_SECOND} == SIXTY, minute
    assert all(counted(full_rig, "missed", entry) == 0 for entry in EACH_SECOND)


def test_an_overlapping_beat_steps_aside_and_is_counted(full_rig: Rig) -> None:
    """Somebody holds the entry's lock, as a run does that takes longer than its cadence."""
    with session(full_rig.database, "a long run") as long_run:
        assert long_run.run("select public.stats_try_beat_lock_v1(:entry)", entry=PUBLISH)
        assert soon(lambda: counted(full_rig, "overlapped", PUBLISH) >= 2, 10)
        [[overlaps]] = full_rig.database.admin(
            "select count(*) from public.cron_run_history"
            " where job_name = :entry and status = 'succeeded' and response ->> 'response' = 'overlap'",
            entry=PUBLISH,
        )
        assert overlaps >= 2
        assert counted(full_rig, "overlapped", CLAIM) == 0


def test_beats_that_find_no_process_are_dropped_and_counted(full_rig: Rig, worker: CeleryProcess) -> None:
    """The workers are away for longer than a beat lives."""
    worker.stop()
    set_enabled(full_rig.app, CLAIM, False)
    waiting = full_rig.redis.llen("compute")
    assert soon(lambda: full_rig.redis.llen("compute") >= waiting + 8, 20)

    full_rig.worker("pipeline", "compute", "maintenance", processes=1)

    assert soon(lambda: counted(full_rig, "dropped", COMPUTE) >= 2, 10)
    assert soon(lambda: full_rig.redis.llen("compute") == 0, 10)
    assert counted(full_rig, "dropped", "barbelic-stats-cron-history-purge") == 0
