"""Saves a `ParsedHistory` as the account that it belongs to, a few sessions a transaction.

It goes through the same functions as every client: exercises by `resolve_external_exercise_v1`, sessions by
`save_session_v5`. A session that is already stored under its (source, source_ref) is left alone, so importing
twice changes nothing and an interrupted import is continued by running it again.

Memory holds one batch of sessions and the exercises; what grows with the file or the account is on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from ops.errors import OperatorError
from ops.importers.doubles import OtherSources
from ops.importers.history import (
    ImportedBlock,
    ImportedSession,
    ImportedSet,
    Listed,
    ParsedHistory,
    Remark,
    Tracking,
)
from ops.importers.payload import session_payload
from ops.importers.refusals import refusal, told_clearly
from ops.importers.spool import ROWS_AT_ONCE, Remarks, SkippedRows, Texts
from ops.importers.tracking import contradiction
from tasks.transaction import account, transaction

Progress = Callable[[int, int], None]
"""Called after each transaction with how many sessions are done and how many there are."""

# What one transaction saves. A commit waits for the disk, so several sessions share one; but the account's other
# writes wait for it to end, so it has to stay far below a second on a busy server too.
MOST_SESSIONS = 10
MOST_SETS = 500

_ALREADY = "session already imported"
_DELETED = f"{_ALREADY}, and deleted since"

_STORED_REFS = text(
    "select source_ref from public.workout_sessions"
    " where user_id = :user and source = :source and source_ref is not null"
)
_IS_STORED = text(
    "select exists (select from public.workout_sessions"
    " where user_id = :user and source = :source and source_ref = :ref)"
)
_RESOLVE_EXERCISE = text(
    "select public.resolve_external_exercise_v1(p_provider => :provider, p_external_id => :name,"
    " p_name => :name, p_tracking => :tracking, p_expected_user_id => :user)"
)
_SAVE_SESSION = text("select public.save_session_v5(cast(:payload as jsonb))")


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of every data row: `sets_taken` + the skipped rows = `data_rows`."""

    sessions_saved: int
    sessions_already_there: int
    sessions_refused: int
    """Sessions of which nothing could be stored; `skipped` says why, row by row."""
    sets_taken: int
    skipped: SkippedRows
    data_rows: int
    remarks: Listed[Remark]
    stats_requested_version: int | None
    """The generation that the last save requested; None where nothing was saved."""


@dataclass(frozen=True, slots=True)
class _Exercise:
    """What a name stands for: the exercise, or why there is none; an archived one takes no sets."""

    exercise_id: str
    tracking: Tracking
    is_archived: bool = False
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class _Ready:
    """A session that can be saved, and the lines of its sets."""

    source_ref: str
    payload: str
    lines: list[int]


def import_history(
    engine: Engine,
    user: UUID,
    provider: str,
    history: ParsedHistory,
    progress: Progress | None = None,
    *,
    timezone: str = "UTC",
) -> ImportReport:
    """Save `history` for the account `user` with `provider` as its source; return what became of every row.

    `timezone` is where the printed times of day were local; it decides started_at alone, never session_date.
    Raises OperatorError, telling how far it came, where the zone is unknown, the database is not reachable or
    not migrated, there is no room for temporary files, or the import is interrupted. Sessions saved until then stay.
    """
    saving = _Saving(engine, user, provider, time_zone(timezone), history)
    total = len(history.sessions)
    with told_clearly(lambda: _how_far(saving, total)):
        saving.look_up_stored()
        for batch in _batches(history.sessions):
            saving.take(batch)
            if progress is not None:
                progress(saving.done, total)
    return saving.report()


def time_zone(name: str) -> tzinfo:
    """Return the zone `name`; raises OperatorError for an unknown one."""
    if name == "UTC":
        return UTC  # known even where the system has no zone files
    try:
        return ZoneInfo(name)
    # A folder of zones ("Europe") is no zone, and a path leaves the zone files.
    except (LookupError, ValueError, OSError) as error:
        raise OperatorError(
            f'unknown time zone "{name}": pass --timezone with a name such as Europe/Berlin'
        ) from error


