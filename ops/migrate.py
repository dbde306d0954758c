"""`stats-refresh migrate`: bring the database to this release."""

from __future__ import annotations

from psycopg2 import errors
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from core.errors import OperatorError
from ops.database_errors import first_line, of_another_release, operator_error
from sql.migrate import DatabaseTooNew, Migrated, OwnerDenied, RowsMissing, needs_migration
from sql.migrate import migrate as migrate_engine
from sql.restore import NotEmpty, remove_seeds
from sql.roles import OWNER, AuthSchemaClosed
from tasks.transaction import service, transaction


class _MayNotMigrate(OperatorError):
    """The login lacks a right that whoever migrates needs."""


def migrate(url: str) -> Migrated:
    """Migrate the database at `url`. Raises OperatorError where it, or the login, does not allow that."""
    engine = create_engine(url, poolclass=NullPool)
    try:
        return migrate_engine(engine)
    except (DatabaseTooNew, RowsMissing, AuthSchemaClosed) as error:
        raise OperatorError(str(error)) from error
    except OwnerDenied as error:
        raise OperatorError(
            f"{OWNER}, as which a migration acts, is refused ({error}): nothing was changed; give what this names to "
            f"{OWNER} or rename it, then run stats-refresh migrate again{_as_statements(error.statements)}"
        ) from error
    except DBAPIError as error:
        if isinstance(error.orig, errors.LockNotAvailable):
            raise OperatorError(
                f"a long transaction, such as pg_dump's, holds a table that the migration alters ({first_line(error)}):"
                " nothing was changed, run stats-refresh migrate again when it has ended"
            ) from error
        if isinstance(error.orig, errors.InsufficientPrivilege):
            raise _MayNotMigrate(
                f"{engine.url.username or 'this login'} may not migrate the database ({first_line(error)}): run "
                "stats-refresh migrate as a superuser, or as the role that migrated it before"
            ) from error
        raise


def migrate_without_rows(url: str) -> None:
    """Make the tables of this release at `url` without the rows that a migration puts into them.

    Raises OperatorError as `migrate` does, and where there are other rows already.
    """
    engine = create_engine(url, poolclass=NullPool)
    migrate(url)
    try:
        remove_seeds(engine)
    except NotEmpty as error:
        raise OperatorError(f"nothing was removed: {error}") from error


def _as_statements(statements: list[str]) -> str:
    return f". What gives all of it: {'; '.join(statements)};" if statements else ""


def ensure_migrated(url: str) -> None:
    """Migrate the database at `url` unless it is at this release, which a worker's login is enough to tell.

    Raises OperatorError as `migrate` does, and where a login that may not migrate is no worker's either.
    """
    no_worker: OperatorError | None = None
    try:
        with transaction(create_engine(url, poolclass=NullPool), service()) as connection:
            if not needs_migration(connection):
                return
    except (DatabaseTooNew, RowsMissing) as error:
        raise OperatorError(str(error)) from error
    except DBAPIError as error:
        if isinstance(error.orig, errors.InsufficientPrivilege):
            # A login that may migrate lends itself the API's roles there.
            no_worker = operator_error(error)
        elif not of_another_release(error):
            raise
    try:
        migrate(url)
    except _MayNotMigrate as error:
        raise (no_worker or OperatorError(f"the database is not at this release: {error}")) from error
