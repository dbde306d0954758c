"""Real beat and worker processes on a Postgres and a Valkey of their own; started once a module."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from celery import Celery
from conftest import Database
from redis import Redis
from sqlalchemy import NullPool, create_engine

from core.broker import TRANSPORT_OPTIONS
from core.processes import Process, Program, wait_until
from embedded.postgres import FAST, PostgresServer
from embedded.valkey import ValkeyServer
from ops.stack import celery_command, create_worker_role, worker_options
from schedules.entry import FixedRateEntry
from schedules.settings import schedule_app
from sql.migrate import migrate
from support.servers import LOGIN
from tasks.transport import use_safe_transport

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 30
BEAT_READY = r"beat: Acquired lock"
WORKER_READY = r"@\S+ ready\."


class CeleryProcess(Process):
    """One process with what it has printed so far."""

    def __init__(
        self,
        name: str,
        options: Sequence[str],
        ready: str,
        environment: Mapping[str, str],
        directory: Path | None = None,
    ) -> None:
        self.lines: list[str] = []
        self._news = threading.Condition()
        command = celery_command(*options, "--loglevel=INFO")
        program = Program(
            name,
            lambda: command,
            re.compile(ready),
            DEADLINE,
            environment,
            directory or ROOT,
            stop_timeout=DEADLINE,
        )
        super().__init__(program, self._take_line)

    def _take_line(self, line: str) -> None:
        with self._news:
            self.lines.append(line)
            self._news.notify_all()

    def wait_for(self, pattern: str, times: int = 1, deadline: float = DEADLINE) -> None:
        """Wait until `pattern` was printed `times` times."""
        with self._news:
            found = self._news.wait_for(lambda: self.count(pattern) >= times, deadline)
        assert found, f"{self.name} never said {pattern!r}:\n{self.tail()}"

    def count(self, pattern: str) -> int:
        return sum(bool(re.search(pattern, line)) for line in list(self.lines))

    def tail(self) -> str:
        return "\n".join(self.lines[-60:])

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> None:
        """End the process; one that does not end fails the test and shows where each of its threads is."""
        if not self.end(with_signal):
            self.end(signal.SIGABRT)
            pytest.fail(f"{self.name} did not end:\n{self.tail()}")


@dataclass
class Rig:
    """The servers, and what runs on them."""

    valkey: ValkeyServer
    postgres: PostgresServer | None
    database: Database | None
    resources: ExitStack
    app: Celery = field(init=False)
    processes: list[CeleryProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.app = schedule_app(self.valkey.redis_url)

    @property
    def redis(self) -> Redis:
        return Redis.from_url(self.valkey.redis_url, decode_responses=True)

    def beat(self, *, ready: str = BEAT_READY, **settings: str) -> CeleryProcess:
        """Start a beat and return when it holds the lock."""
        return self.start("beat", ["beat"], ready, settings)

    def worker(self, *queues: str, processes: int = 1, **settings: str) -> CeleryProcess:
        """Start a worker of `queues` and return when it consumes."""
        name = queues[0]
        options = worker_options(f"{name}@test", ",".join(queues), processes)
        return self.start(name, options, WORKER_READY, settings)

    def start(self, name: str, options: Sequence[str], ready: str, settings: dict[str, str]) -> CeleryProcess:
        process = self.spawn(name, options, ready, settings)
        process.wait_for(ready)
        return process

    def spawn(
        self,
        name: str,
        options: Sequence[str],
        ready: str,
        settings: dict[str, str],
        more: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> CeleryProcess:
        """Start a process, with `more` in its environment or from another code tree, and don't wait for it."""
        environment = self.environment(settings) | dict(more or {})
        process = CeleryProcess(name, options, ready, environment, directory)
        self.resources.callback(process.kill)
        self.processes.append(process)
        return process

    def environment(self, settings: dict[str, str]) -> dict[str, str]:
        """Return what a process of ours needs to know, `settings` over it."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("STATS_REFRESH_")
        }
        url = self.database.url if self.database else "postgresql://nobody@nowhere/none"
        ours = {"database_url": url, "redis_url": self.valkey.redis_url, **settings}
        return inherited | {
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
            **{f"STATS_REFRESH_{name.upper()}": value for name, value in ours.items()},
        }

    def sender(self) -> Celery:
        """Return an app that sends messages where the workers take them, and answers from remote control."""
        use_safe_transport()
        app = Celery("sender", broker=self.valkey.broker_url, set_as_current=False)
        app.conf.broker_transport_options = TRANSPORT_OPTIONS
        return app

    def runs(self, entry: str) -> int:
        """Return how often beat has fired `entry`."""
        return FixedRateEntry.named(self.app, entry).total_run_count


@contextmanager
def rig(*, postgres: bool = True, append_only: bool = True) -> Iterator[Rig]:
    """Yield servers; whatever was started on them ends with them. Beat alone needs no database.

    Without `append_only` Valkey forgets everything when it stops.
    """
    with ExitStack() as resources:
        valkey = resources.enter_context(ValkeyServer(append_only=append_only))
        if not postgres:
            yield Rig(valkey, None, None, resources)
            return
        server = resources.enter_context(PostgresServer(settings=FAST))
        migrate(create_engine(server.url(), poolclass=NullPool))
        create_worker_role(server.url())
        database = Database(server.url(user=LOGIN), server.url())
        resources.callback(database.engine.dispose)
        yield Rig(valkey, server, database, resources)


def soon(condition: Callable[[], bool], within: float = DEADLINE) -> bool:
    """Wait until `condition` holds."""
    return wait_until(condition, within, interval=0.02)
