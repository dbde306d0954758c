"""Valkey and Postgres go away: killed, restarted, emptied, for a moment or for ten seconds."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from redis import RedisError

from faults.plan import Kind, Lane, Outcome
from faults.scene import Scene

OUTAGE_SECONDS = 10


def _valkey(down: Callable[[Scene], None], seconds: float, scene: Scene) -> Outcome:
    """Take Valkey away while messages are in the queues or in workers' hands, and bring it back."""
    messages = scene.watch.wait_for(scene.watch.messages) or 0
    stages = scene.watch.backends()
    down(scene)
    scene.last(seconds)
    scene.stack.on_servers_thread(scene.stack.valkey.start)
    return Outcome(bool(messages or stages), f"{messages} messages, {len(stages)} stages")


def _kill(scene: Scene) -> None:
    scene.stack.valkey.kill()


def _kill_and_forget(scene: Scene) -> None:
    """As a Valkey without its append-only file comes back: with nothing."""
    scene.stack.valkey.kill()
    for file in scene.stack.valkey.data_dir.iterdir():
        shutil.rmtree(file) if file.is_dir() else file.unlink()


def _stop(scene: Scene) -> None:
    scene.stack.valkey.stop()


def _flush(scene: Scene) -> Outcome:
    messages = scene.watch.wait_for(scene.watch.messages) or 0
    with suppress(RedisError), scene.stack.redis() as redis:
        redis.flushall()
        return Outcome(messages > 0, f"{messages} messages")
    return Outcome(False, "Valkey was away")


def _postgres(end: Callable[[Scene], None], scene: Scene) -> Outcome:
    stages = scene.watch.wait_for(scene.watch.backends) or []
    scene.stack.restart_postgres(partial(end, scene))
    return Outcome(
        bool(stages), ", ".join(sorted(backend.stage for backend in stages)) or "nobody was at a stage"
    )


def _kill_postmaster(scene: Scene) -> None:
    scene.stack.postgres.kill()


def _restart(scene: Scene) -> None:
    scene.stack.postgres.stop()


def _kill_backend(scene: Scene) -> Outcome:
    """Kill one backend at a stage: Postgres ends all sessions and recovers."""
    backend = scene.watch.wait_for_stage()
    if backend is None:
        return Outcome(False, "nobody was at a stage")
    with suppress(ProcessLookupError):
        os.kill(backend.pid, signal.SIGKILL)
        return Outcome(True, backend.stage)
    return Outcome(False, "it had ended")


KINDS = [
    Kind("valkey killed", Lane.SERVERS, partial(_valkey, _kill, 0)),
    Kind("valkey killed, data lost", Lane.SERVERS, partial(_valkey, _kill_and_forget, 0)),
    Kind("valkey away for 10 s", Lane.SERVERS, partial(_valkey, _stop, OUTAGE_SECONDS)),
    Kind("valkey flushed", Lane.SERVERS, _flush),
    Kind("postgres killed", Lane.SERVERS, partial(_postgres, _kill_postmaster)),
    Kind("postgres restarted", Lane.SERVERS, partial(_postgres, _restart)),
    Kind("postgres backend killed", Lane.SERVERS, _kill_backend),
]
