"""The whole stack under test: servers, a proxy between, and processes that are started again whenever they end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import psutil
from conftest import Database
from maintenance.scene import settings
from redis import Redis
from sqlalchemy import NullPool, create_engine, make_url
from support.rig import BEAT_READY, WORKER_READY, CeleryProcess, Rig
from support.servers import LOGIN

from core.processes import NotReady, describe_exit, wait_until
from embedded.postgres import FAST, PostgresServer
from embedded.valkey import ValkeyServer
from faults.clock import Clock
from faults.proxy import Proxy
from ops.stack import WORKERS, create_worker_role, worker_options
from sql.migrate import migrate
from tasks.app import app as product

Result = TypeVar("Result")

LEASE_SECONDS = 8
SETTINGS = {
    "claim_budget_ms": 3000,
    "compute_budget_ms": 5000,
    "publish_budget_ms": 2000,
    "lease_seconds": LEASE_SECONDS,
    "active_lease_cap": 4,
    # A storm kills far more often than an account's attempts are meant for; what an attempt is spent on is counted.
    "max_attempts": 12,
    "retry_backoff_seconds": 1,
    # So that some runs go in steps.
    "batch_size": 3,
}
SLOW_STAGES = """
    create table public.stage_work (most integer not null);
    insert into public.stage_work values (0);
    create function public.take_as_long_as_a_large_account() returns trigger language plpgsql security definer as $$
    begin
        perform pg_catalog.count(pg_catalog.md5(n::text))
        from public.stage_work w, pg_catalog.generate_series(1, (pg_catalog.random() * w.most)::integer) n;
        return null;
    end $$;
    create trigger slow_stage after insert or update of phase on public.user_stats_projection_runs
    for each row execute function public.take_as_long_as_a_large_account();
    create trigger slow_save after insert on public.stats_mutation_receipts
    for each row execute function public.take_as_long_as_a_large_account();
"""
"""Stages of these small accounts take milliseconds; a fault that is to hit one needs a moment longer. They work for it
instead of sleeping: pg_sleep waits by the clock, which a fault steps. When the faults end, so does this work: what is
asked then is whether each account recovers, not how long a slow queue of all accounts is."""
_WORK_WHILE_FAULTS = 100_000
GRACE_SECONDS = 10
"""So long a process that is asked to end may take: more than its longest stage."""
_READY_SECONDS = 90
_PATIENCE = 0.3


def queue_of(task: str) -> str:
    """Return the queue that the product sends the task to."""
    queue: str = product.conf.task_routes[task]["queue"]
    return queue


def queue_key(queue: str) -> str:
    """Return the Redis key of the queue's messages."""
    prefix: str = product.conf.broker_transport_options.get("global_keyprefix", "")
    return prefix + queue


QUEUES = sorted({queue_of(task) for task in product.conf.task_routes})


@dataclass
class Kept:
    """A process that is started again whenever it ends. Its thread lives as long, which the kernel asks for."""

    name: str
    ready: str
    spawn: Callable[[], CeleryProcess]
    said: Callable[[str], None]
    process: CeleryProcess | None = None
    asked_to_end_at: float | None = None
    """When somebody sent the present process a signal that ends it."""
    killed: list[str] = field(default_factory=list)
    """The processes that had to be killed, because they did not end when they were asked to."""
    ended_by_itself: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._keep, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the process for good."""
        self._stopping.set()
        self.signal(signal.SIGKILL)
        if self._thread is not None:
            self._thread.join(30)

    def signal(self, number: signal.Signals) -> bool:
        """Send the main process a signal; False where there is none at the moment."""
        process = self.process
        if process is None or not process.is_running():
            return False
        if number in (signal.SIGKILL, signal.SIGTERM):
            self.ask_to_end()
        process.send_signal(number)
        return True

    def ask_to_end(self) -> None:
        """Note that the present process is sent a signal that ends it."""
        self.asked_to_end_at = self.asked_to_end_at or time.monotonic()

    def is_ready(self) -> bool:
        return bool(self.process and self.process.is_running() and self.process.count(self.ready))

    def family(self) -> list[psutil.Process]:
        """Return the main process and its pool children."""
        if self.process is None or not self.process.is_running():
            return []
        with suppress(psutil.NoSuchProcess):
            main = psutil.Process(self.process.pid)
            return [main, *main.children()]
        return []

    def _keep(self) -> None:
        while not self._stopping.is_set():
            self.asked_to_end_at = None
            self.process = process = self.spawn()
            status = self._end_of(process)
            process.kill_group(signal.SIGKILL)
            if self.asked_to_end_at is None and not self._stopping.is_set():
                self.ended_by_itself.append(
                    f"{self.name} ended with {describe_exit(status)}:\n{process.tail()}"
                )
                self.said(f"{self.name} ended by itself with {describe_exit(status)}")
            self._stopping.wait(_PATIENCE)

    def _end_of(self, process: CeleryProcess) -> int:
        """Wait until the process ends; kill one that takes too long to do as asked, as every supervisor does."""
        while True:
            try:
                return process.wait(1)
            except subprocess.TimeoutExpired:
                asked_at = self.asked_to_end_at
            if asked_at is not None and time.monotonic() > asked_at + GRACE_SECONDS:
                self.killed.append(f"{self.name}, process {process.pid}:\n{process.tail()}")
                self.said(f"{self.name} did not end within {GRACE_SECONDS} s and was killed")
                process.kill_group(signal.SIGKILL)
                return process.wait()


class ClockedPostgres(PostgresServer):
    """An embedded Postgres that follows the storm's clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(settings=FAST)
        self._clock = clock

    def start(self) -> ClockedPostgres:
        with patch.dict(os.environ, self._clock.environment()):
            super().start()
        return self


