"""Saves a `ParsedHistory` as the account that it belongs to, a few sessions a transaction.

First all workouts of the file are compared with all that the account has (importers/matching.py), then each is
saved, replaces the session that it is, or is left out. Everything goes through granted functions of the database, so
an interrupted import is continued by running it again, and importing twice changes nothing.

Memory holds one batch of sessions and the exercises; what grows with the file or the account is on disk.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from core.errors import OperatorError
from importers.decisions import ALREADY, DELETED, EDITED_MEANWHILE, Age, Left, decide
from importers.exercises import Exercises
from importers.history import ImportedSession, ImportedSet, Listed, ParsedHistory, Remark, Typo
from importers.matching import Matching, Stored, Workout
from importers.payload import Replaced, session_payload
from importers.refusals import has_changed, is_gone, refusal, told_clearly
from importers.spool import Remarks, SkippedRows
from importers.turn import turn
from importers.workouts import Fitting, fitting
from tasks.transaction import account, transaction

Progress = Callable[[int, int], None]
"""Called after each transaction with how many sessions are done and how many there are."""

# What one transaction saves. A commit waits for the disk, so several sessions share one; but the account's other
# writes wait for it to end, so it has to stay far below a second on a busy server too.
MOST_SESSIONS = 10
MOST_SETS = 500

_SAVE_SESSION = text(
    "select public.save_imported_session_v1(cast(:payload as jsonb), cast(:workout as jsonb))"
)
_REMEMBER = text("select public.remember_imported_workouts_v1(:source, cast(:workouts as jsonb), :user)")


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of every data row: `sets_taken` + the skipped rows = `data_rows`."""

    sessions_saved: int
    """New ones; with `is_dry_run` what an import would save."""
    sessions_updated: int
    """Sessions that were as an earlier import left them, and are as this file has them now."""
    sessions_already_there: int
    sessions_differing: int
    """Sessions that were edited here, or are another app's, and are not what this file has."""
    sessions_refused: int
    """Sessions of which nothing could be stored; `skipped` says why, row by row."""
    sets_taken: int
    skipped: SkippedRows
    data_rows: int
    remarks: Listed[Remark]
    typos: Listed[Typo] = ()
    stats_requested_version: int | None = None
    """The generation that the last save requested; None where nothing was saved."""
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class _Ready:
    """A session that can be saved, what is remembered of it, and the lines of its sets."""

    payload: str
    memory: dict[str, object]
    lines: list[int]
    is_update: bool


Batch = list[tuple[int, ImportedSession]]
"""Sessions that one transaction saves, each with its number in the file."""

Outcome = Literal["saved", "updated", "already there", "differing", "refused"]


