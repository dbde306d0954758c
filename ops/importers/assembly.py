"""Puts the rows of a file, one a set, together to sessions and blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from itertools import groupby

from ops.importers.history import (
    ImportedBlock,
    ImportedSession,
    ImportedSet,
    ParsedHistory,
    Remark,
    SkippedRow,
    Tracking,
)
from ops.importers.tracking import contradiction, infer_tracking

_LONGEST_NAME_IN_REF = 200


@dataclass(frozen=True, slots=True)
class Row:
    """A readable row: its set, and what the columns around it say about its block and its session.

    `done` is None where the row is a note beside the sets. `block` tells apart two blocks of one exercise that
    follow each other, where the format can.
    """

    line: int
    session_date: date
    started_at_local: datetime | None
    title: str
    duration_seconds: int | None
    exercise: str
    notes: str
    session_notes: str
    done: ImportedSet | None
    block: int = 0


def assemble(rows: Sequence[Row], skipped: Sequence[SkippedRow], remarks: Iterable[Remark]) -> ParsedHistory:
    """Return the history of `rows`; `skipped` are the rows that could not be read.

    A row that contradicts the tracking that all rows of its exercise show is skipped as well, and so is a note:
    its text goes to the block that it stands in.
    """
    tracking = _tracking(rows)
    others: list[SkippedRow] = []
    consistent = list(_consistent(rows, tracking, others))
    sessions = [_session(session_rows, others) for session_rows in _by_session(consistent)]
    return ParsedHistory(
        sessions=tuple(session for session in sessions if session.blocks),
        skipped=tuple(sorted([*skipped, *others], key=lambda row: row.line)),
        data_rows=len(rows) + len(skipped),
        tracking=tracking,
        remarks=tuple(remarks),
    )


def _tracking(rows: Iterable[Row]) -> dict[str, Tracking]:
    sets: dict[str, list[ImportedSet]] = {}
    for row in rows:
        if row.done is not None:
            sets.setdefault(row.exercise, []).append(row.done)
    return {exercise: infer_tracking(done) for exercise, done in sets.items()}


def _consistent(
    rows: Iterable[Row], tracking: Mapping[str, Tracking], skipped: list[SkippedRow]
) -> Iterator[Row]:
    for row in rows:
        reason = None if row.done is None else contradiction(row.done, row.exercise, tracking[row.exercise])
        if reason is None:
            yield row
        else:
            skipped.append(SkippedRow(row.line, reason))


def _by_session(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Group by the printed time and title, in the order in which the file first names each session.

    Two workouts with the same time and title cannot be told apart and become one.
    """
    sessions: dict[tuple[date, datetime | None, str], list[Row]] = {}
    for row in rows:
        sessions.setdefault((row.session_date, row.started_at_local, row.title), []).append(row)
    yield from sessions.values()


def _session(rows: Sequence[Row], skipped: list[SkippedRow]) -> ImportedSession:
    first = rows[0]
    return ImportedSession(
        source_ref=_source_ref(first),
        session_date=first.session_date,
        started_at_local=first.started_at_local,
        title=first.title or None,
        duration_seconds=next((row.duration_seconds for row in rows if row.duration_seconds), None),
        notes=_distinct(row.session_notes for row in rows),
        blocks=tuple(_blocks(rows, skipped)),
    )


def _blocks(rows: Iterable[Row], skipped: list[SkippedRow]) -> Iterator[ImportedBlock]:
    """Yield the blocks that hold a set; the notes in them are used up here."""
    for (exercise, _), grouped in groupby(rows, key=lambda row: (row.exercise, row.block)):
        block_rows = list(grouped)
        sets = tuple(row.done for row in block_rows if row.done is not None)
        what_becomes_of_it = "its text is kept with the sets beside it" if sets else "and no set beside it"
        skipped += [
            SkippedRow(row.line, f"a note, not a set: {what_becomes_of_it}")
            for row in block_rows
            if row.done is None
        ]
        if sets:
            yield ImportedBlock(exercise, _distinct(row.notes for row in block_rows), sets)


def _source_ref(row: Row) -> str:
    """Return what a later export of the same workout prints too."""
    printed = row.started_at_local or row.session_date
    # A very long title would not fit into the index that finds the session again.
    title = row.title if len(row.title) <= _LONGEST_NAME_IN_REF else sha256(row.title.encode()).hexdigest()
    return f"{printed.isoformat()} {title}".rstrip()


def _distinct(notes: Iterable[str]) -> str | None:
    """Join the notes; exporters repeat one on all or some of its rows, so each is kept once."""
    return "\n".join(dict.fromkeys(note for note in notes if note)) or None
