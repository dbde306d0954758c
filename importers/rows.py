"""The rows of a file between reading them one by one and putting them together to sessions."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from operator import itemgetter

from importers.history import ImportedSet, SetType
from importers.spool import spool


@dataclass(frozen=True, slots=True)
class Row:
    """A readable row: its set, and what the columns around it say about its block and its session.

    `done` is None where the row is a note beside the sets. `block` tells apart two blocks of one exercise that
    follow each other, and `superset` names the one that the block belongs to, where the format can.
    `unknown_mark` is what marks a set whose kind we don't know.
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
    superset: str = ""
    unknown_mark: str | None = None


_ROWS = """
create table sessions (
    id integer primary key, session_date text, started_at text, title text, workout integer,
    unique (session_date, started_at, title));
create table rows (
    session integer, line integer, duration_seconds integer, exercise text, notes text, session_notes text,
    block integer, superset text, unknown_mark text, set_type text, weight_kg text, reps integer,
    distance_m text, set_seconds integer, rpe text,
    is_completed integer,
    primary key (session, line)) without rowid
"""
_NO_SET = (None,) * 7

# A workout begins where the one before it on its day is long enough ago; it is known by its earliest time.
_JOIN_WORKOUTS = """
with starts as (
    select
        id, session_date, title, started_at,
        case
            when strftime('%s', started_at) - strftime('%s', lag(started_at) over days) < :pause then 0 else 1
        end as begins
    from sessions
    window days as (partition by session_date, title order by started_at)
),
numbered as (
    select id, session_date, title, started_at, sum(begins) over days as number
    from starts
    window days as (partition by session_date, title order by started_at rows unbounded preceding)
),
joined as (
    select id, first_value(id) over (partition by session_date, title, number order by started_at) as workout
    from numbered
)
update sessions set workout = joined.workout from joined where joined.id = sessions.id
"""
_BY_SESSION = """
select w.id, r.*, w.session_date, w.started_at, w.title
from sessions s
join sessions w on w.id = coalesce(s.workout, s.id)
join rows r on r.session = s.id
order by w.id, s.started_at, r.line
"""


class Rows:
    """The readable rows of a file, a session together wherever they stand.

    A session is the printed time and title; two workouts that have both in common cannot be told apart and
    become one. Sessions come in the order in which the file first names them. Where each set has a time of its own,
    `join_workouts` makes sessions of them.
    """

    def __init__(self) -> None:
        self._spool = spool(_ROWS)
        weakref.finalize(self, self._spool.close)
        self._count = 0
        self._last: tuple[date, datetime | None, str] | None = None
        self._session = 0

    def add(self, row: Row) -> None:
        """Add `row`."""
        session = (row.session_date, row.started_at_local, row.title)
        if session != self._last:
            self._session, self._last = self._session_of(row), session
        self._spool.execute(
            "insert into rows values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._session, row.line, row.duration_seconds, row.exercise, row.notes, row.session_notes,
                row.block, row.superset, row.unknown_mark, *_set_columns(row.done),
            ),
        )  # fmt: skip
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def by_session(self) -> Iterator[list[Row]]:
        """Yield the rows of each session, by line, or by time where workouts were joined."""
        found = self._spool.execute(_BY_SESSION)
        for _, columns in groupby(found, key=itemgetter(0)):
            yield [_row(*one) for one in columns]

    def join_workouts(self, longest_pause: timedelta) -> None:
        """Make one session of what has the same day and title and is less than `longest_pause` apart."""
        self._spool.execute(_JOIN_WORKOUTS, {"pause": longest_pause.total_seconds()})

    def _session_of(self, row: Row) -> int:
        # SQLite takes two nulls for different, so a session without a start has an empty one.
        started_at = row.started_at_local.isoformat() if row.started_at_local else ""
        key = (row.session_date.isoformat(), started_at, row.title)
        self._spool.execute(
            "insert or ignore into sessions (session_date, started_at, title) values (?, ?, ?)", key
        )
        session: int = self._spool.execute(
            "select id from sessions where session_date = ? and started_at = ? and title = ?", key
        ).fetchone()[0]
        return session


def _set_columns(done: ImportedSet | None) -> tuple[object, ...]:
    if done is None:
        return _NO_SET
    return (
        done.set_type, _printed(done.weight_kg), done.reps, _printed(done.distance_m), done.duration_seconds,
        _printed(done.rpe), done.is_completed,
    )  # fmt: skip


def _row(
    _workout: int, _session: int, line: int, duration_seconds: int | None, exercise: str, notes: str,
    session_notes: str, block: int, superset: str, unknown_mark: str | None, set_type: SetType | None,
    weight_kg: str | None, reps: int | None, distance_m: str | None, set_seconds: int | None, rpe: str | None,
    is_completed: int, session_date: str, started_at: str, title: str,
) -> Row:  # fmt: skip
    done = None
    if set_type is not None:
        done = ImportedSet(
            line, set_type, _decimal(weight_kg), reps, _decimal(distance_m), set_seconds, _decimal(rpe),
            bool(is_completed),
        )  # fmt: skip
    return Row(
        line, date.fromisoformat(session_date), datetime.fromisoformat(started_at) if started_at else None, title,
        duration_seconds, exercise, notes, session_notes, done, block, superset, unknown_mark,
    )  # fmt: skip


def _printed(value: Decimal | None) -> str | None:
    return None if value is None else str(value)


def _decimal(printed: str | None) -> Decimal | None:
    return None if printed is None else Decimal(printed)
