"""Which reader a file needs: the one that is asked for, or the one whose columns it has."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.errors import OperatorError
from importers import fitbod, fitnotes, generic_csv, hevy, strong
from importers.cells import shown
from importers.csv_records import TextFile, text_file
from importers.header import Format, has_columns, signature
from importers.history import ParsedHistory
from importers.spool import temporary_space

AUTO, CSV = "auto", "csv"
WODUP, CATALOG, MEETS = "wodup", "catalog", "meets"
NO_HISTORIES: Mapping[str, str] = {
    WODUP: "a WodUp batch",
    CATALOG: "a list of exercises",
    MEETS: "a list of meet results",
}
"""What can be imported and is not a history of sessions that is read here."""
_MOST_LETTERS_OF_SOURCE = 100
_SOURCE = re.compile(r"[a-z0-9][a-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class _Reader:
    format: Format
    read: Callable[[TextFile, str | None], ParsedHistory]


_READERS: Mapping[str, _Reader] = {
    "strong": _Reader(strong.FORMAT, strong.read),
    "hevy": _Reader(hevy.FORMAT, hevy.read),
    "fitnotes": _Reader(fitnotes.FORMAT, fitnotes.read),
    "fitbod": _Reader(fitbod.FORMAT, fitbod.read),
}
HISTORIES = (*_READERS, CSV)
"""The formats of histories that are read here."""

# Apps whose exports are known by their first line, and have more than one set a row or several tables.
_KNOWN_BUT_NOT_READ: Mapping[str, re.Pattern[str]] = {
    app: re.compile(first_line, re.IGNORECASE)
    for app, first_line in {
        "StrongLifts": r"stronglifts|date \(yyyy/mm/dd\).*workout|sets\s?[x×]\s?reps.*set 1 \(",
        "GymBook": r"gymbook|muscle groups? \(primary\)|muskelgruppen? \(primär\)"
        r"|(?:repetitions|wiederholungen) / (?:time|zeit)",
        "Jefit": r"jefit|^\W*### |\bmydate\b|\brow_id\b.*\buserid\b",
        "Alpha Progression": r'alpha progression|^"?[^";]*"?;"?[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{1,2}:[0-9]{2}'
        r' (?:h|uhr|am|pm)"?;"?[0-9]',
        "GymRun": r"gymrun|\bweigth\b|^\W*date\W+time\W+exercise\W+set\W+weight\W+reps\W+note\W*$",
    }.items()
}
_EXPECTED = "an export of Strong, Hevy, FitNotes or Fitbod"


def read_history(path: Path, format: str, unit: str | None) -> ParsedHistory:
    """Read the whole file. Raises as `read_with_source`."""
    return read_with_source(path, format, unit)[1]


def read_with_source(
    path: Path, format: str, unit: str | None, columns: str | None = None, source: str | None = None
) -> tuple[str, ParsedHistory]:
    """Read the whole file, and return the source that its sessions are stored under, and the history.

    `format` is one of `HISTORIES` or `AUTO`. Raises OperatorError where it is unknown, the file is not of it, an option
    does not belong to it, or there is no room for temporary files.
    """
    if format in NO_HISTORIES:
        raise OperatorError(
            f"{NO_HISTORIES[format]} is no history: import it with stats-refresh import --format {format}"
        )
    if format not in (AUTO, *HISTORIES):
        known = " or ".join([*HISTORIES, *NO_HISTORIES, AUTO])
        raise OperatorError(f'unknown format "{format}": pass --format {known}')
    with temporary_space():
        return _read(path, format, unit, columns, source)


def _read(
    path: Path, format: str, unit: str | None, columns: str | None, source: str | None
) -> tuple[str, ParsedHistory]:
    refuse_foreign_options(format, columns, source)
    if format == CSV:
        named = generic_csv.columns_option(columns)
        provider = _source(source)
        with text_file(path, generic_csv.EXPECTED) as file:
            return provider, generic_csv.read(file, unit, named)
    with text_file(path, _EXPECTED if format == AUTO else _READERS[format].format.expected) as file:
        found = recognised(path, file.first_line()) if format == AUTO else format
        if found not in _READERS:
            raise OperatorError(f"{path}: is no history: pass --format {found}")
        return found, _READERS[found].read(file, unit)


def refuse_foreign_options(format: str, columns: str | None, source: str | None) -> None:
    """Raise OperatorError for an option that only a csv file has."""
    for option, value in (("--columns", columns), ("--source", source)):
        if value is not None and format != CSV:
            raise OperatorError(f"{option} is only for --format {CSV}")


def recognised_file(path: Path) -> str:
    """Return the format of the file, of histories and others; raises OperatorError where it is none that is read.

    A pipe gives its content once, so what it holds is known only to who reads it: `auto`.
    """
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        return AUTO
    with text_file(path, _EXPECTED) as file:
        return recognised(path, file.first_line())


def recognised(path: Path, first_line: str) -> str:
    """Return the format that has this first line; raises OperatorError where it is none that is read."""
    for name, reader in _READERS.items():
        if has_columns(first_line, reader.format):
            return name
    # Of an export that lacks columns its own reader says which.
    if found := signature(first_line):
        return found[1]
    for app, pattern in _KNOWN_BUT_NOT_READ.items():
        if pattern.search(first_line):
            raise OperatorError(
                f"{path}: looks like an export of {app}, which is not read by itself: make it a file of one set a row"
                f" and pass {generic_csv.HOW_TO_NAME_COLUMNS}"
            )
    raise OperatorError(
        f"{path}: expected {_EXPECTED}; found the first line {shown(first_line)}: for another app pass"
        f" {generic_csv.HOW_TO_NAME_COLUMNS}"
    )


def _source(name: str | None) -> str:
    """Return what the sessions of a csv file are stored under."""
    if name is None:
        return CSV
    if not _SOURCE.fullmatch(name) or len(name) > _MOST_LETTERS_OF_SOURCE:
        raise OperatorError(
            f"--source {shown(name)}: pass a name of small letters, digits, hyphens, dots or underscores"
        )
    return name
