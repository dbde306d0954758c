"""What the embedded servers have in common: a run folder, a log, start, stop and restart."""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from types import TracebackType
from typing import ClassVar, Self

from core.errors import OperatorError
from core.processes import RunAs, describe_exit, spawn, wait_until
from embedded.run_folder import RunFolder


class ServerNotStarted(OperatorError):
    """A server ended or fell silent before it was ready."""


def _only_for_us(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class Server(ABC):
    """A server on a private socket that dies with its owner.

    Use it as a context manager, or `start`, `stop` (or `kill`, as a crash does), `start` again and finally
    `close`. The thread that calls `start` has to live as long as the server: the kernel ends the server
    with it.

    A supervisor that starts the process itself uses `prepare`, `command`, `is_ready` and the signals instead.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    """Asks for a clean end."""
    kill_signal: ClassVar[signal.Signals] = signal.SIGKILL
    """Asks for an end at once."""

    start_timeout: ClassVar[float] = 60
    stop_timeout: ClassVar[float] = 30

    run_as: RunAs | None = None

    def __init__(self, run_folder: RunFolder | None) -> None:
        self._own_run_folder = run_folder is None
        self.run_folder = run_folder or RunFolder.create()
        self.log_file = self.run_folder.path / f"{self.name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def prepare(self) -> None:
        """Make what the server needs and remove what a killed one left; before every start."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line; after `prepare`."""

    @abstractmethod
    def is_ready(self, pid: int) -> bool:
        """Tell whether the process `pid` takes connections."""

    def start(self) -> Self:
        """Start the server and return when it takes connections."""
        self.prepare()
        with open(self.log_file, "ab", opener=_only_for_us) as log:
            process = spawn(self.command(), output=log, run_as=self.run_as, death_signal=self.stop_signal)
        self.process = process
        wait_until(lambda: process.poll() is not None or self.is_ready(process.pid), self.start_timeout)
        if process.poll() is not None:
            ended = describe_exit(process.returncode)
            raise ServerNotStarted(f"{self.name} ended with {ended} while starting: {self.last_words()}")
        if not self.is_ready(process.pid):
            self._end(self.kill_signal)
            raise ServerNotStarted(
                f"{self.name} was not ready after {self.start_timeout:g} s: {self.last_words()}"
            )
        return self

    def stop(self) -> None:
        """Stop the server cleanly; its files stay."""
        if self.process is not None and self.process.poll() is None:
            self._end(self.stop_signal)

    def kill(self) -> None:
        """Kill the server's main process, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """Stop the server and remove the run folder if it is the server's own."""
        self.stop()
        if self._own_run_folder:
            self.run_folder.remove()

    def last_words(self) -> str:
        """Return the last line of the log, for an error message."""
        lines = self.log_file.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _end(self, with_signal: signal.Signals) -> None:
        assert self.process is not None
        for request in (with_signal, self.kill_signal):
            self.process.send_signal(request)
            try:
                self.process.wait(self.stop_timeout)
                return
            except subprocess.TimeoutExpired:
                continue
        self.kill()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
