"""Small histories, and what is stored of them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from importers.history import ImportedBlock, ImportedSession, ImportedSet, ParsedHistory

DAY = date(2024, 1, 8)


def session(*blocks, ref="one", day=DAY, at=None):
    return ImportedSession(ref, day, at, "Push", 3600, None, tuple(blocks))


def block(exercise, *sets):
    return ImportedBlock(exercise, None, sets)


def history(*sessions, **tracking):
    names = {found.exercise for one in sessions for found in one.blocks}
    taken = sum(1 for one in sessions for _ in one.sets())
    return ParsedHistory(
        sessions, (), taken, {name: tracking.get(name.lower(), "weight_reps") for name in names}
    )


def lift(line, weight="60", reps=8):
    return ImportedSet(line, weight_kg=Decimal(weight), reps=reps)


def numbered_sessions(count):
    return history(*(session(block("Bench", lift(n)), ref=f"ref {n:02}") for n in range(count)))


def adds_up(report):
    return report.sets_taken + len(report.skipped) == report.data_rows


def stored_sessions(database, user):
    return database.as_account(user)(
        "select source, source_ref, session_date, started_at, title, duration_seconds"
        " from public.workout_sessions order by session_date, source_ref",
    )


def stored_sets(database, user):
    return database.as_account(user)(
        "select x.name, s.set_type, s.weight_kg, s.reps, s.distance_m, s.duration_seconds, s.is_completed"
        " from public.session_sets s"
        " join public.session_exercise_part p on p.id = s.part_id"
        " join public.workout_sessions w on w.id = p.session_id"
        " join public.exercises x on x.id = p.exercise_id"
        " order by w.session_date, w.source_ref, p.position, s.set_no",
    )
