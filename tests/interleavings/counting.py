"""How many transactions something took, counted on the server.

By two figures that no other traffic can move. A backend numbers its transactions itself: the local part of its
virtual transaction id grows by one with each, committed or not, so the difference between two looks through the same
connection is the number of transactions in between. (pg_stat_database counts commits too, but of every session,
late, and autovacuum's as well; transaction ids also count every subtransaction.) And pg_xact_commit_timestamp is the
same for all rows of one commit, its subtransactions' too, and for no two commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import Engine, text

from .scene import TABLES

if TYPE_CHECKING:
    from conftest import Database

_WRITTEN = (*TABLES, "public.cron_run_history")


@contextmanager
def one_transaction(database: Database, engine: Engine, *, writes: bool) -> Iterator[None]:
    """Assert that what happens meanwhile is one transaction of `engine`'s only connection.

    All that it wrote is one commit; it wrote nothing where `writes` is false.
    """
    versions = _row_versions(database)
    pid, number = transaction_number(engine)
    yield
    pid_after, number_after = transaction_number(engine)
    assert pid_after == pid, "the same backend"
    assert number_after - number - 1 == 1, "one transaction between the two looks"
    commits = {commit for *_, commit in _row_versions(database) - versions}
    assert None not in commits
    assert len(commits) == (1 if writes else 0)


def transaction_number(engine: Engine) -> tuple[int, int]:
    """Return the backend's process id and the number of the transaction that looks."""
    with engine.connect() as connection:
        [[pid, virtual_id]] = connection.execute(
            text(
                "select pid, virtualtransaction from pg_catalog.pg_locks"
                " where locktype = 'virtualxid' and pid = pg_catalog.pg_backend_pid()"
            )
        )
    return pid, int(virtual_id.split("/")[1])


def _row_versions(database: Database) -> set[tuple]:
    """Return every row version of the pipeline's tables with the time of the commit that wrote it."""
    each = " union all ".join(
        f"select '{table}', ctid::text, xmin::text, pg_catalog.pg_xact_commit_timestamp(xmin) from {table}"
        for table in _WRITTEN
    )
    return set(database.admin(each))
