"""What a message does to the worker's own code ends no worker; a lost connection still is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kombu import Connection
from kombu.message import Message
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from wake.envelopes import MARK

from embedded.valkey import ValkeyServer
from schedules.counters import dropped_messages
from tasks import dropped
from tasks.consumer import ReconnectingConsumer

TASK = "stats.claim"


@pytest.fixture
def redis(monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    with ValkeyServer() as server, Redis.from_url(server.redis_url, decode_responses=True) as client:
        monkeypatch.setattr(dropped, "quick_redis", lambda: client)
        yield client


@pytest.fixture
def message() -> Iterator[Message]:
    """One as a worker gets it."""
    with Connection("memory://") as connection:
        queue = connection.SimpleQueue("pipeline")
        queue.put({"args": MARK}, headers={"task": TASK})
        yield queue.get()


def taking(error: Exception) -> ReconnectingConsumer:
    """Return a consumer that is not connected, whose task can't take a message."""
    consumer = object.__new__(ReconnectingConsumer)

    def fails(*_: object) -> None:
        raise error

    consumer.strategies = {TASK: fails}
    consumer.on_task_message = set()
    consumer._maximum_prefetch_restored = True
    return consumer


@pytest.mark.parametrize("error", [TypeError("5"), KeyError(MARK), RecursionError(), AssertionError()])
def test_a_message_that_fails_the_worker_is_dropped(
    redis: Redis, message: Message, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    taking(error).create_task_handler()(message)
    assert message.acknowledged
    assert dropped_messages(redis) == {"pipeline": 1}
    [record] = caplog.records
    assert record.getMessage().endswith(
        f"in pipeline was dropped: the worker can't take it ({type(error).__name__})"
    )
    assert MARK not in record.getMessage()


def test_a_lost_connection_is_no_fault_of_the_message(redis: Redis, message: Message) -> None:
    with pytest.raises(RedisConnectionError):
        taking(RedisConnectionError("gone")).create_task_handler()(message)
    assert not message.acknowledged
    assert dropped_messages(redis) == {}
