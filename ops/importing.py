"""`stats-refresh import`: read a whole file, save its sessions, and report on every row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar
from sqlalchemy import Engine, create_engine

from core.config import database_url as parse_database_url
from core.errors import OperatorError
from importers import catalog, formats, meets, wodup
from importers.history import ParsedHistory
from importers.saving import ImportReport, import_history, time_zone
from importers.spool import temporary_space
from ops.import_report import print_lines, report_lines, report_of


@dataclass(frozen=True, slots=True)
class Manner:
    """How a history is imported: where its times were taken, and what is kept, written and printed."""

    timezone: str = "UTC"
    keep: bool = False
    dry_run: bool = False
    verbose: bool = False


_AS_USUAL = Manner()
_ANOTHER_IMPORT = "another import of this account is at work; this one goes on when it has ended"


def import_file(
    file: Path,
    format: str,
    unit: str | None,
    user: UUID | None,
    timezone: str,
    database_url: str,
    lifter: str | None = None,
    columns: str | None = None,
    source: str | None = None,
    *,
    keep: bool = False,
    dry_run: bool = False,
    verbose: bool = False,
) -> None:
    """Import `file` for the account `user`, a list of exercises for nobody, and print what became of it.

    Of a history `keep` changes no stored session, and a `dry_run` nothing at all. Nothing is written before the whole
    file has been read. Raises OperatorError where the file, an option or
    the database is wrong, where there is no room for temporary files or for what is printed, where the import is
    interrupted, and where nothing of the file could be stored.
    """
    time_zone(timezone)
    if lifter is not None and format != formats.MEETS:
        raise OperatorError(f"--lifter is only for --format {formats.MEETS}")
    manner = Manner(timezone, keep=keep, dry_run=dry_run, verbose=verbose)
    formats.refuse_foreign_options(format, columns, source)
    if format == formats.AUTO:
        format = formats.recognised_file(file)
    if (keep or dry_run) and format in formats.NO_HISTORIES:
        raise OperatorError(f"--keep and --dry-run are for histories; this is {formats.NO_HISTORIES[format]}")
    if format == formats.CATALOG:
        if user is not None:
            raise OperatorError("the exercises of the catalog belong to no account: leave --user out")
        _import_catalog(file, unit, database_url)
        return
    if user is None:
        raise OperatorError("pass --user with the account that the file belongs to")
    if format == formats.WODUP:
        _import_wodup(file, unit, user, database_url)
    elif format == formats.MEETS:
        _import_meets(file, unit, user, lifter, database_url)
    else:
        _import_history(file, format, unit, user, manner, database_url, columns, source)


def _import_catalog(file: Path, unit: str | None, database_url: str) -> None:
    with temporary_space():
        exercises = catalog.read_catalog(file, unit)
    with _engine(database_url) as engine, _printing(file):
        report = catalog.import_catalog(engine, exercises)
        print_lines(report_of(report.skipped, report.remarks, catalog.report_sums(report)))
    _require_something_stored(file, sum(report.added.values()) + report.already_there)


def _import_meets(file: Path, unit: str | None, user: UUID, lifter: str | None, database_url: str) -> None:
    with temporary_space():
        results = meets.read_meets(file, unit, lifter)
    with _engine(database_url) as engine, _printing(file):
        report = meets.import_meets(engine, user, results)
        print_lines(report_of(report.skipped, report.remarks, meets.report_sums(report)))
    _require_something_stored(file, report.rows_taken)


def _import_wodup(file: Path, unit: str | None, user: UUID, database_url: str) -> None:
    batch = wodup.read_batch(file, unit, user)
    with _engine(database_url) as engine, _printing(file):
        print_lines(wodup.report_lines(wodup.import_batch(engine, file, batch)))


def _import_history(
    file: Path,
    format: str,
    unit: str | None,
    user: UUID,
    manner: Manner,
    database_url: str,
    columns: str | None,
    source: str | None,
) -> None:
    provider, history = formats.read_with_source(file, format, unit, columns, source)
    with _engine(database_url) as engine, _printing(file):
        report = import_and_report(engine, user, provider, history, manner)
    left = report.sessions_already_there + report.sessions_differing
    _require_something_stored(file, report.sessions_saved + report.sessions_updated + left)


def _require_something_stored(file: Path, stored: int) -> None:
    if not stored:
        raise OperatorError(f"{file}: nothing of it could be stored; the reasons are above")


@contextmanager
def _engine(database_url: str) -> Iterator[Engine]:
    """Yield an engine of two connections: one saves a few sessions after the other, one holds the account's turn."""
    try:
        url = parse_database_url(database_url)
    except ValueError as error:
        raise OperatorError(str(error)) from error
    engine = create_engine(url, pool_size=2, max_overflow=0)
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


def import_and_report(
    engine: Engine,
    user: UUID,
    provider: str,
    history: ParsedHistory,
    manner: Manner = _AS_USUAL,
    *,
    console: Console | None = None,
) -> ImportReport:
    """Save `history` behind a progress bar and print the report on its rows. Raises as `import_history`."""
    console = console or Console(markup=False, emoji=False, highlight=False)
    with _progress_bar(console) as bar:
        task = bar.add_task(f"importing {provider}", total=len(history.sessions))
        report = import_history(
            engine,
            user,
            provider,
            history,
            lambda done, total: bar.update(task, completed=done, total=total),
            timezone=manner.timezone,
            keep=manner.keep,
            dry_run=manner.dry_run,
            waiting=lambda: console.print(_ANOTHER_IMPORT),
        )
    print_lines(report_lines(report, verbose=manner.verbose), console)
    return report


def _progress_bar(console: Console) -> ProgressBar:
    return ProgressBar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("sessions"),
        TimeElapsedColumn(),
        console=console,
    )
