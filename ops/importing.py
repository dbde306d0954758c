"""`stats-refresh import`: read a whole file, save it session by session, and account for every row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar
from sqlalchemy import Engine, create_engine

from ops.errors import OperatorError
from ops.importers import fitnotes, hevy, strong, wodup
from ops.importers.history import ParsedHistory, Remark, SkippedRow
from ops.importers.saving import ImportReport, Progress, import_history, time_zone
from tasks.config import database_url as parse_database_url

__all__ = ["ImportReport", "Progress", "import_and_account", "import_file", "import_history", "read_history"]

_READERS: Mapping[str, Callable[[Path, str | None], ParsedHistory]] = {
    "strong": strong.parse,
    "hevy": hevy.parse,
    "fitnotes": fitnotes.parse,
}

WODUP = "wodup"
"""A batch for the database to import, not a history that is read here."""

_LINES_SHOWN = 5
_REASONS_SHOWN = 20


def import_file(
    file: Path, format: str, unit: str | None, user: UUID, timezone: str, database_url: str
) -> None:
    """Import `file` for the account `user` and print what became of it.

    Nothing is written before the whole file has been read. Raises OperatorError where the file, an option or
    the database is wrong, where the import is interrupted, and where nothing of the file could be stored.
    """
    time_zone(timezone)
    if format == WODUP:
        batch = wodup.read_batch(file, unit, user)
        with _engine(database_url) as engine:
            _print(wodup.account_lines(wodup.import_batch(engine, file, batch)))
        return
    history = read_history(file, format, unit)
    with _engine(database_url) as engine:
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


def read_history(file: Path, format: str, unit: str | None) -> ParsedHistory:
    """Read the whole `file`; raises OperatorError where `format` is unknown or the file is not of it."""
    if format == WODUP:
        raise OperatorError("a WodUp batch is no history: import it with stats-refresh import --format wodup")
    if format not in _READERS:
        raise OperatorError(f'unknown format "{format}": pass --format {" or ".join([*_READERS, WODUP])}')
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
    # What a file calls an exercise is text, never markup.
    console = console or Console(markup=False, emoji=False, highlight=False)
    for line in lines:
        console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)


def account_lines(report: ImportReport) -> list[str]:
    """Return the account in lines: sessions, sets, each reason for a skipped row and where it applied."""
    return [
        f"{report.sessions_saved} sessions saved, {report.sessions_already_there} already there"
        + (f", {report.sessions_refused} not stored" if report.sessions_refused else ""),
        f"{report.sets_taken} sets taken + {len(report.skipped)} rows skipped = {report.data_rows} data rows",
        *_skipped_lines(report.skipped),
        *_remark_lines(report.remarks),
    ]


def _skipped_lines(skipped: Iterable[SkippedRow]) -> list[str]:
    lines_by_reason: dict[str, list[int]] = {}
    for row in skipped:
        lines_by_reason.setdefault(row.reason, []).append(row.line)
    most_first = sorted(lines_by_reason.items(), key=lambda item: -len(item[1]))
    shown = [
        f"  skipped {len(lines)}: {reason} ({_places(lines)})"
        for reason, lines in most_first[:_REASONS_SHOWN]
    ]
    hidden = most_first[_REASONS_SHOWN:]
    if hidden:
        rows = sum(len(lines) for _, lines in hidden)
        shown.append(f"  skipped {rows}: for {len(hidden)} more reasons")
    return shown


def _places(lines: list[int]) -> str:
    """Name the first lines and count the others."""
    first = ", ".join(str(line) for line in lines[:_LINES_SHOWN])
    more = f" and {len(lines) - _LINES_SHOWN} more" if len(lines) > _LINES_SHOWN else ""
    return f"line{'s' if len(lines) > 1 else ''} {first}{more}"


def _remark_lines(remarks: Iterable[Remark]) -> list[str]:
    return [f"  note: {remark.text} (line {remark.line})" for remark in remarks]


def _progress_bar(console: Console) -> ProgressBar:
    return ProgressBar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("sessions"),
        TimeElapsedColumn(),
        console=console,
    )
