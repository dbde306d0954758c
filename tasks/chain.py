"""One chain for each maintenance task: while one goes through a backlog, the beats don't start further ones.

Without it every beat of a long backlog would leave one more message that sends itself again.
"""

from __future__ import annotations

import logging

from redis import RedisError

from tasks.redis_client import quick_redis

logger = logging.getLogger(__name__)

_LOST_AFTER_SECONDS = 180
"""A chain whose message was lost is given up then; longer than the hard limit of one page."""


def may_continue(task: str, *, more: bool, fired_by_beat: bool) -> bool:
    """Tell whether the run should send its task again; remembers that the chain lives, or that it has ended.

    A Redis that is away ends the chain: the next beat begins another.
    """
    key = f"stats-refresh:chain:{task}"
    try:
        if more:
            return bool(quick_redis().set(key, "alive", ex=_LOST_AFTER_SECONDS, nx=fired_by_beat))
        if not fired_by_beat:
            quick_redis().delete(key)
    except RedisError as error:
        logger.warning("%s: its chain ends here, the next beat goes on: %s", task, error)
    return False
