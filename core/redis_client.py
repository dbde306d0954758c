"""A Redis client for small things beside the work: it answers at once or not at all."""

from __future__ import annotations

from functools import cache

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from core.config import config


@cache
def quick_redis() -> Redis:
    """Return this process's client. Like the engine it must be made in the process that uses it."""
    url = config().redis_url
    if url is None:
        raise RuntimeError("STATS_REFRESH_REDIS_URL is not set: a worker needs Redis")
    return quick_client(url)


def quick_client(url: str) -> Redis:
    """Return a client of the Redis of `url` that does not try again."""
    # Some of its callers run in the worker's event loop, which must not wait for a number.
    return Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0))
