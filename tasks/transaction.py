"""The one transaction frame: opens, commits and rolls back; messages go out after the commit.

Nothing else in the tasks touches a transaction. `transaction` is usable without Celery, so tests and the command
line work through the same frame as the workers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, Engine, text


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
    "select pg_catalog.set_config('role', :role, true), pg_catalog.set_config('request.jwt.claims', :claims, true)"
)


@contextmanager
def transaction(engine: Engine, identity: Identity) -> Iterator[Connection]:
    """Yield a connection inside one transaction as `identity`; commit at the end, roll back on any exception."""
    with engine.begin() as connection:
        connection.execute(_ACT_AS, {"role": identity.role, "claims": identity.claims})
        yield connection
