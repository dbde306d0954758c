"""Where the lines of a stack's processes go: to a terminal with a coloured prefix, to a file, or to both."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.text import Text

from embedded.supervisor import STACK, Log
from ops.alarms import Alarms

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")


class ConsoleLog:
    """Writes each line behind the time and the process's name, in a colour per process.

    `names` are those to expect: they set the width of the column. NO_COLOR turns the colours off.
    """

    def __init__(self, console: Console, names: Iterable[str] = ()) -> None:
        self._console = console
        self._width = max((len(name) for name in names), default=9)
        self._colours: dict[str, str] = {STACK: "bold"}
        self._lock = threading.Lock()

    def write(self, name: str, line: str) -> None:
        with self._lock:
            colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
            prefix = Text(f"{_now()} {name:<{self._width}} | ", style=colour)
            self._console.print(prefix + Text(line), soft_wrap=True)


class FileLog:
    """Writes the same lines to a file that only its owner may read: they name accounts.

    Past `limit` bytes the file moves to `<path>.1`, over the one before.
    """

    def __init__(self, path: Path, limit: int = 20_000_000) -> None:
        self.path = path
        self._limit = limit
        self._file = self._open()
        self._lock = threading.Lock()

    def write(self, name: str, line: str) -> None:
        # A full disk must not stop the processes, which wait for whoever reads their output.
        with self._lock, suppress(OSError):
            self._file.write(f"{_now()} {name:<11} | {line}\n")
            if os.fstat(self._file.fileno()).st_size > self._limit:
                with suppress(FileNotFoundError):  # moved before, but the next one could not be opened
                    self.path.replace(f"{self.path}.1")
                full, self._file = self._file, self._open()
                full.close()

    def tail(self, lines: int = 40) -> str:
        """Return the last lines, to show what led to a failure."""
        return "\n".join(self.path.read_text(encoding="utf-8").splitlines()[-lines:])

    def close(self) -> None:
        with suppress(OSError):  # as above
            self._file.close()

    def _open(self) -> TextIO:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8", buffering=1)


class AlarmLog:
    """Writes every line to `file`, and to `terminal` what a person should see: the supervisor's lines and alarms."""

    def __init__(self, file: Log, terminal: Log) -> None:
        self._file = file
        self._terminal = terminal
        self._alarms = Alarms()

    def write(self, name: str, line: str) -> None:
        self._file.write(name, line)
        if name == STACK or self._alarms.is_alarming(name, line):
            self._terminal.write(name, line)


def _now() -> str:
    return datetime.now().strftime("%H:%M:%S")
