"""How much of the server's lock table one account takes, from a small one to one of 5,000 exercises.

`python -m bench.lock_table` starts an embedded Postgres whose lock table is as small as it can be
(max_locks_per_transaction = 10), takes accounts of several sizes through the pipeline on it, and prints the most
entries that one transaction of each stage held.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, TextClause, create_engine, text
from sqlalchemy.pool import NullPool

from bench.accounts import Size, make_account
from bench.report import Measured, print_report
from embedded.postgres import FAST, PostgresServer
from sql.migrate import migrate
from tasks.transaction import service, transaction

SMALLEST_LOCK_TABLE: Mapping[str, str] = {"max_locks_per_transaction": "10", "max_connections": "20"}
SIZES = (50, 500, 5000)
# The first one is a warm-up.
_KEEP_ONE_SET = text("""
    delete from public.session_sets s using public.session_exercise_part p
    where p.id = s.part_id and p.user_id = :user and s.set_no <> 2
""")
_CLAIM = text("select public.stats_projection_claim_v1('bench')")
_COMPUTE = text("select public.stats_projection_compute_v1()")
_PUBLISH = text("select public.stats_projection_publish_v1()")
# Locks are held to the end of the transaction, so the last statement sees the most of them.
_LOCKS_HELD = text("select count(*) from pg_catalog.pg_locks where pid = pg_catalog.pg_backend_pid()")


@dataclass(frozen=True)
class Result:
    """What one account took: the most lock entries of one transaction by stage, its transactions, and seconds."""

    exercises: int
    claim: int
    compute: int
    publish: int
    transactions: int
    seconds: float


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure accounts of as many exercises as `arguments` say."""
    measured = []
    with database() as engine:
        for exercises in [int(argument) for argument in arguments] or SIZES:
            make_due_account(engine, exercises)
            taken = converge(engine, exercises)
            account = f"{exercises:,} exercises"
            measured += [
                Measured(f"{account}: lock entries of a claim", taken.claim, ""),
                Measured(f"{account}: lock entries of a compute step", taken.compute, ""),
                Measured(f"{account}: lock entries of a publication", taken.publish, ""),
                Measured(f"{account}: transactions", taken.transactions, ""),
                Measured(f"{account}: claim to publication", taken.seconds, "s"),
            ]
    return measured


def make_due_account(engine: Engine, exercises: int) -> UUID:
    """Make an account that has done one set of each of its exercises, of some two, and is due."""
    user = uuid.uuid4()
    with engine.begin() as connection:
        make_account(connection, user, Size(f"{exercises} exercises", exercises // 5, exercises))
        connection.execute(_KEEP_ONE_SET, {"user": user})
    return user


def converge(engine: Engine, exercises: int) -> Result:
    """Take the one due account through the pipeline and count."""
    started = time.perf_counter()
    most = {"claim": 0, "compute": 0, "publish": 0}
    transactions = 0

    def stage(name: str, statement: TextClause) -> dict[str, Any]:
        nonlocal transactions
        with transaction(engine, service()) as connection:
            answer: dict[str, Any] = connection.scalar(statement)
            most[name] = max(most[name], connection.execute(_LOCKS_HELD).scalar_one())
        transactions += 1
        return answer

    stage("claim", _CLAIM)
    while (answer := stage("compute", _COMPUTE))["response"] == "batch_pending":
        pass
    if answer["response"] != "computed":
        raise RuntimeError(f"the compute ended with {answer}")
    if (answer := stage("publish", _PUBLISH))["response"] != "published":
        raise RuntimeError(f"the publication ended with {answer}")
    return Result(exercises, **most, transactions=transactions, seconds=time.perf_counter() - started)


@contextmanager
def database() -> Iterator[Engine]:
    """Yield the superuser's engine of a migrated database on a server with the smallest lock table."""
    server = PostgresServer(settings={**FAST, **SMALLEST_LOCK_TABLE})
    server.start()
    engine = create_engine(server.url(), poolclass=NullPool)
    try:
        migrate(engine)
        yield engine
    finally:
        server.stop()


if __name__ == "__main__":
    print_report("one account's share of the lock table", run(sys.argv[1:]))
