"""Computing an account: a full rebuild and one edited session, against one pass over its sets.

`python -m bench.compute` prints the medians and their bars. Everything runs in one server, one run, in turns.
"""

from __future__ import annotations

import json
import statistics
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.pool import NullPool

from bench.accounts import INCIDENT, LARGE, Size, make_account
from bench.report import Measured, print_report
from ops.embedded.postgres import PostgresServer
from sql.migrate import migrate
from tasks.pipeline import CLAIM, COMPUTE, PUBLISH
from tasks.transaction import account, run_stage, transaction

ROUNDS = 7

_ONE_PASS = text("""
    select count(*), sum(s.weight_kg * s.reps), max(s.reps)
    from public.workout_sessions w
    join public.session_exercise_part p on p.session_id = w.id
    join public.session_sets s on s.part_id = p.id
    where w.user_id = :user_id
""")
_REBUILD = text(
    "select public.enqueue_user_exercise_stats_refresh_job(:user_id, null, '{}', 'manual_refresh')"
)
_READ = text("select public.get_pr_overview((now() at time zone 'UTC')::date)")
_NEWEST_SESSION = text("""
    select jsonb_build_object(
        'session_id', w.id, 'session_date', w.session_date, 'expected_user_id', w.user_id,
        'exercises', (
            select jsonb_agg(jsonb_build_object('exercise_id', p.exercise_id, 'sets', (
                select jsonb_agg(jsonb_build_object('weight_kg', s.weight_kg, 'reps', s.reps, 'set_type', s.set_type)
                    order by s.set_no)
                from public.session_sets s where s.part_id = p.id)) order by p.position)
            from public.session_exercise_part p where p.session_id = w.id))
    from public.workout_sessions w
    where w.user_id = :user_id
    order by w.session_date desc
    limit 1
""")


@dataclass
class Bench:
    """One database with accounts to compute."""

    admin: Engine
    engine: Engine

    def service(self, statement: Any, **parameters: object) -> Any:
        with self.admin.begin() as connection:
            return connection.execute(statement, parameters).scalar()

    def run(self) -> float:
        """Claim, compute and publish the one account that waits; return compute + publish in milliseconds."""
        claimed = run_stage(self.engine, "claim", CLAIM, {"lock_owner": "bench"}, _nothing)
        lease = {"run_id": claimed["run_id"], "lease_token": claimed["lease_token"], "expected_offset": None}
        started = time.perf_counter()
        while (answer := run_stage(self.engine, "compute", COMPUTE, lease, _nothing))[
            "response"
        ] == "batch_pending":
            pass
        assert answer["response"] == "computed", answer
        answer = run_stage(self.engine, "publish", PUBLISH, lease, _nothing)
        assert answer["response"] == "published", answer
        return (time.perf_counter() - started) * 1000


def _nothing(_: object) -> None:
    """Send no messages."""


def main() -> list[Measured]:
    """Measure and print; return the measurements."""
    with PostgresServer() as server:
        admin = create_engine(server.url(), poolclass=NullPool)
        migrate(admin)
        bench = Bench(admin, create_engine(server.url(), pool_size=1))
        measured = [*_account(bench, INCIDENT), *_account(bench, LARGE)]
    measured += _growth(measured)
    print_report("computing an account", measured)
    return measured


def _account(bench: Bench, size: Size) -> list[Measured]:
    user_id = uuid.uuid4()
    with bench.admin.begin() as connection:
        make_account(connection, user_id, size)
    bench.service(text("select 1"))
    with bench.admin.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("vacuum analyze"))
    first = bench.run()
    one_pass, rebuild, edit, read, wal = [], [], [], [], []
    for turn in range(ROUNDS):
        with bench.engine.connect() as connection:
            connection.execute(text("set role service_role"))
            one_pass.append(_timed(lambda: connection.execute(_ONE_PASS, {"user_id": user_id}).all()))
        bench.service(_REBUILD, user_id=user_id)
        rebuild.append(bench.run())
        _edit_newest_session(bench, user_id, turn)
        before = _wal(bench)
        edit.append(bench.run())
        wal.append(_wal(bench) - before)
        with transaction(bench.engine, account(user_id)) as connection:
            read.extend(_read_times(connection))
    passes = statistics.median(rebuild) / statistics.median(one_pass)
    share = statistics.median(edit) / statistics.median(rebuild)
    return [
        Measured(f"{size.name}: one pass over its sets", statistics.median(one_pass), "ms"),
        Measured(f"{size.name}: first generation, compute + publish", first, "ms"),
        Measured(f"{size.name}: full rebuild, compute + publish", statistics.median(rebuild), "ms"),
        Measured(f"{size.name}: full rebuild in passes", passes, "x", bar=15),
        Measured(f"{size.name}: one edited session, compute + publish", statistics.median(edit), "ms"),
        Measured(f"{size.name}: one edited session, share of a full rebuild", 100 * share, "%", bar=15),
        Measured(f"{size.name}: one edited session, WAL", statistics.median(wal) / 1024, "kB", bar=50),
        Measured(f"{size.name}: get_pr_overview p99", _p99(read), "ms", bar=5),
        Measured(f"{size.name}: rebuild per set", 1000 * statistics.median(rebuild) / size.sets, "us"),
    ]


def _growth(measured: list[Measured]) -> list[Measured]:
    small, large = (m.value for m in measured if m.name.endswith("rebuild per set"))
    return [Measured("cost per set, large against incident account", large / small, "x", bar=1.5)]


def _edit_newest_session(bench: Bench, user_id: UUID, turn: int) -> None:
    payload = bench.service(_NEWEST_SESSION, user_id=user_id)
    payload["mutation_id"] = str(uuid.uuid4())
    payload["exercises"][0]["sets"][1]["reps"] = 1 + turn
    with transaction(bench.engine, account(user_id)) as connection:
        connection.execute(
            text("select public.save_session_v5(cast(:p as jsonb))"), {"p": json.dumps(payload)}
        )


def _read_times(connection: Connection) -> list[float]:
    return [_timed(lambda: connection.execute(_READ).scalar()) for _ in range(100)]


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def _wal(bench: Bench) -> int:
    return int(bench.service(text("select pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_lsn")))


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


if __name__ == "__main__":
    main()
