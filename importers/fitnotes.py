"""Reads exports of the FitNotes app; one row is one set.

How the format is read, where it leaves a choice:

- It has no time of day and no names of workouts: each day is one session, without a start.
- It has no set index: identical rows are separate sets, and consecutive rows of one exercise are one block.
- The weight unit stands in the header, `Weight (kgs)`, or in each row, `Weight Unit`; else the caller names it.
- The app quotes nothing, so a comma in a name makes a row too long. The name is put together again where the
  other columns and the categories of the good rows leave one way to do it; else the row is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from core.errors import OperatorError
from importers.cells import BrokenRowError, Numbers, calendar_day, shown
from importers.csv_records import Record, TextFile, text_file
from importers.header import Format, Header, read_header
from importers.history import (
    MAX_DISTANCE_M,
    MAX_DURATION_SECONDS,
    MAX_REPS,
    MAX_WEIGHT_KG,
    ImportedSet,
    ParsedHistory,
    performed_set,
)
from importers.reading import data_records, read_rows
from importers.rows import Row
from importers.spool import Remarks
from importers.units import KG_PER_UNIT, Unit, WeightUnits, asked_unit, metres_per, weight_unit

_REQUIRED = ("Date", "Exercise", "Category", "Weight", "Reps")
_OPTIONAL = ("Weight Unit", "Distance", "Distance Unit", "Time", "Comment")
FORMAT = Format(
    "a FitNotes export",
    {name: name for name in _REQUIRED + _OPTIONAL} | {"Notes": "Comment"},
    _REQUIRED,
)
_MOST_COMMAS_IN_NAMES = 5
_TIME = re.compile(r"(?:([0-9]{1,3}):)?([0-9]{1,4}):([0-9]{2})")


def parse(path: Path, unit: str | None) -> ParsedHistory:
    """Read the FitNotes export `path`; its weights are in `unit` (kg or lb) where it does not say itself.

    Rows that are broken are skipped with line and reason. Raises
    OperatorError for a unit that is missing, unknown or contradicts the file, for a file that is not such an
    export, and for one without a single usable row.
    """
    with text_file(path, FORMAT.expected) as file:
        return read(file, unit)


def read(file: TextFile, unit: str | None) -> ParsedHistory:
    """Read a FitNotes export as `parse` does."""
    asked = asked_unit(unit)
    header = read_header(file.path, file.first_line(), FORMAT)
    units = WeightUnits(file.path, "FitNotes", _stated_unit(file.path, header), asked)
    if "Weight Unit" not in header.places and units.of_file is None:
        raise units.missing(1)
    remarks = Remarks()
    reader = _RowReader(header, units, _categories(file, header), remarks)
    return read_rows(file, header, reader.read, remarks)


def _stated_unit(path: Path, header: Header) -> Unit | None:
    """Return the unit that the header names; raises OperatorError where it names one that we don't know."""
    detail = header.details["Weight"]
    unit = weight_unit(detail)
    if detail and unit is None:
        raise OperatorError(
            f"{path}: expected {FORMAT.expected}; found Weight in {shown(detail)}, not kgs or lbs"
        )
    return unit


def _categories(file: TextFile, header: Header) -> frozenset[str]:
    """Return the categories of the rows that have as many columns as the header."""
    return frozenset(
        record.fields[header.places["Category"]].strip()
        for record in data_records(file, header)
        if record.fields is not None and len(record.fields) == len(header.places)
    )


