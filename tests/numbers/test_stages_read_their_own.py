"""A stage reads its own account's rows alone, by plans that its connection made while the tables were empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, TextClause, create_engine, text

from bench.accounts import make_neighbours
from tasks.pipeline import CLAIM, COMPUTE, PUBLISH
from tasks.transaction import Answer, service, transaction

OTHERS = 400
RUNS_THAT_ENDED = 2_000
MOST = 200
"""Of one table in one stage; the account has 40 sets."""
PLANNED_FOR_GOOD = 7
"""The server plans a statement anew the first five times."""

_ENDED = """
insert into public.user_stats_projection_runs (
    user_id, target_version, base_version, policy_version, anchor, exercise_ids, phase, lease_until, attempts,
    completed_at)
select gen_random_uuid(), 1, 0, 1, current_date, '{}', 'completed', now(), 1, now() from generate_series(1, :runs)
"""
_PUBLISHED_BY_OTHERS = (
    "insert into public.user_exercise_rep_maxes (user_id, exercise_id, reps, weight_kg, achieved_on)"
    " select s.user_id, 'bench:' || p, r, 100, current_date"
    " from public.user_stats_refresh_state s, generate_series(1, 3) p, generate_series(1, 5) r"
    " on conflict do nothing",
    "insert into stats_private.rep_max_steps (user_id, exercise_id, reps, day, weight_kg)"
    " select s.user_id, 'bench:' || p, 5, current_date, 100"
    " from public.user_stats_refresh_state s, generate_series(1, 3) p on conflict do nothing",
    "insert into public.user_pr_overview_snapshot_headers (user_id, as_of_date, generation, exercises, generated_at)"
    " select s.user_id, current_date + d, 1, 3, now()"
    " from public.user_stats_refresh_state s, generate_series(-1, 1) d on conflict do nothing",
)
_READ = text("""
    select t.relname, t.seq_tup_read + coalesce(t.idx_tup_fetch, 0) as rows
    from pg_catalog.pg_stat_xact_user_tables t
""")


@pytest.fixture
def connection_of_a_worker(database) -> Iterator[Engine]:
    engine = create_engine(database.url, pool_size=1, max_overflow=0)
    yield engine
    engine.dispose()


def test_what_others_have_is_not_read(database, app_account, connection_of_a_worker):
    with database.admin_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("vacuum analyze"))
    for _ in range(PLANNED_FOR_GOOD):
        app_account.save(app_account.block("Squat", *[(100, 5)] * 4))
        refresh(connection_of_a_worker)
    with database.admin_engine.begin() as connection:
        make_neighbours(connection, OTHERS)
    database.admin(_ENDED, runs=RUNS_THAT_ENDED)
    for statement in _PUBLISHED_BY_OTHERS:
        database.admin(statement)
    app_account.save(app_account.block("Squat", *[(105, 5)] * 4))
    app_account.save(app_account.block("Bench", *[(80, 5)] * 4))

    read = refresh(connection_of_a_worker)

    assert read == {"claim": {}, "compute": {}, "publish": {}}


def refresh(engine: Engine) -> dict[str, dict[str, int]]:
    """Claim, compute and publish the one account that waits; return what each stage read more than MOST rows of."""
    claimed, claim = run(engine, CLAIM, lock_owner="test")
    lease = {"run_id": claimed["run_id"], "lease_token": claimed["lease_token"]}
    _, compute = run(engine, COMPUTE, **lease, expected_offset=None)
    published, publish = run(engine, PUBLISH, **lease)
    assert published["response"] == "published"
    return {"claim": claim, "compute": compute, "publish": publish}


def run(engine: Engine, statement: TextClause, **arguments: object) -> tuple[Answer, dict[str, int]]:
    with transaction(engine, service()) as connection:
        # What the transactions before have read is still counted with it.
        before = Counter({row.relname: row.rows for row in connection.execute(_READ)})
        answer: Answer = connection.execute(statement, arguments).scalar_one()
        after = {row.relname: row.rows for row in connection.execute(_READ)}
    return answer, {name: rows - before[name] for name, rows in after.items() if rows - before[name] > MOST}
