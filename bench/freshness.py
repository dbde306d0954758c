"""How long a save takes to be published, on a whole stack: one at a time on a quiet one, at 20 a second over 2,000
accounts, and by the beats alone.

`python -m bench freshness [SAVES]`. Each time is between two commits by the database's clock: the save's, and that of
the first publication that holds it. Nothing is awaited in between but the save before.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from uuid import UUID

from sqlalchemy import Engine, NullPool, create_engine, text

from bench.accounts import make_neighbours
from bench.report import Measured, print_report
from core.config import Config
from core.processes import wait_until
from ops.stack import running_stack
from tasks.transaction import account, transaction

SAVES, SAVES_BY_BEATS = 200, 20
WARM_UP = 20
ACCOUNTS, SAVES_A_SECOND, SECONDS = 2_000, 20, 30
TIMEOUT = 60

_SAVE = text("select public.save_session_v5(cast(:payload as jsonb))")
_ACCOUNTS = text("select user_id from public.user_stats_refresh_state")
_STALE = text(
    "select count(*) from public.user_stats_refresh_state where applied_version < requested_version"
)
_MILLISECONDS = text("""
    select extract(epoch from published.at - saved.at)::float8 * 1000
    from (
        select r.user_id, r.requested_version, pg_catalog.pg_xact_commit_timestamp(r.xmin) as at
        from public.stats_mutation_receipts r
        where r.mutation_id = any(cast(:mutation_ids as uuid []))
    ) saved
    cross join lateral (
        select min(pg_catalog.pg_xact_commit_timestamp(n.xmin)) as at
        from public.user_stats_projection_runs n
        where n.user_id = saved.user_id and n.phase = 'completed' and n.target_version >= saved.requested_version
    ) published
""")


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure as many saves, one at a time, as the first of `arguments` says; the other two in proportion."""
    saves = int(arguments[0]) if arguments else SAVES
    share = saves / SAVES
    with _stack("on") as stack:
        stack.one_at_a_time(min(WARM_UP, saves))
        quiet = stack.one_at_a_time(saves)
        busy = stack.at_a_rate(max(1, round(SECONDS * share)))
    with _stack("off") as stack:
        beats = stack.one_at_a_time(max(2, round(SAVES_BY_BEATS * share)))
    return [
        Measured("save to published, quiet, p50", statistics.median(quiet), "ms", bar=25),
        Measured("save to published, quiet, p99", _p99(quiet), "ms", bar=100),
        Measured(
            f"at {SAVES_A_SECOND} saves/s over {ACCOUNTS:,} accounts, p50", statistics.median(busy), "ms"
        ),
        Measured(f"at {SAVES_A_SECOND} saves/s over {ACCOUNTS:,} accounts, p99", _p99(busy), "ms", bar=1_000),
        Measured("by the beats alone, p50", statistics.median(beats), "ms"),
        Measured("by the beats alone, slowest", max(beats), "ms", bar=3_200),
    ]


class _Stack:
    """A stack that is up, with small published accounts in it."""

    def __init__(self, admin: Engine, engine: Engine) -> None:
        self._admin, self._engine = admin, engine
        with admin.begin() as connection:
            make_neighbours(connection, ACCOUNTS)
            self._user_ids: list[UUID] = list(connection.execute(_ACCOUNTS).scalars())
        with admin.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("vacuum analyze"))

    def one_at_a_time(self, saves: int) -> list[float]:
        """Return the milliseconds of each of so many saves, each made when the one before is published."""
        return self._milliseconds([self._save(self._user_ids[n], settle=True) for n in range(saves)])

    def at_a_rate(self, seconds: int) -> list[float]:
        """Return the milliseconds of each save of so many seconds, made by the clock, whatever waits."""
        started = time.monotonic()
        mutation_ids = []
        for n in range(seconds * SAVES_A_SECOND):
            time.sleep(max(0.0, started + n / SAVES_A_SECOND - time.monotonic()))
            mutation_ids.append(self._save(random.choice(self._user_ids), settle=False))
        self._settle()
        return self._milliseconds(mutation_ids)

    def _save(self, user_id: UUID, *, settle: bool) -> str:
        mutation_id = str(uuid.uuid4())
        payload = {
            "expected_user_id": str(user_id),
            "mutation_id": mutation_id,
            "session_date": str(date.today() - timedelta(days=random.randrange(3))),
            "exercises": [
                {"exercise_id": f"bench:{n}", "sets": [{"weight_kg": 60 + n, "reps": 5}] * 4}
                for n in (1, 2, 3)
            ],
        }
        with transaction(self._engine, account(user_id)) as connection:
            connection.execute(_SAVE, {"payload": json.dumps(payload)})
        if settle:
            self._settle()
        return mutation_id

    def _settle(self) -> None:
        if not wait_until(self._is_fresh, TIMEOUT):
            raise TimeoutError(f"not everything was published within {TIMEOUT} s")

    def _is_fresh(self) -> bool:
        with self._admin.begin() as connection:
            return connection.execute(_STALE).scalar_one() == 0

    def _milliseconds(self, mutation_ids: Sequence[str]) -> list[float]:
        with self._admin.begin() as connection:
            return list(connection.execute(_MILLISECONDS, {"mutation_ids": list(mutation_ids)}).scalars())


@contextmanager
def _stack(wake: str) -> Iterator[_Stack]:
    # The workers read it from their environment.
    os.environ["STATS_REFRESH_WAKE"] = wake
    try:
        with running_stack(Config(database_url=None, redis_url=None, data_dir=None)) as stack:
            engine = create_engine(stack.urls.database_url, pool_size=1)
            admin = create_engine(stack.urls.admin_url, poolclass=NullPool)
            try:
                yield _Stack(admin, engine)
            finally:
                engine.dispose()
    finally:
        del os.environ["STATS_REFRESH_WAKE"]


def _p99(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=100)[98] if len(times) > 1 else times[0]


if __name__ == "__main__":
    print_report("how fresh", run(sys.argv[1:]))
