"""Reads the rows of a file one after the other and puts them together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from core.errors import OperatorError
from importers.assembly import assemble
from importers.cells import BrokenRowError
from importers.csv_records import Record, TextFile, records
from importers.header import Header
from importers.history import NOT_A_SET, ParsedHistory, SkippedRow
from importers.rows import Row, Rows
from importers.spool import Remarks, SkippedRows
from importers.tracking import ShownTracking

LONGEST_PAUSE = timedelta(hours=3)
"""How far apart two sets of one workout may be, where all that a file tells of it are the times of its sets."""


def read_rows(
    file: TextFile,
    header: Header,
    read: Callable[[Record], Row],
    remarks: Remarks,
    longest_pause: timedelta | None = None,
) -> ParsedHistory:
    """Return the history of the rows below the header; raises OperatorError where not one is a set.

    Where each set has a time of its own, a workout goes on until there is no set for the `longest_pause`.
    """
    rows = Rows()
    skipped = SkippedRows()
    shown = ShownTracking()
    for record in data_records(file, header):
        try:
            row = read(record)
        except BrokenRowError as broken:
            skipped.add(record.line, str(broken))
            continue
        rows.add(row)
        if row.done is not None:
            shown.see(row.exercise, row.done)
    if not shown:
        _refuse_fruitless(file, rows, skipped)
    if longest_pause is not None:
        rows.join_workouts(longest_pause)
    return assemble(rows, shown, skipped, remarks)


def data_records(file: TextFile, header: Header) -> Iterator[Record]:
    """Return the records below the header."""
    data = records(file.lines(), header.delimiter, len(header.places))
    next(data)
    return data


def column_texts(file: TextFile, header: Header, column: str) -> Iterator[str]:
    """Yield what stands in `column`, where a row has it."""
    place = header.places[column]
    for record in data_records(file, header):
        if record.fields is not None and len(record.fields) > place:
            yield record.fields[place].strip()


def _refuse_fruitless(file: TextFile, notes: Rows, skipped: SkippedRows) -> None:
    """Raise OperatorError for a file that holds no set at all."""
    count = len(notes) + len(skipped)
    if not count:
        raise OperatorError(
            f"{file.path}: expected {file.expected} with sets in it; found the header line alone"
        )
    first = next(iter(skipped), None)
    if first is None:
        first = SkippedRow(next(notes.by_session())[0].line, NOT_A_SET)
    raise OperatorError(
        f"{file.path}: none of its {count} rows is a set; line {first.line}, for one: {first.reason}"
    )
