"""Beats that do no work, because their entry is still at work or no process is free: counted, and shown."""

from __future__ import annotations

import pytest
from support.races import session
from support.rig import CeleryProcess, Rig, soon

from core.redis_keys import PREFIX
from schedules.counters import counts
from schedules.operations import list_entries

CLAIM = "lift-guild-stats-refresh"
COMPUTE = "barbelic-stats-projection-compute"
PUBLISH = "barbelic-stats-projection-publish"


@pytest.fixture(scope="module", autouse=True)
def compute_worker(full_rig: Rig) -> CeleryProcess:
    """Beside a beat and a worker for the other queues: the pool of one process that a test takes away."""
    full_rig.worker("pipeline", "maintenance", processes=2)
    worker = full_rig.worker("compute")
    full_rig.beat()
    return worker


def counted(rig: Rig, reason: str, entry: str) -> int:
    return counts(rig.redis)[reason].get(entry, 0)


def test_an_overlapping_beat_steps_aside_and_is_counted(full_rig: Rig) -> None:
    """Somebody holds the entry's lock, as a run does that takes longer than its cadence."""
    with session(full_rig.database, "a long run") as long_run:
        # A beat of the rig may hold it just now.
        assert soon(lambda: long_run.run("select public.stats_try_beat_lock_v1(:entry)", entry=PUBLISH), 10)
        assert soon(lambda: counted(full_rig, "overlapped", PUBLISH) >= 2, 10)
        [[rows]] = full_rig.database.admin(
            "select count(*) from public.cron_run_history"
            " where job_name = :entry and status = 'succeeded' and response ->> 'response' = 'overlap'",
            entry=PUBLISH,
        )
        assert rows >= 2
        assert counted(full_rig, "overlapped", CLAIM) == 0


def test_beats_that_find_no_process_are_dropped_and_counted(
    full_rig: Rig, compute_worker: CeleryProcess
) -> None:
    """The worker is away for longer than a beat lives."""
    compute_worker.stop()
    dropped, waiting = counted(full_rig, "dropped", COMPUTE), full_rig.redis.llen(f"{PREFIX}compute")
    assert soon(lambda: full_rig.redis.llen(f"{PREFIX}compute") >= waiting + 8, 20)

    full_rig.worker("compute")

    assert soon(lambda: counted(full_rig, "dropped", COMPUTE) >= dropped + 2, 10)
    assert soon(lambda: full_rig.redis.llen(f"{PREFIX}compute") == 0, 10)
    assert counted(full_rig, "dropped", "barbelic-stats-cron-history-purge") == 0


def test_the_list_shows_both(full_rig: Rig) -> None:
    shown = {listed.name: listed for listed in list_entries(full_rig.app)}
    assert shown[COMPUTE].dropped >= 2
    assert shown[PUBLISH].overlapped >= 2
    assert (shown[CLAIM].dropped, shown[CLAIM].overlapped) == (0, 0)
