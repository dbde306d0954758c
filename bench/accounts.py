"""Accounts of a given size, made set-based and the same at every run."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text


@dataclass(frozen=True)
class Size:
    """An account: its sessions on consecutive training days, each of 6 exercises with 4 sets."""

    name: str
    sessions: int
    exercises: int

    @property
    def sets(self) -> int:
        return self.sessions * 24


INCIDENT = Size("incident account", 658, 296)
"""The account that once exhausted the lock table."""
LARGE = Size("large account", 5_000, 1_200)

_EXERCISES = text("""
    insert into public.exercises (id, owner_user_id, name, tracking)
    -- As the product makes them: the text of a random uuid.
    select
        md5(cast(:user_id as text) || 'exercise' || n)::uuid::text, cast(:user_id as uuid), 'Exercise ' || n,
        'weight_reps'
    from generate_series(0, :exercises - 1) n
""")
_SESSIONS = text("""
    insert into public.workout_sessions (id, user_id, session_date, title, started_at, duration_seconds)
    select
        md5(cast(:user_id as text) || 'session' || n)::uuid, cast(:user_id as uuid), d.day, 'Session ' || n,
        d.day + time '18:00', 3600 + n % 1200
    from generate_series(0, :sessions - 1) n
    cross join lateral (
        -- The last one yesterday, two days apart at most, none before 1990.
        select current_date - 1 - ((:sessions - 1 - n) * least(2.0, 12000.0 / :sessions))::integer as day
    ) d
""")
_PARTS = text("""
    insert into public.session_exercise_part (id, session_id, user_id, exercise_id, position)
    select
        md5(cast(:user_id as text) || 'part' || n || '-' || p)::uuid,
        md5(cast(:user_id as text) || 'session' || n)::uuid, cast(:user_id as uuid),
        -- Six neighbours of a place that walks through the list, so that every exercise comes round.
        md5(cast(:user_id as text) || 'exercise' || (n * 5 + p) % :exercises)::uuid::text, p
    from generate_series(0, :sessions - 1) n
    cross join generate_series(1, 6) p
""")
_SETS = text("""
    insert into public.session_sets (part_id, set_no, set_type, weight_kg, reps)
    select
        md5(cast(:user_id as text) || 'part' || n || '-' || p)::uuid, s, case s when 1 then 'warmup' else 'normal' end,
        40 + 2.5 * (abs(hashint4(n * 31 + p * 7 + s)) % 40) + n * 20.0 / :sessions,
        1 + abs(hashint4(n * 17 + p * 5 + s * 3)) % 12
    from generate_series(0, :sessions - 1) n
    cross join generate_series(1, 6) p
    cross join generate_series(1, 4) s
""")
_ENQUEUE = text("""
    select public.enqueue_user_exercise_stats_refresh_job(cast(:user_id as uuid), null, '{}', 'file_import')
""")


# Accounts as they are after a publication: canonical rows of four sessions, rollups, records and a snapshot.
_NEIGHBOURS = text("""
    with users as (
        select gen_random_uuid() as user_id from generate_series(1, :accounts)
    ),
    states as (
        insert into public.user_stats_refresh_state (
            user_id, requested_version, applied_version, source_revision, published_anchor)
        select u.user_id, 1, 1, 1, current_date from users u
    ),
    sessions as (
        insert into public.workout_sessions (user_id, session_date)
        select u.user_id, current_date - 3 * n from users u, generate_series(1, 4) n
        returning id, user_id, session_date
    ),
    parts as (
        insert into public.session_exercise_part (session_id, user_id, exercise_id, position)
        select s.id, s.user_id, 'bench:' || p, p from sessions s, generate_series(1, 3) p
        returning id
    ),
    sets as (
        insert into public.session_sets (part_id, set_no, weight_kg, reps)
        select p.id, n, 60 + n, 5 from parts p, generate_series(1, 3) n
    ),
    rollups as (
        insert into public.user_exercise_daily_rollups (
            user_id, exercise_id, day, sessions, sets, working_sets, reps, volume_kg, top_weight_kg, duration_seconds,
            distance_m, first_session_id)
        select s.user_id, 'bench:' || p, s.session_date, 1, 3, 3, 15, 930, 63, 0, 0, s.id
        from sessions s, generate_series(1, 3) p
    ),
    records as (
        insert into public.user_exercise_records (user_id, exercise_id, kind, day, value, is_baseline, session_id)
        select s.user_id, 'bench:' || p, 'weight', s.session_date, 63, true, s.id
        from sessions s, generate_series(1, 3) p
        where s.session_date = current_date - 12
    )
    insert into public.user_pr_exercise_summary_snapshots (
        user_id, as_of_date, exercise_id, last_performed_on, sessions_30d, records_30d)
    select u.user_id, current_date + d, 'bench:' || p, current_date - 3, 4, 0
    from users u, generate_series(1, 3) p, generate_series(-1, 1) d
""")
_SHARED_EXERCISES = text("""
    insert into public.exercises (id, name, tracking)
    select 'bench:' || n, 'Exercise ' || n, 'weight_reps' from generate_series(1, 3) n
""")


def make_account(connection: Connection, user_id: UUID, size: Size) -> None:
    """Insert the account's canonical rows as the superuser and ask for its first generation."""
    parameters = {"user_id": str(user_id), "sessions": size.sessions, "exercises": size.exercises}
    for statement in (_EXERCISES, _SESSIONS, _PARTS, _SETS, _ENQUEUE):
        connection.execute(statement, parameters)


def make_neighbours(connection: Connection, accounts: int) -> None:
    """Insert other accounts, small and published, as the superuser."""
    connection.execute(_SHARED_EXERCISES)
    connection.execute(_NEIGHBOURS, {"accounts": accounts})
