"""Bring a database to this release: roles, Alembic steps, functions and grants, all in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from psycopg2 import errors
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from sql.functions import OWNER_POLICIES, apply_functions, sql_files
from sql.ownership import foreign_objects, take_over_restored
from sql.roles import OWNER, create_roles
from sql.script import run_script

_ATTEMPTS = 30
_LOCK_KEY = "stats-refresh:migrate"


class DatabaseTooNew(Exception):
    """The database was migrated by a later release than this one."""


class OwnerDenied(Exception):
    """Something that the migration needs belongs to another role than its owner; the text is the server's line.

    `statements` give the owner all that stands under our names and is another role's.
    """

    def __init__(self, line: str, statements: list[str]) -> None:
        super().__init__(line)
        self.statements = statements


class RowsMissing(Exception):
    """The tables are there without the rows that the migration put into them, the schema step among them."""


@dataclass(frozen=True)
class Migrated:
    """What one `migrate` changed: the schema step before and after, and the names of the applied SQL files."""

    before: str | None
    after: str
    functions: list[str]


def migrate(engine: Engine, pause: Callable[[float], None] = time.sleep) -> Migrated:
    """Migrate the database behind `engine`; safe to repeat, from two processes at once, and with workers running.

    Waits for any table lock only briefly and starts over, so that saves never queue behind a waiting migration;
    `pause(seconds)` is called between attempts. What a restore left with the role that restored, and the grants that
    it left out, are put right. Raises DatabaseTooNew for a database of a later release, RowsMissing for one that waits
    for its rows, OwnerDenied and AuthSchemaClosed where another role has to give something first.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            # Under the lock that it waits for it has to see what another migration did.
            with (
                engine.connect().execution_options(isolation_level="READ COMMITTED") as connection,
                connection.begin(),
            ):
                return _migrate(connection)
        except DBAPIError as error:
            if (
                not isinstance(error.orig, errors.LockNotAvailable | errors.DeadlockDetected)
                or attempt == _ATTEMPTS
            ):
                raise
        pause(0.2)
    raise AssertionError("unreachable: the last attempt raises")


def needs_migration(connection: Connection) -> bool:
    """Tell whether `migrate` would change anything, on a connection that acts as `service_role`.

    Fails with 42883 on a database that has never been migrated, or by a release that can't tell. Raises
    DatabaseTooNew and RowsMissing.
    """
    release = connection.scalar(text("select public.stats_refresh_release_v1()"))
    scripts = ScriptDirectory.from_config(alembic_config(connection))
    step = release["schema_step"]
    if step is None:
        raise _rows_missing()
    if step not in {script.revision for script in scripts.walk_revisions()}:
        raise _too_new(step)
    return (
        step != scripts.get_current_head()
        or not release["is_closed"]
        or any(release["files"].get(file.name) != file.sha256 for file in sql_files())
    )


def _migrate(connection: Connection) -> Migrated:
    connection.execute(
        text("select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(:key, 0))"),
        {"key": _LOCK_KEY},
    )
    connection.execute(text("set local lock_timeout = '500ms'"))
    create_roles(connection)
    take_over_restored(connection)
    foreign = [found.statement for found in foreign_objects(connection)]
    connection.execute(text(f"set local role {OWNER}"))
    try:
        return _migrate_as_owner(connection)
    except DBAPIError as error:
        if isinstance(error.orig, errors.InsufficientPrivilege):
            raise OwnerDenied(str(error.orig.diag.message_primary), foreign) from error
        raise


def _migrate_as_owner(connection: Connection) -> Migrated:
    # Before anything is read: where row security is forced, the owner would not even see the schema step.
    [policies] = [file.text for file in sql_files() if file.name == OWNER_POLICIES]
    run_script(connection, policies)
    before = _schema_version(connection)
    config = alembic_config(connection)
    newest = ScriptDirectory.from_config(config).get_current_head()
    assert newest is not None
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise _too_new(before) from error
    return Migrated(before, newest, apply_functions(connection, schema_changed=before != newest))


def _too_new(step: str | None) -> DatabaseTooNew:
    return DatabaseTooNew(
        f"the database is at schema step {step}, which this release does not know; install the newer release"
    )


def _rows_missing() -> RowsMissing:
    return RowsMissing(
        "the database has the tables of this product and no schema step: restore its rows (pg_restore --data-only), "
        "then run stats-refresh migrate"
    )


def alembic_config(connection: Connection) -> Config:
    """Return Alembic's configuration for steps that run on `connection`, in its transaction."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _schema_version(connection: Connection) -> str | None:
    if connection.scalar(
        text("select pg_catalog.to_regclass('public.stats_refresh_schema_version') is null")
    ):
        return None
    version: str | None = connection.scalar(
        text("select version_num from public.stats_refresh_schema_version")
    )
    if version is None:
        raise _rows_missing()
    return version
