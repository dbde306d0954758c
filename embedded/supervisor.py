"""Processes under supervision: ordered start, one log, restarts, a stop that lets running tasks finish.

It runs in a thread of its own, which starts all processes and ends after the last of them, because the
kernel ends a process with the thread that started it. The main thread is free to do its work, or to wait
for a signal.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any, Protocol, TypeVar, TypeVarTuple

from core.errors import OperatorError
from core.processes import NotReady, Process, Program, describe_exit

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STACK = "stack"
"""The name under which the supervisor itself writes to the log."""


class Log(Protocol):
    """Takes one line of the process `name`; may be called from any thread."""

    def write(self, name: str, line: str) -> None: ...


class StopRequested(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or a closed terminal: raised in the main thread to end what it does."""


@dataclass(frozen=True)
class Backoff:
    """The wait before a process that died is started again: doubling, until it stays up for a while."""

    first: float = 0.5
    longest: float = 30.0
    forget_after: float = 60.0

    def after(self, deaths_in_a_row: int) -> float:
        return min(self.longest, self.first * 2.0 ** (deaths_in_a_row - 1))


@dataclass(frozen=True)
class Service:
    """A program that has to run for as long as the stack does."""

    program: Program
    prepare: Callable[[], None] = lambda: None
    """Runs before every start."""
    start_attempts: int = 1
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True)
class Step:
    """Something to do once, between the starts of two services."""

    name: str
    run: Callable[[], None]


Part = Service | Step | tuple[Service, ...]
"""What starts after the part before it is ready; the services of a tuple start at the same time."""


