"""Keeps on disk what a file holds, so that memory does not grow with its rows.

Each spool is a private SQLite database without a name: it goes with the last one who holds it, and SQLite keeps
no more than a small cache of it in memory.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter

from core.errors import OperatorError
from importers.history import Remark, SkippedRow, Typo

ROWS_AT_ONCE = 1000
"""How many rows of the database's answer are in memory while they go into a spool."""


@contextmanager
def temporary_space() -> Iterator[None]:
    """Raise OperatorError where the disk does not keep what the body writes to temporary files."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        raise OperatorError(no_room(error)) from error


def no_room(error: OSError | sqlite3.OperationalError) -> str:
    """Return what is wrong with the temporary files, and what to do about it."""
    problem = error.strerror if isinstance(error, OSError) else error
    return f"no room for temporary files ({problem}): free some space, or set TMPDIR to a folder that has it"


def spool(schema: str) -> sqlite3.Connection:
    """Return a new database with the tables of `schema`, for who holds it to close."""
    # Used by one thread alone, but what a raised error held on to may be collected, and closed, in any.
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    # Nothing is ever undone, so nothing needs a journal; one transaction spares a sync for each row.
    database.executescript(f"pragma journal_mode = off; {schema}; begin")
    return database


class Texts:
    """A set of texts."""

    def __init__(self) -> None:
        self._spool = spool("create table texts (text text primary key) without rowid")
        weakref.finalize(self, self._spool.close)

    def add(self, text: str) -> None:
        """Add `text`, once."""
        self._spool.execute("insert or ignore into texts values (?)", (text,))

    def __contains__(self, text: str) -> bool:
        found = self._spool.execute("select 1 from texts where text = ?", (text,))
        return found.fetchone() is not None


class SkippedRows:
    """The rows that are not taken, in the order of their lines."""

    def __init__(self, rows: Iterable[SkippedRow] = ()) -> None:
        self._spool = spool("create table skipped (line integer not null, reason text not null)")
        weakref.finalize(self, self._spool.close)
        self._count = 0
        for row in rows:
            self.add(row.line, row.reason)

    def add(self, line: int, reason: str) -> None:
        """Skip `line` for `reason`."""
        self._spool.execute("insert into skipped values (?, ?)", (line, reason))
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[SkippedRow]:
        for line, reason in self._spool.execute("select line, reason from skipped order by line, rowid"):
            yield SkippedRow(line, reason)

    def by_reason(self) -> Iterator[tuple[str, int, Iterator[int]]]:
        """Yield each reason with how many rows it has, most first, and their lines.

        The lines have to be read before the next reason is.
        """
        rows = self._spool.execute("""
            select reason, rows, line
            from (
                select
                    reason, line, count(*) over (partition by reason) as rows,
                    min(line) over (partition by reason) as first
                from skipped
            )
            order by rows desc, first, reason, line
        """)
        for (reason, count), group in groupby(rows, key=itemgetter(0, 1)):
            yield reason, count, (line for _, _, line in group)


class Remarks:
    """What a person should know about rows that are taken: each text once, with the first line it is about."""

    def __init__(self) -> None:
        self._spool = spool("create table remarks (text text primary key, line integer not null)")
        weakref.finalize(self, self._spool.close)

    def add(self, line: int, text: str) -> None:
        """Remark `text` about `line`."""
        self._spool.execute("insert or ignore into remarks values (?, ?)", (text, line))

    def __len__(self) -> int:
        count: int = self._spool.execute("select count(*) from remarks").fetchone()[0]
        return count

    def __iter__(self) -> Iterator[Remark]:
        for line, text in self._spool.execute("select line, text from remarks order by rowid"):
            yield Remark(line, text)


class Typos:
    """The sets that look like a typo, in the order of their lines."""

    def __init__(self) -> None:
        self._spool = spool("create table typos (line integer not null, text text not null)")
        weakref.finalize(self, self._spool.close)
        self._count = 0

    def add(self, line: int, text: str) -> None:
        """Add the set on `line`, of which `text` looks like a typo."""
        self._spool.execute("insert into typos values (?, ?)", (line, text))
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Typo]:
        for line, text in self._spool.execute("select line, text from typos order by line, rowid"):
            yield Typo(line, text)
