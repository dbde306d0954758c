"""Reads text files and their CSV records so that one broken line costs that line and nothing after it."""

from __future__ import annotations

import csv
import io
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ops.errors import OperatorError


@dataclass(frozen=True, slots=True)
class Record:
    """One record and the line (from 1) on which it starts; `fields` is None where its quoting is broken."""

    line: int
    fields: list[str] | None


def read_lines(path: Path, expected: str) -> list[str]:
    """Return the lines of the text file `path`, with their endings and without a byte order mark.

    The text is UTF-8, or UTF-16 where its byte order mark says so. Raises OperatorError, naming what was
    `expected`, where there is no such file, or it is a directory, unreadable, empty, or no such text.
    """
    text = _decode(path, _read(path, expected), expected)
    # io splits where csv does; str.splitlines would also break at U+2028 and shift the line numbers after it.
    return list(io.StringIO(text, newline=""))


def records(lines: Sequence[str], delimiter: str, columns: int) -> Iterator[Record]:
    """Yield the records of `lines` that hold anything, the header included.

    An unclosed quote would swallow the lines after it. So a record that spans several lines and is not well
    formed or hasn't `columns` fields gives up only its first line, and reading goes on with the next one.
    """
    start = 0
    while start < len(lines):
        fields, used = _record_at(lines, start, delimiter)
        if used > 1 and (fields is None or len(fields) != columns):
            fields, used = None, 1
        if fields != []:
            yield Record(start + 1, fields)
        start += used


def _record_at(lines: Sequence[str], start: int, delimiter: str) -> tuple[list[str] | None, int]:
    """Return the record that begins at index `start` (None: broken quoting) and how many lines it takes."""
    reader = csv.reader(
        (lines[index] for index in range(start, len(lines))), delimiter=delimiter, strict=True
    )
    try:
        return next(reader), reader.line_num
    except csv.Error:
        return None, 1


def _read(path: Path, expected: str) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise OperatorError(f"{path}: no such file; expected {expected}") from error
    except IsADirectoryError as error:
        raise OperatorError(f"{path}: is a directory; expected {expected}") from error
    except OSError as error:
        raise OperatorError(f"{path}: cannot be read ({error.strerror}); expected {expected}") from error
    if not content.strip():
        raise OperatorError(f"{path}: is empty; expected {expected}")
    return content


def _decode(path: Path, content: bytes, expected: str) -> str:
    encoding = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise OperatorError(f"{path}: is not UTF-8 or UTF-16 text; expected {expected}") from error
    if "\0" in text:
        raise OperatorError(f"{path}: is a binary file, not text; expected {expected}")
    return text
