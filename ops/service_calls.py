"""How an operator's command talks to the database: as service, in one transaction, with errors for a person."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from ops.errors import OperatorError
from tasks.transaction import service, transaction

_REFUSALS = ("22023", "42501", "55000", "P0002", "22P02")
"""SQLSTATEs of answers: a value, a right, a state or a row that is not there, or no value at all."""
_NOT_OF_THIS_RELEASE = ("42883", "42P01", "42703", "3F000")
"""No such function, table, column or schema."""
_NO_SUCH_ROLE = 'invalid value for parameter "role"'


@contextmanager
def as_service(database_url: str) -> Iterator[Connection]:
    """Yield a connection in one transaction as `service_role`; commit at the end.

    Raises OperatorError, with the database's own line, for what the operator can put right.
    """
    engine = create_engine(database_url, poolclass=NullPool)
    try:
        with transaction(engine, service()) as connection:
            yield connection
    except DBAPIError as error:
        line = str(error.orig).strip().partition("\n")[0]
        state = getattr(error.orig, "pgcode", None)
        if state in _NOT_OF_THIS_RELEASE or line.startswith(_NO_SUCH_ROLE):
            raise OperatorError(
                f"the database is not at this release ({line}): run stats-refresh migrate"
            ) from error
        if state in _REFUSALS:
            raise OperatorError(line) from error
        raise
