"""Real beats: what they do with an operator's edits, with a Redis that loses its data, and with each other."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from redbeat.decoder import RedBeatJSONDecoder
from support.rig import ROOT, CeleryProcess, Rig, soon

from schedules.entries import ENTRIES
from schedules.entry import FixedRateEntry
from schedules.install import install_missing
from schedules.operations import set_cadence, set_enabled
from schedules.scheduler import StatsScheduler
from schedules.settings import LOCK_SECONDS, schedule_app

CLAIM = "lift-guild-stats-refresh"
COMPUTE = "barbelic-stats-projection-compute"
PUBLISH = "barbelic-stats-projection-publish"
CATALOG = "barbelic-stats-catalog-invalidation"
PURGE = "barbelic-stats-cron-history-purge"
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


def last_due_and_runs(rig: Rig, name: str) -> tuple[datetime, datetime, int]:
    """Return when the entry ran last, when it is due next, and how often it was fired, all of one moment."""
    key = FixedRateEntry.generate_key(rig.app, name)
    with rig.redis.pipeline() as pipe:
        pipe.hget(key, "meta")
        pipe.zscore(rig.app.redbeat_conf.schedule_key, key)
        meta, due = pipe.execute()
    stored = json.loads(meta, cls=RedBeatJSONDecoder)
    return stored["last_run_at"], datetime.fromtimestamp(due, UTC), stored["total_run_count"]


def stats_refresh(rig: Rig, *arguments: str) -> str:
    """Run the command as an operator does, and return what it prints."""
    urls = {"DATABASE_URL": "postgresql://nobody@nowhere/none", "REDIS_URL": rig.valkey.redis_url}
    ran = subprocess.run(
        [sys.executable, "-m", "ops.cli", *arguments],
        cwd=ROOT,
        env=os.environ | {f"STATS_REFRESH_{name}": url for name, url in urls.items()},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ran.stdout


def looks_again(rig: Rig, times: int = 3) -> bool:
    """Wait until beat has fired what is due each second so often again."""
    before = rig.runs(CLAIM)
    return soon(lambda: rig.runs(CLAIM) >= before + times, 10)


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


def test_the_stages_fire_in_the_order_of_the_work(beat_rig: Rig, beat: CeleryProcess) -> None:
    """Claim, compute, publish within each second: what one leaves, the next finds without another second's wait."""
    sending = r"Sending due task .* \(stats\.(claim|compute|publish)\)"
    # The first second of a beat's life fires all that is due at once.
    beat.wait_for(sending, 9)
    began = beat.count(sending)
    beat.wait_for(sending, began + 9)

    found = [match[1] for line in list(beat.lines) if (match := re.search(sending, line))][began : began + 9]
    turn = found.index("claim")
    assert found[turn:] + found[:turn] == ["claim", "compute", "publish"] * 3
    phases = {
        name: FixedRateEntry.named(beat_rig.app, name).last_run_at.microsecond
        for name in (CLAIM, COMPUTE, PUBLISH)
    }
    assert phases == {CLAIM: 0, COMPUTE: 250_000, PUBLISH: 500_000}


def test_a_new_cadence_is_in_force_while_ticks_are_in_flight(beat_rig: Rig, beat: CeleryProcess) -> None:
    """Slowed down and sped up again in the middle of its ticks; every time the next beat comes in time."""
    sending = "Sending due task barbelic-stats-projection-compute"
    identity, sent, counted = definition(beat_rig, COMPUTE), beat.count(sending), beat_rig.runs(COMPUTE)
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

    # Nothing else has changed, and each run that was sent is counted.
    assert definition(beat_rig, COMPUTE) == identity
    assert soon(lambda: beat.count(sending) - sent == beat_rig.runs(COMPUTE) - counted, 5)


