"""Reads exports of the Strong app in any of its variants and languages; one row is one set.

How the format is read, where it leaves a choice:

- A session is one (Date, Workout Name); consecutive rows of one exercise name are one block.
- A set's Notes become its block's notes, and so does the text of a Note row.
- Rows that stand between the sets are marked in the app's language. A mark that we don't know is a set's where
  the row has numbers, except seconds alone on an exercise that has reps elsewhere: that is a rest timer.
- A file that a spreadsheet saved may have lost the seconds, or the time of day altogether.
- 0 or empty means "not recorded": Strong prints 0 for what does not apply.
- The weight unit stands in the header, in each row, or nowhere; then the caller has to name it.
- A distance without a unit is read as kilometres with kg and as miles with lb, and the history remarks on it.
- A row without reps, distance and time was planned but not done: a set with is_completed false.
"""

from __future__ import annotations

from pathlib import Path

from core.errors import OperatorError
from importers.cells import shown
from importers.csv_records import TextFile, text_file
from importers.header import Format, Header, read_header
from importers.history import ParsedHistory
from importers.reading import read_rows
from importers.spool import Remarks
from importers.strong_names import COLUMN_NAMES, COLUMN_UNITS, REQUIRED
from importers.strong_rows import RowReader
from importers.units import Unit, WeightUnits, asked_unit, metres_per, weight_unit

FORMAT = Format("a Strong export", COLUMN_NAMES, REQUIRED, COLUMN_UNITS)
_DETAILS_OF_DURATION = frozenset({"", "sec", "secs", "seconds", "s", "sek", "seg", "segundos", "秒"})


def parse(path: Path, unit: str | None) -> ParsedHistory:
    """Read the Strong export `path`; its weights are in `unit` (kg or lb) where it does not say itself.

    Rows that are broken are skipped with line and reason. Raises
    OperatorError for a unit that is missing, unknown or contradicts the file, for a file that is not such an
    export, and for one without a single usable row.
    """
    with text_file(path, FORMAT.expected) as file:
        return read(file, unit)


def read(file: TextFile, unit: str | None) -> ParsedHistory:
    """Read a Strong export as `parse` does."""
    asked = asked_unit(unit)
    header = read_header(file.path, file.first_line(), FORMAT)
    units = WeightUnits(file.path, "Strong", _stated_unit(file.path, header), asked)
    if "Weight Unit" not in header.places and units.of_file is None:
        raise units.missing(1)
    remarks = Remarks()
    return read_rows(file, header, RowReader(header, units, remarks).read, remarks)


def _stated_unit(path: Path, header: Header) -> Unit | None:
    """Return the unit that the header names; raises OperatorError where it names one that we don't know."""
    weight = header.details["Weight"]
    distance = header.details.get("Distance", "")
    duration = header.details.get("Duration", "")
    for column, detail, is_known in (
        ("Weight", weight, not weight or weight_unit(weight)),
        ("Distance", distance, not distance or metres_per(distance)),
        ("Duration", duration, duration.casefold().strip(".") in _DETAILS_OF_DURATION),
    ):
        if not is_known:
            raise OperatorError(
                f"{path}: expected {FORMAT.expected}; found {column} in {shown(detail)}, not a known unit"
            )
    return weight_unit(weight)
