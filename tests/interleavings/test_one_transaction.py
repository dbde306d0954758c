"""Each stage, whatever it answers, is one committed transaction.

Counted on the server, by two figures that no other traffic can move. A backend numbers its transactions itself: the
local part of its virtual transaction id grows by one with each, committed or not, so the difference between two
looks through the same connection is the number of transactions in between. (pg_stat_database counts commits too,
but of every session, late, and autovacuum's as well; transaction ids also count every subtransaction.) And
pg_xact_commit_timestamp is the same for all rows of one commit, its subtransactions' too, and for no two commits.
"""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from tasks.pipeline import CLAIM, COMPUTE, PUBLISH
from tasks.transaction import run_stage, service, transaction

from .cases import CASES, prepare
from .scene import TABLES

STATEMENTS = {"claim": CLAIM, "compute": COMPUTE, "publish": PUBLISH}


@pytest.fixture
def worker(database):
    """An engine of one connection, as each pool child has."""
    engine = create_engine(database.url, pool_size=1, max_overflow=0)
    yield engine
    engine.dispose()


def transaction_number(engine) -> tuple[int, int]:
    """Return the backend's process id and the number of the transaction that looks."""
    with engine.connect() as connection:
        [[pid, virtual_id]] = connection.execute(
            text(
                "select pid, virtualtransaction from pg_catalog.pg_locks"
                " where locktype = 'virtualxid' and pid = pg_catalog.pg_backend_pid()"
            )
        )
    return pid, int(virtual_id.split("/")[1])


def row_versions(database) -> set[tuple]:
    """Return every row version of the pipeline's tables with the time of the commit that wrote it."""
    return {
        (table, *row)
        for table in TABLES
        for row in database.admin(
            f"select ctid::text, xmin::text, pg_catalog.pg_xact_commit_timestamp(xmin) from {table}"
        )
    }


def assert_one_commit(database, before, after, versions_before, writes):
    assert after[0] == before[0], "the same backend"
    assert after[1] - before[1] - 1 == 1, "one transaction between the two looks"
    written = row_versions(database) - versions_before
    commits = {commit for *_, commit in written}
    assert None not in commits
    assert len(commits) == (1 if writes else 0)


@pytest.mark.parametrize("name", CASES)
def test_a_stage_in_the_tasks_frame_is_one_commit(database, app_account, stages, worker, name):
    case = CASES[name]
    run = prepare(case, database, app_account, stages)
    arguments = {"lock_owner": "worker", "expected_offset": None, "run_id": None, "lease_token": None}
    arguments |= {key: run[key] for key in ("run_id", "lease_token")} if run else {}
    versions = row_versions(database)
    before = transaction_number(worker)
    answer = run_stage(worker, case.stage, STATEMENTS[case.stage], arguments, lambda answer: None)
    after = transaction_number(worker)
    assert answer["response"] == case.response
    assert_one_commit(database, before, after, versions, case.writes)


@pytest.mark.parametrize(
    "name", ["claimed", "computed", "failed in compute", "published", "rejected: manifest"]
)
def test_a_stage_called_from_sql_is_one_commit(database, app_account, stages, worker, name):
    case = CASES[name]
    run = prepare(case, database, app_account, stages)
    versions = row_versions(database)
    before = transaction_number(worker)
    with transaction(worker, service()) as connection:
        answer = connection.scalar(text(case.sql(run)))
    after = transaction_number(worker)
    assert answer["response"] == case.response
    assert_one_commit(database, before, after, versions, case.writes)


def test_the_count_notices_a_second_transaction(worker):
    before = transaction_number(worker)
    for _ in range(2):
        with transaction(worker, service()) as connection:
            connection.execute(text("select 1"))
    assert transaction_number(worker)[1] - before[1] - 1 == 2
