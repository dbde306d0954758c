"""A publication that waits holds nothing that comes later in the order of the locks, so nobody waits in a circle."""

from __future__ import annotations

from maintenance.scene import write_lock
from support.races import wait_until_blocked

from .scene import READ_MODELS, admin_session, outcome, session, start_publish

JOBS = "public.user_exercise_stats_refresh_jobs"
STATE = "public.user_stats_refresh_state"


def written(database, worker) -> set[str]:
    """The tables that the session's transaction has locked rows of, for writing or by `for update`."""
    return {
        table
        for (table,) in database.admin(
            "select l.relation::regclass::text from pg_catalog.pg_locks l"
            " where l.pid = :pid and l.locktype = 'relation' and l.mode in ('RowShareLock', 'RowExclusiveLock')",
            pid=worker.pid,
        )
    }


def without_schema(*tables: str) -> set[str]:
    return {table.removeprefix("public.") for table in tables}


def test_while_it_waits_for_a_writer_it_holds_no_job_no_read_model_and_no_state(
    database, app_account, stages
):
    app_account.save()
    stages.compute(run := stages.claim())
    with session(database, "publish") as worker:
        with admin_session(database, "writer") as writer:
            write_lock(writer, app_account)
            publishing = start_publish(worker, run)
            wait_until_blocked(database, worker, by=writer)
            assert not written(database, worker) & without_schema(JOBS, STATE, *READ_MODELS)
        assert outcome(publishing).get("response") == "published"


def test_while_it_waits_for_its_job_it_holds_no_read_model_and_no_state(database, app_account, stages):
    app_account.save()
    stages.compute(run := stages.claim())
    with session(database, "publish") as worker:
        with admin_session(database, "operator") as operator:
            operator.run(f"select id from {JOBS} for update")
            publishing = start_publish(worker, run)
            wait_until_blocked(database, worker, by=operator)
            assert not written(database, worker) & without_schema(STATE, *READ_MODELS)
        assert outcome(publishing).get("response") == "published"


def test_while_it_waits_for_a_read_models_row_it_does_not_hold_the_state(database, app_account, stages):
    app_account.save()
    stages.drain()
    app_account.save(app_account.block("Squat", (120, 5)))
    stages.compute(run := stages.claim())
    with session(database, "publish") as worker:
        with admin_session(database, "operator") as operator:
            operator.run("select day from public.user_calendar_day_summaries for update")
            publishing = start_publish(worker, run)
            wait_until_blocked(database, worker, by=operator)
            assert not written(database, worker) & without_schema(STATE)
        assert outcome(publishing).get("response") == "published"
