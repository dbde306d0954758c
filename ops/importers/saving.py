"""Saves a `ParsedHistory` as the account that it belongs to, one transaction a session.

It goes through the same functions as every client: exercises by `resolve_external_exercise_v1`, sessions by
`save_session_v5`. A session that is already stored under its (source, source_ref) is left alone, so importing
twice changes nothing and an interrupted import is continued by running it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

import psycopg2
from sqlalchemy import Engine, TextClause, text
from sqlalchemy.exc import DBAPIError

from ops.errors import OperatorError
from ops.importers.doubles import OtherSources
from ops.importers.history import (
    ImportedBlock,
    ImportedSession,
    ImportedSet,
    ParsedHistory,
    Remark,
    SkippedRow,
    Tracking,
)
from ops.importers.tracking import contradiction, stored_weight
from tasks.transaction import account, transaction

Progress = Callable[[int, int], None]
"""Called after each session with how many are done and how many there are."""

_MUTATIONS = UUID("5b1f6a52-6d1c-5f0e-9a53-0c4a7c1d9e2b")

_STORED_REFS = text(
    "select source_ref from public.workout_sessions"
    " where user_id = :user and source = :source and source_ref is not null"
)
_RESOLVE_EXERCISE = text(
    "select public.resolve_external_exercise_v1(p_provider => :provider, p_external_id => :name,"
    " p_name => :name, p_tracking => :tracking, p_expected_user_id => :user)"
)
_SAVE_SESSION = text("select public.save_session_v5(cast(:payload as jsonb))")

# What the database says about the data itself; anything else is about the import as a whole and stops it.
_CHECK_VIOLATION = "23514"
_DATA_EXCEPTIONS = "22"
_CONNECTION_LOST = ("08", "57P")
_NOT_MIGRATED = frozenset({"42883", "42P01", "42704", "3F000"})


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of every data row: `sets_taken` + the skipped rows = `data_rows`."""

    sessions_saved: int
    sessions_already_there: int
    sessions_refused: int
    """Sessions of which nothing could be stored; `skipped` says why, row by row."""
    sets_taken: int
    skipped: tuple[SkippedRow, ...]
    data_rows: int
    remarks: tuple[Remark, ...]
    stats_requested_version: int | None
    """The generation that the last save requested; None where nothing was saved."""


