"""What is in flight at a moment: backends at a stage, runs, messages. This is how faults are aimed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from redis import RedisError
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from support.servers import LOGIN

from faults.stack import QUEUES, Stack, queue_key
from tasks.listener import APPLICATION_NAME

Found = TypeVar("Found")

LISTENER = "listener"
STAGES = {
    "claim": "stats_projection_claim_v1",
    "compute": "stats_projection_compute_v1",
    "publish": "stats_projection_publish_v1",
    "save": "(save|delete)_session_v5|(set|delete)_manual_pr_v1",
    LISTENER: "",
}
"""A transaction's stage, by the function that its present statement calls. The listener has no transaction: its
connection's name tells it."""
_BACKENDS = text("""
    select a.pid, s.stage
    from pg_catalog.pg_stat_activity a
    inner join unnest(cast(:stages as text[]), cast(:patterns as text[])) s (stage, pattern) on
        case s.stage
            when :listener then a.application_name = :its_name
            else a.query ~ s.pattern and a.state in ('active', 'idle in transaction')
        end
    where a.usename = :login
""")
_WORK = text("""
    select
        exists (
            select from public.user_stats_projection_runs r where r.phase in ('claimed', 'computed')
        ) or exists (
            select from public.user_exercise_stats_refresh_jobs j where j.status in ('pending', 'processing')
        )
""")


def is_away(error: DBAPIError) -> bool:
    """Tell whether the server did not answer, or ended the connection."""
    code = getattr(error.orig, "pgcode", None)
    return code is None or code.startswith(("08", "57"))


@dataclass(frozen=True)
class Backend:
    """A backend that is at work on a stage."""

    pid: int
    stage: str


@dataclass
class Watch:
    """One watcher with a connection of its own, past the proxy; a server that is away has nothing in flight."""

    stack: Stack
    _connection: Connection | None = field(default=None, init=False)

    def backends(self, *stages: str) -> list[Backend]:
        """Return the backends that are at one of the stages (none named: a stage of the pipeline)."""
        wanted = stages or ("claim", "compute", "publish")
        patterns = [STAGES[stage] for stage in wanted]
        rows = self.rows(
            _BACKENDS,
            stages=list(wanted),
            patterns=patterns,
            login=LOGIN,
            listener=LISTENER,
            its_name=APPLICATION_NAME,
        )
        return [Backend(*row) for row in rows]

    def wait_for_stage(self, *stages: str, within: float = 4.0) -> Backend | None:
        """Wait until somebody is at one of the stages."""
        found = self.wait_for(lambda: self.backends(*stages), within)
        return found[0] if found else None

    def wait_for(self, look: Callable[[], Found], within: float = 4.0) -> Found | None:
        """Wait until `look` finds something and return it; None where it found nothing in time."""
        ends_at = time.monotonic() + within
        while not (found := look()):
            if time.monotonic() > ends_at:
                return None
            time.sleep(0.01)
        return found

    def has_work(self) -> bool:
        """Tell whether a run or a job is under way."""
        [[found]] = self.rows(_WORK) or [[False]]
        return bool(found)

    def messages(self) -> int:
        """Count the messages that lie in the queues or in a worker's hands."""
        try:
            with self.stack.redis() as redis:
                queued = sum(int(redis.llen(queue_key(queue))) for queue in QUEUES)
                return queued + int(redis.hlen(queue_key("unacked")))
        except RedisError:
            return 0

    def rows(self, statement: str | object, **parameters: object) -> list[tuple]:
        """Return the rows of a query; none where the server does not answer."""
        statement = text(statement) if isinstance(statement, str) else statement
        try:
            if self._connection is None:
                # A fault may have made the whole database read-only, and others change its settings meanwhile.
                engine = create_engine(
                    self.stack.database.admin_url,
                    poolclass=NullPool,
                    isolation_level="AUTOCOMMIT",
                    connect_args={"options": "-c default_transaction_read_only=off"},
                )
                self._connection = engine.connect()
            return [tuple(row) for row in self._connection.execute(statement, parameters)]
        except DBAPIError as error:
            self.close()
            if not is_away(error):
                raise
            return []

    def close(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None
