"""Messages are doubled, dropped and poisoned; keys of the schedule are made unreadable."""

from __future__ import annotations

import base64
import json
import random
import uuid
from contextlib import suppress

from celery import Celery
from redis import Redis, RedisError

from faults.plan import Kind, Lane, Outcome
from faults.scene import Scene
from faults.stack import QUEUES, queue_key, queue_of
from schedules.settings import KEY_PREFIX
from tasks.app import app as product

_LEASES = """
    select r.id::text, r.lease_token::text, r.phase
    from public.user_stats_projection_runs r where r.phase in ('claimed', 'computed')
"""


def _double(scene: Scene) -> Outcome:
    """Send the message of a run in flight again, three times, and claims with it."""
    leases = scene.watch.wait_for(lambda: scene.watch.rows(_LEASES)) or []
    app = Celery("storm", broker=scene.stack.valkey.broker_url, set_as_current=False)
    app.conf.update(
        task_routes=product.conf.task_routes,
        broker_transport_options=product.conf.broker_transport_options,
    )
    try:
        for run_id, token, phase in leases:
            task = "stats.compute" if phase == "claimed" else "stats.publish"
            for _ in range(3):
                app.send_task(task, kwargs={"run_id": run_id, "lease_token": token}, retry=False)
        for _ in range(3):
            app.send_task("stats.claim", retry=False)
    except Exception as error:
        return Outcome(False, f"Valkey was away: {type(error).__name__}")
    finally:
        app.close()
    return Outcome(bool(leases), f"{len(leases)} runs")


def _drop(scene: Scene) -> Outcome:
    """Take away the oldest message of each queue that has any."""
    dropped = 0
    with suppress(RedisError), scene.stack.redis() as redis:
        dropped = scene.watch.wait_for(lambda: _emptied(redis)) or 0
    return Outcome(dropped > 0, f"{dropped} messages")


def _emptied(redis: Redis) -> int:
    return sum(redis.rpop(queue_key(queue)) is not None for queue in QUEUES)


def _poison(scene: Scene) -> Outcome:
    """Put something into a queue that is no message of ours, while work is under way."""
    in_flight = bool(scene.watch.wait_for(scene.watch.has_work))
    name, queue = scene.dice.choice(sorted(_POISONS)), scene.dice.choice(QUEUES)
    with suppress(RedisError), scene.stack.redis() as redis:
        redis.lpush(queue_key(queue), _POISONS[name](queue, scene.dice))
        return Outcome(in_flight, f"{name} for {queue}")
    return Outcome(False, "Valkey was away")


def _envelope(queue: str, body: object, task: object = None, **headers: object) -> bytes:
    """Return a message as kombu writes it."""
    packed = body if isinstance(body, bytes) else json.dumps(body).encode()
    task = task or next(task for task in sorted(product.conf.task_routes) if queue_of(task) == queue)
    ours = {"lang": "py", "task": task, "id": str(uuid.uuid4()), "argsrepr": "()", "kwargsrepr": "{}"}
    return json.dumps(
        {
            "body": base64.b64encode(packed).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {**ours, **headers},
            "properties": {
                "correlation_id": ours["id"],
                "reply_to": "",
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": queue},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": str(uuid.uuid4()),
            },
        }
    ).encode()


_EMPTY_CALL = [[], {}, {}]
_POISONS = {
    "a number": lambda queue, _: _envelope(queue, 5),
    "a list": lambda queue, _: _envelope(queue, [1, 2]),
    "a body that is no JSON": lambda queue, dice: _envelope(queue, dice.randbytes(40)),
    "time limits of strings": lambda queue, _: _envelope(queue, _EMPTY_CALL, timelimit=["x", "y"]),
    "an eta of words": lambda queue, _: _envelope(queue, _EMPTY_CALL, eta="tomorrow"),
    "an unknown task": lambda queue, _: _envelope(queue, _EMPTY_CALL, task="somebody.elses"),
    "a task that is no text": lambda queue, _: _envelope(queue, _EMPTY_CALL, task=[1]),
    "arguments of another task": lambda queue, _: _envelope(queue, [[], {"sides": 6}, {}]),
    "raw bytes": lambda queue, dice: dice.randbytes(200),
    "nothing": lambda queue, _: b"",
}


def _spoil_the_schedule(scene: Scene) -> Outcome:
    """Put something under the schedule's keys that RedBeat can't read."""
    in_flight = bool(scene.watch.wait_for(scene.watch.has_work))
    name = scene.dice.choice(sorted(_SPOILS))
    try:
        with scene.stack.redis() as redis:
            _SPOILS[name](redis, scene.dice)
    except RedisError as error:
        # Valkey is away, or the schedule is still what it was spoiled to.
        return Outcome(False, f"{name}: {error}")
    return Outcome(in_flight, name)


def _wrong_type(redis: Redis, dice: random.Random) -> None:
    key = f"{KEY_PREFIX}evil{dice.randrange(3)}"
    redis.set(key, "x")
    redis.zadd(f"{KEY_PREFIX}:schedule", {key: 0})


def _broken_member(redis: Redis, dice: random.Random) -> None:
    redis.zadd(f"{KEY_PREFIX}:schedule", {b"\xff\xfe" + dice.randbytes(4): 0})


def _schedule_of_text(redis: Redis, _: random.Random) -> None:
    redis.set(f"{KEY_PREFIX}:schedule", "x")


def _lock_for_ever(redis: Redis, _: random.Random) -> None:
    redis.set(f"{KEY_PREFIX}:lock", "nobody")


_SPOILS = {
    "an entry of the wrong type": _wrong_type,
    "a member of broken bytes": _broken_member,
    "the schedule as a text": _schedule_of_text,
    "a lock without a time to live": _lock_for_ever,
}

KINDS = [
    Kind("messages doubled", Lane.MESSAGES, _double),
    Kind("messages dropped", Lane.MESSAGES, _drop),
    Kind("message poisoned", Lane.MESSAGES, _poison),
    Kind("schedule spoiled", Lane.MESSAGES, _spoil_the_schedule),
]
