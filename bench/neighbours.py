"""What other accounts in the database cost: one edited session of the incident account beside 1,000 accounts and
beside many more, in turns on two servers.

`python -m bench neighbours [ACCOUNTS]`; 20,000 unless told. The design's 100,000 take several minutes to make.
"""

from __future__ import annotations

import statistics
import sys
import uuid
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text

from bench.accounts import INCIDENT, make_account
from bench.pipeline import Pipeline, pipeline
from bench.report import Measured, print_report

FEW, MANY = 1_000, 20_000
ROUNDS = 25

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
_EXERCISES = text("""
    insert into public.exercises (id, name, tracking)
    select 'bench:' || n, 'Exercise ' || n, 'weight_reps' from generate_series(1, 3) n
""")


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure beside `FEW` accounts and beside as many as the first of `arguments` says, in turns."""
    many = int(arguments[0]) if arguments else MANY
    few = min(FEW, many // 2)
    with pipeline() as small, pipeline() as large:
        sides = [(bench, _settle(bench, accounts), []) for bench, accounts in ((small, few), (large, many))]
        for turn in range(ROUNDS):
            for bench, user_id, times in sides:
                bench.edit_newest_session(user_id, reps=1 + turn)
                times.append(bench.run())
    beside_few, beside_many = (statistics.median(times) for _, _, times in sides)
    return [
        Measured(f"one edited session beside {few:,} accounts", beside_few, "ms"),
        Measured(f"one edited session beside {many:,} accounts", beside_many, "ms"),
        Measured(f"beside {many:,} accounts against {few:,}", beside_many / beside_few, "x", bar=1.3),
    ]


def _settle(bench: Pipeline, accounts: int) -> UUID:
    """Make and publish the incident account among `accounts` others."""
    user_id = uuid.uuid4()
    with bench.admin.begin() as connection:
        make_account(connection, user_id, INCIDENT)
    bench.administer(_EXERCISES)
    bench.administer(_NEIGHBOURS, accounts=accounts)
    bench.vacuum()
    bench.run()
    bench.vacuum()
    return user_id


if __name__ == "__main__":
    print_report("one account among others", run(sys.argv[1:]))
