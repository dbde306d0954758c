"""Reads any file of one row a set, whose columns the caller names: `date=Day,exercise=Lift,weight=Kilos,reps=Reps`.

How the format is read, where it leaves a choice:

- Only the columns that are named are read; the history remarks on the others.
- A unit stands in the brackets of a column's name, is that name, stands in a column of its own, or the caller names
  it. Durations without one are seconds, distances kilometres with kg and miles with lb, as in Strong's files.
- Rows of one day and title that are less than three hours apart are one workout; without a time of day those of a day.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from core.errors import OperatorError
from importers.cells import BrokenRowError, Numbers, shown
from importers.csv_records import Record, TextFile
from importers.header import Header, best_delimiter, header_cells, name_and_unit
from importers.history import (
    MAX_DISTANCE_M,
    MAX_DURATION_SECONDS,
    MAX_REPS,
    MAX_WEIGHT_KG,
    NOT_A_SET,
    ImportedSet,
    ParsedHistory,
    has_numbers,
    performed_set,
)
from importers.printed_times import Dates
from importers.reading import LONGEST_PAUSE, column_texts, read_rows
from importers.rows import Row
from importers.set_marks import BETWEEN_SETS, COUNTED, SET_TYPES, is_rest, mark_of
from importers.spool import Remarks
from importers.strong_names import SECONDS_PER_WORD
from importers.units import (
    KG_PER_UNIT,
    Unit,
    WeightUnits,
    asked_unit,
    metres_per,
    metres_without_unit,
    weight_unit,
)

EXPECTED = "a CSV file with the columns that --columns names"
HOW_TO_NAME_COLUMNS = (
    "--format csv --columns date=...,exercise=...,weight=...,reps=... with the names of its columns"
)
_Factor = TypeVar("_Factor", Decimal, int)

_REQUIRED = ("date", "exercise")
_MEASURES = ("weight", "reps", "distance", "duration")
_OPTIONAL = (*_MEASURES, "time", "unit", "distance_unit", "title", "notes", "set_type", "rpe")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?: ?([ap])\.?m\.?)?", re.IGNORECASE)


def columns_option(text: str | None) -> Mapping[str, str]:
    """Return the option `--columns` as what each of our columns is called in the file.

    A name with a comma stands in double quotes: `date=Day,"weight=Weight, kg"`. Raises OperatorError where it is
    missing or not like that.
    """
    if not text:
        raise OperatorError(
            f"--format csv reads what its columns are called from --columns: pass {HOW_TO_NAME_COLUMNS}"
        )
    columns: dict[str, str] = {}
    for pair in next(csv.reader([text], skipinitialspace=True)):
        ours, sign, theirs = (part.strip() for part in pair.partition("="))
        if not sign or not theirs:
            raise OperatorError(f"--columns {shown(pair)} is not like weight=Kilos")
        if ours not in _REQUIRED + _OPTIONAL:
            raise OperatorError(
                f"--columns: unknown column {shown(ours)}: name {', '.join(_REQUIRED + _OPTIONAL)}"
            )
        if ours in columns:
            raise OperatorError(f"--columns names {ours} twice")
        columns[ours] = theirs
    missing = [name for name in _REQUIRED if name not in columns]
    if missing or not columns.keys() & set(_MEASURES):
        missing += [] if columns.keys() & set(_MEASURES) else [" or ".join(_MEASURES)]
        raise OperatorError(f"--columns does not name {' and '.join(missing)}")
    return columns


def read(file: TextFile, unit: str | None, columns: Mapping[str, str]) -> ParsedHistory:
    """Read a file whose columns are called as `columns` says; its weights are in `unit` where it does not say itself.

    Rows that are broken are skipped with line and reason. Raises
    OperatorError for a unit that is missing, unknown or contradicts the file, for a column that is not there, and
    for a file without a single usable row.
    """
    asked = asked_unit(unit)
    remarks = Remarks()
    header = _header(file.path, file.first_line(), columns, remarks)
    units = WeightUnits(file.path, "csv", weight_unit(_unit_of(header, columns, "weight")), asked)
    if "weight" in columns and "unit" not in columns and units.of_file is None:
        raise units.missing(1)
    factors = _Factors(
        _known(file.path, "distance", _unit_of(header, columns, "distance"), metres_per),
        _known(file.path, "duration", _unit_of(header, columns, "duration"), _seconds_per),
    )
    reader = _RowReader(header, units, factors, Dates(column_texts(file, header, "date")), remarks)
    return read_rows(file, header, reader.read, remarks, LONGEST_PAUSE)


def _header(path: Path, line: str, columns: Mapping[str, str], remarks: Remarks) -> Header:
    """Return where the named columns stand; the places of the others are known by their own names."""
    delimiter = best_delimiter(line)
    printed = header_cells(line, delimiter)
    places: dict[str, int] = {}
    for ours, theirs in columns.items():
        found = [place for place, cell in enumerate(printed) if cell.casefold() == theirs.casefold()]
        if len(found) != 1:
            problem = "has no column" if not found else "has more than one column"
            raise OperatorError(
                f"{path}: {problem} {shown(theirs)}; its columns are {', '.join(map(shown, printed))}"
            )
        places[ours] = found[0]
    if len(set(places.values())) < len(places):
        raise OperatorError(f"{path}: --columns names one column of the file twice")
    unused = [cell for place, cell in enumerate(printed) if place not in places.values()]
    if unused:
        remarks.add(1, f"columns that --columns does not name are not read: {', '.join(map(shown, unused))}")
    details = {ours: name_and_unit(printed[place])[1] for ours, place in places.items()}
    others = {f"not read {place}": place for place in range(len(printed)) if place not in places.values()}
    return Header(delimiter, places | others, details)


@dataclass(frozen=True, slots=True)
class _Factors:
    """How many metres and seconds one of the file's units has; None where the file does not say its unit."""

    metres: Decimal | None
    seconds: int | None


