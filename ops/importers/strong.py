"""Reads comma-separated English exports of the Strong app; one row is one set.

How the format is read, where it leaves a choice:

- A session is one (Date, Workout Name); consecutive rows of one exercise name are one block.
- A set's Notes become its block's notes.
- 0 or empty means "not recorded": Strong prints 0 for what does not apply.
- Weights are in the unit that the caller names; the file does not say. Distances carry no unit either: they
  are read as kilometres with kg and as miles with lb, and the history remarks on it.
- A row without reps, distance and time was planned but not done: a set with is_completed false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ops.errors import OperatorError
from ops.importers.assembly import Row, assemble
from ops.importers.csv_records import Record, read_lines, records
from ops.importers.history import ParsedHistory, SkippedRow
from ops.importers.strong_rows import BrokenRowError, RowReader, Unit, shown

_REQUIRED = ("Date", "Workout Name", "Exercise Name", "Set Order", "Weight", "Reps")
_OPTIONAL = ("Duration", "Distance", "Seconds", "Notes", "Workout Notes", "RPE")
_EXPECTED = "a comma-separated English Strong export"


def parse(path: Path, unit: str | None) -> ParsedHistory:
    """Read the Strong export `path`, whose weights are in `unit` (kg or lb).

    Rows that are broken or contradict their exercise's tracking are skipped with line and reason. Raises
    OperatorError for a missing or unknown unit, for a file that is not such an export, and for one without a
    single usable row.
    """
    known_unit = _known_unit(unit)
    lines = read_lines(path, _EXPECTED)
    places = _column_places(path, lines[0])
    _, *data = records(lines, len(places))
    reader = RowReader(places, known_unit)
    rows, skipped = _read_all(reader, data)
    _refuse_fruitless(path, rows, skipped)
    return assemble(rows, skipped, len(data), reader.remarks)


def _known_unit(unit: str | None) -> Unit:
    if unit is None:
        raise OperatorError("a Strong export does not say its weight unit: pass --unit kg or --unit lb")
    if unit == "kg":
        return "kg"
    if unit == "lb":
        return "lb"
    raise OperatorError(f"unknown weight unit {shown(unit)}: pass --unit kg or --unit lb")


def _column_places(path: Path, line: str) -> Mapping[str, int]:
    """Return the place of each column; raises OperatorError unless `line` names those that we understand."""
    names = [name.strip() for record in records([line], 0) for name in record.fields or ()]
    places = {name: place for place, name in enumerate(names)}
    if not set(_REQUIRED) <= places.keys() or len(places) != len(names):
        _refuse_header(path, line, names)
    unknown = [name for name in names if name not in _REQUIRED + _OPTIONAL]
    if unknown:
        raise OperatorError(
            f"{path}: a variant of the Strong export that cannot be read yet: found the column "
            f"{shown(unknown[0])}, expected no others than {', '.join(_REQUIRED + _OPTIONAL)}"
        )
    return places


def _refuse_header(path: Path, line: str, names: Sequence[str]) -> NoReturn:
    if "Workout Name" in line and ";" in line:
        found = "a Strong export separated by semicolons, which cannot be read yet"
    elif len(names) > 1 and any(not name.isascii() for name in names):
        found = f"a header in another language, {shown(line)}: set Strong to English and export again"
    else:
        found = f"the first line {shown(line)}"
    columns = ", ".join(_REQUIRED)
    raise OperatorError(f"{path}: expected {_EXPECTED} with the columns {columns}; found {found}")


def _read_all(reader: RowReader, data: Iterable[Record]) -> tuple[list[Row], list[SkippedRow]]:
    """Return the rows that can be read, and why the others cannot."""
    rows: list[Row] = []
    skipped: list[SkippedRow] = []
    for record in data:
        try:
            rows.append(reader.read(record))
        except BrokenRowError as broken:
            skipped.append(SkippedRow(record.line, str(broken)))
    return rows, skipped


def _refuse_fruitless(path: Path, rows: Sequence[Row], skipped: Sequence[SkippedRow]) -> None:
    """Raise OperatorError where the file holds no set at all."""
    if rows:
        return
    if not skipped:
        raise OperatorError(f"{path}: expected {_EXPECTED} with sets in it; found the header line alone")
    first = skipped[0]
    raise OperatorError(
        f"{path}: none of its {len(skipped)} rows is a set; line {first.line}, for one: {first.reason}"
    )