class _RowReader:
    def __init__(
        self, header: Header, units: WeightUnits, categories: frozenset[str], remarks: Remarks
    ) -> None:
        self._header = header
        self._units = units
        self._categories = categories
        self._remarks = remarks
        self._numbers = Numbers(header.delimiter)

    def read(self, record: Record) -> Row:
        too_many = len(self._header.fields(record)) - len(self._header.places)
        if 0 < too_many <= _MOST_COMMAS_IN_NAMES:
            record = self._put_together(record.line, record.fields or [])
        return self._row(record)

    def _row(self, record: Record) -> Row:
        cells = self._header.cells(record)
        line = record.line
        if not cells["Exercise"]:
            raise BrokenRowError("no exercise")
        return Row(
            line=line,
            session_date=calendar_day("Date", cells["Date"]),
            started_at_local=None,
            title="",
            duration_seconds=None,
            exercise=cells["Exercise"],
            notes=cells.get("Comment", ""),
            session_notes="",
            done=self._set(line, cells),
        )

    def _put_together(self, line: int, fields: Sequence[str]) -> Record:
        """Return a row that has too many fields as the right number of them, where there is one way to do it."""
        ways = [way for way in self._ways(line, fields) if self._is_readable(way)]
        if len(ways) != 1:
            raise BrokenRowError(
                f"{len(fields)} columns instead of {len(self._header.places)}: a comma that is not quoted, and "
                + ("more than one way to read it" if ways else "no way to read it")
            )
        name = self._header.cells(ways[0])["Exercise"]
        self._remarks.add(
            line, f"a comma that is not quoted was taken for a part of a name, in a set of {shown(name)}"
        )
        return ways[0]

    def _ways(self, line: int, fields: Sequence[str]) -> Iterator[Record]:
        """Yield every way to give the commas that are too many to exercise, category and comment."""
        places = self._header.places
        texts = [places[name] for name in ("Exercise", "Category", "Comment") if name in places]
        for shares in _shares(len(fields) - len(places), len(texts)):
            more = dict(zip(texts, shares, strict=True))
            joined: list[str] = []
            rest = list(fields)
            for place in range(len(places)):
                used = 1 + more.get(place, 0)
                joined.append(self._header.delimiter.join(rest[:used]))
                rest = rest[used:]
            yield Record(line, joined)

    def _is_readable(self, record: Record) -> bool:
        if self._header.cells(record)["Category"] not in self._categories:
            return False
        try:
            self._row(record)
        # A way to read the row may also be wrong by a unit that is missing, or that contradicts the option.
        except (BrokenRowError, OperatorError):
            return False
        return True

    def _set(self, line: int, cells: Mapping[str, str]) -> ImportedSet:
        return performed_set(
            line,
            "normal",
            weight_kg=self._weight(line, cells),
            reps=self._numbers.whole("Reps", cells["Reps"], MAX_REPS),
            distance_m=self._distance(cells),
            duration_seconds=_seconds(cells.get("Time", "")),
        )

    def _weight(self, line: int, cells: Mapping[str, str]) -> Decimal | None:
        text = cells["Weight"]
        if not self._numbers.number("Weight", text):
            return None
        unit = self._units.of_row("Weight Unit", cells.get("Weight Unit", ""), line)
        return self._numbers.measure("Weight", text, KG_PER_UNIT[unit], MAX_WEIGHT_KG)

    def _distance(self, cells: Mapping[str, str]) -> Decimal | None:
        text = cells.get("Distance", "")
        if not self._numbers.number("Distance", text):
            return None
        word = cells.get("Distance Unit", "") or self._header.details["Distance"]
        metres = metres_per(word)
        if metres is None:
            raise BrokenRowError(f"Distance Unit {shown(word)} is not a known unit")
        return self._numbers.distance("Distance", text, metres, MAX_DISTANCE_M)


def _shares(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to share `total` among `parts`."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for others in _shares(total - first, parts - 1):
            yield (first, *others)


def _seconds(text: str) -> int | None:
    """Return the seconds of h:mm:ss or mm:ss, None for 0."""
    if not text:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise BrokenRowError(f"Time {shown(text)} is not like 0:01:30")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = (hours * 60 + minutes) * 60 + seconds
    if total > MAX_DURATION_SECONDS:
        raise BrokenRowError(f"Time {shown(text)} is too large")
    return total or None
