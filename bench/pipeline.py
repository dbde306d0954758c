"""A database of its own whose accounts go through claim, compute and publish, as the workers would take them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from uuid import UUID

from sqlalchemy import Engine, TextClause, bindparam, create_engine, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.pool import NullPool

from embedded.postgres import PostgresServer
from sql.migrate import migrate
from tasks.pipeline import CLAIM, COMPUTE, PUBLISH
from tasks.transaction import Answer, account, run_stage, transaction

Lease = Mapping[str, object]
"""What a stage's message carries."""

_REBUILD = text(
    "select public.enqueue_user_exercise_stats_refresh_job(:user_id, null, '{}', 'manual_refresh')"
)
# What a claim finds after the account's own writes have overtaken its batches too often.
_AT_ONCE = text("""
    update public.user_exercise_stats_refresh_jobs
    set metadata = metadata || '{"source_invalidations": 1000}'
    where user_id = :user_id and status = 'pending'
""")
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
_SAVE = text("select public.save_session_v5(:payload)").bindparams(bindparam("payload", type_=JSONB))
_NO_LEASE: Lease = {"run_id": None, "lease_token": None, "expected_offset": None}
_WAL = text("select pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
_TODAY = text("select (now() at time zone 'UTC')::date")


@dataclass(frozen=True)
class Pipeline:
    """`admin` is the superuser, `engine` a worker's connection that stays open."""

    admin: Engine
    engine: Engine

    def administer(self, *statements: TextClause, **parameters: object) -> None:
        with self.admin.begin() as connection:
            for statement in statements:
                connection.execute(statement, parameters)

    def vacuum(self) -> None:
        with self.admin.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("vacuum analyze"))

    def ask_for_rebuild(self, user_id: UUID, *, at_once: bool = False) -> None:
        self.administer(_REBUILD, *([_AT_ONCE] if at_once else []), user_id=user_id)

    def edit_newest_session(self, user_id: UUID, reps: int) -> None:
        """Save the account's newest session once more, with other repetitions in one of its sets."""
        with self.admin.begin() as connection:
            payload = connection.execute(_NEWEST_SESSION, {"user_id": user_id}).scalar_one()
        payload["mutation_id"] = str(uuid.uuid4())
        payload["exercises"][0]["sets"][1]["reps"] = reps
        with transaction(self.engine, account(user_id)) as connection:
            connection.execute(_SAVE, {"payload": payload})

    def run(self) -> float:
        """Claim, compute and publish the one account that waits; return compute + publish in milliseconds."""
        lease = self.claim()
        return timed(lambda: (self.compute(lease), self.publish(lease)))

    def claim(self) -> Lease:
        claimed = run_stage(self.engine, "claim", CLAIM, {"lock_owner": "bench"}, _no_messages)
        return {"run_id": claimed["run_id"], "lease_token": claimed["lease_token"], "expected_offset": None}

    def compute(self, lease: Lease) -> None:
        while (answer := run_stage(self.engine, "compute", COMPUTE, lease, _no_messages))[
            "response"
        ] == "batch_pending":
            pass
        assert answer["response"] == "computed", answer

    def publish(self, lease: Lease) -> None:
        answer = run_stage(self.engine, "publish", PUBLISH, lease, _no_messages)
        assert answer["response"] == "published", answer

    def stage_without_work(self) -> None:
        """Ask for a compute where no run waits: budget, identity, one look and a commit."""
        run_stage(self.engine, "compute", COMPUTE, _NO_LEASE, _no_messages)

    def wal(self) -> int:
        with self.admin.begin() as connection:
            return int(connection.execute(_WAL).scalar_one())

    def today(self) -> date:
        with self.admin.begin() as connection:
            today: date = connection.execute(_TODAY).scalar_one()
            return today


@contextmanager
def pipeline(settings: Mapping[str, str] | None = None) -> Iterator[Pipeline]:
    """Yield the pipeline of a migrated database on a server of its own that syncs every commit."""
    with PostgresServer(settings=settings) as server:
        admin = create_engine(server.url(), poolclass=NullPool)
        migrate(admin)
        engine = create_engine(server.url(), pool_size=1)
        yield Pipeline(admin, engine)
        engine.dispose()


def work(engine: Engine, connections: int) -> None:
    """Claim, compute and publish on so many connections at once until nothing is due."""
    with ThreadPoolExecutor(connections) as threads:
        for done in [threads.submit(_work, engine) for _ in range(connections)]:
            done.result()


def _work(engine: Engine) -> None:
    while (claimed := run_stage(engine, "claim", CLAIM, {"lock_owner": "bench"}, _no_messages))[
        "response"
    ] == "claimed":
        lease = {"run_id": claimed["run_id"], "lease_token": claimed["lease_token"], "expected_offset": None}
        run_stage(engine, "compute", COMPUTE, lease, _no_messages)
        run_stage(engine, "publish", PUBLISH, lease, _no_messages)


def timed(call: Callable[[], object]) -> float:
    """Return the milliseconds that `call` takes."""
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def _no_messages(_: Answer) -> None:
    """Send nothing after the commit."""
