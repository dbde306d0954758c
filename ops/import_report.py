"""Prints what became of each row of an imported file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from rich.console import Console

from ops.importers.history import Listed, Remark
from ops.importers.saving import ImportReport
from ops.importers.spool import SkippedRows, temporary_space

_RANGES_A_LINE = 15


def print_lines(lines: Iterable[str], console: Console | None = None) -> None:
    """Print `lines`, each as it is."""
    # What a file calls an exercise is text: never markup, and nothing that a terminal obeys.
    console = console or Console(markup=False, emoji=False, highlight=False)
    for line in lines:
        printable = "".join(character if character.isprintable() else " " for character in line)
        console.print(printable, markup=False, emoji=False, highlight=False, soft_wrap=True)


def report_lines(report: ImportReport) -> Iterator[str]:
    """Yield the report of a history: every skipped row with its reason, remarks, sets and sessions."""
    refused = f", {report.sessions_refused} not stored" if report.sessions_refused else ""
    sums = (
        f"{report.sets_taken} sets taken + {len(report.skipped)} rows skipped = {report.data_rows} data rows",
        f"{report.sessions_saved} sessions saved, {report.sessions_already_there} already there{refused}",
    )
    return report_of(report.skipped, report.remarks, sums)


def report_of(skipped: SkippedRows, remarks: Listed[Remark], sums: Iterable[str]) -> Iterator[str]:
    """Yield every skipped row with its reason, the remarks, and the `sums` of the whole."""
    with temporary_space():  # the skipped rows are put in order there
        yield from _skipped_lines(skipped)
    for remark in remarks:
        yield f"  note: {remark.text} (line {remark.line})"
    yield from sums


def _skipped_lines(skipped: SkippedRows) -> Iterator[str]:
    for reason, count, lines in skipped.by_reason():
        line = f"  skipped {count}: {reason} (line{'s' if count > 1 else ''} "
        places = _places(lines)
        line += next(places)
        for more in places:
            yield f"{line},"
            line = f"    {more}"
        yield f"{line})"


def _places(lines: Iterator[int]) -> Iterator[str]:
    """Yield the lines in the order of the file, as ranges, as many at a time as fit on a line."""
    ranges = _ranges(lines)
    while some := list(islice(ranges, _RANGES_A_LINE)):
        yield ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in some)


def _ranges(lines: Iterator[int]) -> Iterator[tuple[int, int]]:
    first = last = next(lines)
    for line in lines:
        if line > last + 1:
            yield first, last
            first = line
        last = line
    yield first, last
