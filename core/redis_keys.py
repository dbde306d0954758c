"""Our keys in Redis: one prefix for all of them, and what happens to one that can't be read."""

from __future__ import annotations

from redis import Redis
from redis.exceptions import ResponseError

PREFIX = "stats-refresh:"
"""Before every key and channel of ours, so that another Celery app on the same Redis is not met."""
REJECTED_PREFIX = f"{PREFIX}rejected:"
KEPT_SECONDS = 7 * 24 * 3600
"""How long a person has to look at what was set aside."""

# In one command: another process may have set the key aside, and written a right one, since it was found wrong.
_SET_ASIDE = """
    local kind = redis.call('type', KEYS[1]).ok
    if kind == 'none' or kind == ARGV[1] then return 0 end
    redis.call('rename', KEYS[1], KEYS[2])
    redis.call('expire', KEYS[2], ARGV[2])
    return 1
"""


def set_aside(redis: Redis, key: str, *, unless: str = "") -> str | None:
    """Rename what stands under `key`, which is of the wrong kind, to a key that nothing reads; return its new name.

    None where there is nothing, or it is of the type `unless` by now. A second one of the same name takes the place
    of the first.
    """
    name = REJECTED_PREFIX + key.removeprefix(PREFIX)
    moved = redis.eval(_SET_ASIDE, 2, key, name, unless, KEPT_SECONDS)
    return name if moved else None


def is_wrong_type(error: BaseException) -> bool:
    """Tell whether Redis refused a command because the key holds something else."""
    # A pipeline puts its own words before Redis's.
    return isinstance(error, ResponseError) and "WRONGTYPE " in str(error)


def shown(key: str) -> str:
    """Return `key` for a log: one that holds broken bytes can't be printed as it is."""
    return ascii(key)[1:-1][:200]
