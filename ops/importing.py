"""`stats-refresh import`: read a whole file, save its sessions, and account for every row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from uuid import UUID

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar
from sqlalchemy import Engine, create_engine

from ops.errors import OperatorError
from ops.importers import fitnotes, hevy, strong, wodup
from ops.importers.history import ParsedHistory
from ops.importers.saving import ImportReport, Progress, import_history, time_zone
from ops.importers.spool import SkippedRows, temporary_space
from tasks.config import database_url as parse_database_url

__all__ = ["ImportReport", "Progress", "import_and_account", "import_file", "import_history", "read_history"]

_READERS: Mapping[str, Callable[[Path, str | None], ParsedHistory]] = {
    "strong": strong.parse,
    "hevy": hevy.parse,
    "fitnotes": fitnotes.parse,
}

WODUP = "wodup"
"""A batch for the database to import, not a history that is read here."""

_RANGES_A_LINE = 15


def import_file(
    file: Path, format: str, unit: str | None, user: UUID, timezone: str, database_url: str
) -> None:
    """Import `file` for the account `user` and print what became of it.

    Nothing is written before the whole file has been read. Raises OperatorError where the file, an option or
    the database is wrong, where there is no room for temporary files or for what is printed, where the import is
    interrupted, and where nothing of the file could be stored.
    """
    time_zone(timezone)
    if format == WODUP:
        batch = wodup.read_batch(file, unit, user)
        with _engine(database_url) as engine, _printing(file):
            _print(wodup.account_lines(wodup.import_batch(engine, file, batch)))
        return
    history = read_history(file, format, unit)
    with _engine(database_url) as engine, _printing(file):
        report = import_and_account(engine, user, format, history, timezone=timezone)
    if not report.sessions_saved and not report.sessions_already_there:
        raise OperatorError(f"{file}: nothing of it could be stored; the reasons are above")


@contextmanager
def _engine(database_url: str) -> Iterator[Engine]:
    """Yield an engine of one connection: the sessions are saved one after the other."""
    try:
        url = parse_database_url(database_url)
    except ValueError as error:
        raise OperatorError(str(error)) from error
    engine = create_engine(url, pool_size=1, max_overflow=0)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _printing(file: Path) -> Iterator[None]:
    """Raise OperatorError where the body cannot print, as into a file on a full disk."""
    try:
        yield
    except OSError as error:
        raise OperatorError(
            f"{file}: what becomes of it cannot be printed ({error.strerror}); what was saved stays,"
            " and the same command continues from there"
        ) from error


def read_history(file: Path, format: str, unit: str | None) -> ParsedHistory:
    """Read the whole `file`.

    Raises OperatorError where `format` is unknown, the file is not of it, or there is no room for temporary files.
    """
    if format == WODUP:
        raise OperatorError("a WodUp batch is no history: import it with stats-refresh import --format wodup")
    if format not in _READERS:
        raise OperatorError(f'unknown format "{format}": pass --format {" or ".join([*_READERS, WODUP])}')
    with temporary_space():
        return _READERS[format](file, unit)


def import_and_account(
    engine: Engine,
    user: UUID,
    provider: str,
    history: ParsedHistory,
    *,
    timezone: str = "UTC",
    console: Console | None = None,
) -> ImportReport:
    """Save `history` behind a progress bar and print the account of its rows. Raises as `import_history`."""
    console = console or Console(markup=False, emoji=False, highlight=False)
    with _progress_bar(console) as bar:
        task = bar.add_task(f"importing {provider}", total=len(history.sessions))
        report = import_history(
            engine,
            user,
            provider,
            history,
            lambda done, total: bar.update(task, completed=done, total=total),
            timezone=timezone,
        )
    _print(account_lines(report), console)
    return report


def _print(lines: Iterable[str], console: Console | None = None) -> None:
    # What a file calls an exercise is text: never markup, and nothing that a terminal obeys.
    console = console or Console(markup=False, emoji=False, highlight=False)
    for line in lines:
        printable = "".join(character if character.isprintable() else " " for character in line)
        console.print(printable, markup=False, emoji=False, highlight=False, soft_wrap=True)


def account_lines(report: ImportReport) -> Iterator[str]:
    """Yield the account line by line: every skipped row with its reason, remarks, sets and sessions."""
    with temporary_space():  # the skipped rows are put in order there
        yield from _skipped_lines(report.skipped)
    for remark in report.remarks:
        yield f"  note: {remark.text} (line {remark.line})"
    yield f"{report.sets_taken} sets taken + {len(report.skipped)} rows skipped = {report.data_rows} data rows"
    yield (
        f"{report.sessions_saved} sessions saved, {report.sessions_already_there} already there"
        + (f", {report.sessions_refused} not stored" if report.sessions_refused else "")
    )


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


def _progress_bar(console: Console) -> ProgressBar:
    return ProgressBar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("sessions"),
        TimeElapsedColumn(),
        console=console,
    )
