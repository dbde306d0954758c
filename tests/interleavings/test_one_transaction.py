"""A run that a beat fired is one committed transaction too: its entry's lock, the stage, and its row of history.

That each stage by itself is one, test_responses.py counts for every answer.
"""

from __future__ import annotations

import pytest
from sqlalchemy import text

from schedules.entries import ENTRY_HEADER
from tasks import pipeline
from tasks.execution import StageFailed
from tasks.transaction import service, transaction

from .cases import CASES, prepare
from .counting import one_transaction, transaction_number

ENTRY = "lift-guild-stats-refresh"


def run_as_fired(case, run):
    """Run the stage's task with the message that a beat's entry sends; return its response."""
    task = getattr(pipeline, case.stage)
    arguments = {key: run[key] for key in ("run_id", "lease_token")} if run else {}
    task.push_request({"id": "task-1", "hostname": "pipeline@here", ENTRY_HEADER: ENTRY})
    try:
        return task.run(**arguments)["response"]
    except StageFailed:
        return "failed"
    finally:
        task.pop_request()


@pytest.mark.parametrize(
    "name",
    [
        "claimed",
        "nothing is due",
        "claims are paused",
        "computed by a beat",
        "nothing to compute",
        "a batch computed",
        "invalidated: source",
        "failed in compute",
        "published by a beat",
        "nothing to publish",
        "rejected: manifest",
        "failed in publish",
    ],
)
def test_a_run_that_a_beat_fired_is_one_commit_with_its_row_of_history(
    database, app_account, stages, worker_process, name
):
    case = CASES[name]
    run = prepare(case, database, app_account, stages)
    with one_transaction(database, worker_process, writes=True):
        response = run_as_fired(case, run)
    assert response == case.response
    assert database.admin(
        "select job_name, task_id, status, response ->> 'response' from public.cron_run_history"
    ) == [(ENTRY, "task-1", "failed" if case.response == "failed" else "succeeded", case.response)]


def test_the_entrys_lock_is_held_in_the_transaction_of_the_work(database, app_account, worker_process):
    """The claim finds its own entry at work: in this transaction, and in no other."""
    app_account.save()
    database.admin(
        "create function public.scene() returns trigger language plpgsql as $scene$ begin"
        " new.lock_owner = (select count(*) from pg_catalog.pg_locks l where l.locktype = 'advisory'"
        " and l.pid = pg_catalog.pg_backend_pid() and (l.classid::bigint << 32) | l.objid::bigint"
        f" = pg_catalog.hashtextextended('stats-refresh:beat:{ENTRY}', 0));"
        " return new; end $scene$"
    )
    database.admin(
        "create trigger scene before insert on public.user_stats_projection_runs for each row"
        " execute function public.scene()"
    )
    assert run_as_fired(CASES["claimed"], None) == "claimed"
    assert database.admin("select lock_owner from public.user_stats_projection_runs") == [("1",)]


def test_the_count_notices_a_second_transaction(database, worker_process):
    before = transaction_number(worker_process)
    for _ in range(2):
        with transaction(worker_process, service()) as connection:
            connection.execute(text("select 1"))
    assert transaction_number(worker_process)[1] - before[1] - 1 == 2
    with pytest.raises(AssertionError), one_transaction(database, worker_process, writes=False):
        pass