def test_a_cron_line_whose_slot_has_come_is_fired_once_and_waits_for_its_next_slot(
    beat_rig: Rig, beat: CeleryProcess
) -> None:
    slot = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=2)
    set_cadence(beat_rig.app, PURGE, None, f"{slot.minute} {slot.hour} * * *")
    sending = f"Sending due task {PURGE}"
    assert looks_again(beat_rig)
    sent, (_, due, runs) = beat.count(sending), last_due_and_runs(beat_rig, PURGE)
    assert due == slot + timedelta(days=1)

    late = FixedRateEntry.named(beat_rig.app, PURGE)._next_instance(
        last_run_at=slot - timedelta(hours=1), only_update_last_run_at=True
    )
    assert late.is_due().is_due
    assert soon(lambda: beat_rig.runs(PURGE) > runs, 3)
    fired_at = datetime.now(UTC)
    assert looks_again(beat_rig)

    last_run_at, due, counted = last_due_and_runs(beat_rig, PURGE)
    assert (beat.count(sending), counted) == (sent + 1, runs + 1)
    assert timedelta(0) <= fired_at - last_run_at < timedelta(seconds=3)
    assert due == slot + timedelta(days=1)


def test_a_cron_line_in_the_place_of_each_second_waits_for_the_full_minute(
    beat_rig: Rig, beat: CeleryProcess
) -> None:
    assert fires(beat_rig, PUBLISH, 2)
    told = stats_refresh(beat_rig, "schedule", "set", PUBLISH, "--cron", "* * * * *")
    assert told == f"{PUBLISH}: * * * * *\n"

    last_run_at, due, runs = last_due_and_runs(beat_rig, PUBLISH)
    assert due == last_run_at.replace(second=0, microsecond=0) + timedelta(minutes=1)
    assert looks_again(beat_rig)
    # None at all, but for a minute that has turned meanwhile.
    _, due_now, runs_now = last_due_and_runs(beat_rig, PUBLISH)
    assert runs_now - runs == (due_now - due) / timedelta(minutes=1)

    set_cadence(beat_rig.app, PUBLISH, "1s", None)
    assert fires(beat_rig, PUBLISH, 2)


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

    beat.send_signal(signal.SIGKILL)
    beat.wait()

    standby.wait_for("beat: Acquired lock", deadline=LOCK_SECONDS + 3)
    standby.wait_for("Sending due task lift-guild-stats-refresh", deadline=3)


def test_a_beat_that_was_silent_for_too_long_stands_by(beat_rig: Rig, beat: CeleryProcess) -> None:
    """The other one has taken over meanwhile: it does not fire beside it, and takes over in its turn."""
    other = beat_rig.beat(ready="beat: Starting")
    beat.send_signal(signal.SIGSTOP)
    try:
        other.wait_for("beat: Acquired lock", deadline=LOCK_SECONDS + 3)
    finally:
        beat.send_signal(signal.SIGCONT)
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


@pytest.mark.parametrize(
    ("url", "line"),
    [
        (None, "set STATS_REFRESH_REDIS_URL, or run `stats-refresh up`"),
        ("memory://", "STATS_REFRESH_REDIS_URL: must begin with redis://"),
    ],
)
def test_a_beat_without_redis_says_so_in_a_line(url: str | None, line: str) -> None:
    ours = {"STATS_REFRESH_DATABASE_URL": "postgresql://nobody@nowhere/none"}
    ours |= {} if url is None else {"STATS_REFRESH_REDIS_URL": url}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STATS_REFRESH_")}
    refused = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "tasks.app", "beat", "--loglevel=INFO"],
        cwd=ROOT,
        env=inherited | ours,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert refused.returncode == 1
    assert "Traceback" not in refused.stdout + refused.stderr
    assert line in refused.stderr


def test_a_beat_whose_redis_is_away_ends_with_a_line() -> None:
    """A supervisor starts it again. With beat's own settings it tries for a minute before."""
    with pytest.raises(SystemExit, match=r"Redis does not answer, beat ends: .*No such file"):
        StatsScheduler(schedule_app("unix:///nowhere/valkey.sock"))
