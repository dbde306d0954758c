"""Which workout of a file is which stored session.

A workout is the session with the same sets, from whichever app, that began at the same time under the file's shift
(importers/shifts.py); else the app's own session of the same start, or of the same reference, which has changed.
Where one side has no time of day, the day decides and then the sets. One session answers for at most one workout.

What is compared is on disk: memory holds a few bytes a workout.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, text

from importers.fingerprints import are_mostly_common, in_common, set_count
from importers.shifts import (
    FARTHEST,
    SAME_START,
    WEAK_GAIN,
    WEAK_GAINS_OF_A_SHIFT,
    cheapest_shifts,
    gain,
    nearest_shift,
)
from importers.spool import spool

_STORED = text("select s.* from public.imported_workouts_v1(:source, :user) s")
_MOST_SHIFTS = 12
# Each has all its sets with it.
_SESSIONS_AT_ONCE = 100

# A face is what a session is compared by: as it is now, and as the last file had it.
_SCHEMA = """
create table stored (
    id integer primary key, session_id text, source text, is_own integer, is_deleted integer, is_as_left integer,
    source_ref text, title text, day text, started_at text, updated_at text, sets text,
    imported_ref text, imported_day text, imported_start text, imported_sets text, content text, archived text);
create index stored_ref on stored (source_ref);
create table faces (
    stored integer, is_own integer, is_imported integer, ref text, day text, start integer, sets text);
create index faces_start on faces (start);
create index faces_day on faces (day);
create index faces_ref on faces (ref);
create index faces_stored on faces (stored);
create table workouts (
    n integer primary key, ref text, day text, start integer, sets text, kept text, shift integer, stored integer);
create index workouts_start on workouts (start);
create index workouts_stored on workouts (stored);
create table pairs (
    n integer, stored integer, is_own integer, is_full integer, same_ref integer, shift integer, off integer,
    common integer, gain real);
create index pairs_n on pairs (n)
"""

_PAIRS = """
select w.n, w.start, w.sets, w.ref, f.stored, f.is_own, f.ref, f.start, f.sets, f.sets in (w.sets, w.kept)
from workouts w
join faces f on f.start between w.start - :farthest and w.start + :farthest
where f.is_own or f.sets in (w.sets, w.kept)
order by w.n
"""

# By rank: the sets agree, first with the app's own session; the app's own, changed; without a time of day; the
# reference alone; and what is left over, as a workout that was moved to the next day.
_CANDIDATES = """
select n, stored from (
    select
        p.n, p.stored, p.common, abs(p.shift - w.shift) + p.off as off,
        case
            when p.shift = w.shift then case
                when p.is_full and p.is_own then 2 - p.same_ref
                when p.is_full then 3
                else 5 - p.same_ref
            end
            when p.is_full and p.is_own then 8
        end as rank
    from pairs p join workouts w on w.n = p.n
    union all
    select
        w.n, f.stored, 0, 0,
        case
            when f.sets in (w.sets, w.kept) then case when f.is_own then 2 - (f.ref = w.ref) else 3 end
            when f.is_own and f.ref = w.ref then 4
            when f.is_own and are_mostly_common(f.sets, w.sets) then 6
        end
    from workouts w join faces f on f.day = w.day
    where (w.start is null or f.start is null) and (f.is_own or f.sets in (w.sets, w.kept))
    union all
    select w.n, f.stored, 0, 0, 7
    from workouts w join faces f on f.ref = w.ref
    where f.is_own and w.shift = 0
) c
join stored s on s.id = c.stored
where c.rank is not null
order by c.rank, s.is_deleted, c.common desc, c.off, c.n, c.stored
"""


@dataclass(frozen=True, slots=True)
class Workout:
    """A workout of the file as it is compared; `kept` are its sets without those of archived exercises."""

    source_ref: str
    day: date
    started_at: datetime | None
    sets: str
    kept: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A session that the account has, or had; `imported_...` and `content` are what this source's last file had."""

    session_id: UUID
    source: str
    is_own: bool
    """A file of this source had it before."""
    is_deleted: bool
    is_as_left: bool
    """It is as the last import of this source left it."""
    title: str | None
    day: date
    started_at: datetime | None
    updated_at: datetime | None
    sets: str
    imported_ref: str | None
    imported_day: date | None
    imported_start: datetime | None
    imported_sets: str | None
    content: str | None
    archived: frozenset[str]
    """The archived exercises that it has: it may keep them."""


