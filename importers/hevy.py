r"""Reads exports of the Hevy app; one row is one set.

How the format is read, where it leaves a choice:

- A session is one (start_time, title); rows of one exercise are a block, and set_index 0 begins another one.
- The units stand in the names of the columns; `--unit` may only agree.
- Times are printed in the app's language, months by name or in numbers alone; see `printed_times`.
- Blocks with the same superset_id are one superset of their session.
- A set without reps, distance and time is one that was not done; a literal \n in a note is a line break.
"""

from __future__ import annotations

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
    NOT_A_SET,
    ImportedSet,
    ParsedHistory,
    SetType,
    has_numbers,
    performed_set,
)
from importers.printed_times import Dates
from importers.reading import column_texts, read_rows
from importers.rows import Row
from importers.spool import Remarks
from importers.units import (
    KG_PER_UNIT,
    METRES_PER_KILOMETRE,
    METRES_PER_MILE,
    Unit,
    WeightUnits,
    asked_unit,
)

_WEIGHT_COLUMNS: Mapping[str, Unit] = {"weight_kg": "kg", "weight_lbs": "lb"}
_METRES: Mapping[str, Decimal] = {"distance_km": METRES_PER_KILOMETRE, "distance_miles": METRES_PER_MILE}
_REQUIRED = ("title", "start_time", "exercise_title", "set_type", "reps")
_OPTIONAL = (
    "end_time", "description", "superset_id", "exercise_notes", "set_index", "duration_seconds", "rpe",
    *_WEIGHT_COLUMNS, *_METRES,
)  # fmt: skip
FORMAT = Format("a Hevy export", {name: name for name in _REQUIRED + _OPTIONAL}, _REQUIRED)
_SET_TYPES: Mapping[str, SetType] = {
    "": "normal",
    "normal": "normal",
    "warmup": "warmup",
    "dropset": "drop",
    "drop": "drop",
    "failure": "failure",
}


def parse(path: Path, unit: str | None) -> ParsedHistory:
    """Read the Hevy export `path`.

    Rows that are broken are skipped with line and reason. Raises
    OperatorError for a unit that is unknown or contradicts the file, for a file that is not such an export, and
    for one without a single usable row.
    """
    with text_file(path, FORMAT.expected) as file:
        return read(file, unit)


def read(file: TextFile, unit: str | None) -> ParsedHistory:
    """Read a Hevy export as `parse` does."""
    asked = asked_unit(unit)
    header = read_header(file.path, file.first_line(), FORMAT)
    weight_column = _one_of(file.path, header, _WEIGHT_COLUMNS) or _missing_weight(file.path)
    distance_column = _one_of(file.path, header, _METRES)
    WeightUnits(file.path, "Hevy", _WEIGHT_COLUMNS[weight_column], asked)
    dates = Dates(column_texts(file, header, "start_time"))
    remarks = Remarks()
    reader = _RowReader(header, weight_column, distance_column, dates, remarks)
    return read_rows(file, header, reader.read, remarks)


def _one_of(path: Path, header: Header, columns: Mapping[str, object]) -> str | None:
    """Return which of `columns` the file has; with two of them nothing says which one to believe."""
    present = [column for column in columns if column in header.places]
    if len(present) > 1:
        raise OperatorError(f"{path}: expected {FORMAT.expected}; found both {' and '.join(present)}")
    return present[0] if present else None


def _missing_weight(path: Path) -> str:
    raise OperatorError(f"{path}: expected {FORMAT.expected} with a column {' or '.join(_WEIGHT_COLUMNS)}")


class _RowReader:
    def __init__(
        self,
        header: Header,
        weight_column: str,
        distance_column: str | None,
        dates: Dates,
        remarks: Remarks,
    ) -> None:
        self._header = header
        self._weight_column = weight_column
        self._distance_column = distance_column
        self._dates = dates
        self._remarks = remarks
        self._numbers = Numbers(header.delimiter)
        self._block = 0

    def read(self, record: Record) -> Row:
        cells = self._header.cells(record)
        if not cells["exercise_title"]:
            raise BrokenRowError("no exercise_title")
        started_at = self._dates.read("start_time", cells["start_time"])
        if cells.get("set_index") == "0":
            self._block += 1
        set_type = _SET_TYPES.get(cells["set_type"].casefold())
        done = self._set(record.line, set_type or "normal", cells)
        if set_type is None and not has_numbers(done):
            raise BrokenRowError(NOT_A_SET)
        return Row(
            line=record.line,
            session_date=started_at.date(),
            started_at_local=started_at,
            title=cells["title"],
            duration_seconds=self._duration(record.line, started_at, cells.get("end_time", "")),
            exercise=cells["exercise_title"],
            notes=_note(cells.get("exercise_notes", "")),
            session_notes=_note(cells.get("description", "")),
            done=done,
            block=self._block,
            superset=cells.get("superset_id", ""),
            unknown_mark=cells["set_type"] if set_type is None else None,
        )

    def _set(self, line: int, set_type: SetType, cells: Mapping[str, str]) -> ImportedSet:
        numbers = self._numbers
        factor = KG_PER_UNIT[_WEIGHT_COLUMNS[self._weight_column]]
        duration = cells.get("duration_seconds", "")
        return performed_set(
            line,
            set_type,
            weight_kg=numbers.measure(self._weight_column, cells[self._weight_column], factor, MAX_WEIGHT_KG),
            reps=numbers.whole("reps", cells["reps"], MAX_REPS),
            distance_m=self._distance_of(cells),
            duration_seconds=numbers.whole("duration_seconds", duration, MAX_DURATION_SECONDS),
            rpe=numbers.rpe("rpe", cells.get("rpe", "")),
        )

    def _distance_of(self, cells: Mapping[str, str]) -> Decimal | None:
        column = self._distance_column
        if column is None:
            return None
        return self._numbers.distance(column, cells[column], _METRES[column], MAX_DISTANCE_M)

    def _duration(self, line: int, started_at: datetime, text: str) -> int | None:
        """Return the session's seconds; an impossible end costs a remark, not the sets."""
        if not text:
            return None
        try:
            seconds = int((self._dates.read("end_time", text) - started_at).total_seconds())
        except BrokenRowError as broken:
            self._remarks.add(line, f"{broken}; the duration was left out")
            return None
        if not 0 <= seconds <= MAX_DURATION_SECONDS:
            self._remarks.add(
                line, f"end_time {shown(text)} is not within a week of the start; the duration was left out"
            )
            return None
        return seconds or None


def _note(text: str) -> str:
    return text.replace("\\r\\n", "\n").replace("\\n", "\n").replace("\r\n", "\n").strip()
