"""Somebody else writes to our Redis: a real worker drops what it can't take, and goes on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from celery import Celery
from support.app import AppAccount
from support.rig import ROOT, CeleryProcess, Rig, soon
from wake.envelopes import FOREIGN, MARK, envelope, item

from core.redis_keys import PREFIX, REJECTED_PREFIX
from schedules.counters import dropped_messages

QUEUES = ("pipeline", "compute", "maintenance")
DROPPED = r"a message of \d+ bytes in (\w+) was dropped: "


@pytest.fixture(scope="module")
def worker(full_rig: Rig) -> CeleryProcess:
    """One worker for all queues, and no beat at all: a worker that lost a step would publish nothing."""
    process = full_rig.worker(*QUEUES)
    process.wait_for("listening for saves")
    return process


@pytest.fixture(autouse=True)
def still_publishes(full_rig: Rig, worker: CeleryProcess) -> Iterator[None]:
    yield
    person = AppAccount(full_rig.database)
    person.save()
    assert soon(lambda: person.state() == (1, 1)), worker.tail()
    assert worker.is_running()
    assert all(MARK not in line for line in worker.lines)


def answers(rig: Rig) -> bool:
    # limit: it returns with the answer, not at the end of the timeout.
    return bool(rig.sender().control.inspect(timeout=20, limit=1).ping())


def test_what_is_not_ours_is_dropped_from_every_queue(full_rig: Rig, worker: CeleryProcess) -> None:
    before = dropped_messages(full_rig.redis)
    seen = len(worker.lines)
    for queue in QUEUES:
        full_rig.redis.lpush(f"{PREFIX}{queue}", *(message for message, _ in FOREIGN.values()))
        full_rig.redis.lpush(f"{PREFIX}{queue}\x06\x169", b"5")
    each = len(FOREIGN) + 1
    worker.wait_for(DROPPED, times=3 * each)
    assert [full_rig.redis.llen(f"{PREFIX}{queue}") for queue in QUEUES] == [0, 0, 0]

    lines = [line for line in worker.lines[seen:] if re.search(DROPPED, line)]
    for queue in QUEUES:
        said = "".join(line for line in lines if f"in {queue} was" in line)
        for message, reason in FOREIGN.values():
            assert re.search(f"a message of {len(message)} bytes in {queue} was dropped: {reason}", said), (
                reason
            )
    assert all("WARNING" in line for line in lines)
    after = dropped_messages(full_rig.redis)
    assert [after[queue] - before.get(queue, 0) for queue in QUEUES] == [each] * 3


def test_status_shows_what_was_dropped(full_rig: Rig, worker: CeleryProcess) -> None:
    before = dropped_messages(full_rig.redis).get("compute", 0)
    full_rig.redis.lpush(f"{PREFIX}compute", "5")
    assert soon(lambda: dropped_messages(full_rig.redis).get("compute", 0) == before + 1)
    assert f"messages that are not ours: compute {before + 1}" in stats_refresh(full_rig, "status")
    assert (
        json.loads(stats_refresh(full_rig, "status", "--json"))["dropped_messages"]["compute"] == before + 1
    )
    away = stats_refresh(full_rig, "status", "--json", redis_url="unix:///nowhere/valkey.sock")
    assert json.loads(away)["dropped_messages"] is None


def stats_refresh(rig: Rig, *arguments: str, **settings: str) -> str:
    command = [sys.executable, "-m", "ops.cli", *arguments]
    environment = {**rig.environment(settings), "COLUMNS": "200"}
    return subprocess.run(
        command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def test_a_queue_that_is_no_list_is_set_aside(full_rig: Rig, worker: CeleryProcess) -> None:
    for queue in QUEUES:
        full_rig.redis.delete(f"{PREFIX}{queue}")
        full_rig.redis.set(f"{PREFIX}{queue}", MARK)
        worker.wait_for(rf"{PREFIX}{queue} was no list: set aside as {REJECTED_PREFIX}{queue}")
        assert full_rig.redis.get(f"{REJECTED_PREFIX}{queue}") == MARK
        assert 0 < full_rig.redis.ttl(f"{REJECTED_PREFIX}{queue}") <= 7 * 24 * 3600


def test_who_sends_to_a_queue_that_is_no_list_sets_it_aside(
    full_rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.transport.quick_redis", lambda: full_rig.redis)
    full_rig.redis.set(f"{PREFIX}nobody", "x")
    full_rig.sender().send_task("stats.claim", queue="nobody")
    assert full_rig.redis.llen(f"{PREFIX}nobody") == 1
    assert full_rig.redis.get(f"{REJECTED_PREFIX}nobody") == "x"


def test_what_kombu_keeps_beside_the_queues_can_be_of_any_kind(full_rig: Rig, worker: CeleryProcess) -> None:
    """A worker that starts meets the exchanges' tables; the list of messages in hand is not used at all."""
    garbage = ("unacked", "unacked_index", "unacked_mutex", *(f"_kombu.binding.{queue}" for queue in QUEUES))
    for name in (*garbage, "_kombu.binding.celery.pidbox", "_kombu.binding_deadlines"):
        full_rig.redis.delete(f"{PREFIX}{name}")
        full_rig.redis.set(f"{PREFIX}{name}", MARK)
    other = full_rig.start(
        "other", ["worker", "-n", "other@test", "-Q", "maintenance", "-c", "1"], r"@\S+ ready\.", {}
    )
    assert full_rig.redis.get(f"{REJECTED_PREFIX}_kombu.binding.maintenance") == MARK
    other.stop()
    assert answers(full_rig)


