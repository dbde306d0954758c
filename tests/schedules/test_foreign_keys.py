"""Somebody else writes to the schedule's keys: a real beat sets them aside and goes on, commands say what to do."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from redbeat.schedulers import get_redis
from redis import Redis
from support.rig import CeleryProcess, Rig, soon

from core.errors import OperatorError
from core.redis_keys import REJECTED_PREFIX
from schedules.counters import counts
from schedules.entry import FixedRateEntry
from schedules.install import install_missing
from schedules.operations import list_entries, set_cadence, set_enabled
from schedules.settings import KEY_PREFIX, LOCK_SECONDS, schedule_app

CLAIM = "lift-guild-stats-refresh"
COMPUTE = "barbelic-stats-projection-compute"
SCHEDULE = f"{KEY_PREFIX}:schedule"
LOCK = f"{KEY_PREFIX}:lock"
EVIL = f"{KEY_PREFIX}evil"
REJECTED = f"{REJECTED_PREFIX}beat:"
BROKEN = b"\xff\xfe\x00evil"


def interval(every: object, **fields: object) -> str:
    schedule = {"__type__": "interval", "every": every, "relative": False}
    return json.dumps(
        {"name": "evil", "task": "stats.claim", "schedule": schedule, "enabled": True, **fields}
    )


UNREADABLE: dict[str, Callable[[Redis], object]] = {
    "a string": lambda redis: redis.set(EVIL, "x"),
    "a list": lambda redis: redis.lpush(EVIL, "x"),
    "broken bytes": lambda redis: redis.hset(EVIL, "definition", BROKEN),
    "no definition": lambda redis: redis.hset(EVIL, "x", "x"),
    "every 0 s": lambda redis: redis.hset(EVIL, "definition", interval(0)),
    "a thousand a second": lambda redis: redis.hset(EVIL, "definition", interval(0.001)),
    "an endless number": lambda redis: redis.hset(EVIL, "definition", interval(1e300)),
    "another entry's definition": lambda redis: redis.hset(EVIL, "definition", interval(1, name=COMPUTE)),
    "a last run of the year 1": lambda redis: redis.hset(
        EVIL, mapping={"definition": interval(1), "meta": json.dumps({"last_run_at": 1})}
    ),
    "nested without end": lambda redis: redis.hset(EVIL, "definition", "[" * 20_000),
}


@pytest.fixture(scope="module")
def beat(beat_rig: Rig) -> CeleryProcess:
    return beat_rig.beat()


@pytest.fixture
def raw(beat_rig: Rig) -> Iterator[Redis]:
    """A client that reads bytes as they are."""
    with Redis.from_url(beat_rig.valkey.redis_url) as client:
        yield client


def goes_on(rig: Rig, beat: CeleryProcess, entry: str = COMPUTE) -> bool:
    """Wait until `entry` was fired again, by the same process."""

    def runs() -> int:
        try:
            return rig.runs(entry)
        except KeyError:
            return 0

    before = runs()
    return soon(lambda: runs() != before, 15) and beat.is_running()


@pytest.mark.parametrize("damage", UNREADABLE.values(), ids=UNREADABLE)
def test_an_entry_that_can_not_be_read_is_set_aside(
    beat_rig: Rig, beat: CeleryProcess, raw: Redis, damage: Callable[[Redis], object]
) -> None:
    warning = rf"{EVIL} is no entry that can be read: set aside as {REJECTED}evil"
    said = beat.count(warning)
    damage(raw)
    stored = raw.dump(EVIL)
    raw.zadd(SCHEDULE, {EVIL: 0})
    beat.wait_for(warning, times=said + 1)
    assert raw.zscore(SCHEDULE, EVIL) is None
    assert not raw.exists(EVIL)
    assert raw.dump(f"{REJECTED}evil") == stored
    assert 0 < raw.ttl(f"{REJECTED}evil") <= 7 * 24 * 3600
    assert goes_on(beat_rig, beat)
    assert beat.count(warning) == said + 1


def test_a_member_of_broken_bytes_is_removed(beat_rig: Rig, beat: CeleryProcess, raw: Redis) -> None:
    raw.zadd(SCHEDULE, {BROKEN: 0})
    beat.wait_for(r"\\udcff\\udcfe\\x00evil is no entry that can be read: removed")
    assert raw.zscore(SCHEDULE, BROKEN) is None
    assert goes_on(beat_rig, beat)


def test_a_key_of_broken_bytes_is_set_aside_as_it_is(beat_rig: Rig, beat: CeleryProcess, raw: Redis) -> None:
    raw.set(BROKEN, BROKEN)
    raw.zadd(SCHEDULE, {BROKEN: 0})
    assert soon(lambda: raw.get(REJECTED_PREFIX.encode() + BROKEN) == BROKEN)
    assert goes_on(beat_rig, beat)


def test_an_entry_of_this_release_is_put_back(beat_rig: Rig, beat: CeleryProcess, raw: Redis) -> None:
    key = f"{KEY_PREFIX}{CLAIM}"
    with raw.pipeline() as pipe:
        pipe.delete(key)
        pipe.set(key, "x")
        pipe.execute()
    assert goes_on(beat_rig, beat, CLAIM)
    assert raw.get(f"{REJECTED}{CLAIM}") == b"x"


def test_a_last_run_that_can_not_be_read_costs_no_cadence(
    beat_rig: Rig, beat: CeleryProcess, raw: Redis
) -> None:
    set_cadence(beat_rig.app, CLAIM, "2s", None)
    try:
        raw.hset(f"{KEY_PREFIX}{CLAIM}", "meta", BROKEN)
        assert goes_on(beat_rig, beat, CLAIM)
        assert FixedRateEntry.named(beat_rig.app, CLAIM).schedule.run_every.total_seconds() == 2
    finally:
        set_cadence(beat_rig.app, CLAIM, "1s", None)


def test_a_schedule_that_is_no_sorted_set_is_set_aside(
    beat_rig: Rig, beat: CeleryProcess, raw: Redis
) -> None:
    with raw.pipeline() as pipe:
        pipe.delete(SCHEDULE)
        pipe.set(SCHEDULE, BROKEN)
        pipe.execute()
    assert goes_on(beat_rig, beat)
    assert raw.get(f"{REJECTED}:schedule") == BROKEN
    assert soon(lambda: raw.zcard(SCHEDULE) == 7)


def test_counts_that_are_no_counts_end_no_beat(beat_rig: Rig, beat: CeleryProcess, raw: Redis) -> None:
    for reason in ("missed", "dropped", "overlapped"):
        raw.delete(f"stats-refresh:beats:{reason}")
        raw.set(f"stats-refresh:beats:{reason}", BROKEN)
    assert counts(get_redis(beat_rig.app)) == {"missed": {}, "dropped": {}, "overlapped": {}}
    # Slots that it misses, which it counts when it goes on.
    beat.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 3
    assert not soon(lambda: time.monotonic() > deadline + 1, 3)
    beat.send_signal(signal.SIGCONT)
    assert soon(lambda: counts(get_redis(beat_rig.app))["missed"].get(COMPUTE, 0) >= 1)
    assert goes_on(beat_rig, beat)
    assert raw.get("stats-refresh:rejected:beats:missed") == BROKEN


def test_a_holder_whose_lock_became_endless_goes_on(beat_rig: Rig, beat: CeleryProcess, raw: Redis) -> None:
    lost = beat.count("lost its lock")
    raw.persist(LOCK)
    assert soon(lambda: 0 < raw.pttl(LOCK) <= LOCK_SECONDS * 1000)
    assert goes_on(beat_rig, beat)
    assert beat.count("lost its lock") == lost


def test_a_lock_that_is_none_is_set_aside(beat_rig: Rig, beat: CeleryProcess, raw: Redis) -> None:
    with raw.pipeline() as pipe:
        pipe.delete(LOCK)
        pipe.lpush(LOCK, "x")
        pipe.execute()
    beat.wait_for(rf"{LOCK} is no lock: set aside as {REJECTED}:lock")
    assert goes_on(beat_rig, beat)


@pytest.mark.parametrize("left", [None, 100_000], ids=["for ever", "for a day"])
def test_a_lock_that_its_killed_holder_left_ends(beat_rig: Rig, raw: Redis, left: int | None) -> None:
    """And a list of static entries that is none: a beat that starts reads what one that runs does not."""
    for process in beat_rig.processes:
        process.kill()
    raw.set(LOCK, "a holder's token", ex=left)
    raw.set(f"{KEY_PREFIX}:statics", BROKEN)
    standby = beat_rig.beat()
    assert standby.count("would not have ended: it does in 5 s where nobody holds it") == 1
    assert goes_on(beat_rig, standby)


def test_commands_say_what_to_do(beat_rig: Rig) -> None:
    # A schedule of its own, which no beat looks after.
    app = schedule_app(beat_rig.valkey.redis_url.replace("db=0", "db=6"))
    install_missing(app)
    redis = get_redis(app)
    for damage in (redis.set, lambda key, value: redis.hset(key, "definition", value)):
        key = FixedRateEntry.generate_key(app, CLAIM)
        redis.delete(key)
        damage(key, "\udcff")
        assert {listed.name: listed.cadence for listed in list_entries(app)}[CLAIM] is None
        for change in (lambda: set_enabled(app, CLAIM, False), lambda: set_cadence(app, CLAIM, "5s", None)):
            with pytest.raises(OperatorError, match="run stats-refresh schedule install"):
                change()
        assert install_missing(app) == [CLAIM]
        assert redis.exists(f"{REJECTED}{CLAIM}")
    redis.delete(SCHEDULE)
    redis.set(SCHEDULE, "x")
    assert set_enabled(app, CLAIM, False).enabled is False
    assert redis.get(f"{REJECTED}:schedule") == "x"
    assert len(install_missing(app)) == 6
