"""A command in a real terminal of a given size, or in a pipe."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 30
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Command:
    """A running `stats-refresh`; `shown` is all that it has written so far to `output`, which is ours to close."""

    def __init__(
        self, arguments: tuple[str, ...], output: int, theirs: int, environment: dict[str, str]
    ) -> None:
        self._output = output
        self.shown = ""
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ops.cli", *arguments],
            cwd=ROOT,
            env=inherited | {"TERM": "xterm-256color"} | environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        _resize(self._output, columns, rows)

    def wait_for(self, pattern: str, start: int = 0) -> int:
        """Read until `pattern` was written after `start`; return where it ends."""
        end = time.monotonic() + DEADLINE
        while (found := re.compile(pattern, re.DOTALL).search(self.shown, start)) is None:
            assert self._read(end - time.monotonic()), f"{pattern!r} never came:\n{self.shown}"
        return found.end()

    def finish(self) -> list[str]:
        """Wait for the end of the process; return its lines without colours."""
        end = time.monotonic() + DEADLINE
        while self._read(end - time.monotonic()):
            pass
        self.process.wait(DEADLINE)
        return _SEQUENCE.sub("", self.shown).replace("\r", "").splitlines()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE)
        os.close(self._output)

    def _read(self, seconds: float) -> bool:
        """Take what the process wrote; False at its end or after `seconds`."""
        if not select.select([self._output], [], [], max(seconds, 0))[0]:
            return False
        try:
            news = os.read(self._output, 65536)
        except OSError as error:
            # How Linux says that the other side is closed.
            if error.errno != errno.EIO:
                raise
            return False
        self.shown += news.decode(errors="replace")
        return bool(news)


@contextmanager
def terminal(*arguments: str, columns: int, rows: int = 24, **environment: str) -> Iterator[Command]:
    """Run `stats-refresh` with `arguments` in a terminal; end it with the body."""
    ours, theirs = pty.openpty()
    _resize(ours, columns, rows)
    with closing(Command(arguments, ours, theirs, environment)) as command:
        yield command


@contextmanager
def pipe(*arguments: str, **environment: str) -> Iterator[Command]:
    """Run `stats-refresh` with `arguments` into a pipe; end it with the body."""
    with closing(Command(arguments, *os.pipe(), environment)) as command:
        yield command


def _resize(fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
