"""Reads one row of a Strong export."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Literal

from ops.importers.assembly import Row
from ops.importers.csv_records import Record
from ops.importers.history import (
    MAX_DISTANCE_M,
    MAX_DURATION_SECONDS,
    MAX_REPS,
    MAX_WEIGHT_KG,
    ImportedSet,
    Remark,
    SetType,
    hundredths,
)

Unit = Literal["kg", "lb"]

_KG_PER_UNIT: Mapping[Unit, Decimal] = {"kg": Decimal(1), "lb": Decimal("0.45359237")}
_METRES_PER_UNIT: Mapping[Unit, Decimal] = {"kg": Decimal(1000), "lb": Decimal("1609.344")}
_DISTANCE_UNIT: Mapping[Unit, str] = {"kg": "kilometres", "lb": "miles"}

_SET_TYPES: Mapping[str, SetType] = {
    "W": "warmup",
    "WARMUP": "warmup",
    "D": "drop",
    "DROP": "drop",
    "DROPSET": "drop",
    "F": "failure",
    "FAILURE": "failure",
}
_PSEUDO_ROWS = {"RESTTIMER": "a rest timer, not a set", "NOTE": "a note row, not a set"}

_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,30})?")
_DURATION = re.compile(r"(?:([0-9]{1,4})h)? ?(?:([0-9]{1,5})m(?:in)?)? ?(?:([0-9]{1,7})s)?")


class BrokenRowError(Exception):
    """A row that cannot be taken; the message is the reason."""


class RowReader:
    """Reads rows whose columns stand at `places` and whose weights are in `unit`.

    Afterwards `remarks` holds what a person should know about rows that were read, each once.
    """

    def __init__(self, places: Mapping[str, int], unit: Unit) -> None:
        self._places = places
        self._unit = unit
        self._remarks: dict[str, int] = {}

    @property
    def remarks(self) -> list[Remark]:
        """Return the remarks, each with the first line that it is about."""
        return [Remark(line, text) for text, line in self._remarks.items()]

    def read(self, record: Record) -> Row:
        """Return the row of `record`; raises BrokenRowError with the reason where it is not a set."""
        cells = self._cells(record)
        # Before anything is measured: a rest timer's seconds are no set's duration.
        set_type = _set_type(cells["Set Order"])
        if not cells["Exercise Name"]:
            raise BrokenRowError("no exercise name")
        started_at = _date_time(cells["Date"])
        return Row(
            session_date=started_at.date(),
            started_at_local=started_at,
            title=cells["Workout Name"],
            duration_seconds=self._duration(record.line, cells.get("Duration", "")),
            exercise=cells["Exercise Name"],
            notes=cells.get("Notes", ""),
            session_notes=cells.get("Workout Notes", ""),
            done=self._set(record.line, set_type, cells),
        )

    def _cells(self, record: Record) -> Mapping[str, str]:
        if record.fields is None:
            raise BrokenRowError("broken quotes")
        if len(record.fields) != len(self._places):
            raise BrokenRowError(f"{len(record.fields)} columns instead of {len(self._places)}")
        return {name: record.fields[place].strip() for name, place in self._places.items()}

    def _set(self, line: int, set_type: SetType, cells: Mapping[str, str]) -> ImportedSet:
        weight_kg = _measure("Weight", cells["Weight"], _KG_PER_UNIT[self._unit], MAX_WEIGHT_KG)
        reps = _whole("Reps", cells["Reps"], MAX_REPS)
        distance_m = self._distance(line, cells.get("Distance", ""))
        seconds = _whole("Seconds", cells.get("Seconds", ""), MAX_DURATION_SECONDS)
        return ImportedSet(
            line=line,
            set_type=set_type,
            weight_kg=weight_kg,
            reps=reps,
            distance_m=distance_m,
            duration_seconds=seconds,
            rpe=_rpe(cells.get("RPE", "")),
            is_completed=not (reps is None and distance_m is None and seconds is None),
        )

    def _distance(self, line: int, text: str) -> Decimal | None:
        """Return metres. Strong prints the app's own distance unit and does not say which one that is."""
        metres = _measure("Distance", text, _METRES_PER_UNIT[self._unit], MAX_DISTANCE_M)
        if metres is None:
            return None
        if metres < 0:
            raise BrokenRowError(f"Distance {shown(text)} is negative")
        self._remark(line, f"distances carry no unit and were read as {_DISTANCE_UNIT[self._unit]}")
        return metres

    def _duration(self, line: int, text: str) -> int | None:
        """Return the session's seconds; an impossible duration costs a remark, not the sets."""
        match = _DURATION.fullmatch(text)
        if match is None:
            self._remark(line, f"Duration {shown(text)} is not like 1h 5m and was left out")
            return None
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        duration = (hours * 60 + minutes) * 60 + seconds
        if duration > MAX_DURATION_SECONDS:
            self._remark(line, f"Duration {shown(text)} is more than a week and was left out")
            return None
        return duration or None

    def _remark(self, line: int, text: str) -> None:
        self._remarks.setdefault(text, line)


def shown(text: str) -> str:
    """Return `text` quoted, on one line and short enough for a message."""
    printable = "".join(character if character.isprintable() else " " for character in text.strip())
    return f'"{printable if len(printable) <= 80 else printable[:77] + "..."}"'


def _set_type(set_order: str) -> SetType:
    """Strong numbers the sets that it counts and marks the others with a letter or a word."""
    if re.fullmatch(r"[0-9]+", set_order):
        return "normal"
    word = re.sub(r"[ _-]", "", set_order).upper()
    if word in _PSEUDO_ROWS:
        raise BrokenRowError(_PSEUDO_ROWS[word])
    if word not in _SET_TYPES:
        raise BrokenRowError(f"Set Order {shown(set_order)} is neither a number nor a known kind of set")
    return _SET_TYPES[word]


def _date_time(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S")
    except ValueError as error:
        raise BrokenRowError(f"Date {shown(text)} is not like 2024-12-31 18:30:00") from error


def _number(column: str, text: str) -> Decimal:
    """Return the cell's number, 0 for an empty one."""
    if not text:
        return Decimal(0)
    if not _NUMBER.fullmatch(text):
        raise BrokenRowError(f"{column} {shown(text)} is not a number")
    return Decimal(text)


def _whole(column: str, text: str, most: int) -> int | None:
    """Return the cell's count, None for 0."""
    number = _number(column, text)
    if number != number.to_integral_value():
        raise BrokenRowError(f"{column} {shown(text)} is not a whole number")
    if number < 0:
        raise BrokenRowError(f"{column} {shown(text)} is negative")
    if number > most:
        raise BrokenRowError(f"{column} {shown(text)} is too large")
    return int(number) or None


def _measure(column: str, text: str, factor: Decimal, most: Decimal) -> Decimal | None:
    """Return the cell times `factor` to 0.01, with its sign; None for 0."""
    measure = hundredths(_number(column, text) * factor)
    if abs(measure) > most:
        raise BrokenRowError(f"{column} {shown(text)} is too large")
    return measure or None


def _rpe(text: str) -> Decimal | None:
    rpe = _number("RPE", text)
    if not 0 <= rpe <= 10:
        raise BrokenRowError(f"RPE {shown(text)} is not between 0 and 10")
    return rpe or None
