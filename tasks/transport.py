"""Celery's Redis transport, made safe against what other people write to Redis.

kombu builds a message from whatever it takes off a queue, and most of what can be wrong there ends the worker, which
puts the message back for the next one to end by. Here it is looked at first (`tasks.envelopes`) and dropped where it is
not one of ours; and a queue's key that is no list is set aside, which would stop all queues of its worker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from queue import Empty
from typing import TypeVar, cast

from kombu.transport import TRANSPORT_ALIASES, _transport_cache, virtual
from kombu.transport import redis as kombu_redis
from kombu.utils.encoding import bytes_to_str
from redis.exceptions import ResponseError

from core.redis_client import quick_redis
from core.redis_keys import is_wrong_type, set_aside, shown
from tasks.dropped import drop
from tasks.envelopes import refusal

logger = logging.getLogger(__name__)

T = TypeVar("T")


def use_safe_transport() -> None:
    """Let this process's connections by redis://, rediss:// and redis+socket:// go through the safe transport."""
    # By its name alone, Flower and kombu tell what the broker is: a transport under a name of its own would be none.
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:Transport"
        # Where this process has connected before.
        _transport_cache.pop(scheme, None)


class _Client(kombu_redis.PrefixedStrictRedis):
    def parse_response(self, connection: object, command_name: str, **options: object) -> object:
        """Return Redis's answer; to a BRPOP that took a message that is not ours, what a queue without one answers."""
        answer: object = super().parse_response(connection, command_name, **options)
        if command_name == "BRPOP" and answer:
            key, item = cast("tuple[bytes, bytes]", answer)
            queue = bytes_to_str(key).rsplit(kombu_redis.Channel.sep, 1)[0]
            if _is_dropped(queue, item):
                return None
        return answer

    def pubsub(self, **options: object) -> _PubSub:
        return _PubSub(self.connection_pool, global_keyprefix=self.global_keyprefix, **options)


class _PubSub(kombu_redis.PrefixedRedisPubSub):
    def parse_response(self, *args: object, **options: object) -> object:
        """Return what was published; None for a message that is not ours."""
        response = cast("list[bytes] | None", super().parse_response(*args, **options))
        if response and bytes_to_str(response[0]).endswith("message"):
            # The channel is /<database>.<exchange>, with a routing key behind another slash.
            exchange = bytes_to_str(response[-2]).partition(".")[2].partition("/")[0]
            if _is_dropped(exchange, response[-1]):
                return None
        return response


def _is_dropped(queue: str, item: bytes) -> bool:
    problem = refusal(queue, item)
    if problem is not None:
        drop(queue, len(item), problem)
    return problem is not None


def _mended(do: Callable[[], T], mend: Callable[[], None]) -> T:
    """Return what `do` returns: at a second try where the first met a key of another kind, which `mend` sets aside."""
    try:
        return do()
    except ResponseError as error:
        if not is_wrong_type(error):
            raise
    mend()
    return do()


class _QoS(virtual.QoS):
    def restore_unacked(self) -> list[object]:
        """Give back what a worker that ends has not begun, as far as Redis answers.

        kombu would write the rest to a file of its own. It is hints only: the beats find the work.
        """
        self._flush()
        try:
            while self._delivered:
                self.channel._restore(self._delivered.popitem()[1])
        except Exception as error:
            logger.info("messages were not given back, the beats do their work: %s", error)
        self._delivered.clear()
        return []


class Channel(kombu_redis.Channel):
    """Drops what is not ours and sets aside what is no queue."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self.QoS = cast(type[kombu_redis.QoS], _QoS)

    def _get_client(self) -> object:
        super()._get_client()  # checks redis-py's version
        return partial(_Client, global_keyprefix=self.global_keyprefix)

    def _brpop_read(self, **options: object) -> object:
        try:
            return super()._brpop_read(**options)
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            for queue in self.active_queues:
                self._set_queue_aside(queue)
            raise Empty from error

    def _put(self, queue: str, message: object, **options: object) -> None:
        put = partial(super()._put, queue, message, **options)
        _mended(put, partial(self._set_queue_aside, queue))

    def _size(self, queue: str) -> int:
        size: int = _mended(partial(super()._size, queue), partial(self._set_queue_aside, queue))
        return size

    def _queue_bind(self, exchange: str, *binding: object) -> None:
        bind = partial(super()._queue_bind, exchange, *binding)
        _mended(bind, partial(self._set_bindings_aside, exchange))

    def get_table(self, exchange: str) -> object:
        """Return the bindings of `exchange`, none where what stood there was no set."""
        return _mended(partial(super().get_table, exchange), partial(self._set_bindings_aside, exchange))

    def _set_queue_aside(self, queue: str) -> None:
        for step in self.priority_steps:
            self._set_aside(self._q_for_pri(queue, step), "list")

    def _set_bindings_aside(self, exchange: str) -> None:
        for key in (self.keyprefix_queue, self.keyprefix_binding_permanent):
            self._set_aside(key % (exchange,), "set")
        self._set_aside(self.keyprefix_binding_deadlines, "zset")

    def _set_aside(self, name: str, wanted: str) -> None:
        key = self.global_keyprefix + name
        if (aside := set_aside(quick_redis(), key, unless=wanted)) is not None:
            logger.warning(
                "the key %s was no %s: set aside as %s",
                shown(key),
                wanted,
                shown(aside),
                extra={"action": "set_aside", "key": shown(key)},
            )


class Transport(kombu_redis.Transport):
    """kombu's transport with the safe channel."""

    Channel = Channel
