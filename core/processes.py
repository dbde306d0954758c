"""Processes that die with their owner, run as an ordinary user, and are waited for with a deadline.

`Process` is how every process of a stack, of the tests and of the benchmarks is started, waited for and ended.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, Any

from core.errors import StackFailed

_LONGEST_LINE = 1 << 20

# Loaded here, not between fork and exec, where only the bare system call is safe.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def die_with_parent(death_signal: int = signal.SIGKILL, *, parent: int | None = None) -> None:
    """Ask the kernel to send `death_signal` to the calling process when its parent is gone.

    Call it in the child. The kernel ties this to the parent's *thread* that forked: that thread has to live
    as long as the child should. With `parent`, the process id that forked, a parent that died before this
    call counts too. Does nothing where the system has no such call.
    """
    if _libc is None:
        return
    _libc.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), death_signal)


@dataclass(frozen=True)
class RunAs:
    """A user that a process drops to before it starts."""

    name: str
    uid: int
    gid: int


@cache
def unprivileged_user() -> RunAs | None:
    """Return who runs a server that refuses to run as root; None where we are an ordinary user already."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return RunAs(nobody.pw_name, nobody.pw_uid, nobody.pw_gid)


def popen_options(
    run_as: RunAs | None, *, death_signal: int | None = None, own_session: bool = False
) -> dict[str, Any]:
    """Return options for `subprocess.Popen`: the child runs as `run_as` and dies with this thread.

    What it writes is its user's alone, whatever umask the shell has that started us.
    """
    options: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "start_new_session": own_session,
        "umask": 0o077,
    }
    if run_as is not None:
        options |= {"user": run_as.uid, "group": run_as.gid, "extra_groups": []}
    if death_signal is not None:
        parent = os.getpid()
        # After the change of user, which would clear the request.
        options["preexec_fn"] = lambda: die_with_parent(death_signal, parent=parent)
    return options


def can_enter(folder: Path, run_as: RunAs | None) -> bool:
    """Tell whether `run_as` gets into `folder`: the kernel knows more than the mode bits."""
    return _succeeds(["/bin/sh", "-c", 'cd -- "$1"', "sh", folder], run_as)


def can_execute(binary: Path, run_as: RunAs | None) -> bool:
    """Tell whether `run_as` can start `binary --version`, shared libraries included."""
    return _succeeds([binary, "--version"], run_as)


def _succeeds(argv: Sequence[str | Path], run_as: RunAs | None) -> bool:
    try:
        answer = subprocess.run(argv, check=False, capture_output=True, cwd="/", **popen_options(run_as))
    except PermissionError:
        return False
    return bool(answer.returncode == 0)


def wait_until(
    condition: Callable[[], bool],
    timeout: float,
    *,
    interval: float = 0.02,
    cancelled: threading.Event | None = None,
) -> bool:
    """Ask `condition` until it holds; return False when `timeout` seconds are over or `cancelled` is set.

    The only place that polls: for what can't be waited on, such as a server that becomes ready.
    """
    cancelled = cancelled or threading.Event()
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline or cancelled.wait(interval):
            return False
    return True


def describe_exit(returncode: int) -> str:
    """Return how a process ended, for a log line: ``status 1`` or ``SIGKILL``."""
    return f"status {returncode}" if returncode >= 0 else signal.Signals(-returncode).name


class NotReady(StackFailed):
    """A process ended or fell silent before it was ready."""


@dataclass(frozen=True)
class Program:
    """What to start, how to tell that it is ready, and how to end it."""

    name: str
    command: Callable[[], Sequence[str]]
    ready: re.Pattern[str] | Callable[[int], bool]
    """A line that it writes when it is ready, or a question to ask with its process id."""
    ready_timeout: float = 60
    environment: Mapping[str, str] | None = None
    directory: Path = Path("/")
    """By default one that every `run_as` can enter."""
    run_as: RunAs | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    """Asks for a clean end."""
    stop_timeout: float = 30
    """How long a clean end may take; then the process is killed."""
    kill_signal: signal.Signals = signal.SIGKILL
    """Asks for an end at once."""
    death_signal: signal.Signals = signal.SIGKILL
    """What the kernel sends when the thread that started the process is gone."""


