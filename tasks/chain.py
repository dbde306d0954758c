"""One chain for each maintenance task: while one goes through a backlog, the beats don't start further ones.

Without it every beat of a long backlog would leave one more message that sends itself again, and a message that the
broker delivers twice would go on as two chains.
"""

from __future__ import annotations

import logging
import uuid

from redis import RedisError

from core.redis_client import quick_redis
from core.redis_keys import PREFIX

logger = logging.getLogger(__name__)

LOST_AFTER_SECONDS = 30
"""A chain that is not heard of for so long is given up, and the next beat starts another. It may have been late only,
behind the other pages of its worker: then it finds that it is no longer the one and ends."""

# Redis keeps the link that the chain's next message carries. A copy of an earlier message carries an older one. What is
# no string is not from here, and a link that would live longer than it may, or for ever, was left by a clock that ran
# ahead: neither stands for a living chain.
_ADVANCE = """
    local left = redis.call('ttl', KEYS[1])
    local ours = redis.call('type', KEYS[1]).ok == 'string' and left >= 0 and left <= tonumber(ARGV[3])
    local link = ours and redis.call('get', KEYS[1])
    if link and link ~= ARGV[1] then return 0 end
    if ARGV[2] == '' then redis.call('del', KEYS[1]) else redis.call('set', KEYS[1], ARGV[2], 'EX', ARGV[3]) end
    return 1
"""


def next_link(task: str, link: str | None, *, more: bool) -> str | None:
    """Return what the task's next message is to carry; None where the run should not send one.

    `link` is what the run's own message carried, None for one that a beat or a person sent, which only starts a chain
    where none is alive. A Redis that is away ends the chain: the next beat begins another.
    """
    if link is None and not more:
        return None
    following = uuid.uuid4().hex if more else ""
    try:
        advanced = quick_redis().eval(
            _ADVANCE, 1, f"{PREFIX}chain:{task}", link or "", following, LOST_AFTER_SECONDS
        )
    except RedisError as error:
        logger.warning("%s: its chain ends here, the next beat goes on: %s", task, error)
        return None
    return following if advanced and more else None
