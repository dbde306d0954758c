"""A refresh touches what its scope can change: the rest of the account is neither read nor written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text
from support.published import READ_MODELS

from bench.accounts import INCIDENT, Size, make_account

TODAY = datetime.now(UTC).date()
SMALL = Size("small account", 40, 30)
NEIGHBOUR = Size("neighbour", 130, 60)
BLOCKS, SETS = 8, 3
"""The exercises of the session that is edited, and the sets of each."""
PROBES = 16
"""The planner looks at the ends of the indexes, whatever their size; these rows count as read too."""
CANONICAL = (
    "workout_sessions",
    "session_exercise_part",
    "session_sets",
    "exercises",
    "user_manual_pr_records",
)
HEADERS = "user_pr_overview_snapshot_headers"
PUBLISHED = (*(table.partition(".")[2] for table in READ_MODELS), HEADERS)


@dataclass
class Work:
    """What one refresh did, counted by the server in the tables themselves."""

    read: Counter[str] = field(default_factory=Counter)
    """Canonical rows fetched, by table."""
    written: Counter[str] = field(default_factory=Counter)
    """Published rows inserted, updated and deleted, by table."""

    @property
    def rows(self) -> int:
        """The rows that were written, the headers apart: those are three, whatever happens."""
        return self.written.total() - self.written[HEADERS]


@pytest.fixture
def trained(database, app_account, stages):
    """Give the account a history of that size, all before today, publish it, and return its exercises.

    Neighbours have theirs, so that no table is so small, and no account so much of it, that reading all is best.
    """

    def trained(size: Size) -> list[str]:
        with database.admin_engine.begin() as connection:
            make_account(connection, app_account.user_id, size)
        run_all(stages)
        with database.admin_engine.begin() as connection:
            for _ in range(10):
                make_account(connection, uuid4(), NEIGHBOUR)
        # They are there to be left alone.
        database.admin("delete from public.user_exercise_stats_refresh_jobs where status = 'pending'")
        database.admin("analyze")
        return [
            row[0]
            for row in database.admin(
                "select id from public.exercises where owner_user_id = :user order by id",
                user=app_account.user_id,
            )
        ]

    return trained


def run_all(stages) -> None:
    """Publish what waits, in batches where it needs them."""
    while (run := stages.claim())["response"] == "claimed":
        while (computed := stages.compute(run))["response"] == "batch_pending":
            pass
        assert computed["response"] == "computed"
        assert stages.publish(run)["response"] == "published"


@pytest.mark.parametrize("size", [SMALL, INCIDENT], ids=lambda size: size.name)
def test_one_edited_session_of_today_costs_the_same_whatever_the_account_has(
    database, app_account, settled, trained, size
):
    exercise_ids = trained(size)[:BLOCKS]
    session_id = _save(app_account, exercise_ids, 80)["session_id"]
    settled()

    # More often than the server tries a plan of its own for each call.
    for weight in range(81, 89):
        _save(app_account, exercise_ids, weight, session_id=session_id)
        work = _refresh(database)
        assert BLOCKS * SETS <= work.read["session_sets"] <= BLOCKS * SETS + PROBES
        assert BLOCKS <= work.read["session_exercise_part"] <= BLOCKS + PROBES
        # Once for the sets, once for the days, and a foreign key's look at each row that names one.
        assert work.read["workout_sessions"] <= 2 + work.rows + PROBES
        assert BLOCKS < work.rows < 100, work.written
        assert work.written["user_exercise_daily_rollups"] == BLOCKS
        assert work.written["user_training_period_stats"] == 5
        assert work.written["user_calendar_day_summaries"] == 1
        assert work.written[HEADERS] == 3
    settled()


@pytest.mark.parametrize("size", [SMALL, INCIDENT], ids=lambda size: size.name)
def test_a_session_of_today_that_beats_everything_writes_only_what_it_beats(
    database, app_account, settled, trained, size
):
    exercise_ids = trained(size)[:1]
    session_id = _save(app_account, exercise_ids, 80)["session_id"]
    settled()

    _save(app_account, exercise_ids, 900, session_id=session_id)
    work = _refresh(database)

    assert SETS <= work.read["session_sets"] <= SETS + PROBES
    # weight, e1rm, set_volume, day_volume; 1 to 5 reps at once; today's board and tomorrow's.
    assert work.written["user_exercise_records"] == 4
    assert work.written["user_exercise_rep_maxes"] == 5
    assert work.written["user_pr_exercise_summary_snapshots"] == 2
    assert work.written["user_exercise_daily_rollups"] == 1
    assert work.rows < 30, work.written
    settled()


def test_another_exercise_of_the_same_day_is_not_read(database, app_account, settled, trained):
    exercise_ids = trained(SMALL)
    _save(app_account, exercise_ids[:BLOCKS], 80)
    other = _save(app_account, exercise_ids[20:21], 80)["session_id"]
    settled()

    _save(app_account, exercise_ids[20:21], 90, session_id=other)
    work = _refresh(database)

    assert SETS <= work.read["session_sets"] <= SETS + PROBES
    assert work.written["user_exercise_daily_rollups"] == 1
    settled()


def test_an_edit_of_the_past_reads_its_exercises_from_that_day_on(database, app_account, settled, trained):
    exercise_ids = trained(Size("half a year", 90, 40))
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
    work = _refresh(database)

    assert later_sets > SETS
    assert later_sets <= work.read["session_sets"] <= later_sets + PROBES
    settled()


OTHERS = """
with sessions as (
    insert into public.workout_sessions (user_id, session_date)
    select gen_random_uuid(), stats_private.utc_today() - 1 from generate_series(1, 300)
    returning id, user_id
)
insert into public.session_exercise_part (session_id, user_id, exercise_id, position)
select s.id, s.user_id, 'global', 1 from sessions s
"""


def test_what_others_did_of_a_global_exercise_is_not_read(database, app_account, settled):
    database.admin(
        "insert into public.exercises (id, name, tracking) values ('global', 'Squat', 'weight_reps')"
    )
    database.admin(OTHERS)
    _save(app_account, ["global"], 80)
    settled()

    database.as_service()(
        "select public.enqueue_user_exercise_stats_refresh(:user, null, '{global}', '')",
        user=app_account.user_id,
    )
    work = _refresh(database)

    assert SETS <= work.read["session_sets"] <= SETS + PROBES
    assert 1 <= work.read["session_exercise_part"] <= 1 + PROBES
    settled()


def test_a_rebuild_of_what_is_already_right_writes_no_row(database, app_account, settled, trained):
    trained(SMALL)

    database.as_service()(
        "select public.enqueue_user_exercise_stats_refresh(:user, null, '{}', '')", user=app_account.user_id
    )
    work = _refresh(database)

    assert work.rows == 0
    assert work.read["session_sets"] >= SMALL.sets


def test_a_window_that_moves_reads_no_set_and_no_part(database, app_account, settled, trained):
    trained(SMALL)
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
    work = _refresh(database)

    assert max(work.read["session_sets"], work.read["session_exercise_part"]) <= PROBES
    assert {table for table, rows in work.written.items() if rows} == {
        "user_pr_exercise_summary_snapshots",
        HEADERS,
    }
    settled()


def _save(account, exercise_ids, weight, **fields):
    sets = [{"weight_kg": weight, "reps": 5} for _ in range(SETS)]
    blocks = [{"exercise_id": exercise_id, "sets": sets} for exercise_id in exercise_ids]
    return account.save(*blocks, **{"session_date": str(TODAY), **fields})


def _refresh(database) -> Work:
    """Claim, compute and publish as a worker does; return what that read and wrote."""
    work = Work()
    for call, response in (
        ("public.stats_projection_claim_v1('test')", "claimed"),
        ("public.stats_projection_compute_v1()", "computed"),
        ("public.stats_projection_publish_v1()", "published"),
    ):
        # The statistics of the transaction are those of its connection: one pool connection, so plans are kept too.
        with database.engine.begin() as connection:
            connection.execute(text("set local role service_role"))
            before = _counted(connection)
            assert connection.scalar(text(f"select {call} ->> 'response'")) == response
            after = _counted(connection)
        work.read.update({table: after[table][0] - before[table][0] for table in CANONICAL})
        work.written.update({table: after[table][1] - before[table][1] for table in PUBLISHED})
    return work


def _counted(connection) -> dict[str, tuple[int, int]]:
    """table -> (rows fetched, rows inserted, updated and deleted) so far in this transaction."""
    rows = connection.execute(
        text(
            "select relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0),"
            " n_tup_ins + n_tup_upd + n_tup_del"
            " from pg_stat_xact_user_tables where relname = any(:tables)"
        ),
        {"tables": [*CANONICAL, *PUBLISHED]},
    )
    return {table: (fetched, written) for table, fetched, written in rows}