class Process:
    """A `program` that runs in a process group of its own and ends with the thread that started it.

    Its output is added to `output` where that is a file, else each line is passed to it, from another thread.
    Raises NotReady where the program can't be started.
    """

    def __init__(self, program: Program, output: Path | Callable[[str], None]) -> None:
        self.program = program
        self.name = program.name
        self._output = output
        self._last_line = ""
        self._said_ready = threading.Event()
        self._reader: threading.Thread | None = None
        if isinstance(output, Path):
            with open(output, "ab", opener=_only_for_us) as file:
                self._popen = self._start(file)
        else:
            self._popen = self._start(subprocess.PIPE)
            self._reader = threading.Thread(target=self._read, args=(output,), name=self.name, daemon=True)
            self._reader.start()
        self.pid = self._popen.pid

    def _start(self, output: IO[bytes] | int) -> subprocess.Popen[bytes]:
        program = self.program
        command = program.command()
        options = popen_options(program.run_as, death_signal=program.death_signal, own_session=True)
        try:
            return subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=program.environment,
                cwd=program.directory,
                **options,
            )
        except OSError as error:
            raise NotReady(f"{self.name} can't be started: {command[0]}: {error.strerror}") from error

    def _read(self, take_line: Callable[[str], None]) -> None:
        assert self._popen.stdout is not None
        for line in _lines(self._popen.stdout):
            take_line(line)
            self._last_line = line or self._last_line
            if isinstance(self.program.ready, re.Pattern) and self.program.ready.search(line):
                self._said_ready.set()

    def wait_until_ready(self, cancelled: threading.Event | None = None) -> None:
        """Return when the process is ready, or `cancelled` is set.

        Raises NotReady where it ended before, and where it takes too long: then it is killed.
        """
        cancelled = cancelled or threading.Event()
        limit = self.program.ready_timeout
        wait_until(lambda: not self.is_running() or self._is_ready(), limit, cancelled=cancelled)
        if cancelled.is_set():
            return
        if not self.is_running():
            ended = describe_exit(self.wait())
            raise NotReady(f"{self.name} ended with {ended} while starting: {self.last_words()}")
        if not self._is_ready():
            self.end(self.program.kill_signal)
            raise NotReady(f"{self.name} was not ready after {limit:g} s: {self.last_words()}")

    def _is_ready(self) -> bool:
        ready = self.program.ready
        return self._said_ready.is_set() if isinstance(ready, re.Pattern) else ready(self.pid)

    def is_running(self) -> bool:
        """Tell whether the main process has not ended."""
        return self._popen.poll() is None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the main process and return its code; raises subprocess.TimeoutExpired."""
        return self._popen.wait(timeout)

    def send_signal(self, number: signal.Signals | int) -> None:
        """Send a signal to the main process alone: it tells its own children."""
        self._popen.send_signal(number)

    def end(self, with_signal: signal.Signals) -> bool:
        """Send a signal that ends the process, SIGKILL to its whole group; tell whether it did in `stop_timeout`."""
        if with_signal == signal.SIGKILL:
            self.kill_group(signal.SIGKILL)
        else:
            self.send_signal(with_signal)
        try:
            self.wait(self.program.stop_timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Ask the process to finish; kill it when it takes too long."""
        for request in (self.program.stop_signal, self.program.kill_signal, signal.SIGKILL):
            if not self.is_running() or self.end(request):
                return

    def kill(self) -> None:
        """Kill the process and its group, as a crash would."""
        if self.is_running():
            self.kill_group(signal.SIGKILL)
            self.wait()

    def kill_group(self, with_signal: signal.Signals) -> None:
        """Signal the process and whatever it has left running; pool children outlive a killed worker."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, with_signal)

    def last_words(self) -> str:
        """Return the last line that it wrote, for an error message."""
        if isinstance(self._output, Path):
            lines = self._output.read_text(errors="replace").strip().splitlines()
            return lines[-1] if lines else "it said nothing"
        self.end_output()
        return self._last_line or "it said nothing"

    def end_output(self) -> None:
        """Wait, once the process has ended, for the rest of its output: no longer where a child holds that open."""
        if self._reader is not None:
            self._reader.join(1)


def _only_for_us(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _lines(output: IO[bytes]) -> Iterator[str]:
    """Yield the lines of `output` without their ends; for one that is too long, words that say so."""
    is_rest = False
    for part in iter(partial(output.readline, _LONGEST_LINE), b""):
        is_whole = part.endswith(b"\n") or len(part) < _LONGEST_LINE
        if not is_rest:
            yield (
                part.decode(errors="replace").rstrip()
                if is_whole
                else f"(a line of more than {_LONGEST_LINE} bytes, left out)"
            )
        is_rest = not is_whole
