"""Reads text files and their CSV records so that one broken line costs that line and nothing after it."""

from __future__ import annotations

import csv
import os
import tempfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO, TextIO

from core.errors import OperatorError
from importers.spool import temporary_space

_BOM_LENGTH = 2
_ZIP = b"PK\x03\x04"
_BYTES_AT_ONCE = 64 * 1024


class TextFile:
    """A text file that can be read again, but once at a time; `path` and `expected` are for messages.

    The text is UTF-8, or UTF-16 where its byte order mark says so.
    """

    def __init__(self, path: Path, expected: str, content: IO[bytes]) -> None:
        self.path = path
        self.expected = expected
        self._content = content

    def lines(self) -> Iterator[str]:
        """Yield the lines from the first, with their endings and without a byte order mark.

        Raises OperatorError where it comes upon what is no such text.
        """
        with self._decoded() as text:
            try:
                for line in text:
                    if "\0" in line:
                        raise OperatorError(
                            f"{self.path}: is a binary file, not text; expected {self.expected}"
                        )
                    yield line
            except UnicodeDecodeError as error:
                raise OperatorError(
                    f"{self.path}: is not UTF-8 or UTF-16 text; expected {self.expected}"
                ) from error

    def first_line(self) -> str:
        """Return the first line."""
        return next(self.lines(), "")

    def _decoded(self) -> TextIO:
        content = self._content.fileno()
        is_utf16 = os.pread(content, _BOM_LENGTH, 0) in (BOM_UTF16_LE, BOM_UTF16_BE)
        os.lseek(content, 0, os.SEEK_SET)
        # Without translation lines end where csv ends them; str.splitlines would also break at U+2028 and shift
        # the line numbers after it.
        return open(os.dup(content), encoding="utf-16" if is_utf16 else "utf-8-sig", newline="")


@contextmanager
def text_file(path: Path, expected: str) -> Iterator[TextFile]:
    """Yield the text file `path`, of which messages say what was `expected`.

    What is read is a copy on disk: a pipe gives its content once, and a file that changes meanwhile would not be
    the same the second time. Raises OperatorError where there is no such file, it is a directory, unreadable or
    empty, or there is no room for the copy.
    """
    with ExitStack() as stack:
        with temporary_space():
            copy = stack.enter_context(tempfile.TemporaryFile())
        try:
            with path.open("rb") as original:
                for content in iter(partial(original.read, _BYTES_AT_ONCE), b""):
                    with temporary_space():
                        copy.write(content)
        except FileNotFoundError as error:
            raise OperatorError(f"{path}: no such file; expected {expected}") from error
        except IsADirectoryError as error:
            raise OperatorError(
                f"{path}: is a directory: import the file in it; expected {expected}"
            ) from error
        except OSError as error:
            raise OperatorError(f"{path}: cannot be read ({error.strerror}); expected {expected}") from error
        with temporary_space():
            copy.seek(0)  # which also writes out what is buffered
        if os.pread(copy.fileno(), len(_ZIP), 0) == _ZIP:
            raise OperatorError(
                f"{path}: is a zip archive: unpack it and import the file in it; expected {expected}"
            )
        if not any(line.strip() for line in copy):
            raise OperatorError(f"{path}: is empty; expected {expected}")
        yield TextFile(path, expected, copy)


@dataclass(frozen=True, slots=True)
class Record:
    """One record and the line (from 1) on which it starts; `fields` is None where its quoting is broken."""

    line: int
    fields: list[str] | None


def records(lines: Iterable[str], delimiter: str, columns: int) -> Iterator[Record]:
    """Yield the records of `lines` that hold anything, the header included.

    An unclosed quote would swallow the lines after it. So a record that spans several lines and is not well
    formed or hasn't `columns` fields gives up only its first line, and reading goes on with the next one.
    """
    rest = iter(lines)
    ahead: list[str] = []
    line = 1
    while True:
        try:
            fields, used = _record(ahead, rest, delimiter, columns)
        except StopIteration:
            return
        if used > 1 and (fields is None or len(fields) != columns):
            fields, used = None, 1
        if fields != []:
            yield Record(line, fields)
        line += used
        del ahead[:used]


def _record(
    ahead: list[str], rest: Iterator[str], delimiter: str, columns: int
) -> tuple[list[str] | None, int]:
    """Return the next record (None: broken quoting) and how many lines it takes; StopIteration at the end.

    The lines that were looked at are left in `ahead`.
    """
    reader = csv.reader(_looked_at(ahead, rest, columns), delimiter=delimiter, strict=True)
    try:
        return next(reader), reader.line_num
    except csv.Error:
        return None, 1


def _looked_at(ahead: list[str], rest: Iterator[str], columns: int) -> Iterator[str]:
    """Yield the lines in `ahead`, then those of `rest`, until they hold more than any record may.

    csv refuses a longer field, so what an unclosed quote swallows is never more than this in memory.
    """
    most = columns * (2 * csv.field_size_limit() + len('"",'))  # a quote in a field is printed as two
    for place in count():
        if place == len(ahead):
            line = next(rest, None) if most > 0 else None
            if line is None:
                return
            ahead.append(line)
        most -= len(ahead[place])
        yield ahead[place]
