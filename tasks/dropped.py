"""Messages that were not taken: one warning each, and a count in Redis that `stats-refresh status` shows."""

from __future__ import annotations

import logging

from redis import RedisError

from core.redis_client import quick_redis
from schedules.counters import DROPPED_MESSAGES, add
from tasks.envelopes import kind

logger = logging.getLogger(__name__)


def drop(queue: str, size: int, reason: str) -> None:
    """Warn of a message of `queue` that is dropped, and count it. A Redis that is away costs the count."""
    what = kind(queue)
    logger.warning(
        "a message of %d bytes in %s was dropped: %s",
        size,
        what,
        reason,
        extra={"action": "drop", "queue": what, "bytes": size, "reason": reason},
    )
    try:
        add(quick_redis(), DROPPED_MESSAGES, what)
    except RedisError as error:
        logger.warning("the dropped message is not counted: %s", error, extra={"action": "drop"})
