"""Workouts that the account already has from another source: the same sets, at most shifted by whole hours.

Apps import from each other, and some shift every time by the distance between two time zones. Taken again, such
a history would double every volume. So a session whose sets are the same, one by one, is left alone where it
began at the same minute of an hour within fourteen hours, or on the same day where one side has no time of day.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from hashlib import md5
from uuid import UUID

from sqlalchemy import Connection, text

from ops.importers.history import ImportedSet, hundredths
from ops.importers.spool import ROWS_AT_ONCE, spool
from ops.importers.tracking import stored_weight

_FARTHEST = timedelta(hours=14)
_SAME_MINUTE = timedelta(minutes=1)

_OTHERS = text("""
    select
        coalesce(w.source, 'the app') as source, w.session_date, w.started_at,
        md5(string_agg(
            format('%s|%s|%s|%s', nullif(s.weight_kg, 0), nullif(s.reps, 0), nullif(s.distance_m, 0),
                nullif(s.duration_seconds, 0)),
            ';' order by p.position, s.set_no)) as digest
    from public.workout_sessions w
    join public.session_exercise_part p on p.session_id = w.id
    join public.session_sets s on s.part_id = p.id
    where w.user_id = :user and w.source is distinct from :source
    group by w.id
""")


class OtherSources:
    """What an account has from other sources than the one that is being imported."""

    def __init__(self) -> None:
        self._spool = spool("""
            create table stored (digest text, source text, session_date text, started_at text);
            create index stored_digest on stored (digest)
        """)
        weakref.finalize(self, self._spool.close)

    def look_up(self, connection: Connection, user: UUID, source: str) -> None:
        """Find what the account `user` has from other sources than `source`."""
        stored = connection.execute(
            _OTHERS, {"user": user, "source": source}, execution_options={"yield_per": ROWS_AT_ONCE}
        )
        for row in stored:
            started_at = row.started_at and row.started_at.isoformat()
            self._spool.execute(
                "insert into stored values (?, ?, ?, ?)",
                (row.digest, row.source, row.session_date.isoformat(), started_at),
            )

    def same_workout(self, day: date, started_at: datetime | None, sets: Iterable[ImportedSet]) -> str | None:
        """Return why a session with these `sets` is one that is there already; None where it is none."""
        same_sets = self._spool.execute(
            "select source, session_date, started_at from stored where digest = ? order by rowid",
            (_digest(sets),),
        )
        for source, other_day, other_start in same_sets:
            if other_start is None or started_at is None:
                if other_day == day.isoformat():
                    return f"the same sets of the same day are already there from {source}"
            elif (hours := _whole_hours(datetime.fromisoformat(other_start) - started_at)) is not None:
                shift = f", {abs(hours)} h apart" if hours else ""
                return f"the same workout is already there from {source}{shift}"
        return None


def _whole_hours(apart: timedelta) -> int | None:
    """Return the hours where `apart` is whole ones, to the minute, and no more than time zones are apart."""
    hours = round(apart / timedelta(hours=1))
    is_whole = abs(apart - timedelta(hours=hours)) < _SAME_MINUTE
    return hours if is_whole and abs(apart) < _FARTHEST + _SAME_MINUTE else None


def _digest(sets: Iterable[ImportedSet]) -> str:
    """Return the digest of the sets as `_OTHERS` makes it of stored ones."""
    printed = ";".join(
        f"{_decimal(stored_weight(one))}|{one.reps or ''}|{_decimal(one.distance_m)}|{one.duration_seconds or ''}"
        for one in sets
    )
    return md5(printed.encode(), usedforsecurity=False).hexdigest()


def _decimal(value: Decimal | None) -> str:
    return f"{hundredths(value):f}" if value else ""
