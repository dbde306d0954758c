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

CLAIM = "lift-guild-stats-refresh"
COMPUTE = "barbelic-stats-projection-compute"
PUBLISH = "barbelic-stats-projection-publish"
EACH_SECOND = (CLAIM, COMPUTE, PUBLISH)
SIXTY = dict.fromkeys(EACH_SECOND, 60)

MINUTES = int(os.environ.get("STATS_REFRESH_TEST_MINUTES", "1"))
"""How many consecutive minutes the rate is watched: of one, only under a busy compute pool; of several, under an idle
one as well."""

SLOW_COMPUTE = """
    create function public.compute_slowly() returns trigger language plpgsql as $$
    begin perform pg_catalog.pg_sleep(1.5); return new; end $$;
    create trigger compute_slowly before update on public.user_stats_projection_runs for each row
    when (new.phase = 'computed' and old.phase = 'claimed') execute function public.compute_slowly();
"""
USUAL_COMPUTE = """
    drop trigger compute_slowly on public.user_stats_projection_runs;
    drop function public.compute_slowly();
"""


@pytest.fixture(scope="module", autouse=True)
def compute_worker(full_rig: Rig) -> CeleryProcess:
    """Beside a beat and a worker for the other queues: the pool of one process that a test keeps busy or takes away."""
    full_rig.worker("pipeline", "maintenance", processes=2)
    worker = full_rig.worker("compute")
    full_rig.beat()
    return worker


def counted(rig: Rig, reason: str, entry: str) -> int:
    return counts(rig.redis)[reason].get(entry, 0)


def fired(rig: Rig) -> dict[str, int]:
    return {entry: rig.runs(entry) for entry in EACH_SECOND}


def missed(rig: Rig) -> dict[str, int]:
    """Return the slots that beat was too late for; where it starts, with its worker, there may be some."""
    return {entry: counted(rig, "missed", entry) for entry in EACH_SECOND}


def accounted_for(rig: Rig) -> dict[str, int]:
    """Return the beats of each entry that have their row of history, overlaps among them, or were dropped."""
    rows = dict(
        rig.database.admin("select job_name, count(*) from public.cron_run_history group by job_name")
    )
    return {entry: rows.get(entry, 0) + counted(rig, "dropped", entry) for entry in EACH_SECOND}


def overlaps(rig: Rig, entry: str) -> int:
    """Return the rows of runs that stepped aside."""
    [[rows]] = rig.database.admin(
        "select count(*) from public.cron_run_history"
        " where job_name = :entry and status = 'succeeded' and response ->> 'response' = 'overlap'",
        entry=entry,
    )
    return rows


def until(moment: datetime) -> None:
    """Wait for the middle of a second, when its beats are out and those of the next are not."""
    middle = moment + timedelta(milliseconds=600)
    assert soon(lambda: datetime.now(UTC) >= middle, 70)


@contextmanager
def busy(rig: Rig) -> Iterator[None]:
    """Keep the compute pool at work: computes of 1.5 s, for accounts that never stop saving."""
    done = threading.Event()

    def save(account: AppAccount) -> None:
        while not done.is_set():
            account.save()
            done.wait(0.2)

    rig.database.admin(SLOW_COMPUTE)
    people = [threading.Thread(target=save, args=(AppAccount(rig.database),)) for _ in range(3)]
    for person in people:
        person.start()
    try:
        yield
    finally:
        done.set()
        for person in people:
            person.join()
        rig.database.admin(USUAL_COMPUTE)


@pytest.mark.parametrize("pool", ["busy"] if MINUTES == 1 else ["idle", "busy"])
def test_sixty_runs_a_minute_for_each_one_second_entry(full_rig: Rig, pool: str) -> None:
    """One test for all three; STATS_REFRESH_TEST_MINUTES=3 watches three minutes of each pool."""
    assert soon(lambda: min(fired(full_rig).values()) > 1, 10)
    with busy(full_rig) if pool == "busy" else nullcontext():
        began = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
        until(began)
        skipped = missed(full_rig)
        for minute in range(MINUTES):
            before = fired(full_rig)
            until(began + timedelta(minutes=minute + 1))
            after = fired(full_rig)
            assert {entry: after[entry] - before[entry] for entry in EACH_SECOND} == SIXTY, minute
    assert missed(full_rig) == skipped, "a slot was missed"

    # Nothing that was fired is unaccounted for, whatever the pool did with it.
    assert soon(lambda: accounted_for(full_rig) == fired(full_rig), 20), (
        accounted_for(full_rig),
        fired(full_rig),
    )
    assert all(counted(full_rig, "overlapped", entry) == overlaps(full_rig, entry) for entry in EACH_SECOND)
    if pool == "busy":
        assert counted(full_rig, "dropped", COMPUTE) > 0, "the pool was not busy"
        return
    for minute in range(MINUTES):
        runs = dict(
            full_rig.database.admin(
                "select job_name, count(*) from public.cron_run_history"
                " where started_at > :began and started_at <= :ended group by job_name",
                began=began + timedelta(minutes=minute),
                ended=began + timedelta(minutes=minute + 1),
            )
        )
        assert {entry: runs[entry] for entry in EACH_SECOND} == SIXTY, minute


def test_an_overlapping_beat_steps_aside_and_is_counted(full_rig: Rig) -> None:
    """Somebody holds the entry's lock, as a run does that takes longer than its cadence."""
    with session(full_rig.database, "a long run") as long_run:
        # A beat of the rig may hold it just now.
        assert soon(lambda: long_run.run("select public.stats_try_beat_lock_v1(:entry)", entry=PUBLISH), 10)
        assert soon(lambda: counted(full_rig, "overlapped", PUBLISH) >= 2, 10)
        assert overlaps(full_rig, PUBLISH) >= 2
        assert counted(full_rig, "overlapped", CLAIM) == 0


def test_beats_that_find_no_process_are_dropped_and_counted(
    full_rig: Rig, compute_worker: CeleryProcess
) -> None:
    """The worker is away for longer than a beat lives."""
    compute_worker.stop()
    dropped, waiting = counted(full_rig, "dropped", COMPUTE), full_rig.redis.llen("compute")
    assert soon(lambda: full_rig.redis.llen("compute") >= waiting + 8, 20)

    full_rig.worker("compute")

    assert soon(lambda: counted(full_rig, "dropped", COMPUTE) >= dropped + 2, 10)
    assert soon(lambda: full_rig.redis.llen("compute") == 0, 10)
    assert counted(full_rig, "dropped", "barbelic-stats-cron-history-purge") == 0
