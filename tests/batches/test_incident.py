"""The incident: an account so large that its compute exhausted the lock table of the whole server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from reckoning.compare import assert_account_equals_reckoning
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from batches.scene import CANONICAL_HASH
from bench.lock_table import converge, database, make_due_account

EXERCISES = 5000
BOUND = 120
"""Entries of one transaction: relations, their indexes and a few advisory locks, none of which grows."""


@pytest.fixture(scope="module")
def smallest() -> Iterator[Engine]:
    """A server of its own with max_locks_per_transaction = 10."""
    with database() as engine:
        yield engine


@pytest.fixture
def account(smallest: Engine) -> UUID:
    return make_due_account(smallest, EXERCISES)


def test_the_old_compute_exhausts_the_lock_table_and_the_account_converges_all_the_same(
    smallest, account, capsys
):
    before = canonical_hash(smallest, account)
    sqlstate, tables = run_old_compute(smallest, account)
    assert sqlstate == "53200"
    # Eight for each of 5,000 exercises would be needed.
    assert 0 < tables < 8 * EXERCISES / 10

    large = converge(smallest, EXERCISES)
    with smallest.connect() as connection:
        assert_account_equals_reckoning(connection, account)
    assert canonical_hash(smallest, account) == before

    make_due_account(smallest, EXERCISES // 10)
    small = converge(smallest, EXERCISES // 10)
    with capsys.disabled():
        print(  # noqa: T201
            f"\nold compute: out of lock-table entries (53200) after {tables} scratch tables\n{large}\n{small}"
        )
    assert (large.transactions, small.transactions) == (1 + 52 + 1, 1 + 7 + 1)
    for taken in (large, small):
        assert max(taken.claim, taken.compute, taken.publish) <= BOUND
    assert (large.compute, large.publish) == (small.compute, small.publish)


def run_old_compute(engine: Engine, account: UUID) -> tuple[str, int]:
    """Run the old compute; return the SQLSTATE that it ends with and how many tables it had made by then."""
    with engine.begin() as connection:
        old_compute = (Path(__file__).parent / "old_compute.sql").read_text()
        connection.exec_driver_sql(old_compute, execution_options={"no_parameters": True})
    with engine.connect() as connection:
        with pytest.raises(OperationalError) as failure:
            connection.execute(text("select public.old_compute(:user)"), {"user": account})
        [*_, last] = re.findall(r"(\d+) tables", "".join(connection.connection.driver_connection.notices))
        connection.rollback()
    return failure.value.orig.pgcode, int(last)


def canonical_hash(engine: Engine, account: UUID) -> str:
    with engine.connect() as connection:
        return connection.scalar(text(CANONICAL_HASH), {"user": account})
