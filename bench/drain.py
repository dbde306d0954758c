"""How fast dirty accounts drain through the workers, beside three empty tasks an account in workers like them.

`python -m bench drain [ACCOUNTS]`. The accounts are small (4 sessions, 36 sets) and published, each with a rebuild that
waits. The empty tasks are Celery's own, in workers of their own with the same settings: like the stages each sends the
next one, through queues of the same names, with the same events. The same accounts by direct SQL, on one connection and
on two, say what the workers' part of it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from celery import Celery, chain
from celery.canvas import Signature
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from bench.accounts import make_neighbours
from bench.empty_tasks import PREFIX
from bench.pipeline import timed, work
from bench.processor import seconds_by_part
from bench.report import Measured, print_report
from core.broker import TRANSPORT_OPTIONS, broker_url
from core.config import Config
from core.processes import Process, Program, wait_until
from embedded.postgres import PostgresServer
from ops.stack import ROOT, WORKERS, celery_command, running_stack, worker_options
from sql.migrate import migrate

ACCOUNTS = 500
ROUNDS = 3
TIMEOUT = 300
_EMPTY = "celery.accumulate"
_QUEUES = ("pipeline", "compute", "pipeline")

_DIRTY = text("""
    select count(public.enqueue_user_exercise_stats_refresh_job(s.user_id, null, '{}', 'manual_refresh'))
    from public.user_stats_refresh_state s
""")
_STALE = text(
    "select exists (select from public.user_stats_refresh_state where applied_version < requested_version)"
)


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure with as many accounts as the first of `arguments` says."""
    accounts = int(arguments[0]) if arguments else ACCOUNTS
    with ExitStack() as resources:
        stack = resources.enter_context(
            running_stack(Config(database_url=None, redis_url=None, data_dir=None))
        )
        workers = resources.enter_context(_empty_workers(str(stack.urls.redis_url)))
        admin = create_engine(stack.urls.admin_url, poolclass=NullPool)
        make_accounts(admin, accounts)
        # In turns, for a shared machine is not equally fast all the time; the first round warms up.
        turns = [
            (_spent(lambda: workers.run_empty(accounts)), _spent(lambda: drain(admin)))
            for _ in range(ROUNDS + 1)
        ][1:]
    empty, drained = (
        sorted(turn, key=lambda spent: spent.seconds)[ROUNDS // 2] for turn in zip(*turns, strict=True)
    )
    return [
        Measured("accounts of three empty tasks", accounts / empty.seconds, "accounts/s"),
        Measured("dirty accounts through the workers", accounts / drained.seconds, "accounts/s"),
        Measured("share of the empty tasks' rate", 100 * empty.seconds / drained.seconds, "%", at_least=80),
        *_by_part("empty tasks", empty, accounts),
        *_by_part("dirty account", drained, accounts),
        *_by_sql(accounts),
    ]


@dataclass(frozen=True)
class _Spent:
    """What a drain took: seconds, and seconds of processor by part of the stack."""

    seconds: float
    processor: Mapping[str, float]


def _spent(call: Callable[[], None]) -> _Spent:
    before = seconds_by_part()
    seconds = timed(call) / 1000
    return _Spent(seconds, {part: used - before[part] for part, used in seconds_by_part().items()})


def _by_part(what: str, spent: _Spent, accounts: int) -> list[Measured]:
    """Return the milliseconds of processor an account, most first, of the parts that take any."""
    parts = sorted(((1000 * used / accounts, part) for part, used in spent.processor.items()), reverse=True)
    return [Measured(f"  {what}: {part}, processor", ms, "ms") for ms, part in parts if ms >= 0.1]


@contextmanager
def _empty_workers(redis_url: str) -> Iterator[_Workers]:
    """Run workers of `bench.empty_tasks` as the stack runs its own."""
    environment = {**os.environ, "STATS_REFRESH_REDIS_URL": redis_url}
    with ExitStack() as resources:
        for queue in set(_QUEUES):
            resources.callback(_empty_worker(queue, environment).stop)
        yield _Workers(redis_url)


def _empty_worker(queue: str, environment: Mapping[str, str]) -> Process:
    options = worker_options(f"{queue}@empty", queue, WORKERS[queue])
    command = celery_command(*options, app="bench.empty_tasks")
    # Not waited for: the first round, which is not measured, ends when the workers have taken its tasks.
    program = Program(queue, lambda: command, lambda _: True, environment=environment, directory=ROOT)
    return Process(program, Path(os.devnull))


class _Workers:
    """The workers of empty tasks."""

    def __init__(self, redis_url: str) -> None:
        self._celery = Celery("bench", broker=broker_url(redis_url), set_as_current=False)
        self._celery.conf.broker_transport_options = {**TRANSPORT_OPTIONS, "global_keyprefix": PREFIX}
        self._celery.conf.update(task_ignore_result=True)
        self._done = 0

    def run_empty(self, accounts: int) -> None:
        """Run three empty tasks an account."""
        tasks = [Signature(_EMPTY, immutable=True, app=self._celery).set(queue=queue) for queue in _QUEUES]
        for _ in range(accounts):
            chain(*tasks, app=self._celery).apply_async()
        self._done += accounts * len(_QUEUES)
        _wait_until(lambda: self._count() >= self._done)

    def _count(self) -> int:
        """Return how many empty tasks the workers have taken since they started."""
        workers = self._celery.control.inspect(limit=2, timeout=5).stats() or {}
        return sum(stats["total"].get(_EMPTY, 0) for stats in workers.values())


def make_accounts(admin: Engine, accounts: int) -> None:
    """Make small accounts that are as good as published, and gather the statistics of their rows."""
    with admin.begin() as connection:
        make_neighbours(connection, accounts)
    with admin.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("vacuum analyze"))


def drain(admin: Engine) -> None:
    """Let every account be dirty and wait until none is: its notification wakes the first claim."""
    _make_dirty(admin)
    _wait_until(lambda: not _any_stale(admin))


def _make_dirty(admin: Engine) -> None:
    with admin.begin() as connection:
        connection.execute(_DIRTY)


def _any_stale(admin: Engine) -> bool:
    with admin.begin() as connection:
        return bool(connection.scalar(_STALE))


def _by_sql(accounts: int) -> list[Measured]:
    with PostgresServer() as server:
        admin = create_engine(server.url(), poolclass=NullPool)
        migrate(admin)
        make_accounts(admin, accounts)
        engine = create_engine(server.url(), pool_size=2)
        measured = []
        for connections in (1, 2):
            _make_dirty(admin)
            seconds = timed(partial(work, engine, connections)) / 1000
            measured.append(
                Measured(f"by direct SQL, {connections} connection(s)", accounts / seconds, "accounts/s")
            )
        engine.dispose()
    return measured


def _wait_until(condition: Callable[[], bool]) -> None:
    if not wait_until(condition, TIMEOUT):
        raise TimeoutError(f"not done within {TIMEOUT} s")


if __name__ == "__main__":
    print_report("draining dirty accounts", run(sys.argv[1:]))