@dataclass
class Stack:
    """What a storm goes over."""

    rig: Rig
    postgres: ClockedPostgres
    valkey: ValkeyServer
    database: Database
    """Through the proxy, as the workers and the clients go; its admin URL goes past it."""
    proxy: Proxy
    clock: Clock
    said: Callable[[str], None]
    kept: list[Kept] = field(default_factory=list)
    _servers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "servers"))

    @property
    def workers(self) -> list[Kept]:
        return [one for one in self.kept if one.ready == WORKER_READY]

    @property
    def beats(self) -> list[Kept]:
        return [one for one in self.kept if one.ready == BEAT_READY]

    def redis(self) -> Redis:
        """Return a client that gives up at once where Valkey is away."""
        return Redis(unix_socket_path=str(self.valkey.socket_path), socket_timeout=2)

    def on_servers_thread(self, what: Callable[[], Result]) -> Result:
        """Run what starts a server in a thread that lives as long as the storm: the server ends with it."""
        return self._servers.submit(what).result()

    def restart_postgres(self, end: Callable[[], None]) -> None:
        """End Postgres in a way, and start it again as soon as the sessions of a killed one have ended."""
        end()
        self.on_servers_thread(lambda: wait_until(self._starts, 60, interval=0.2))

    def _starts(self) -> bool:
        try:
            self.postgres.start()
        except NotReady:
            return False
        return True

    def keep(self, name: str, arguments: list[str], ready: str, directory: Path | None = None) -> Kept:
        """Start a process and keep it running."""

        def spawn() -> CeleryProcess:
            return self.rig.spawn(
                name, arguments, ready, {}, more=self.clock.environment(), directory=directory
            )

        made = Kept(name, ready, spawn, self.said)
        made.start()
        return made

    def slow_the_stages(self) -> None:
        """Let stages and saves take longer until `heal`."""
        self.database.admin("update public.stage_work set most = :most", most=_WORK_WHILE_FAULTS)

    def owner_of(self, backend: int) -> tuple[Kept, psutil.Process] | None:
        """Return the worker whose process is at the other end of the backend's connection, and that process."""
        client = self.proxy.client_of(backend)
        for one in self.kept:
            for process in one.family():
                if process.pid == client:
                    return one, process
        return None

    def heal(self) -> list[str]:
        """End what faults may have left: stopped processes, silent connections, a wrong clock.

        Return the processes that are not ready in time, with what they said last.
        """
        self.clock.step(0)
        self.database.admin("update public.stage_work set most = 0")
        for one in self.kept:
            for process in one.family():
                with suppress(psutil.NoSuchProcess):
                    process.resume()
        self.proxy.end_silence()
        if wait_until(self._all_ready, _READY_SECONDS, interval=0.1):
            return []
        return [
            f"{one.name} is not ready after {_READY_SECONDS} s:\n{one.process.tail() if one.process else ''}"
            for one in self.kept
            if not one.is_ready()
        ]

    def _all_ready(self) -> bool:
        # One of the beats holds the lock, and says so.
        return all(one.is_ready() for one in self.workers) and any(one.is_ready() for one in self.beats)

    def close(self) -> None:
        for one in self.kept:
            one.stop()
        self._servers.shutdown()


@contextmanager
def whole_stack(said: Callable[[str], None]) -> Iterator[Stack]:
    """Yield a stack of its own, migrated and ready."""
    with ExitStack() as resources:
        valkey = resources.enter_context(ValkeyServer(append_only=True))
        clock = Clock(valkey.run_folder.subfolder("clock", shared=True))
        postgres = resources.enter_context(ClockedPostgres(clock))
        migrate(create_engine(postgres.url(), poolclass=NullPool))
        create_worker_role(postgres.url())
        own = valkey.run_folder.subfolder("px")
        port = postgres.settings["port"]
        proxy = resources.enter_context(
            Proxy(postgres.socket_dir / f".s.PGSQL.{port}", own / f".s.PGSQL.{port}")
        )
        url = make_url(postgres.url(user=LOGIN)).update_query_dict({"host": str(own)})
        database = Database(url.render_as_string(hide_password=False), postgres.url())
        resources.callback(database.engine.dispose)
        database.admin(SLOW_STAGES)
        settings(database, **SETTINGS)
        rig = Rig(valkey, postgres, database, resources)
        stack = Stack(rig, postgres, valkey, database, proxy, clock, said)
        resources.callback(stack.close)
        stack.kept += [stack.keep(name, *options) for name, options in _processes().items()]
        assert stack.heal() == []
        yield stack


def _processes() -> Mapping[str, tuple[list[str], str]]:
    """What `stats-refresh up` starts, and a second beat."""
    workers = {queue: worker(queue, processes) for queue, processes in WORKERS.items()}
    return {
        **{name: (arguments, WORKER_READY) for name, arguments in workers.items()},
        "beat": (["beat"], BEAT_READY),
        "second beat": (["beat"], BEAT_READY),
    }


def worker(queues: str, processes: int, name: str | None = None) -> list[str]:
    """Return the arguments of a worker, as the product starts its own."""
    return [*worker_options(f"{name or queues}@storm", queues, processes)]
