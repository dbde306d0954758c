"""Puts the rows of a file, one a set, together to sessions and blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby

from ops.importers.history import ImportedBlock, ImportedSession, ParsedHistory, Tracking
from ops.importers.rows import Row, Rows
from ops.importers.spool import Remarks, SkippedRows
from ops.importers.tracking import contradiction

_LONGEST_TITLE_IN_REF = 200

Skip = Callable[[int, str], None]
"""Takes the line and the reason of a row that is not taken."""


def assemble(
    rows: Rows, tracking: Mapping[str, Tracking], skipped: SkippedRows, remarks: Remarks
) -> ParsedHistory:
    """Return the history of `rows`; `skipped` has the rows that could not be read.

    A row that contradicts the tracking that all rows of its exercise show is skipped as well, and so is a note:
    its text goes to the block that it stands in.
    """
    data_rows = len(rows) + len(skipped)
    sessions = _Sessions(rows, tracking, skipped.add)
    return ParsedHistory(sessions, skipped, data_rows, tracking, remarks)


class _Sessions:
    """The sessions of a file, put together each time that they are gone through."""

    def __init__(self, rows: Rows, tracking: Mapping[str, Tracking], skip: Skip) -> None:
        """Tell `skip` of each row that is in no session."""
        self._rows = rows
        self._tracking = tracking
        self._count = sum(1 for _ in self._assembled(skip))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ImportedSession]:
        return self._assembled(lambda line, reason: None)

    def _assembled(self, skip: Skip) -> Iterator[ImportedSession]:
        for rows in self._rows.by_session():
            consistent = [row for row in rows if self._is_consistent(row, skip)]
            blocks = tuple(_blocks(consistent, skip))
            if blocks:
                yield _session(consistent, blocks)

    def _is_consistent(self, row: Row, skip: Skip) -> bool:
        if row.done is None:
            return True
        reason = contradiction(row.done, row.exercise, self._tracking[row.exercise])
        if reason is not None:
            skip(row.line, reason)
        return reason is None


def _session(rows: Sequence[Row], blocks: tuple[ImportedBlock, ...]) -> ImportedSession:
    first = rows[0]
    return ImportedSession(
        source_ref=_source_ref(first),
        session_date=first.session_date,
        started_at_local=first.started_at_local,
        title=first.title or None,
        duration_seconds=next((row.duration_seconds for row in rows if row.duration_seconds), None),
        notes=_distinct(row.session_notes for row in rows),
        blocks=blocks,
    )


def _blocks(rows: Iterable[Row], skip: Skip) -> Iterator[ImportedBlock]:
    """Yield the blocks that hold a set; the notes in them are used up here."""
    for (exercise, _), grouped in groupby(rows, key=lambda row: (row.exercise, row.block)):
        block_rows = list(grouped)
        sets = tuple(row.done for row in block_rows if row.done is not None)
        what_becomes_of_it = "its text is kept with the sets beside it" if sets else "and no set beside it"
        for row in block_rows:
            if row.done is None:
                skip(row.line, f"a note, not a set: {what_becomes_of_it}")
        if sets:
            yield ImportedBlock(exercise, _distinct(row.notes for row in block_rows), sets)


def _source_ref(row: Row) -> str:
    """Return what a later export of the same workout prints too."""
    printed = row.started_at_local or row.session_date
    # A very long title would not fit into the index that finds the session again.
    title = row.title if len(row.title) <= _LONGEST_TITLE_IN_REF else sha256(row.title.encode()).hexdigest()
    return f"{printed.isoformat()} {title}".rstrip()


def _distinct(notes: Iterable[str]) -> str | None:
    """Join the notes; exporters repeat one on all or some of its rows, so each is kept once."""
    return "\n".join(dict.fromkeys(note for note in notes if note)) or None
