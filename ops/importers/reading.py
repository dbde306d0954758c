"""Reads the rows of a file one after the other and puts them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ops.errors import OperatorError
from ops.importers.assembly import Row, assemble
from ops.importers.cells import BrokenRowError
from ops.importers.csv_records import Record, records
from ops.importers.header import Header
from ops.importers.history import ParsedHistory, Remarks, SkippedRow


def read_rows(
    path: Path,
    lines: Sequence[str],
    header: Header,
    read: Callable[[Record], Row],
    remarks: Remarks,
    expected: str,
) -> ParsedHistory:
    """Return the history of the `lines` below the header; raises OperatorError where not one is a set."""
    rows: list[Row] = []
    skipped: list[SkippedRow] = []
    data = records(lines, header.delimiter, len(header.places))
    next(data)  # the header
    for record in data:
        try:
            rows.append(read(record))
        except BrokenRowError as broken:
            skipped.append(SkippedRow(record.line, str(broken)))
    _refuse_fruitless(path, rows, skipped, expected)
    return assemble(rows, skipped, remarks.found())


def _refuse_fruitless(path: Path, rows: Sequence[Row], skipped: Sequence[SkippedRow], expected: str) -> None:
    """Raise OperatorError where the file holds no set at all."""
    if any(row.done for row in rows):
        return
    if not rows and not skipped:
        raise OperatorError(f"{path}: expected {expected} with sets in it; found the header line alone")
    first = skipped[0] if skipped else SkippedRow(rows[0].line, "a note, not a set")
    raise OperatorError(
        f"{path}: none of its {len(skipped) + len(rows)} rows is a set; line {first.line}, for one: {first.reason}"
    )