def test_remote_control_outlives_what_is_published_to_it(full_rig: Rig, worker: CeleryProcess) -> None:
    before = dropped_messages(full_rig.redis).get("control", 0)
    published = [
        b"5",
        b"\xff",
        item([MARK]),
        item(envelope(5)),
        item(envelope({"method": MARK, "destination": 5})),
    ]
    for message in published:
        full_rig.redis.publish(f"{PREFIX}/0.celery.pidbox", message)
    assert soon(lambda: dropped_messages(full_rig.redis).get("control", 0) == before + len(published))
    assert answers(full_rig)


def test_another_app_on_the_same_redis_is_not_met(full_rig: Rig, worker: CeleryProcess) -> None:
    """It has a queue of the same name, and tells all its workers to stop."""
    other = Celery("other", broker=full_rig.valkey.broker_url, set_as_current=False)
    for queue in ("pipeline", "celery"):
        other.send_task("other.mail", queue=queue)
    other.control.shutdown()
    assert other.control.inspect(timeout=1, limit=1).ping() is None
    assert full_rig.redis.llen("pipeline") == 1
    assert answers(full_rig)
    theirs = {"pipeline", "celery"} | set(full_rig.redis.keys("_kombu*"))
    assert {key for key in full_rig.redis.keys("*") if not key.startswith(PREFIX)} <= theirs
    assert full_rig.redis.keys(f"{PREFIX}_kombu.binding.*")


def test_a_count_that_is_no_count_is_set_aside(full_rig: Rig, worker: CeleryProcess) -> None:
    key = f"{PREFIX}messages:dropped"
    for damage in ("a string", json.dumps({"compute": MARK})):
        full_rig.redis.delete(key)
        if damage == "a string":
            full_rig.redis.set(key, damage)
        else:
            full_rig.redis.hset(key, "compute", MARK)
        assert dropped_messages(full_rig.redis) == {}
        full_rig.redis.lpush(f"{PREFIX}compute", "5")
        assert soon(lambda: dropped_messages(full_rig.redis) == {"compute": 1})


def test_a_message_of_an_impossible_time_ends_no_worker(full_rig: Rig, worker: CeleryProcess) -> None:
    """It passes as ours: a time long ago, which no clock can be set to."""
    for headers in ({"eta": "0001-01-01T00:00:00+14:00"}, {"expires": "0001-01-01T00:00:00-14:00"}):
        full_rig.redis.lpush(f"{PREFIX}pipeline", item(envelope(headers={**headers, "origin": "test"})))
    assert soon(lambda: full_rig.redis.llen(f"{PREFIX}pipeline") == 0)
    assert answers(full_rig)
