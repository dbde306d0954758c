"""Processes under supervision: ordered start, one log, restarts, a stop that lets running tasks finish.

It runs in a thread of its own, which starts all processes and ends after the last of them, because the
kernel ends a process with the thread that started it. The main thread is free to do its work, or to wait
for a signal.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from core.errors import OperatorError, StackFailed
from core.processes import RunAs, describe_exit, popen_options, wait_until

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STACK = "stack"
"""The name under which the supervisor itself writes to the log."""
_LONGEST_LINE = 1 << 20


class Log(Protocol):
    """Takes one line of the process `name`; may be called from any thread."""

    def write(self, name: str, line: str) -> None: ...


class StopRequested(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or a closed terminal: raised in the main thread to end what it does."""


class NotReady(StackFailed):
    """A process ended or fell silent before it was ready."""


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
    """A process that has to be there for as long as the stack is."""

    name: str
    command: Callable[[], Sequence[str]]
    ready: re.Pattern[str] | Callable[[int], bool]
    """A line that it writes when it is ready, or a question to ask with its process id."""
    ready_timeout: float = 60
    prepare: Callable[[], None] = lambda: None
    """Runs before every start."""
    environment: Mapping[str, str] | None = None
    directory: Path = Path("/")
    run_as: RunAs | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout: float = 30
    """How long a running task may take to finish; then the process is killed."""
    kill_signal: signal.Signals = signal.SIGKILL
    death_signal: signal.Signals = signal.SIGKILL
    """What the kernel sends when the supervisor is gone."""
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

    def __init__(self, service: Service, log: Log, waiters: ThreadPoolExecutor) -> None:
        self.service = service
        self._log = log
        self._waiters = waiters
        self._process: subprocess.Popen[bytes] | None = None
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._output: asyncio.Task[None] | None = None
        self._said_ready = asyncio.Event()
        self._last_line = ""

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
        await asyncio.to_thread(self.service.prepare)
        self._said_ready.clear()
        self._last_line = ""
        self._process = process = self._spawn()
        # In a thread: asyncio's own wait() may wait for the output pipe too, which a pool child can hold
        # open.
        self._exit = asyncio.get_running_loop().run_in_executor(self._waiters, process.wait)
        self._output = asyncio.create_task(self._forward_output(process))
        self._say(f"started {self.service.name}, process {process.pid}")
        await self._wait_until_ready(process)

    def _spawn(self) -> subprocess.Popen[bytes]:
        service = self.service
        command = service.command()
        options = popen_options(service.run_as, death_signal=service.death_signal, own_session=True)
        try:
            return subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=service.environment,
                cwd=service.directory,
                **options,
            )
        except OSError as error:
            raise NotReady(f"{service.name} can't be started: {command[0]}: {error.strerror}") from error

    async def _forward_output(self, process: subprocess.Popen[bytes]) -> None:
        reader = asyncio.StreamReader(limit=_LONGEST_LINE)
        assert process.stdout is not None
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), process.stdout
        )
        while True:
            try:
                raw = await reader.readline()
            except ValueError:
                self._say(f"{self.service.name} wrote a line of more than {_LONGEST_LINE} bytes, left out")
                continue
            if not raw:
                return
            self._take_line(raw.decode(errors="replace").rstrip())

    def _take_line(self, line: str) -> None:
        self._log.write(self.service.name, line)
        self._last_line = line or self._last_line
        if isinstance(self.service.ready, re.Pattern) and self.service.ready.search(line):
            self._said_ready.set()

    async def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        name, limit = self.service.name, self.service.ready_timeout
        cancelled = threading.Event()
        ready = asyncio.ensure_future(self._readiness(process.pid, cancelled))
        awaited: set[asyncio.Future[Any]] = {ready, self._exit}
        try:
            await asyncio.wait(awaited, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if self._exit.done():
                await self._end_output()
                ended = describe_exit(self._exit.result())
                raise NotReady(f"{name} ended with {ended} while starting: {self._last_words()}")
            if not (ready.done() and ready.result()):
                await self._end(self.service.kill_signal)
                raise NotReady(f"{name} was not ready after {limit:g} s: {self._last_words()}")
        finally:
            cancelled.set()
            ready.cancel()

    async def _readiness(self, pid: int, cancelled: threading.Event) -> bool:
        question = self.service.ready
        if isinstance(question, re.Pattern):
            return await self._said_ready.wait()
        limit = self.service.ready_timeout
        return await asyncio.to_thread(
            wait_until, lambda: question(pid), limit, interval=0.05, cancelled=cancelled
        )

    async def keep_running(self) -> None:
        """Start the process again whenever it dies, for ever."""
        backoff, deaths = self.service.backoff, 0
        while True:
            since = time.monotonic()
            returncode = await asyncio.shield(self._exit)
            await self._clean_up()
            deaths = 1 if time.monotonic() - since > backoff.forget_after else deaths + 1
            delay = backoff.after(deaths)
            ended = describe_exit(returncode)
            self._say(f"{self.service.name} ended with {ended}; starting it again in {delay:g} s")
            await asyncio.sleep(delay)
            try:
                await self._start_once()
                self._say(f"{self.service.name} is back")
            except (OperatorError, OSError) as error:
                self._say(str(error))  # its process, if there was one, has ended: the loop goes on from there

    async def stop(self) -> None:
        """Ask the process to finish; kill it when it takes too long."""
        if self._process is None:
            return
        if not self._exit.done():
            self._say(f"stopping {self.service.name}")
            if not await self._end(self.service.stop_signal):
                self._say(f"{self.service.name} did not end in {self.service.stop_timeout:g} s; killing it")
                await self._end(self.service.kill_signal)
        await self._clean_up()

    async def _end(self, with_signal: signal.Signals) -> bool:
        assert self._process is not None
        if with_signal == signal.SIGKILL:
            self.kill_group(signal.SIGKILL)
        else:
            self._process.send_signal(with_signal)  # to it alone: it tells its own children
        done, _ = await asyncio.wait({self._exit}, timeout=self.service.stop_timeout)
        return bool(done)

    async def _clean_up(self) -> None:
        self.kill_group(signal.SIGKILL)
        await self._end_output()

    def kill_group(self, with_signal: signal.Signals | None = None) -> None:
        """Kill the process and whatever it has left running; pool children outlive a killed worker."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, with_signal or self.service.kill_signal)

    async def _end_output(self) -> None:
        if self._output is not None:
            await asyncio.wait({self._output}, timeout=1)
            self._output.cancel()

    def _last_words(self) -> str:
        return self._last_line or "it said nothing"

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
        with ThreadPoolExecutor(max_workers=max(1, services), thread_name_prefix="wait") as waiters:
            try:
                if await self._unless_stopped(self._start(waiters)):
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

    async def _start(self, waiters: ThreadPoolExecutor) -> None:
        for part in self._parts:
            if isinstance(part, Step):
                self._log.write(STACK, part.name)
                await asyncio.to_thread(part.run)
                continue
            services = part if isinstance(part, tuple) else (part,)
            children = [_Child(service, self._log, waiters) for service in services]
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
