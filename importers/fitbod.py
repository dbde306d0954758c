"""Reads exports of the Fitbod app; one row is one set.

How the format is read, where it leaves a choice:

- Each set has a time of its own. Sets of one day that are less than three hours apart are one workout.
- Times are those that are printed; the offset behind them is not used.
- Weights are those of the whole set: `multiplier`, `Incline` and `Resistance` are not used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from core.errors import OperatorError
from importers.cells import BrokenRowError, Numbers, shown
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
from importers.reading import LONGEST_PAUSE, read_rows
from importers.rows import Row
from importers.spool import Remarks
from importers.units import KG_PER_UNIT, Unit, WeightUnits, asked_unit, metres_per, weight_unit

_REQUIRED = ("Date", "Exercise", "Reps", "Weight", "isWarmup")
_OPTIONAL = ("Duration", "Distance", "Incline", "Resistance", "Note", "multiplier")
FORMAT = Format("a Fitbod export", {name: name for name in _REQUIRED + _OPTIONAL}, _REQUIRED)
_DATE_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?: ?(?:Z|[+-][0-9]{2}:?[0-9]{2}))?"
)
_IS_WARMUP: Mapping[str, bool] = {"true": True, "1": True, "false": False, "0": False, "": False}


def parse(path: Path, unit: str | None) -> ParsedHistory:
    """Read the Fitbod export `path`; its header says the unit of its weights.

    Rows that are broken are skipped with line and reason. Raises
    OperatorError for a unit that is missing, unknown or contradicts the file, for a file that is not such an
    export, and for one without a single usable row.
    """
    with text_file(path, FORMAT.expected) as file:
        return read(file, unit)


def read(file: TextFile, unit: str | None) -> ParsedHistory:
    """Read a Fitbod export as `parse` does."""
    asked = asked_unit(unit)
    header = read_header(file.path, file.first_line(), FORMAT)
    units = WeightUnits(file.path, "Fitbod", _stated_unit(file.path, header), asked)
    if units.of_file is None:
        raise units.missing(1)
    reader = _RowReader(header, units.of_file)
    return read_rows(file, header, reader.read, Remarks(), LONGEST_PAUSE)


def _stated_unit(path: Path, header: Header) -> Unit | None:
    """Return the unit that the header names; raises OperatorError where it names one that we don't know."""
    weight = header.details["Weight"]
    distance, duration = header.details.get("Distance", ""), header.details.get("Duration", "")
    for column, detail, is_known in (
        ("Weight", weight, not weight or weight_unit(weight)),
        ("Distance", distance, not distance or metres_per(distance)),
        ("Duration", duration, duration.casefold() in ("", "s", "sec", "seconds")),
    ):
        if not is_known:
            raise OperatorError(
                f"{path}: expected {FORMAT.expected}; found {column} in {shown(detail)}, not a known unit"
            )
    return weight_unit(weight)


class _RowReader:
    def __init__(self, header: Header, unit: Unit) -> None:
        self._header = header
        self._kg = KG_PER_UNIT[unit]
        self._metres = metres_per(header.details.get("Distance", "")) or Decimal(1)
        self._numbers = Numbers(header.delimiter)

    def read(self, record: Record) -> Row:
        cells = self._header.cells(record)
        if not cells["Exercise"]:
            raise BrokenRowError("no exercise")
        started_at = _time(cells["Date"])
        return Row(
            line=record.line,
            session_date=started_at.date(),
            started_at_local=started_at,
            title="",
            duration_seconds=None,
            exercise=cells["Exercise"],
            notes=cells.get("Note", ""),
            session_notes="",
            done=self._set(record.line, cells),
        )

    def _set(self, line: int, cells: Mapping[str, str]) -> ImportedSet:
        numbers = self._numbers
        is_warmup = _IS_WARMUP.get(cells["isWarmup"].casefold())
        if is_warmup is None:
            raise BrokenRowError(f"isWarmup {shown(cells['isWarmup'])} is neither true nor false")
        return performed_set(
            line,
            "warmup" if is_warmup else "normal",
            weight_kg=numbers.measure("Weight", cells["Weight"], self._kg, MAX_WEIGHT_KG),
            reps=numbers.whole("Reps", cells["Reps"], MAX_REPS),
            distance_m=numbers.distance("Distance", cells.get("Distance", ""), self._metres, MAX_DISTANCE_M),
            duration_seconds=numbers.seconds("Duration", cells.get("Duration", ""), MAX_DURATION_SECONDS),
        )


def _time(text: str) -> datetime:
    if match := _DATE_TIME.fullmatch(text):
        try:
            return datetime.fromisoformat(f"{match[1]}T{match[2]}")
        except ValueError:
            pass
    raise BrokenRowError(f"Date {shown(text)} is not like 2024-12-31 18:30:00 +0000")
