"""What each answer sends, and how a backlog of pages goes on in one chain."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from celery import Celery
from redis import Redis

from embedded.valkey import ValkeyServer
from tasks import chain
from tasks.chain import next_link
from tasks.transaction import Answer, Stage
from tasks.wake import Message, follow_ups, send

LEASE: dict[str, object] = {"run_id": "run", "lease_token": "token"}


@pytest.mark.parametrize(
    ("stage", "answer", "messages"),
    [
        (
            "claim",
            {"response": "claimed", "has_more": False, "has_capacity": True, **LEASE},
            [Message("stats.compute", LEASE)],
        ),
        (
            "claim",
            {"response": "claimed", "has_more": True, "has_capacity": True, **LEASE},
            [Message("stats.compute", LEASE), Message("stats.claim")],
        ),
        # Whoever gives a slot back wakes the next claim.
        (
            "claim",
            {"response": "claimed", "has_more": True, "has_capacity": False, **LEASE},
            [Message("stats.compute", LEASE)],
        ),
        # A run whose account is still held.
        (
            "claim",
            {"response": "idle", "retry_not_before": "2026-03-10T12:00:00+00:00"},
            [Message("stats.claim", not_before=datetime(2026, 3, 10, 12, tzinfo=UTC))],
        ),
        ("claim", {"response": "at_capacity"}, []),
        ("claim", {"response": "idle"}, []),
        ("claim", {"response": "paused"}, []),
        ("claim", {"response": "overlap"}, []),
        ("claim", {"response": "failed"}, []),
        ("compute", {"response": "computed", **LEASE}, [Message("stats.publish", LEASE)]),
        (
            "claim",
            {"response": "claimed", "phase": "computed", "has_more": False, "has_capacity": True, **LEASE},
            [Message("stats.publish", LEASE)],
        ),
        ("compute", {"response": "invalidated", "retry_not_before": None}, [Message("stats.claim")]),
        # The slot is free until then.
        *(
            (
                stage,
                {"response": response, "retry_not_before": "2026-03-10T12:00:00+00:00", **LEASE},
                [
                    Message("stats.claim"),
                    Message("stats.claim", not_before=datetime(2026, 3, 10, 12, tzinfo=UTC)),
                ],
            )
            for stage, response in (
                ("compute", "retry_pending"),
                ("compute", "invalidated"),
                ("compute", "busy"),
                ("publish", "busy"),
                ("publish", "rejected"),
            )
        ),
        ("compute", {"response": "overlap"}, []),
        ("publish", {"response": "published"}, [Message("stats.claim")]),
        ("publish", {"response": "failed"}, [Message("stats.claim")]),
        ("publish", {"response": "lease_lost"}, []),
    ],
)
def test_an_answer_wakes_who_has_work_now(stage: Stage, answer: Answer, messages: list[Message]) -> None:
    assert follow_ups(stage, answer) == messages


def test_a_message_that_has_long_to_wait_is_left_to_the_beats() -> None:
    sender = Celery("sender", broker="memory://", set_as_current=False)
    with sender.connection_for_write() as connection:
        queue = connection.SimpleQueue("celery")
        now = datetime.now(UTC)
        send(sender, [Message("stats.claim", not_before=now + timedelta(seconds=wait)) for wait in (30, 300)])
        assert queue.qsize() == 1
        assert queue.get().headers["eta"] == (now + timedelta(seconds=30)).isoformat()


@pytest.fixture
def redis(monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    with ValkeyServer() as server, Redis.from_url(server.redis_url) as client:
        monkeypatch.setattr(chain, "quick_redis", lambda: client)
        yield client


def test_beats_do_not_start_a_second_chain_beside_one_that_is_alive(redis: Redis) -> None:
    first = next_link("stats.rollover", None, more=True)
    assert first is not None
    assert next_link("stats.rollover", None, more=True) is None
    second = next_link("stats.rollover", first, more=True)
    assert second is not None
    assert next_link("stats.rollover", None, more=True) is None
    assert next_link("stats.repair", None, more=True) is not None

    assert next_link("stats.rollover", second, more=False) is None  # the chain has come to its end
    assert redis.keys("stats-refresh:chain:stats.rollover") == []
    assert next_link("stats.rollover", None, more=True) is not None


def test_a_message_that_comes_twice_does_not_fork_the_chain(redis: Redis) -> None:
    first = next_link("stats.rollover", None, more=True)
    second = next_link("stats.rollover", first, more=True)
    assert next_link("stats.rollover", first, more=True) is None
    assert next_link("stats.rollover", first, more=False) is None
    assert next_link("stats.rollover", second, more=True) is not None, "a copy ended the chain"


@pytest.mark.parametrize("left", [86_400 * 183, None], ids=["for months", "for ever"])
def test_a_link_that_outlives_its_time_keeps_no_chain_from_beginning(redis: Redis, left: int | None) -> None:
    """Redis keeps the moment at which a key ends: its clock ran ahead, and is right again."""
    old = next_link("stats.rollover", None, more=True)
    [key] = redis.keys("stats-refresh:chain:*")
    assert redis.persist(key) if left is None else redis.expire(key, left)
    new = next_link("stats.rollover", None, more=True)
    assert new is not None
    assert 0 < redis.ttl(key) <= 30
    assert next_link("stats.rollover", old, more=True) is None
    assert next_link("stats.rollover", new, more=False) is None
    assert redis.keys("stats-refresh:chain:*") == []


def test_a_chain_whose_message_was_lost_is_given_up_before_the_next_beat(redis: Redis) -> None:
    lost = next_link("stats.rollover", None, more=True)
    [key] = redis.keys("stats-refresh:chain:*")
    assert 0 < redis.ttl(key) < 60
    redis.delete(key)

    started = next_link("stats.rollover", None, more=True)
    assert started is not None
    # It was late only: there is one chain all the same.
    assert next_link("stats.rollover", lost, more=True) is None
    assert next_link("stats.rollover", started, more=True) is not None


def test_a_chain_that_redis_forgot_goes_on(redis: Redis) -> None:
    """Its message was in a worker's hand when Redis lost the rest."""
    link = next_link("stats.rollover", None, more=True)
    redis.flushall()
    assert next_link("stats.rollover", link, more=True) is not None


def test_without_redis_the_chain_ends_and_the_next_beat_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    away = Redis.from_url("unix:///nowhere/valkey.sock")
    monkeypatch.setattr(chain, "quick_redis", lambda: away)
    assert next_link("stats.rollover", None, more=True) is None


@pytest.mark.parametrize("damage", ["a list", "a link for ever"])
def test_a_link_that_is_not_from_here_stops_no_chain(redis: Redis, damage: str) -> None:
    key = "stats-refresh:chain:stats.rollover"
    if damage == "a list":
        redis.lpush(key, "x")
    else:
        redis.set(key, "x")
    first = next_link("stats.rollover", None, more=True)
    assert first is not None
    assert next_link("stats.rollover", None, more=True) is None
    assert 0 < redis.ttl(key) < 60
