"""Puts the rows of a file, one a set, together to sessions and blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby

from importers.cells import shown
from importers.history import NOT_A_SET, ImportedBlock, ImportedSession, ParsedHistory, has_numbers
from importers.rows import Row, Rows
from importers.spool import Remarks, SkippedRows, Typos
from importers.tracking import ShownTracking
from importers.typos import typo

_LONGEST_TITLE_IN_REF = 200

Tell = Callable[[int, str], None]
"""Takes the line that it is about, and a text."""


@dataclass(frozen=True, slots=True)
class _Findings:
    """Who is told what is found while sessions are put together."""

    skip: Tell
    remark: Tell
    typo: Tell


def _nobody(line: int, text: str) -> None:
    pass


def assemble(rows: Rows, evidence: ShownTracking, skipped: SkippedRows, remarks: Remarks) -> ParsedHistory:
    """Return the history of `rows`; `skipped` has the rows that could not be read.

    A row that contradicts the tracking that all rows of its exercise show is skipped as well, and so are notes and
    rest timers: a note's text goes to the block that it stands in.
    """
    data_rows = len(rows) + len(skipped)
    typos = Typos()
    sessions = _Sessions(rows, evidence, _Findings(skipped.add, remarks.add, typos.add))
    return ParsedHistory(sessions, skipped, data_rows, sessions.tracking, remarks, typos)


class _Sessions:
    """The sessions of a file, put together each time that they are gone through."""

    def __init__(self, rows: Rows, evidence: ShownTracking, findings: _Findings) -> None:
        """Tell `findings` once of what there is to say."""
        self._rows = rows
        self._evidence = evidence
        self.tracking = evidence.by_exercise()
        self._count = sum(1 for _ in self._assembled(findings))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ImportedSession]:
        return self._assembled(_Findings(_nobody, _nobody, _nobody))

    def _assembled(self, findings: _Findings) -> Iterator[ImportedSession]:
        for rows in self._rows.by_session():
            known = [self._without_rest(row, findings.remark) for row in rows]
            # Whether a set fits its exercise is asked where the account's own tracking is known (workouts.py).
            blocks = tuple(_blocks(known, findings.skip))
            if blocks:
                self._find_typos(blocks, findings.typo)
                yield _session(known, blocks)
            elif any(row.notes for row in known):
                findings.remark(known[0].line, "the text of notes in a workout without a set is not kept")

    def _without_rest(self, row: Row, remark: Tell) -> Row:
        """Return `row`, without its set where that is a rest timer with a mark that we don't know."""
        if row.unknown_mark is None or row.done is None:
            return row
        seconds_alone = replace(row.done, duration_seconds=None, rpe=None)
        if not has_numbers(seconds_alone) and self._evidence.has_reps(row.exercise):
            return replace(row, done=None)
        remark(row.line, f"{shown(row.unknown_mark)} is no mark of a set that is known: read as a normal set")
        return row

    def _find_typos(self, blocks: Iterable[ImportedBlock], tell: Tell) -> None:
        for block in blocks:
            for a_set in block.sets:
                if found := typo(a_set, block.exercise, self.tracking[block.exercise]):
                    tell(a_set.line, found)


def _session(rows: Sequence[Row], blocks: tuple[ImportedBlock, ...]) -> ImportedSession:
    first = rows[0]
    return ImportedSession(
        source_ref=_source_ref(first),
        session_date=first.session_date,
        started_at_local=first.started_at_local,
        title=first.title or None,
        duration_seconds=next((row.duration_seconds for row in rows if row.duration_seconds), None),
        notes=_distinct(_session_notes(rows, blocks)),
        blocks=blocks,
    )


def _session_notes(rows: Iterable[Row], blocks: Iterable[ImportedBlock]) -> Iterator[str]:
    """Yield the session's notes, and those on an exercise that have no set beside them to be kept with."""
    kept = [(block.exercise, block.notes) for block in blocks if block.notes]
    for row in rows:
        yield row.session_notes
        if row.done is None and row.notes:
            is_kept = any(row.exercise == exercise and row.notes in notes for exercise, notes in kept)
            if not is_kept:
                yield f"{row.exercise}: {row.notes}"


def _blocks(rows: Iterable[Row], skip: Tell) -> Iterator[ImportedBlock]:
    """Yield the blocks that hold a set; the notes in them are used up here."""
    supersets: dict[str, int] = {}
    for (exercise, _, superset), grouped in groupby(rows, key=_block_of):
        block_rows = list(grouped)
        sets = tuple(row.done for row in block_rows if row.done is not None)
        for row in block_rows:
            if row.done is None:
                skip(row.line, NOT_A_SET)
        if sets:
            number = supersets.setdefault(superset, len(supersets) + 1) if superset else None
            yield ImportedBlock(exercise, _distinct(row.notes for row in block_rows), sets, number)


def _block_of(row: Row) -> tuple[str, int, str]:
    return row.exercise, row.block, row.superset


def _source_ref(row: Row) -> str:
    """Return what a later export of the same workout prints too."""
    printed = row.started_at_local or row.session_date
    # A very long title would not fit into the index that finds the session again.
    title = row.title if len(row.title) <= _LONGEST_TITLE_IN_REF else sha256(row.title.encode()).hexdigest()
    return f"{printed.isoformat()} {title}".rstrip()


def _distinct(notes: Iterable[str]) -> str | None:
    """Join the notes; exporters repeat one on all or some of its rows, so each is kept once."""
    return "\n".join(dict.fromkeys(note for note in notes if note)) or None