class _Saving:
    """One import under way, and its report so far."""

    def __init__(
        self, engine: Engine, user: UUID, provider: str, zone: tzinfo, history: ParsedHistory
    ) -> None:
        self._engine = engine
        self._user = user
        self._provider = provider
        self._zone = zone
        self._history = history
        self._stored_refs = Texts()
        self._others = OtherSources()
        self._exercises: dict[str, _Exercise] = {}
        self._skipped = SkippedRows(history.skipped)
        self._remarks = Remarks()
        for remark in history.remarks:
            self._remarks.add(remark.line, remark.text)
        self._sets_taken = 0
        self._refused = 0
        self._already_there = 0
        self._requested_version: int | None = None
        self.saved = 0

    @property
    def done(self) -> int:
        """Count the sessions that have been dealt with, one way or the other."""
        return self.saved + self._already_there + self._refused

    def look_up_stored(self) -> None:
        """Find out which sessions the account has already."""
        with transaction(self._engine, account(self._user)) as connection:
            refs = connection.scalars(
                _STORED_REFS,
                {"user": self._user, "source": self._provider},
                execution_options={"yield_per": ROWS_AT_ONCE},
            )
            for ref in refs:
                self._stored_refs.add(ref)
            self._others.look_up(connection, self._user, self._provider)

    def take(self, batch: Iterable[ImportedSession]) -> None:
        """Save the sessions of `batch` in one transaction, and account for those that are left out."""
        ready = [one for session in batch if (one := self._made_ready(session))]
        if ready:
            self._save(ready)

    def report(self) -> ImportReport:
        """Return the report on the whole history."""
        return ImportReport(
            sessions_saved=self.saved,
            sessions_already_there=self._already_there,
            sessions_refused=self._refused,
            sets_taken=self._sets_taken,
            skipped=self._skipped,
            data_rows=self._history.data_rows,
            remarks=self._remarks,
            stats_requested_version=self._requested_version,
        )

    def _made_ready(self, session: ImportedSession) -> _Ready | None:
        """Return `session` as it will be saved; None where there is nothing to save, which is accounted for."""
        if session.source_ref in self._stored_refs:
            self._leave(_lines(session.sets()), _ALREADY)
            return None
        blocks = self._fitting_blocks(session)
        archived = {id for id, block in blocks if self._exercises[block.exercise].is_archived}
        sets = [a_set for _, block in blocks for a_set in block.sets]
        kept = [a_set for id, block in blocks if id not in archived for a_set in block.sets]
        printed = session.started_at_local
        started_at = None if printed is None else printed.replace(tzinfo=self._zone)
        # Another app's export may have come in before its exercise was archived, or after.
        for found in (sets, kept) if archived else (sets,):
            if found and (same := self._others.same_workout(session.session_date, started_at, found)):
                self._leave(_lines(sets), same)
                return None
        for id, block in blocks:
            if id in archived:
                reason = f'"{block.exercise}" is archived: bring it back with upsert_exercise_v1'
                self._skip(_lines(block.sets), reason)
        if not kept:
            self._refused += 1
            return None
        payload = session_payload(self._user, self._provider, session, started_at, blocks, archived)
        return _Ready(session.source_ref, payload, _lines(kept))

    def _save(self, ready: Sequence[_Ready]) -> None:
        """Save what is `ready` in one transaction; where any of it is refused, each in a transaction of its own."""
        try:
            receipts = self._receipts(ready)
        except DBAPIError as error:
            reason = refusal(error)
            if reason is None:
                raise
            if len(ready) > 1:
                for one in ready:
                    self._save([one])
            else:
                self._refuse(ready[0], reason)
            return
        for one, receipt in zip(ready, receipts, strict=True):
            self._count(one, receipt)

    def _receipts(self, ready: Iterable[_Ready]) -> list[dict[str, Any]]:
        with transaction(self._engine, account(self._user)) as connection:
            return [connection.execute(_SAVE_SESSION, {"payload": one.payload}).scalar_one() for one in ready]

    def _count(self, one: _Ready, receipt: Mapping[str, Any]) -> None:
        if receipt["replayed"]:
            # A receipt outlives its session: what an earlier import had saved may have been deleted.
            self._leave(one.lines, _ALREADY if self._is_stored(one) else _DELETED)
            return
        self._requested_version = int(receipt["statsRequestedVersion"])
        self.saved += 1
        self._sets_taken += len(one.lines)

    def _refuse(self, one: _Ready, reason: str) -> None:
        if self._is_stored(one):
            self._leave(one.lines, _ALREADY)
            return
        if reason.startswith("$.mutation_id:"):
            # Imported before with sets whose exercise is archived now, or without those of one that is back.
            self._leave(one.lines, _DELETED)
            return
        self._skip(one.lines, f"session refused by the database: {reason}")
        self._refused += 1

    def _is_stored(self, one: _Ready) -> bool:
        """Tell whether the session is there now: another import may run at the same time."""
        with transaction(self._engine, account(self._user)) as connection:
            identity = {"user": self._user, "source": self._provider, "ref": one.source_ref}
            stored: bool = connection.execute(_IS_STORED, identity).scalar_one()
        return stored

    def _leave(self, lines: Iterable[int], reason: str) -> None:
        self._skip(lines, reason)
        self._already_there += 1

    def _skip(self, lines: Iterable[int], reason: str) -> None:
        for line in lines:
            self._skipped.add(line, reason)

    def _fitting_blocks(self, session: ImportedSession) -> list[tuple[str, ImportedBlock]]:
        """Return the blocks with their exercises' ids, without the sets that these exercises do not allow."""
        blocks = []
        for block in session.blocks:
            exercise = self._exercise(block.exercise, block.sets[0].line)
            sets = tuple(a_set for a_set in block.sets if self._accept(a_set, block.exercise, exercise))
            if sets:
                blocks.append((exercise.exercise_id, ImportedBlock(block.exercise, block.notes, sets)))
        return blocks

    def _accept(self, a_set: ImportedSet, name: str, exercise: _Exercise) -> bool:
        reason = exercise.refusal or contradiction(a_set, name, exercise.tracking)
        if reason is not None:
            self._skip([a_set.line], reason)
        return reason is None

    def _exercise(self, name: str, line: int) -> _Exercise:
        if name not in self._exercises:
            shown = self._history.tracking[name]
            exercise = self._exercises[name] = self._resolve(name, shown)
            if exercise.tracking != shown:
                self._remarks.add(
                    line, f'"{name}" is tracked as {exercise.tracking}; the file alone would show {shown}'
                )
        return self._exercises[name]

    def _resolve(self, name: str, tracking: Tracking) -> _Exercise:
        identity = {"provider": self._provider, "name": name, "tracking": tracking, "user": self._user}
        try:
            with transaction(self._engine, account(self._user)) as connection:
                resolved = connection.execute(_RESOLVE_EXERCISE, identity).scalar_one()
        except DBAPIError as error:
            reason = refusal(error)
            if reason is None:
                raise
            return _Exercise("", tracking, refusal=f"exercise refused by the database: {reason}")
        return _Exercise(resolved["exercise_id"], resolved["tracking"], resolved["archived"])


def _batches(sessions: Iterable[ImportedSession]) -> Iterator[list[ImportedSession]]:
    """Yield the sessions in order, as many at once as one transaction may save."""
    batch: list[ImportedSession] = []
    sets = 0
    for session in sessions:
        more = sum(1 for _ in session.sets())
        if batch and (len(batch) == MOST_SESSIONS or sets + more > MOST_SETS):
            yield batch
            batch, sets = [], 0
        batch.append(session)
        sets += more
    if batch:
        yield batch


def _lines(sets: Iterable[ImportedSet]) -> list[int]:
    return [a_set.line for a_set in sets]


def _how_far(saving: _Saving, total: int) -> str:
    return (
        f"{saving.done} of {total} sessions done, {saving.saved} of them saved now; "
        "they stay, and the same command continues from there"
    )