def _unit_of(header: Header, columns: Mapping[str, str], ours: str) -> str:
    """Return the unit in the brackets of a column's name, or the name, which may be a unit itself."""
    name = columns.get(ours, "")
    is_unit = weight_unit(name) or metres_per(name) or _seconds_per(name)
    return header.details.get(ours, "") or (name if is_unit else "")


def _seconds_per(word: str) -> int | None:
    return SECONDS_PER_WORD.get(word.strip().strip(".").casefold())


def _known(path: Path, column: str, word: str, meaning: Callable[[str], _Factor | None]) -> _Factor | None:
    """Return what the unit `word` of a column means; raises OperatorError where it is none that we know."""
    factor = meaning(word)
    if word and factor is None:
        raise OperatorError(f"{path}: found {column} in {shown(word)}, not a known unit")
    return factor


class _RowReader:
    def __init__(
        self, header: Header, units: WeightUnits, factors: _Factors, dates: Dates, remarks: Remarks
    ) -> None:
        self._header = header
        self._units = units
        self._dates = dates
        self._remarks = remarks
        self._numbers = Numbers(header.delimiter)
        self._factors = factors

    def read(self, record: Record) -> Row:
        cells = self._header.cells(record)
        if not cells["exercise"]:
            raise BrokenRowError("no exercise")
        mark = mark_of(cells.get("set_type") or COUNTED)
        set_type = SET_TYPES.get(mark)
        day, started_at = self._day_and_start(cells)
        done = self._set(record.line, mark, cells)
        if set_type is None and (mark in BETWEEN_SETS or is_rest(mark, done) or not has_numbers(done)):
            raise BrokenRowError(NOT_A_SET)
        return Row(
            line=record.line,
            session_date=day,
            started_at_local=started_at,
            title=cells.get("title", ""),
            duration_seconds=None,
            exercise=cells["exercise"],
            notes=cells.get("notes", ""),
            session_notes="",
            done=done,
            unknown_mark=cells["set_type"] if set_type is None else None,
        )

    def _day_and_start(self, cells: Mapping[str, str]) -> tuple[date, datetime | None]:
        day, at = self._dates.day_and_time("date", cells["date"])
        if clock := cells.get("time", ""):
            at = _clock(clock)
        return day, None if at is None else datetime.combine(day, at)

    def _set(self, line: int, mark: str, cells: Mapping[str, str]) -> ImportedSet:
        numbers = self._numbers
        return performed_set(
            line,
            SET_TYPES.get(mark, "normal"),
            weight_kg=self._weight(line, cells),
            reps=numbers.whole("reps", cells.get("reps", ""), MAX_REPS),
            distance_m=self._distance(line, cells),
            duration_seconds=numbers.seconds(
                "duration", cells.get("duration", ""), MAX_DURATION_SECONDS, self._factors.seconds or 1
            ),
            rpe=numbers.rpe("rpe", cells.get("rpe", "")),
        )

    def _weight(self, line: int, cells: Mapping[str, str]) -> Decimal | None:
        text = cells.get("weight", "")
        if not self._numbers.number("weight", text):
            return None
        return self._numbers.measure("weight", text, KG_PER_UNIT[self._unit(line, cells)], MAX_WEIGHT_KG)

    def _unit(self, line: int, cells: Mapping[str, str]) -> Unit:
        return self._units.of_row("unit", cells.get("unit", ""), line)

    def _distance(self, line: int, cells: Mapping[str, str]) -> Decimal | None:
        text = cells.get("distance", "")
        if not self._numbers.number("distance", text):
            return None
        metres = self._factors.metres
        if word := cells.get("distance_unit", ""):
            metres = metres_per(word)
            if metres is None:
                raise BrokenRowError(f"distance_unit {shown(word)} is not a known unit")
        if metres is None:
            metres = metres_without_unit(self._unit(line, cells), line, self._remarks)
        return self._numbers.distance("distance", text, metres, MAX_DISTANCE_M)


def _clock(text: str) -> time:
    match = _CLOCK.fullmatch(text.replace("\u202f", " "))
    if match is not None:
        hour, minute, second = (int(part or 0) for part in match.groups()[:3])
        if match[4] is not None and 1 <= hour <= 12:
            hour = hour % 12 + (12 if match[4] in "pP" else 0)
        elif match[4] is not None:
            hour = 24  # which no clock has
        try:
            return time(hour, minute, second)
        except ValueError:
            pass
    raise BrokenRowError(f"time {shown(text)} is not like 18:30")
