"""Where the lines of a stack's processes go: to a terminal with a coloured prefix, or to a file."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.text import Text

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")


class Log(Protocol):
    """Takes one line of the process `name`; may be called from any thread."""

    def write(self, name: str, line: str) -> None: ...


class ConsoleLog:
    """Writes each line behind the time and the process's name, in a colour per process.

    `names` are those to expect: they set the width of the column. NO_COLOR turns the colours off.
    """

    def __init__(self, console: Console, names: Iterable[str] = ()) -> None:
        self._console = console
        self._width = max((len(name) for name in names), default=9)
        self._colours: dict[str, str] = {"stack": "bold"}
        self._lock = threading.Lock()

    def write(self, name: str, line: str) -> None:
        with self._lock:
            colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
            prefix = Text(f"{_now()} {name:<{self._width}} | ", style=colour)
            self._console.print(prefix + Text(line), soft_wrap=True)


class FileLog:
    """Writes the same lines to a file, for a stack that works in the background."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()

    def write(self, name: str, line: str) -> None:
        with self._lock:
            self._file.write(f"{_now()} {name:<9} | {line}\n")

    def tail(self, lines: int = 40) -> str:
        """Return the last lines, to show what led to a failure."""
        return "\n".join(self.path.read_text(encoding="utf-8").splitlines()[-lines:])

    def close(self) -> None:
        self._file.close()


def _now() -> str:
    return datetime.now().strftime("%H:%M:%S")
