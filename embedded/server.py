"""What the embedded servers have in common: a run folder, a log, start, stop and restart."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from types import TracebackType
from typing import ClassVar, Self

from core.processes import Process, Program, RunAs
from embedded.run_folder import RunFolder


class Server(ABC):
    """A server on a private socket that dies with its owner.

    Use it as a context manager, or `start`, `stop` (or `kill`, as a crash does), `start` again and finally
    `close`. The thread that calls `start` has to live as long as the server: the kernel ends the server
    with it.

    A supervisor that starts the process itself uses `prepare` and `program` instead.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    """Asks for a clean end."""
    kill_signal: ClassVar[signal.Signals] = signal.SIGKILL
    """Asks for an end at once."""

    run_as: RunAs | None = None

    def __init__(self, run_folder: RunFolder | None) -> None:
        self._own_run_folder = run_folder is None
        self.run_folder = run_folder or RunFolder.create()
        self.log_file = self.run_folder.path / f"{self.name}.log"
        self.process: Process | None = None

    @abstractmethod
    def prepare(self) -> None:
        """Make what the server needs and remove what a killed one left; before every start."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line; after `prepare`."""

    @abstractmethod
    def is_ready(self, pid: int) -> bool:
        """Tell whether the process `pid` takes connections."""

    def program(self) -> Program:
        """Return what to start after `prepare`, and how to end it; also for a supervisor, which starts it itself."""
        return Program(
            self.name,
            self.command,
            self.is_ready,
            run_as=self.run_as,
            stop_signal=self.stop_signal,
            kill_signal=self.kill_signal,
            death_signal=self.stop_signal,
        )

    def start(self) -> Self:
        """Start the server and return when it takes connections; raises NotReady where it does not come to that."""
        self.prepare()
        self.process = Process(self.program(), self.log_file)
        self.process.wait_until_ready()
        return self

    def stop(self) -> None:
        """Stop the server cleanly; its files stay."""
        if self.process is not None:
            self.process.stop()

    def kill(self) -> None:
        """Kill the server's main process, as a crash would."""
        if self.process is not None:
            self.process.kill()

    def close(self) -> None:
        """Stop the server and remove the run folder if it is the server's own."""
        self.stop()
        if self._own_run_folder:
            self.run_folder.remove()

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
