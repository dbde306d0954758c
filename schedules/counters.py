"""What became of beats that did no work: one Redis hash per reason, a field per entry.

dropped: found no free process until it expired. overlapped: the entry's run before it was still at work.
missed: beat was late by whole slots, which are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from redis import Redis
from redis.client import Pipeline

Reason = Literal["dropped", "overlapped", "missed"]
REASONS: tuple[Reason, ...] = ("dropped", "overlapped", "missed")


def count(redis: Redis, reason: Reason, entry: str) -> None:
    """Count one more beat of `entry`."""
    redis.hincrby(_key(reason), entry, 1)


def count_missed(pipe: Pipeline, entry: str, slots: int) -> None:
    """Count `slots` missed slots of `entry` within a tick's own write."""
    if slots:
        pipe.hincrby(_key("missed"), entry, slots)


def counts(redis: Redis) -> Mapping[Reason, Mapping[str, int]]:
    """Return the counts by reason and entry since Redis last lost its data."""
    return {reason: _by_entry(redis, reason) for reason in REASONS}


def _by_entry(redis: Redis, reason: Reason) -> dict[str, int]:
    found: Any = redis.hgetall(_key(reason))
    return {_text(name): int(number) for name, number in found.items()}


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _key(reason: Reason) -> str:
    return f"stats-refresh:beats:{reason}"