class _Child:
    """One service: its current process, its output, and what to do when it dies."""

    def __init__(self, service: Service, log: Log, threads: ThreadPoolExecutor) -> None:
        self.service = service
        self._program = service.program
        self._log = log
        self._threads = threads
        self._process: Process | None = None
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """Start the process and return when it is ready; raise NotReady when it does not become so."""
        for attempt in range(1, self.service.start_attempts + 1):
            try:
                return await self._start_once()
            except NotReady as error:
                if attempt == self.service.start_attempts:
                    raise
                delay = self.service.backoff.after(attempt)
                self._say(f"{error}; trying again in {delay:g} s")
                await asyncio.sleep(delay)

    async def _start_once(self) -> None:
        await self._in_thread(self.service.prepare)
        # Here, in the supervisor's own thread: the kernel ends the process with the thread that started it.
        self._process = process = Process(self._program, partial(self._log.write, self._program.name))
        self._exit = self._in_thread(process.wait)
        self._say(f"started {process.name}, process {process.pid}")
        cancelled = threading.Event()
        try:
            await self._in_thread(process.wait_until_ready, cancelled)
        finally:
            cancelled.set()

    def _in_thread(
        self, call: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> asyncio.Future[Result]:
        return asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    async def keep_running(self) -> None:
        """Start the process again whenever it dies, for ever."""
        backoff, deaths = self.service.backoff, 0
        while True:
            since = time.monotonic()
            returncode = await asyncio.shield(self._exit)
            assert self._process is not None
            await self._clean_up(self._process)
            deaths = 1 if time.monotonic() - since > backoff.forget_after else deaths + 1
            delay = backoff.after(deaths)
            ended = describe_exit(returncode)
            self._say(f"{self._program.name} ended with {ended}; starting it again in {delay:g} s")
            await asyncio.sleep(delay)
            try:
                await self._start_once()
                self._say(f"{self._program.name} is back")
            except (OperatorError, OSError) as error:
                self._say(str(error))  # its process, if there was one, has ended: the loop goes on from there

    async def stop(self) -> None:
        """Ask the process to finish; kill it when it takes too long."""
        process, program = self._process, self._program
        if process is None:
            return
        if process.is_running():
            self._say(f"stopping {program.name}")
            if not await self._in_thread(process.end, program.stop_signal):
                self._say(f"{program.name} did not end in {program.stop_timeout:g} s; killing it")
                await self._in_thread(process.end, program.kill_signal)
        await self._clean_up(process)

    async def _clean_up(self, process: Process) -> None:
        process.kill_group(signal.SIGKILL)
        await self._in_thread(process.end_output)

    def kill_group(self) -> None:
        """Kill the process and whatever it has left running, at once; from any thread."""
        if self._process is not None:
            self._process.kill_group(self._program.kill_signal)

    def _say(self, line: str) -> None:
        self._log.write(STACK, line)


class Supervisor:
    """Starts `parts` in order, keeps the services running, and stops them in reverse order."""

    def __init__(self, parts: Sequence[Part], log: Log) -> None:
        self._parts = parts
        self._log = log
        self._children: list[_Child] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._stop_requested = False

    async def run(self, started: Callable[[], None]) -> None:
        """Start everything, call `started`, and go on until `request_stop`; stop everything in any case."""
        self._loop = asyncio.get_running_loop()
        if self._stop_requested:
            return
        services = sum(len(part) if isinstance(part, tuple) else 1 for part in self._parts)
        # For each service one that waits for its end, and one for what is being done about it.
        with ThreadPoolExecutor(max_workers=max(1, 2 * services), thread_name_prefix="service") as threads:
            try:
                if await self._unless_stopped(self._start(threads)):
                    started()
                    await self._stop.wait()
            finally:
                await self._stop_all()

    def request_stop(self) -> None:
        """Begin the stop; from any thread."""
        self._stop_requested = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._stop.set)

    def kill_all(self) -> None:
        """Kill every process at once; from any thread."""
        self._log.write(STACK, "killing everything")
        for child in self._children:
            child.kill_group()

    async def _unless_stopped(self, start: Coroutine[Any, Any, None]) -> bool:
        starting = asyncio.ensure_future(start)
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not starting.done():
            starting.cancel()
            with suppress(asyncio.CancelledError):
                await starting
            return False
        await starting
        return True

    async def _start(self, threads: ThreadPoolExecutor) -> None:
        for part in self._parts:
            if isinstance(part, Step):
                self._log.write(STACK, part.name)
                await asyncio.to_thread(part.run)
                continue
            services = part if isinstance(part, tuple) else (part,)
            children = [_Child(service, self._log, threads) for service in services]
            self._children += children
            await _all_started(children)
            self._watchers += [asyncio.create_task(child.keep_running()) for child in children]

    async def _stop_all(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        for child in reversed(self._children):
            await child.stop()


async def _all_started(children: Sequence[_Child]) -> None:
    starts = [asyncio.ensure_future(child.start()) for child in children]
    try:
        await asyncio.gather(*starts)
    finally:
        for start in starts:  # one failed: the stop deals with the processes of the others
            start.cancel()


@dataclass(frozen=True)
class Running:
    """What `running` yields: a supervisor at work in its thread."""

    supervisor: Supervisor
    ended: Future[None]

    def wait(self) -> None:
        """Wait until the supervisor ends, which it only does when it fails; a signal ends the wait."""
        self.ended.result()


@contextmanager
def running(parts: Sequence[Part], log: Log) -> Iterator[Running]:
    """Run `parts` while the body runs: enter when all are ready, leave when all have stopped.

    For the main thread, where signals arrive: the first one raises StopRequested in the body (or in the
    start), a second one kills everything.
    """
    supervisor = Supervisor(parts, log)
    started: Future[None] = Future()
    ended: Future[None] = Future()
    thread = threading.Thread(
        target=_run_in_thread, args=(supervisor, started, ended), name="supervisor", daemon=True
    )
    with _signals(supervisor) as signals:
        try:
            thread.start()
            started.result()
            yield Running(supervisor, ended)
        finally:
            signals.stopping = True
            supervisor.request_stop()
            thread.join()


def _run_in_thread(supervisor: Supervisor, started: Future[None], ended: Future[None]) -> None:
    try:
        asyncio.run(supervisor.run(lambda: started.set_result(None)))
        ended.set_result(None)
        if not started.done():
            started.set_result(None)  # stopped before the end of the start: nobody waits any more
    except BaseException as error:
        ended.set_exception(error)
        if not started.done():
            started.set_exception(error)


class _SignalState:
    def __init__(self, supervisor: Supervisor) -> None:
        self.stopping = False
        self._supervisor = supervisor

    def handle(self, number: int, _frame: FrameType | None) -> None:
        if self.stopping:
            self._supervisor.kill_all()
        else:
            self.stopping = True
            raise StopRequested(signal.Signals(number).name)


@contextmanager
def _signals(supervisor: Supervisor) -> Iterator[_SignalState]:
    state = _SignalState(supervisor)
    before = {number: signal.signal(number, state.handle) for number in STOP_SIGNALS}
    try:
        yield state
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