@dataclass(frozen=True, slots=True)
class _Exercise:
    """What a name stands for: the exercise, or why there is none."""

    exercise_id: str
    tracking: Tracking
    refusal: str | None = None


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
    not migrated, or the import is interrupted. Sessions saved until then stay.
    """
    saving = _Saving(engine, user, provider, time_zone(timezone))
    total = len(history.sessions)
    with _told_clearly(saving, total):
        saving.prepare(history)
        for session in history.sessions:
            saving.take(session)
            if progress is not None:
                progress(saving.done, total)
    return saving.report(history)


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
    """One import under way, and its account so far."""

    def __init__(self, engine: Engine, user: UUID, provider: str, zone: tzinfo) -> None:
        self._engine = engine
        self._user = user
        self._provider = provider
        self._zone = zone
        self._stored_refs: frozenset[str] = frozenset()
        self._others: OtherSources | None = None
        self._exercises: dict[str, _Exercise] = {}
        self._skipped: list[SkippedRow] = []
        self._sets_taken = 0
        self._refused = 0
        self._already_there = 0
        self._requested_version: int | None = None
        self.saved = 0

    @property
    def done(self) -> int:
        """Count the sessions that have been dealt with, one way or the other."""
        return self.saved + self._already_there + self._refused

    def prepare(self, history: ParsedHistory) -> None:
        """Find out what is stored already, and the exercise of every name that the other sessions use."""
        with transaction(self._engine, account(self._user)) as connection:
            self._stored_refs = frozenset(
                connection.scalars(_STORED_REFS, {"user": self._user, "source": self._provider})
            )
            self._others = OtherSources(connection, self._user, self._provider)
        for session in history.sessions:
            if session.source_ref in self._stored_refs:
                continue
            for block in session.blocks:
                if block.exercise not in self._exercises:
                    tracking = history.tracking[block.exercise]
                    self._exercises[block.exercise] = self._resolve(block.exercise, tracking)

    def take(self, session: ImportedSession) -> None:
        """Save `session` in a transaction of its own, or account for why not."""
        if session.source_ref in self._stored_refs:
            self._leave(session.sets(), "session already imported")
            return
        blocks = self._storable_blocks(session)
        if not blocks:
            self._refused += 1
            return
        sets = [a_set for block in blocks for a_set in block.sets]
        if same := self._same_workout(session, sets):
            self._leave(sets, same)
            return
        try:
            receipt = self._call(_SAVE_SESSION, payload=json.dumps(self._payload(session, blocks)))
        except DBAPIError as error:
            self._skip(sets, f"session refused by the database: {_refusal(error)}")
            self._refused += 1
            return
        if receipt["replayed"]:
            # The receipt outlives its session: somebody deleted what an earlier import had saved.
            self._leave(sets, "session already imported, and deleted since")
            return
        self._requested_version = int(receipt["statsRequestedVersion"])
        self.saved += 1
        self._sets_taken += len(sets)

    def report(self, history: ParsedHistory) -> ImportReport:
        """Return the account of the whole history."""
        skipped = sorted([*history.skipped, *self._skipped], key=lambda row: row.line)
        return ImportReport(
            sessions_saved=self.saved,
            sessions_already_there=self._already_there,
            sessions_refused=self._refused,
            sets_taken=self._sets_taken,
            skipped=tuple(skipped),
            data_rows=history.data_rows,
            remarks=history.remarks,
            stats_requested_version=self._requested_version,
        )

    def _same_workout(self, session: ImportedSession, sets: Iterable[ImportedSet]) -> str | None:
        if self._others is None:
            return None
        started_at = self._local(session.started_at_local)
        return self._others.same_workout(session.session_date, started_at, sets)

    def _leave(self, sets: Iterable[ImportedSet], reason: str) -> None:
        self._skip(sets, reason)
        self._already_there += 1

    def _skip(self, sets: Iterable[ImportedSet], reason: str) -> None:
        self._skipped += [SkippedRow(a_set.line, reason) for a_set in sets]

    def _storable_blocks(self, session: ImportedSession) -> list[ImportedBlock]:
        """Return the blocks without the sets that the exercises they turned out to be do not allow."""
        blocks = []
        for block in session.blocks:
            sets = tuple(a_set for a_set in block.sets if self._accept(a_set, block.exercise))
            if sets:
                blocks.append(ImportedBlock(block.exercise, block.notes, sets))
        return blocks

    def _accept(self, a_set: ImportedSet, name: str) -> bool:
        exercise = self._exercises[name]
        reason = exercise.refusal or contradiction(a_set, name, exercise.tracking)
        if reason is None:
            return True
        self._skip([a_set], reason)
        return False

    def _resolve(self, name: str, tracking: Tracking) -> _Exercise:
        try:
            resolved = self._call(
                _RESOLVE_EXERCISE, provider=self._provider, name=name, tracking=tracking, user=self._user
            )
        except DBAPIError as error:
            return _Exercise("", tracking, refusal=f"exercise refused by the database: {_refusal(error)}")
        return _Exercise(resolved["exercise_id"], resolved["tracking"])

    def _call(self, statement: TextClause, **parameters: object) -> dict[str, Any]:
        """Call a function that answers with a JSON object, in a transaction of its own."""
        with transaction(self._engine, account(self._user)) as connection:
            answer: dict[str, Any] = connection.execute(statement, parameters).scalar_one()
            return answer

    def _payload(self, session: ImportedSession, blocks: Iterable[ImportedBlock]) -> dict[str, object]:
        payload = _given(
            expected_user_id=str(self._user),
            session_date=session.session_date.isoformat(),
            title=session.title,
            started_at=_iso(self._local(session.started_at_local)),
            duration_seconds=session.duration_seconds,
            notes=session.notes,
            source=self._provider,
            source_ref=session.source_ref,
            exercises=[
                _given(
                    exercise_id=self._exercises[block.exercise].exercise_id,
                    notes=block.notes,
                    sets=[_set_payload(a_set) for a_set in block.sets],
                )
                for block in blocks
            ],
        )
        return payload | {"mutation_id": str(_mutation_id(payload))}

    def _local(self, printed: datetime | None) -> datetime | None:
        return None if printed is None else printed.replace(tzinfo=self._zone)


def _mutation_id(payload: dict[str, object]) -> UUID:
    """Return an id that the same session has in every attempt, so that an attempt with a lost answer replays.

    The content is part of it: the same workout read with another --unit is another mutation.
    """
    return uuid5(_MUTATIONS, sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest())


def _set_payload(a_set: ImportedSet) -> dict[str, object]:
    return _given(
        set_type=a_set.set_type,
        weight_kg=_json_number(stored_weight(a_set)),
        reps=a_set.reps,
        distance_m=_json_number(a_set.distance_m),
        duration_seconds=a_set.duration_seconds,
        rpe=_json_number(a_set.rpe),
        is_completed=a_set.is_completed,
    )


def _json_number(value: Decimal | None) -> float | None:
    # JSON prints the shortest decimal that names a float: up to 15 digits, the same one that went in.
    return None if value is None else float(value)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


@contextmanager
def _told_clearly(saving: _Saving, total: int) -> Iterator[None]:
    """Turn whatever stops the import into one line that says how far it came and what to do."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise OperatorError(f"interrupted; {_how_far(saving, total)}", exit_code=130) from stop
    except DBAPIError as error:
        raise OperatorError(f"{what_stopped(error)}; {_how_far(saving, total)}") from error


def _how_far(saving: _Saving, total: int) -> str:
    return (
        f"{saving.done} of {total} sessions done, {saving.saved} of them saved now; "
        "they stay, and the same command continues from there"
    )


def what_stopped(error: DBAPIError) -> str:
    """Return what is wrong with the import as a whole, and what to do about it."""
    code, message = _code_and_message(error)
    if code in _NOT_MIGRATED:
        return f"the database is not ready for this release ({message}): run stats-refresh migrate"
    if code is None or code.startswith(_CONNECTION_LOST):
        return f"no connection to the database ({message}): check that it runs and STATS_REFRESH_DATABASE_URL"
    return f"the database stopped the import ({code}: {message})"


def refusal(error: DBAPIError) -> str | None:
    """Return why the database refuses what it was given; None where the error is about something else."""
    code, message = _code_and_message(error)
    if code is None or not (code.startswith(_DATA_EXCEPTIONS) or code == _CHECK_VIOLATION):
        return None
    return message


def _refusal(error: DBAPIError) -> str:
    """Return why the database refuses what it was given; raises `error` where it is about something else."""
    message = refusal(error)
    if message is None:
        raise error
    return message


def _code_and_message(error: DBAPIError) -> tuple[str | None, str]:
    """Return the SQLSTATE (None: the server did not answer) and the message's first line."""
    original = error.orig
    if not isinstance(original, psycopg2.Error):
        return None, str(error).splitlines()[0]
    message = original.diag.message_primary or str(original)
    return original.pgcode, (message.strip().splitlines() or ["connection lost"])[0]
