"""How an operator's command talks to the database: as service, in one transaction, with errors for a person."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from ops.database_errors import operator_error
from tasks.transaction import service, transaction


@contextmanager
def as_service(database_url: str) -> Iterator[Connection]:
    """Yield a connection in one transaction as `service_role`; commit at the end.

    Raises OperatorError for whatever the database answers but the rows.
    """
    engine = create_engine(database_url, poolclass=NullPool)
    try:
        with transaction(engine, service()) as connection:
            yield connection
    except DBAPIError as error:
        if (problem := operator_error(error)) is None:
            raise
        raise problem from error