def import_history(
    engine: Engine,
    user: UUID,
    provider: str,
    history: ParsedHistory,
    progress: Progress | None = None,
    *,
    timezone: str = "UTC",
    keep: bool = False,
    dry_run: bool = False,
    waiting: Callable[[], None] = lambda: None,
) -> ImportReport:
    """Save `history` for the account `user` with `provider` as its source; return what became of every row.

    `timezone` is where the printed times of day were local; it decides started_at alone, never session_date. With
    `keep` no stored session is changed; a `dry_run` writes nothing and reports what an import would do.
    Imports of one account come one after the other: `waiting` is called where this one waits for another.
    `engine` needs two connections.
    Raises OperatorError, telling how far it came, where the zone is unknown, the database is not reachable or
    not migrated, there is no room for temporary files, or the import is interrupted. Sessions saved until then stay.
    """
    saving = _Saving(engine, user, provider, time_zone(timezone), history, keep=keep, dry_run=dry_run)
    total = len(history.sessions)
    with told_clearly(lambda: _how_far(saving, total)):
        batches = _batches(history.sessions)
        if dry_run:
            saving.take_all(batches, lambda: True, progress)
        else:
            is_done = False
            while not is_done:
                with turn(engine, user, waiting) as ours:
                    is_done = saving.take_all(batches, ours.is_held, progress)
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
        self,
        engine: Engine,
        user: UUID,
        provider: str,
        zone: tzinfo,
        history: ParsedHistory,
        *,
        keep: bool,
        dry_run: bool,
    ) -> None:
        self._engine = engine
        self._user = user
        self._provider = provider
        self._zone = zone
        self._history = history
        self._keep = keep
        self._dry_run = dry_run
        self._matching = Matching()
        self._exercises = Exercises(engine, user, provider, history.tracking)
        self._skipped = SkippedRows(history.skipped)
        self._remarks = Remarks()
        for remark in history.remarks:
            self._remarks.add(remark.line, remark.text)
        self._sets_taken = 0
        self._requested_version: int | None = None
        self._outcomes: dict[Outcome, int] = dict.fromkeys(
            ("saved", "updated", "already there", "differing", "refused"), 0
        )

    @property
    def done(self) -> int:
        """Count the sessions that have been dealt with, one way or the other."""
        return sum(self._outcomes.values())

    @property
    def written(self) -> int:
        """Count the sessions that this import has saved or updated."""
        return self._outcomes["saved"] + self._outcomes["updated"]

    def take_all(
        self, batches: Iterator[Batch], is_ours: Callable[[], bool], progress: Progress | None
    ) -> bool:
        """Compare the file with the account, then deal with the batches for as long as the turn `is_ours`.

        Return False where it was lost: another import may have saved since, so what is left is to be compared anew.
        """
        self._compare()
        while is_ours():
            batch = next(batches, None)
            if batch is None:
                return True
            self._take(batch)
            if progress is not None:
                progress(self.done, len(self._history.sessions))
        return False

    def _compare(self) -> None:
        """Find out what the names of the file stand for, and which of its workouts the account has already."""
        self._matching = Matching()
        with transaction(self._engine, account(self._user)) as connection:
            self._exercises.look_up(connection)
            self._matching.look_up(connection, self._user, self._provider)
        self._matching.compare(self._workout(session) for session in self._history.sessions)
        if not self._dry_run:
            self._exercises.widen()

    def _take(self, batch: Batch) -> None:
        """Save the sessions of `batch` in one transaction, and account for those that are left out."""
        ready: list[_Ready] = []
        found: list[dict[str, object]] = []
        for n, session in batch:
            self._deal_with(n, session, ready, found)
        if self._dry_run:
            for one in ready:
                self._count_written(one)
        elif ready or found:
            self._save(ready, found)

    def report(self) -> ImportReport:
        """Return the report on the whole history."""
        return ImportReport(
            sessions_saved=self._outcomes["saved"],
            sessions_updated=self._outcomes["updated"],
            sessions_already_there=self._outcomes["already there"],
            sessions_differing=self._outcomes["differing"],
            sessions_refused=self._outcomes["refused"],
            sets_taken=self._sets_taken,
            skipped=self._skipped,
            data_rows=self._history.data_rows,
            remarks=self._remarks,
            typos=self._history.typos,
            stats_requested_version=self._requested_version,
            is_dry_run=self._dry_run,
        )

    def _workout(self, session: ImportedSession) -> Workout:
        """Return `session` as it is compared; what there is to say about its exercises is said once, here."""
        for block in session.blocks:
            remark = self._exercises.remark(block.exercise)
            if remark is not None:
                self._remarks.add(block.sets[0].line, remark)
        workout = fitting(session, self._exercises, self._start(session))
        return Workout(session.source_ref, session.session_date, workout.started_at, *workout.fingerprints())

    def _start(self, session: ImportedSession) -> datetime | None:
        printed = session.started_at_local
        return None if printed is None else printed.replace(tzinfo=self._zone)

    def _deal_with(
        self, n: int, session: ImportedSession, ready: list[_Ready], found: list[dict[str, object]]
    ) -> None:
        """Skip rows of the session `n` that cannot be stored; the rest is `ready` to be saved, or left with a reason.

        A session that is left is added to what was `found`, to be remembered.
        """
        stored = self._matching.session_of(n)
        workout = fitting(session, self._exercises, self._start(session), stored.archived if stored else ())
        for line, reason in workout.misfits:
            self._skipped.add(line, reason)
        if stored is not None:
            left = decide(stored, workout, self._age, keep=self._keep)
            if left is not None:
                self._leave(workout, left)
                if left.is_remembered and (memory := workout.memory_beside(stored)):
                    found.append(memory)
                return
        for block in workout.archived:
            reason = f'"{block.exercise}" is archived: bring it back with upsert_exercise_v1'
            self._skip(_lines(block.sets), reason)
        if workout.in_use:
            ready.append(self._made_ready(workout, stored))
        else:
            self._outcomes["refused"] += 1

    @property
    def _age(self) -> Age:
        return Age(self._matching.is_older, self._matching.lacks_workouts)

    def _made_ready(self, workout: Fitting, stored: Stored | None) -> _Ready:
        session = workout.session
        if not self._dry_run:
            workout.make_exercises()
        source_ref = session.source_ref
        replaced = None
        if stored is None:
            source_ref = self._matching.free_ref(self._provider, source_ref)
        elif stored.updated_at is not None:
            replaced = Replaced(stored.session_id, stored.updated_at)
        payload = session_payload(
            self._user, self._provider, session, source_ref, workout.started_at, workout.with_ids(workout.blocks),
            {id for id, _ in workout.with_ids(workout.archived)}, replaced,
        )  # fmt: skip
        return _Ready(
            payload,
            workout.memory() | {"source": self._provider},
            _lines(workout.sets_in_use()),
            replaced is not None,
        )

    def _save(self, ready: Sequence[_Ready], found: Sequence[dict[str, object]] = ()) -> None:
        """Save what is `ready` in one transaction; where any of it is refused, each in a transaction of its own."""
        try:
            receipts = self._receipts(ready, found)
        except DBAPIError as error:
            if not (refusal(error) or is_gone(error) or has_changed(error)):
                raise
            if len(ready) + bool(found) > 1:
                for one in ready:
                    self._save([one])
                self._save([], found)
            elif ready:
                self._refuse(ready[0], error)
            return
        for one, receipt in zip(ready, receipts, strict=True):
            self._count(one, receipt)

    def _receipts(self, ready: Iterable[_Ready], found: Sequence[dict[str, object]]) -> list[dict[str, Any]]:
        with transaction(self._engine, account(self._user)) as connection:
            if found:
                remembered = {"source": self._provider, "user": self._user, "workouts": json.dumps(found)}
                connection.execute(_REMEMBER, remembered)
            return [
                connection.execute(
                    _SAVE_SESSION, {"payload": one.payload, "workout": json.dumps(one.memory)}
                ).scalar_one()
                for one in ready
            ]

    def _count(self, one: _Ready, receipt: Mapping[str, Any]) -> None:
        if receipt["replayed"]:
            # A receipt outlives its session: what an earlier import had saved may have been deleted.
            self._leave_lines(one.lines, ALREADY if receipt["session_exists"] else DELETED)
            return
        self._requested_version = int(receipt["statsRequestedVersion"])
        self._count_written(one)

    def _count_written(self, one: _Ready) -> None:
        self._outcomes["updated" if one.is_update else "saved"] += 1
        self._sets_taken += len(one.lines)

    def _refuse(self, one: _Ready, error: DBAPIError) -> None:
        reason = refusal(error) or ""
        # Another import, or a person, may be at work at the same time.
        if is_gone(error):
            self._leave_lines(one.lines, DELETED)
        elif has_changed(error):
            self._leave_lines(one.lines, EDITED_MEANWHILE)
        elif reason.startswith("$.source_ref:"):
            self._leave_lines(one.lines, ALREADY)
        elif reason.startswith("$.mutation_id:"):
            # Imported before with sets whose exercise is archived now, or without those of one that is back.
            self._leave_lines(one.lines, DELETED)
        else:
            self._skip(one.lines, f"session refused by the database: {reason}")
            self._outcomes["refused"] += 1

    def _leave(self, workout: Fitting, left: Left) -> None:
        self._outcomes["differing" if left.differs else "already there"] += 1
        there = Counter(left.there)
        for fingerprint, line in workout.lines():
            is_there = left.differs is None or there[fingerprint] > 0
            there[fingerprint] -= 1
            self._skipped.add(line, left.reason if is_there or left.differs is None else left.differs)

    def _leave_lines(self, lines: Iterable[int], left: Left) -> None:
        self._outcomes["differing" if left.differs else "already there"] += 1
        self._skip(lines, left.differs or left.reason)

    def _skip(self, lines: Iterable[int], reason: str) -> None:
        for line in lines:
            self._skipped.add(line, reason)


def _batches(sessions: Iterable[ImportedSession]) -> Iterator[Batch]:
    """Yield the sessions in order, each with its number, as many at once as one transaction may save."""
    batch: Batch = []
    sets = 0
    for n, session in enumerate(sessions):
        more = sum(1 for _ in session.sets())
        if batch and (len(batch) == MOST_SESSIONS or sets + more > MOST_SETS):
            yield batch
            batch, sets = [], 0
        batch.append((n, session))
        sets += more
    if batch:
        yield batch


def _lines(sets: Iterable[ImportedSet]) -> list[int]:
    return [a_set.line for a_set in sets]


def _how_far(saving: _Saving, total: int) -> str:
    return (
        f"{saving.done} of {total} sessions done, {saving.written} of them saved now; "
        "they stay, and the same command continues from there"
    )
