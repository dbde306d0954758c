"""The one transaction frame: opens, commits and rolls back; messages go out after the commit.

Nothing else in the tasks touches a transaction. It works without Celery, so tests and the command line go
through the same frame as the workers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, TextClause, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from core.stages import Stage
from tasks import beats
from tasks.beats import BeatRun

logger = logging.getLogger(__name__)

Answer = dict[str, Any]
"""What a stage's SQL function returns: `response` and its details."""


@dataclass(frozen=True)
class Identity:
    """Who acts: the database role and the JWT claims that `auth.uid()` and `auth.jwt()` read."""

    role: str
    claims: str


def service() -> Identity:
    """Return the identity of a worker or an operator's command: `service_role`, no account."""
    return Identity("service_role", json.dumps({"role": "service_role"}))


def account(user_id: UUID, *, admin: bool = False) -> Identity:
    """Return the identity of the account `user_id`; with `admin`, of an administrator."""
    claims: dict[str, object] = {"sub": str(user_id), "role": "authenticated"}
    if admin:
        claims["app_metadata"] = {"role": "admin"}
    return Identity("authenticated", json.dumps(claims))


_ACT_AS = text(
    "select pg_catalog.set_config('role', :role, true),"
    " pg_catalog.set_config('request.jwt.claims', :claims, true)"
)
# Two statements in one message, which saves a round trip. The second runs as the role that the first has set, and its
# budget holds from the statement after it on.
_ACT_AS_AND_ARM = text(f"{_ACT_AS}; select public.stats_projection_statement_budget_v1(:stage)")


@contextmanager
def transaction(engine: Engine, identity: Identity, budget_of: Stage | None = None) -> Iterator[Connection]:
    """Yield a connection inside one transaction as `identity`; commit at the end, roll back on any exception.

    The transaction runs under the statement budget of the stage `budget_of`, where one is named.
    """
    with _begin(engine, identity, budget_of) as connection:
        yield connection
        # Closed without it, on an exception, the connection rolls back.
        connection.commit()


def _begin(engine: Engine, identity: Identity, budget_of: Stage | None) -> Connection:
    """Return a connection whose transaction acts as `identity`, under the budget of that stage.

    It is READ COMMITTED whatever the database, the role or a pooler sets as default: under a lock that it waited for
    it has to see what the holder committed.

    A kept connection may have ended since, by a restart of Postgres say. Its first statement finds that out, before
    there is any work that could fail with it, and a new connection takes its place.
    """
    try:
        return _try_to_begin(engine, identity, budget_of)
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
    return _try_to_begin(engine, identity, budget_of)


def _try_to_begin(engine: Engine, identity: Identity, budget_of: Stage | None) -> Connection:
    connection = engine.connect().execution_options(isolation_level="READ COMMITTED")
    who = {"role": identity.role, "claims": identity.claims}
    try:
        if budget_of is None:
            connection.execute(_ACT_AS, who)
        else:
            connection.execute(_ACT_AS_AND_ARM, {**who, "stage": budget_of})
    except BaseException:
        connection.close()
        raise
    return connection


def run_stage(
    engine: Engine,
    stage: Stage,
    statement: TextClause,
    arguments: Mapping[str, object],
    after_commit: Callable[[Answer], None],
    beat: BeatRun | None = None,
) -> Answer:
    """Run one stage: arm its budget, call its SQL function, commit, and only then call `after_commit`.

    A run that a `beat` fired steps aside while its entry is still at work, and adds its row of history.
    The function records its own failures, so a failed attempt commits too. What raises from here committed
    nothing of the stage: a lost connection, or a person's cancel.
    """
    try:
        with transaction(engine, service(), budget_of=stage) as connection:
            answer = _answer(connection, statement, arguments, beat)
            if beat is not None:
                beats.record(connection, beat, answer)
    except Exception as error:
        if beat is not None:
            _record_rolled_back(engine, beat, error)
        raise
    after_commit(answer)
    return answer


def _answer(
    connection: Connection, statement: TextClause, arguments: Mapping[str, object], beat: BeatRun | None
) -> Answer:
    if beat is not None and not beats.try_lock(connection, beat):
        return dict(beats.OVERLAP)
    answer: Answer = connection.execute(statement, arguments).scalar_one()
    return answer


def _record_rolled_back(engine: Engine, beat: BeatRun, error: Exception) -> None:
    try:
        with transaction(engine, service()) as connection:
            beats.record_rolled_back(connection, beat, error)
    except SQLAlchemyError as problem:
        logger.warning(
            "no history row for %s, which failed with %s: %s",
            beat.entry,
            error,
            problem,
            extra={"action": "history", "entry": beat.entry, "task_id": beat.task_id},
        )
