"""The roles that the identity model needs. Roles belong to the whole cluster, so neighbours may make them too."""

from __future__ import annotations

from psycopg2 import errors
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, ProgrammingError

OWNER = "stats_refresh_owner"
"""Owns every table and function; nobody logs in as it."""

API_ROLES = ("anon", "authenticated", "service_role")
"""The roles that a caller's transaction takes on, as PostgREST and Supabase name them."""


def create_roles(connection: Connection) -> None:
    """Create the missing roles and let this login act as each. Existing roles are left as they are."""
    for role in (OWNER, *API_ROLES):
        _create_role(connection, role)
    for role in (OWNER, *API_ROLES):
        # A superuser is a member of all of them.
        if not connection.scalar(
            text("select pg_catalog.pg_has_role(current_user, :role, 'member')"), {"role": role}
        ):
            connection.execute(text(f"grant {role} to current_user"))
    database = connection.scalar(text("select pg_catalog.quote_ident(pg_catalog.current_database())"))
    connection.execute(text(f"grant create on database {database} to {OWNER}"))
    connection.execute(text(f"grant create, usage on schema public to {OWNER}"))
    connection.execute(text(f"grant usage on schema public to {', '.join(API_ROLES)}"))
    if connection.scalar(text("select pg_catalog.to_regnamespace('auth') is not null")):
        connection.execute(text(f"grant usage on schema auth to {OWNER}"))


def _create_role(connection: Connection, role: str) -> None:
    exists = connection.scalar(
        text("select exists (select from pg_catalog.pg_roles where rolname = :role)"), {"role": role}
    )
    if exists:
        return
    try:
        with connection.begin_nested():
            connection.execute(text(f"create role {role} nologin"))
    except (ProgrammingError, DBAPIError) as error:
        # Another database of this cluster made it in the meantime: before (42710) or while (23505) we did.
        if not isinstance(error.orig, errors.DuplicateObject | errors.UniqueViolation):
            raise
