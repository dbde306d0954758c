"""The schedule as an operator sees and changes it, on a Valkey; what beat would do is called by hand."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from celery import Celery
from redbeat.schedulers import get_redis
from redis import Redis
from redis.client import Pipeline

from core.errors import OperatorError
from embedded.valkey import ValkeyServer
from ops.discovery import StackUrls
from ops.schedule import show
from schedules import install as installation
from schedules.cadence import cron, describe, every
from schedules.counters import count, counts
from schedules.entry import FixedRateEntry
from schedules.install import install_missing
from schedules.operations import list_entries, set_cadence, set_enabled
from schedules.settings import schedule_app

ROOT = Path(__file__).resolve().parents[2]
CLAIM = "lift-guild-stats-refresh"
COMPUTE = "barbelic-stats-projection-compute"
PUBLISH = "barbelic-stats-projection-publish"
ROLLOVER = "lift-guild-pr-overview-snapshot-rollover"
PURGE = "barbelic-stats-cron-history-purge"


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def app(valkey: ValkeyServer) -> Celery:
    """An app on a schedule that was just installed."""
    made = schedule_app(valkey.redis_url)
    redis = Redis.from_url(valkey.redis_url)
    redis.flushall()
    install_missing(made)
    return made


def stored(app: Celery, name: str) -> dict:
    return json.loads(get_redis(app).hget(FixedRateEntry.generate_key(app, name), "definition"))


def due(app: Celery, name: str) -> datetime:
    score = get_redis(app).zscore(app.redbeat_conf.schedule_key, FixedRateEntry.generate_key(app, name))
    return datetime.fromtimestamp(score, UTC)


def ran(app: Celery, name: str, ago: timedelta, times: int = 1) -> FixedRateEntry:
    """Let the entry have run `times` times, last `ago`."""
    entry = FixedRateEntry.named(app, name)
    for _ in range(times):
        entry = entry._next_instance(last_run_at=datetime.now(UTC) - ago)
    return FixedRateEntry.named(app, name)


def test_the_seven_entries_are_installed_with_their_cadence_task_and_queue(app: Celery) -> None:
    found = {
        listed.name: (
            listed.cadence,
            stored(app, listed.name)["task"],
            stored(app, listed.name)["options"]["queue"],
        )
        for listed in list_entries(app)
    }
    assert found == {
        "lift-guild-stats-refresh": ("every 1s", "stats.claim", "pipeline"),
        "barbelic-stats-projection-compute": ("every 1s", "stats.compute", "compute"),
        "barbelic-stats-projection-publish": ("every 1s", "stats.publish", "pipeline"),
        "barbelic-stats-cron-history-purge": ("7-57/10 * * * *", "stats.purge_history", "maintenance"),
        "lift-guild-pr-overview-snapshot-rollover": ("every 1m", "stats.rollover", "maintenance"),
        "barbelic-stats-backfill-scan": ("every 1m", "stats.repair", "maintenance"),
        "barbelic-stats-catalog-invalidation": ("every 1m", "stats.catalog", "maintenance"),
    }
    assert all(listed.enabled and listed.run_count == 0 for listed in list_entries(app))


def test_a_cron_entry_waits_for_its_minute_an_interval_is_due_at_once(app: Celery) -> None:
    assert due(app, PURGE).minute % 10 == 7
    assert due(app, PURGE) > datetime.now(UTC)
    assert due(app, CLAIM) <= datetime.now(UTC)


def test_set_changes_the_cadence_alone(app: Celery) -> None:
    ran(app, ROLLOVER, timedelta(seconds=5), times=3)
    set_enabled(app, ROLLOVER, False)
    before = stored(app, ROLLOVER)

    assert describe(set_cadence(app, ROLLOVER, "5s", None).schedule) == "every 5s"
    assert describe(set_cadence(app, ROLLOVER, None, "*/5 2 * * 1-5").schedule) == "*/5 2 * * 1-5"

    after = stored(app, ROLLOVER)
    assert after.pop("schedule")["minute"] == "*/5"
    before.pop("schedule")
    assert after == before
    assert after["enabled"] is False
    entry = FixedRateEntry.named(app, ROLLOVER)
    assert entry.total_run_count == 3
    assert describe(entry.schedule) == "*/5 2 * * 1-5"


@pytest.mark.parametrize(
    ("name", "every_text", "cron_text", "problem"),
    [
        (CLAIM, "0s", None, "must be from 1s"),
        (CLAIM, "-5s", None, "write a whole number"),
        (CLAIM, "1.5s", None, "write a whole number"),
        (CLAIM, "5", None, "write a whole number"),
        (CLAIM, "", None, "write a whole number"),
        (CLAIM, "745h", None, "must be from 1s to 744h"),
        (CLAIM, "9" * 400 + "h", None, "must be from 1s to 744h"),
        (CLAIM, "٣s", None, "write a whole number"),
        (CLAIM, None, "* * * *", "five fields"),
        (CLAIM, None, "61 * * * *", "is not a cron line"),
        (CLAIM, None, "a b c d e", "is not a cron line"),
        (CLAIM, None, "0 0 31 2 *", "is not a cron line"),
        (CLAIM, None, "*/0 * * * *", "is not a cron line"),
        (CLAIM, "5s", "* * * * *", "either --every or --cron"),
        (CLAIM, None, None, "either --every or --cron"),
        ("nobody", "5s", None, "is no entry; the entries are lift-guild-stats-refresh"),
        ("lift-guild", "5s", None, "fits more than one entry: lift-guild-stats-refresh"),
    ],
)
def test_set_refuses_nonsense_and_changes_nothing(
    app: Celery, name: str, every_text: str | None, cron_text: str | None, problem: str
) -> None:
    before = stored(app, CLAIM)
    with pytest.raises(OperatorError, match=problem):
        set_cadence(app, name, every_text, cron_text)
    assert stored(app, CLAIM) == before


def test_an_operators_edits_survive_an_install_with_other_defaults(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edit(entry: FixedRateEntry) -> None:
        entry.options = {"queue": "elsewhere", "expires": 9, "priority": 3}
        entry.args = [1]
        entry.enabled = False

    FixedRateEntry.named(app, CLAIM).edit(edit)
    set_cadence(app, CLAIM, "7s", None)
    before = get_redis(app).hgetall(FixedRateEntry.generate_key(app, CLAIM))

    changed = [
        dataclasses.replace(entry, task="stats.other", cadence=lambda: every(30), queue="other")
        for entry in installation.ENTRIES
    ]
    monkeypatch.setattr(installation, "ENTRIES", changed)
    assert install_missing(app) == []
    assert get_redis(app).hgetall(FixedRateEntry.generate_key(app, CLAIM)) == before


@pytest.mark.parametrize("lost", ["all", "hash", "definition", "due time", "readable definition"])
def test_install_puts_right_what_redis_lost(app: Celery, lost: str) -> None:
    redis, key = get_redis(app), FixedRateEntry.generate_key(app, CLAIM)
    ran(app, CLAIM, timedelta(0), times=2)
    set_cadence(app, ROLLOVER, "5m", None)
    {
        "all": redis.flushall,
        "hash": lambda: redis.delete(key),
        "definition": lambda: redis.hdel(key, "definition"),
        "due time": lambda: redis.zrem(app.redbeat_conf.schedule_key, key),
        "readable definition": lambda: redis.hset(key, "definition", "{"),
    }[lost]()

    restored = install_missing(app)

    assert (len(restored) == 7) if lost == "all" else (restored == [CLAIM])
    assert stored(app, CLAIM)["task"] == "stats.claim"
    assert abs(due(app, CLAIM) - datetime.now(UTC)) < timedelta(seconds=3)
    assert FixedRateEntry.named(app, CLAIM).total_run_count == (
        2 if lost in ("definition", "due time") else 0
    )
    assert install_missing(app) == []


def test_a_due_time_that_does_not_follow_from_the_cadence_is_put_right(app: Celery) -> None:
    """A plain RedBeat beside ours, as in a rolling deploy, puts back the due time of the cadence that it read."""
    ran(app, CLAIM, timedelta(0))
    key = FixedRateEntry.generate_key(app, CLAIM)
    get_redis(app).zadd(app.redbeat_conf.schedule_key, {key: datetime.now(UTC).timestamp() + 3600})
    assert install_missing(app) == [CLAIM]
    assert due(app, CLAIM) < datetime.now(UTC) + timedelta(seconds=2)


def test_a_tick_in_flight_keeps_the_new_cadence(app: Celery) -> None:
    set_cadence(app, ROLLOVER, "1h", None)
    in_flight = ran(app, ROLLOVER, timedelta(hours=2))
    assert in_flight.is_due().is_due

    set_cadence(app, ROLLOVER, "1s", None)
    next(in_flight)

    assert due(app, ROLLOVER) <= datetime.now(UTC) + timedelta(seconds=1)
    assert describe(FixedRateEntry.named(app, ROLLOVER).schedule) == "every 1s"


def test_a_tick_that_an_edit_overtakes_between_its_read_and_its_write_starts_over(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_cadence(app, ROLLOVER, "1h", None)
    in_flight = ran(app, ROLLOVER, timedelta(hours=2))
    write, read = FixedRateEntry._write_due_time, []

    def overtaken(entry: FixedRateEntry, pipe: Pipeline) -> None:
        read.append(describe(entry.schedule))
        if len(read) == 1:
            set_cadence(app, ROLLOVER, "1s", None)
        write(entry, pipe)

    monkeypatch.setattr(FixedRateEntry, "_write_due_time", overtaken)
    next(in_flight)

    # The tick, the edit, and the tick on what the edit left.
    assert read == ["every 1h", "every 1s", "every 1s"]
    assert due(app, ROLLOVER) <= datetime.now(UTC) + timedelta(seconds=1)
    assert FixedRateEntry.named(app, ROLLOVER).total_run_count == 2


def test_two_edits_at_once_both_stand(app: Celery) -> None:
    reads = []

    def pause(entry: FixedRateEntry) -> None:
        reads.append(describe(entry.schedule))
        if len(reads) == 1:
            set_cadence(app, ROLLOVER, "5s", None)
        entry.enabled = False

    FixedRateEntry.named(app, ROLLOVER).edit(pause)

    entry = FixedRateEntry.named(app, ROLLOVER)
    assert (describe(entry.schedule), entry.enabled) == ("every 5s", False)
    assert reads == ["every 1m", "every 5s"]


def test_an_edit_in_flight_keeps_the_runs_of_the_ticks_meanwhile(app: Celery) -> None:
    """Edits and ticks at once, thousands of them: no run is lost, and the last edit decides when it is due."""
    stop = threading.Event()
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        mine = schedule_app(app.conf.redbeat_redis_url)
        while not stop.is_set():
            next(FixedRateEntry.named(mine, CLAIM))
            ticks += 1

    beat = threading.Thread(target=tick)
    beat.start()
    for number in range(100):
        set_cadence(app, CLAIM, "1h" if number % 2 else "5s", None)
        set_enabled(app, CLAIM, number % 2 == 0)
    stop.set()
    beat.join()

    entry = FixedRateEntry.named(app, CLAIM)
    assert (describe(entry.schedule), entry.enabled) == ("every 1h", False)
    assert entry.total_run_count == ticks > 100
    assert timedelta(minutes=59) < due(app, CLAIM) - datetime.now(UTC) < timedelta(minutes=61)


def test_a_late_tick_stays_on_the_grid_and_counts_the_slots_it_missed(app: Celery) -> None:
    last = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=10)
    FixedRateEntry.named(app, CLAIM)._next_instance(last_run_at=last)

    entry = next(FixedRateEntry.named(app, CLAIM))

    late = entry.last_run_at - last
    assert late.total_seconds() in (10, 11)
    assert counts(get_redis(app))["missed"] == {CLAIM: late.total_seconds() - 1}
    due_in = (entry.last_run_at + timedelta(seconds=1) - datetime.now(UTC)).total_seconds()
    assert not entry.is_due().is_due
    assert entry.is_due().next == pytest.approx(due_in, abs=0.05)


def test_the_slots_of_a_pause_or_of_an_older_cadence_were_not_missed(app: Celery) -> None:
    def is_late() -> None:
        last = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=10)
        FixedRateEntry.named(app, CLAIM)._next_instance(last_run_at=last)

    set_enabled(app, CLAIM, False)
    is_late()
    set_enabled(app, CLAIM, True)
    next(FixedRateEntry.named(app, CLAIM))
    is_late()
    set_cadence(app, CLAIM, "1s", None)
    next(FixedRateEntry.named(app, CLAIM))
    assert counts(get_redis(app))["missed"] == {}

    is_late()  # nobody has edited it since
    next(FixedRateEntry.named(app, CLAIM))
    assert counts(get_redis(app))["missed"][CLAIM] in (9, 10)


def test_a_grid_off_whole_seconds_moves_onto_them(app: Celery) -> None:
    last = datetime.now(UTC).replace(microsecond=700_000) - timedelta(seconds=5)
    FixedRateEntry.named(app, CLAIM)._next_instance(last_run_at=last)
    assert next(FixedRateEntry.named(app, CLAIM)).last_run_at.microsecond == 0


@pytest.mark.parametrize(
    ("name", "microsecond"), [(CLAIM, 0), (COMPUTE, 250_000), (PUBLISH, 500_000), (ROLLOVER, 0)]
)
def test_an_interval_fires_at_its_phase_of_the_second_whatever_the_cadence(
    app: Celery, name: str, microsecond: int
) -> None:
    for every_text in ("1s", "5s"):
        set_cadence(app, name, every_text, None)
        ran(app, name, timedelta(seconds=30))
        entry = next(FixedRateEntry.named(app, name))
        assert entry.last_run_at.microsecond == microsecond
        assert due(app, name) - entry.last_run_at <= entry.schedule.run_every


def test_list_shows_pauses_runs_and_beats_without_work(
    app: Celery, valkey: ValkeyServer, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(app, CLAIM, timedelta(seconds=31), times=5)
    ran(app, ROLLOVER, timedelta(seconds=20))
    set_enabled(app, PURGE, False)
    for _ in range(3):
        count(get_redis(app), "dropped", CLAIM)
    count(get_redis(app), "overlapped", CLAIM)
    get_redis(app).delete(FixedRateEntry.generate_key(app, "barbelic-stats-backfill-scan"))

    by_name = {listed.name: listed for listed in list_entries(app)}

    claim = by_name[CLAIM]
    assert (claim.run_count, claim.dropped, claim.overlapped) == (5, 3, 1)
    assert claim.drift_seconds == pytest.approx(30, abs=2)
    assert by_name[ROLLOVER].drift_seconds == 0
    assert by_name[ROLLOVER].next_run_at - by_name[ROLLOVER].last_run_at == pytest.approx(
        timedelta(minutes=1), abs=timedelta(seconds=1)
    )
    assert (by_name[PURGE].enabled, by_name[PURGE].next_run_at) == (False, None)
    assert by_name["barbelic-stats-backfill-scan"].cadence is None

    show(StackUrls("postgresql://unused", "postgresql://unused", valkey.redis_url))
    printed = capsys.readouterr().out
    assert "every 1s" in printed
    assert "7-57/10 * * * *" in printed
    assert "lost: run schedule install" in printed


def test_the_command_prints_one_line_for_a_refusal(app: Celery, valkey: ValkeyServer) -> None:
    def command(*arguments: str, redis_url: str = valkey.redis_url) -> subprocess.CompletedProcess[str]:
        ours = {"STATS_REFRESH_DATABASE_URL": "postgresql://unused", "STATS_REFRESH_REDIS_URL": redis_url}
        return subprocess.run(
            [sys.executable, "-m", "ops.cli", "schedule", *arguments],
            cwd=ROOT,
            env=os.environ | ours,
            capture_output=True,
            text=True,
            check=False,
        )

    refused = command("set", CLAIM, "--every", "0s")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "must be from 1s" in refused.stderr
    away = command("list", redis_url="unix:///nowhere/valkey.sock")
    assert (away.returncode, away.stderr.count("\n")) == (1, 1)
    assert "Redis does not answer" in away.stderr


def test_cadences_read_as_an_operator_types_them() -> None:
    assert [describe(every(seconds)) for seconds in (1, 90, 120, 7200)] == [
        "every 1s",
        "every 90s",
        "every 2m",
        "every 2h",
    ]
    assert describe(cron("7-57/10  *  * * *")) == "7-57/10 * * * *"