class Matching:
    """The workouts of a file, and the sessions that they are."""

    def __init__(self) -> None:
        self._spool = spool(_SCHEMA)
        self._spool.create_function("are_mostly_common", 2, are_mostly_common, deterministic=True)
        weakref.finalize(self, self._spool.close)
        self.is_older = False
        """The file's last workout is before the newest that a file of this source had."""
        self.lacks_workouts = False
        """A file of this source had workouts that this one has not."""

    def look_up(self, connection: Connection, user: UUID, source: str) -> None:
        """Find what the account `user` has to compare a file of `source` with."""
        rows = connection.execute(
            _STORED, {"source": source, "user": user}, execution_options={"yield_per": _SESSIONS_AT_ONCE}
        )
        for row in rows:
            self._add_stored(row)

    def compare(self, workouts: Iterable[Workout]) -> None:
        """Find out which session each of `workouts` is; they are numbered from 0 in this order."""
        for n, workout in enumerate(workouts):
            self._spool.execute(
                "insert into workouts values (?, ?, ?, ?, ?, ?, 0, null)",
                (
                    n,
                    workout.source_ref,
                    _text(workout.day),
                    _seconds(workout.started_at),
                    workout.sets,
                    workout.kept,
                ),
            )
        self._pair()
        self._shift()
        self._assign()
        self._judge_age()

    def session_of(self, n: int) -> Stored | None:
        """Return the session that the workout `n` is; None where it is a new one."""
        found = self._spool.execute(
            "select s.session_id, s.source, s.is_own, s.is_deleted, s.is_as_left, s.title, s.day, s.started_at,"
            " s.updated_at, s.sets, s.imported_ref, s.imported_day, s.imported_start, s.imported_sets, s.content,"
            " s.archived from workouts w join stored s on s.id = w.stored where w.n = ?",
            (n,),
        ).fetchone()
        return None if found is None else _stored(*found)

    def free_ref(self, source: str, ref: str) -> str:
        """Return `ref`, with a number behind it where another session of `source` has it."""
        number, free = 1, ref
        while self._spool.execute(
            "select 1 from stored where source_ref = ? and source = ? and not is_deleted", (free, source)
        ).fetchone():
            number += 1
            free = f"{ref} ({number})"
        return free

    def _add_stored(self, row: Row[Any]) -> None:
        stored = self._spool.execute(
            "insert into stored values (null, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                str(row.session_id), row.source, row.is_own, row.is_deleted, row.is_as_left, row.source_ref,
                row.title, _text(row.session_date), _text(row.started_at), _text(row.updated_at), row.sets,
                row.imported_ref, _text(row.imported_date), _text(row.imported_start), row.imported_sets,
                row.content, json.dumps(row.archived),
            ),
        ).lastrowid  # fmt: skip
        # An earlier release did not keep the sets; where nobody has edited the session, these are its own.
        imported_sets = row.imported_sets or row.sets
        now = (row.session_date, row.started_at, row.sets)
        imported = (row.imported_date, row.imported_start, imported_sets)
        if row.imported_ref is not None:
            self._add_face(stored, row.is_own, True, row.imported_ref, *imported)
        if not row.is_deleted and (row.imported_ref is None or now != imported):
            self._add_face(stored, row.is_own, False, row.imported_ref or row.source_ref, *now)

    def _add_face(
        self, stored: int | None, is_own: bool, is_imported: bool, ref: str | None, day: date,
        started_at: datetime | None, sets: str,
    ) -> None:  # fmt: skip
        self._spool.execute(
            "insert into faces values (?, ?, ?, ?, ?, ?, ?)",
            (stored, is_own, is_imported, ref, _text(day), _seconds(started_at), sets),
        )

    def _pair(self) -> None:
        """Note each session that a workout may be, and how well it explains the workout."""
        found = self._spool.execute(_PAIRS, {"farthest": FARTHEST + SAME_START})
        for n, start, sets, ref, stored, is_own, other_ref, other_start, other_sets, is_full in found:
            apart = other_start - start
            shift = nearest_shift(apart)
            if shift is None:
                continue
            common = in_common(sets, other_sets)
            share = common / max(set_count(sets), set_count(other_sets), 1)
            worth = gain(shift, is_own=bool(is_own), is_full=bool(is_full), share=share)
            same_ref = ref == other_ref
            self._spool.execute(
                "insert into pairs values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (n, stored, is_own, is_full, same_ref, shift, abs(apart - shift), common, worth),
            )

    def _shift(self) -> None:
        """Give each workout with a time of day its shift."""
        best = self._spool.execute(
            "select shift from (select n, shift, max(gain) as gain from pairs group by n, shift) where shift <> 0"
            " group by shift having max(gain) > ? or count(*) >= ?"
            " order by sum(gain) desc, abs(shift), shift limit ?",
            (WEAK_GAIN, WEAK_GAINS_OF_A_SHIFT, _MOST_SHIFTS),
        )
        shifts = [0, *(shift for (shift,) in best)]
        if len(shifts) == 1:
            return
        path = cheapest_shifts(shifts, (gains for _, gains in self._gains()))
        for (n, _), shift in zip(self._gains(), path, strict=True):
            if shift:
                self._spool.execute("update workouts set shift = ? where n = ?", (shift, n))

    def _gains(self) -> Iterator[tuple[int, dict[int, float]]]:
        """Yield each workout with a time of day, by its start, with what it gains by which shift."""
        found = self._spool.execute(
            "select w.n, p.shift, max(p.gain) from workouts w left join pairs p on p.n = w.n"
            " where w.start is not null group by w.start, w.n, p.shift order by w.start, w.n"
        )
        for n, rows in groupby(found, key=itemgetter(0)):
            yield n, {shift: worth for _, shift, worth in rows if shift is not None}

    def _assign(self) -> None:
        """Give the workouts their sessions, the surest first."""
        (workouts,) = self._spool.execute("select count(*) from workouts").fetchone()
        (sessions,) = self._spool.execute("select count(*) from stored").fetchone()
        has_session, is_taken = bytearray(workouts), bytearray(sessions + 1)
        for n, stored in self._spool.execute(_CANDIDATES):
            if not has_session[n] and not is_taken[stored]:
                has_session[n] = is_taken[stored] = True
                self._spool.execute("update workouts set stored = ? where n = ?", (stored, n))

    def _judge_age(self) -> None:
        newest_day, newest_start = self._spool.execute(
            "select max(day), max(start) from faces where is_own and is_imported"
        ).fetchone()
        if newest_day is None:
            return
        last_day, last_start = self._spool.execute(
            "select max(coalesce(f.day, w.day)), max(coalesce(f.start, w.start + w.shift))"
            " from workouts w left join faces f on f.stored = w.stored and f.is_imported"
        ).fetchone()
        if last_day is None:
            return
        if newest_start is None or last_start is None:
            self.is_older = last_day < newest_day
        else:
            self.is_older = last_start < newest_start - SAME_START
        lacking = self._spool.execute(
            "select 1 from stored s where s.is_own and not s.is_deleted"
            " and not exists (select 1 from workouts w where w.stored = s.id) limit 1"
        )
        self.lacks_workouts = lacking.fetchone() is not None


def _text(value: date | datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def _seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())


def _stored(
    session_id: str, source: str, is_own: int, is_deleted: int, is_as_left: int, title: str | None, day: str,
    started_at: str | None, updated_at: str | None, sets: str, imported_ref: str | None, imported_day: str | None,
    imported_start: str | None, imported_sets: str | None, content: str | None, archived: str,
) -> Stored:  # fmt: skip
    return Stored(
        UUID(session_id), source, bool(is_own), bool(is_deleted), bool(is_as_left), title, date.fromisoformat(day),
        _moment(started_at), _moment(updated_at), sets, imported_ref,
        None if imported_day is None else date.fromisoformat(imported_day), _moment(imported_start), imported_sets,
        content, frozenset(json.loads(archived)),
    )  # fmt: skip


def _moment(printed: str | None) -> datetime | None:
    return None if printed is None else datetime.fromisoformat(printed)
