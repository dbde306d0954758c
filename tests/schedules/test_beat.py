"""Real beats: what they do with an operator's edits, with a Redis that loses its data, and with each other."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from support.rig import CeleryProcess, Rig, soon

from schedules.entries import ENTRIES
from schedules.entry import FixedRateEntry
from schedules.install import install_missing
from schedules.operations import set_cadence, set_enabled
from schedules.settings import LOCK_SECONDS

CLAIM = "lift-guild-stats-refresh"
COMPUTE = "barbelic-stats-projection-compute"
CATALOG = "barbelic-stats-catalog-invalidation"
WARNING = r"WARNING.*Redis had lost or misplaced.*put back"


@pytest.fixture
def beat(beat_rig: Rig) -> CeleryProcess:
    """A beat that fires: the one of the test before it, if it still does."""
    running = [process for process in beat_rig.processes if process.name == "beat" and process.is_running()]
    return running[0] if running else beat_rig.beat()


def fires(rig: Rig, name: str, within: float) -> bool:
    """Wait until beat fires the entry once more."""
    before = rig.runs(name)
    return soon(lambda: rig.runs(name) > before, within)


def definition(rig: Rig, name: str) -> str:
    stored: str = rig.redis.hget(FixedRateEntry.generate_key(rig.app, name), "definition")
    return stored


@pytest.mark.parametrize("lost", ["everything", "hash", "due times"])
def test_entries_that_redis_lost_are_back_and_fire_within_ten_seconds(
    beat_rig: Rig, beat: CeleryProcess, lost: str
) -> None:
    assert fires(beat_rig, CLAIM, 10)
    warnings = beat.count(WARNING)
    redis, key = beat_rig.redis, FixedRateEntry.generate_key(beat_rig.app, CLAIM)
    lose: dict[str, Callable[[], object]] = {
        "everything": redis.flushall,
        "hash": lambda: redis.delete(key),
        "due times": lambda: redis.delete(beat_rig.app.redbeat_conf.schedule_key),
    }

    lost_at = time.monotonic()
    lose[lost]()

    assert soon(lambda: bool(redis.exists(key)), 10)
    assert fires(beat_rig, CLAIM, 10 - (time.monotonic() - lost_at))
    beat.wait_for(WARNING, warnings + 1)
    assert soon(lambda: redis.zcard(beat_rig.app.redbeat_conf.schedule_key) == len(ENTRIES), 10)
    assert beat.is_running()


def test_a_new_cadence_is_in_force_within_two_seconds(beat_rig: Rig, beat: CeleryProcess) -> None:
    assert soon(lambda: beat_rig.runs(CATALOG) > 0, 10)
    set_cadence(beat_rig.app, CATALOG, "1s", None)
    assert fires(beat_rig, CATALOG, 2)

    set_enabled(beat_rig.app, CATALOG, False)
    assert not fires(beat_rig, CATALOG, 3)
    set_enabled(beat_rig.app, CATALOG, True)
    assert fires(beat_rig, CATALOG, 2)


def test_a_new_cadence_is_in_force_while_ticks_are_in_flight(beat_rig: Rig, beat: CeleryProcess) -> None:
    """Slowed down and sped up again in the middle of its ticks; every time the next beat comes in time."""
    for _ in range(4):
        assert fires(beat_rig, COMPUTE, 2)
        set_cadence(beat_rig.app, COMPUTE, "1h", None)
        set_cadence(beat_rig.app, COMPUTE, "1s", None)
    for _ in range(200):
        set_cadence(beat_rig.app, COMPUTE, "1h", None)
    assert not fires(beat_rig, COMPUTE, 2.5)
    runs = beat_rig.runs(COMPUTE)
    set_cadence(beat_rig.app, COMPUTE, "1s", None)
    assert soon(lambda: beat_rig.runs(COMPUTE) > runs, 2)


def test_an_operators_edits_outlive_beats_and_deploys(beat_rig: Rig, beat: CeleryProcess) -> None:
    def edit(entry: FixedRateEntry) -> None:
        entry.args, entry.options = ["x"], {**entry.options, "expires": 3, "priority": 5}

    FixedRateEntry.named(beat_rig.app, CATALOG).edit(edit)
    set_cadence(beat_rig.app, CATALOG, None, "3 4 * * *")
    set_enabled(beat_rig.app, COMPUTE, False)
    edited = {name: definition(beat_rig, name) for name in (CATALOG, COMPUTE)}

    beat.stop()
    again = beat_rig.beat()
    second = beat_rig.beat(ready="beat: Starting")
    assert install_missing(beat_rig.app) == []
    assert fires(beat_rig, CLAIM, 10)

    assert {name: definition(beat_rig, name) for name in edited} == edited
    assert again.count(WARNING) == second.count(WARNING) == 0
    set_enabled(beat_rig.app, COMPUTE, True)


def test_a_second_beat_takes_over_within_seconds_and_only_one_fires(
    beat_rig: Rig, beat: CeleryProcess
) -> None:
    standby = next(
        (other for other in beat_rig.processes if other is not beat and other.is_running()), None
    ) or beat_rig.beat(ready="beat: Starting")
    assert fires(beat_rig, CLAIM, 10)
    assert standby.count("Sending due task") == 0

    beat.process.send_signal(signal.SIGKILL)
    beat.process.wait()

    standby.wait_for("beat: Acquired lock", deadline=LOCK_SECONDS + 3)
    standby.wait_for("Sending due task lift-guild-stats-refresh", deadline=3)


def test_a_beat_that_was_silent_for_too_long_stands_by(beat_rig: Rig, beat: CeleryProcess) -> None:
    """The other one has taken over meanwhile: it does not fire beside it, and takes over in its turn."""
    other = beat_rig.beat(ready="beat: Starting")
    beat.process.send_signal(signal.SIGSTOP)
    try:
        other.wait_for("beat: Acquired lock", deadline=LOCK_SECONDS + 3)
    finally:
        beat.process.send_signal(signal.SIGCONT)
    beat.wait_for("lost its lock")
    sent = beat.count("Sending due task")
    assert fires(beat_rig, CLAIM, 5)
    assert beat.count("Sending due task") == sent

    other.stop()
    assert soon(lambda: beat.count("Sending due task") > sent, LOCK_SECONDS + 3)
    assert beat.is_running()


def test_beat_sits_out_an_outage_of_redis(beat_rig: Rig, beat: CeleryProcess) -> None:
    assert fires(beat_rig, CLAIM, 10)
    beat_rig.valkey.kill()
    stopped_at = time.monotonic()
    assert soon(lambda: time.monotonic() - stopped_at > LOCK_SECONDS + 1 or not beat.is_running())
    beat_rig.valkey.start()
    assert fires(beat_rig, CLAIM, 10)
    assert beat.is_running()
