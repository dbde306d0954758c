"""`stats-refresh migrate`: bring the database to this release."""

from __future__ import annotations

from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from ops.errors import OperatorError
from sql.migrate import DatabaseTooNew, Migrated
from sql.migrate import migrate as migrate_engine


def migrate(url: str) -> Migrated:
    """Migrate the database at `url`; raises OperatorError where a later release has been there."""
    engine = create_engine(url, poolclass=NullPool)
    try:
        return migrate_engine(engine)
    except DatabaseTooNew as error:
        raise OperatorError(str(error)) from error
