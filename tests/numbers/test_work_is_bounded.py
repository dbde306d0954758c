"""A refresh touches what its scope can change: the rest of the account is neither read nor written."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text

TODAY = datetime.now(UTC).date()
BLOCKS, SETS = 8, 3
PROBES = 16
"""The planner looks at the ends of the indexes, whatever their size; these rows count as read too."""
CANONICAL = ("workout_sessions", "session_exercise_part", "session_sets")

TRAIN = """
with exercises as (
    insert into public.exercises (id, owner_user_id, name, tracking)
    select left(cast(:user as text), 8) || '-' || i, :user, 'Exercise ' || i, 'weight_reps'
    from generate_series(0, 89) i
),
sessions as (
    insert into public.workout_sessions (user_id, session_date, title, duration_seconds)
    select :user, stats_private.utc_today() - 1 - 2 * i, 'Training', 3600
    from generate_series(0, :sessions - 1) i
    returning id, stats_private.utc_today() - session_date as age
),
parts as (
    insert into public.session_exercise_part (session_id, user_id, exercise_id, position)
    select s.id, :user, left(cast(:user as text), 8) || '-' || (s.age * 7 + b * 11) % 90, b
    from sessions s, generate_series(1, :blocks) b
    returning id, exercise_id
)
insert into public.session_sets (part_id, set_no, weight_kg, reps)
select p.id, n, 40 + abs(hashtext(p.id::text)) % 60, 1 + abs(hashtext(p.id::text)) % 10
from parts p, generate_series(1, :sets) n
"""


@pytest.fixture
def trained(database, app_account, stages):
    """Give the account so many sessions, all before today, publish them, and return its exercises.

    A neighbour has many too, so that no table is so small that reading all of it is the best plan.
    """

    def trained(sessions: int) -> list[str]:
        database.admin(TRAIN, user=uuid4(), sessions=400, blocks=BLOCKS, sets=SETS)
        database.admin(TRAIN, user=app_account.user_id, sessions=sessions, blocks=BLOCKS, sets=SETS)
        database.as_service()(
            "select public.enqueue_user_exercise_stats_refresh(:user, null, '{}', '')",
            user=app_account.user_id,
        )
        assert [run["response"] for run in stages.drain()] == ["published"]
        database.admin("analyze")
        return [
            row[0]
            for row in database.admin(
                "select id from public.exercises where owner_user_id = :user order by id",
                user=app_account.user_id,
            )
        ]

    return trained


@pytest.mark.parametrize("sessions", [40, 658])
def test_one_edited_session_of_today_costs_the_same_whatever_the_account_has(
    database, app_account, settled, trained, sessions
):
    exercise_ids = trained(sessions)[:BLOCKS]
    session_id = _save(app_account, exercise_ids, 80)["session_id"]
    settled()

    # More often than the server tries a plan of its own for each call.
    for weight in range(81, 89):
        _save(app_account, exercise_ids, weight, session_id=session_id)
        reads, manifest = _refresh(database)
        assert BLOCKS * SETS <= reads["session_sets"] <= BLOCKS * SETS + PROBES
        assert BLOCKS <= reads["session_exercise_part"] <= BLOCKS + PROBES
        # Once for the sets, once for the days, and a foreign key's look at each row that names one.
        assert reads["workout_sessions"] <= 2 + _rows(manifest) + PROBES
        assert 0 < _rows(manifest) <= 100, manifest
        assert _rows(manifest["periods"]) == 5
        assert _rows(manifest["calendar"]) == 1
    settled()


def test_another_exercise_of_the_same_day_is_not_read(database, app_account, settled, trained):
    exercise_ids = trained(40)
    _save(app_account, exercise_ids[:BLOCKS], 80)
    other = _save(app_account, exercise_ids[20:21], 80)["session_id"]
    settled()

    _save(app_account, exercise_ids[20:21], 90, session_id=other)
    reads, manifest = _refresh(database)

    assert SETS <= reads["session_sets"] <= SETS + PROBES
    assert _rows(manifest["daily_rollups"]) == 1
    settled()


def test_an_edit_of_the_past_reads_its_exercises_from_that_day_on(database, app_account, settled, trained):
    exercise_ids = trained(200)
    past = TODAY - timedelta(days=60)
    session_id = _save(app_account, exercise_ids[:1], 80, session_date=str(past))["session_id"]
    settled()
    [[later_sets]] = database.admin(
        "select count(*) from public.workout_sessions w join public.session_exercise_part p on p.session_id = w.id"
        " join public.session_sets s on s.part_id = p.id"
        " where p.user_id = :user and p.exercise_id = :exercise and w.session_date >= :day",
        user=app_account.user_id,
        exercise=exercise_ids[0],
        day=past,
    )

    _save(app_account, exercise_ids[:1], 81, session_date=str(past), session_id=session_id)
    reads, _ = _refresh(database)

    assert later_sets <= reads["session_sets"] <= later_sets + PROBES
    settled()


def test_a_rebuild_of_what_is_already_right_writes_no_row(database, app_account, settled, trained):
    trained(40)

    database.as_service()(
        "select public.enqueue_user_exercise_stats_refresh(:user, null, '{}', '')", user=app_account.user_id
    )
    _, manifest = _refresh(database)

    assert _rows(manifest) == 0


def test_a_window_that_moves_reads_no_set_and_no_part(database, app_account, settled, trained):
    trained(40)
    database.admin(
        "update public.user_stats_refresh_state set published_anchor = published_anchor - 1 where user_id = :user",
        user=app_account.user_id,
    )
    database.admin(
        "update public.user_pr_exercise_summary_snapshots set as_of_date = as_of_date - 10 where user_id = :user",
        user=app_account.user_id,
    )

    database.as_service()(
        "select public.enqueue_user_exercise_stats_refresh_job("
        ":user, null, '{}', 'pr_snapshot_rollover', p_window_only => true)",
        user=app_account.user_id,
    )
    reads, manifest = _refresh(database)

    assert max(reads["session_sets"], reads["session_exercise_part"]) <= PROBES
    assert {read_model for read_model, operations in manifest.items() if _rows(operations)} == {
        "pr_summaries"
    }
    settled()


def _save(account, exercise_ids, weight, **fields):
    sets = [{"weight_kg": weight, "reps": 5} for _ in range(SETS)]
    blocks = [{"exercise_id": exercise_id, "sets": sets} for exercise_id in exercise_ids]
    return account.save(*blocks, **{"session_date": str(TODAY), **fields})


def _refresh(database) -> tuple[Counter, dict]:
    """Claim, compute and publish; return how many canonical rows that read, and the manifest."""
    reads: Counter = Counter()
    claimed = _stage(database, reads, "public.stats_projection_claim_v1('test')")
    assert claimed["response"] == "claimed"
    computed = _stage(database, reads, "public.stats_projection_compute_v1()")
    assert computed["response"] == "computed"
    assert _stage(database, reads, "public.stats_projection_publish_v1()")["response"] == "published"
    return reads, computed["manifest"]


def _stage(database, reads: Counter, call: str) -> dict:
    """Run one stage as a worker does, and add the rows that it fetched to `reads`."""
    # The statistics of the transaction are those of its connection: one pool connection, so plans are kept too.
    with database.engine.begin() as connection:
        connection.execute(text("set local role service_role"))
        before = _fetched(connection)
        answer = connection.scalar(text(f"select {call}"))
        reads.update({table: rows - before[table] for table, rows in _fetched(connection).items()})
    return answer


def _fetched(connection) -> dict[str, int]:
    rows = connection.execute(
        text(
            "select relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)"
            " from pg_stat_xact_user_tables where schemaname = 'public' and relname = any(:tables)"
        ),
        {"tables": list(CANONICAL)},
    )
    return dict(tuple(row) for row in rows)


def _rows(manifest: dict) -> int:
    """The rows of a manifest, or of one of its read models."""
    return sum(_rows(value) if isinstance(value, dict) else value for value in manifest.values())
