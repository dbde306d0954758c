"""Prints what became of each row of an imported file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from rich.console import Console

from importers.history import NOT_A_SET, Listed, Remark, Typo
from importers.report import ranges
from importers.saving import ImportReport
from importers.spool import SkippedRows, temporary_space
from importers.typos import HOW_TO_CORRECT

_RANGES_A_LINE = 15
_TYPOS_SHOWN = 20


def print_lines(lines: Iterable[str], console: Console | None = None) -> None:
    """Print `lines`, each as it is."""
    # What a file calls an exercise is text: never markup, and nothing that a terminal obeys.
    console = console or Console(markup=False, emoji=False, highlight=False)
    for line in lines:
        printable = "".join(character if character.isprintable() else " " for character in line)
        console.print(printable, markup=False, emoji=False, highlight=False, soft_wrap=True)


def report_lines(report: ImportReport, *, verbose: bool = False) -> Iterator[str]:
    """Yield the report of a history: skipped rows with their reasons, likely typos, remarks, sets and sessions."""
    if report.is_dry_run:
        yield "dry run: nothing was written; an import would do this:"
    yield from report_of(report.skipped, report.remarks, _sums(report), report.typos, verbose=verbose)


def _sums(report: ImportReport) -> Iterator[str]:
    yield f"{report.sets_taken} sets taken + {len(report.skipped)} rows skipped = {report.data_rows} data rows"
    refused = f", {report.sessions_refused} not stored" if report.sessions_refused else ""
    yield (
        f"{report.sessions_saved} sessions saved, {report.sessions_already_there} already there,"
        f" {report.sessions_updated} updated, {report.sessions_differing} differing{refused}"
    )


def report_of(
    skipped: SkippedRows,
    remarks: Listed[Remark],
    sums: Iterable[str],
    typos: Listed[Typo] = (),
    *,
    verbose: bool = True,
) -> Iterator[str]:
    """Yield the skipped rows by reason, likely typos, the remarks, and the `sums` of the whole.

    What is long is shortened unless `verbose`.
    """
    with temporary_space():  # the skipped rows are put in order there
        yield from _skipped_lines(skipped, verbose=verbose)
    yield from _typo_lines(typos, verbose=verbose)
    for remark in remarks:
        yield f"  note: {remark.text} (line {remark.line})"
    yield from sums


def _skipped_lines(skipped: SkippedRows, *, verbose: bool) -> Iterator[str]:
    for reason, count, lines in skipped.by_reason():
        if reason == NOT_A_SET and not verbose:
            # Apps print one after most sets: nothing is lost with them, and nobody looks for their lines.
            yield f"  skipped {count}: {reason}"
            continue
        line = f"  skipped {count}: {reason} (line{'s' if count > 1 else ''} "
        places = _places(lines)
        line += next(places)
        for more in places:
            if not verbose:
                line += ", ...; --verbose for all"
                break
            yield f"{line},"
            line = f"    {more}"
        yield f"{line})"


def _typo_lines(typos: Listed[Typo], *, verbose: bool) -> Iterator[str]:
    shown = typos if verbose else islice(typos, _TYPOS_SHOWN)
    for typo in shown:
        yield f"  looks like a typo: {typo.text} (line {typo.line})"
    hidden = 0 if verbose else len(typos) - _TYPOS_SHOWN
    if hidden > 0:
        yield f"  and {hidden} more that look like a typo; --verbose for all"
    if len(typos):
        yield f"  typos are taken as printed: {HOW_TO_CORRECT}"


def _places(lines: Iterator[int]) -> Iterator[str]:
    """Yield the lines in the order of the file, as ranges, as many at a time as fit on a line."""
    found = ranges(lines)
    while some := list(islice(found, _RANGES_A_LINE)):
        yield ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in some)
