"""What became of beats that did no work: one Redis hash per reason, a field per entry.

dropped: found no free process until it expired. overlapped: the entry's run before it was still at work.
missed: beat was late by whole slots, which are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from redis import Redis
from redis.exceptions import ResponseError

from core.redis_keys import PREFIX, is_wrong_type, set_aside

Reason = Literal["dropped", "overlapped", "missed"]
REASONS: tuple[Reason, ...] = ("dropped", "overlapped", "missed")


DROPPED_MESSAGES = f"{PREFIX}messages:dropped"
"""A hash: what the messages were for, and how many of them workers did not take."""


def dropped_messages(redis: Redis) -> dict[str, int]:
    """Return how many messages were dropped, by what they were for, since Redis last lost its data."""
    return read_counts(redis, DROPPED_MESSAGES)


def count(redis: Redis, reason: Reason, entry: str, beats: int = 1) -> None:
    """Count `beats` more of `entry`."""
    add(redis, _key(reason), entry, beats)


def add(redis: Redis, key: str, field: str, number: int = 1) -> None:
    """Add `number` to `field` of the hash `key`; where that is no count, it is set aside and counted anew."""
    try:
        redis.hincrby(key, field, number)
    except ResponseError as error:
        if not is_wrong_type(error) and "not an integer" not in str(error):
            raise
        set_aside(redis, key)
        redis.hincrby(key, field, number)


def counts(redis: Redis) -> Mapping[Reason, Mapping[str, int]]:
    """Return the counts by reason and entry since Redis last lost its data."""
    return {reason: _by_entry(redis, reason) for reason in REASONS}


def _by_entry(redis: Redis, reason: Reason) -> dict[str, int]:
    return read_counts(redis, _key(reason))


def read_counts(redis: Redis, key: str) -> dict[str, int]:
    """Return the numbers of the hash `key` by their fields; without what somebody else has written there."""
    try:
        found: Any = redis.hgetall(key)
    except ResponseError as error:
        if not is_wrong_type(error):
            raise
        return {}
    return {_text(name): int(number) for name, number in found.items() if _text(number).isdecimal()}


def _text(value: str | bytes) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def _key(reason: Reason) -> str:
    return f"{PREFIX}beats:{reason}"
