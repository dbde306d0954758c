"""`stats-refresh migrate`: bring the database to this release."""

from __future__ import annotations

from psycopg2 import errors
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from ops.database_errors import first_line
from ops.errors import OperatorError
from sql.migrate import DatabaseTooNew, Migrated
from sql.migrate import migrate as migrate_engine


def migrate(url: str) -> Migrated:
    """Migrate the database at `url`.

    Raises OperatorError where a later release has been there, and where the login may not migrate.
    """
    engine = create_engine(url, poolclass=NullPool)
    try:
        return migrate_engine(engine)
    except DatabaseTooNew as error:
        raise OperatorError(str(error)) from error
    except DBAPIError as error:
        if not isinstance(error.orig, errors.InsufficientPrivilege):
            raise
        raise OperatorError(
            f"{engine.url.username or 'this login'} may not migrate the database ({first_line(error)}): name a "
            "superuser, or the role that migrated it before, in STATS_REFRESH_DATABASE_URL"
        ) from error
