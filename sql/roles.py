"""The roles that the identity model needs. Roles belong to the whole cluster, so neighbours may make them too."""

from __future__ import annotations

from psycopg2 import errors
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, ProgrammingError

OWNER = "stats_refresh_owner"
"""Owns every table and function; nobody logs in as it."""

API_ROLES = ("anon", "authenticated", "service_role")
"""The roles that a caller's transaction takes on, as PostgREST and Supabase name them."""

_LIMITS = {"statement_timeout": "8s", "idle_in_transaction_session_timeout": "60s"}
"""What the roles of apps get when they are made here: a call that hangs, or a client that says nothing, ends.

PostgREST takes them over into each transaction in which it acts as the role, and a login *named* so starts with them.
SET ROLE does not, and neither does a member's login: that one needs `alter role ... set` of its own. service_role has
none: a stage's budget is the setting's, and longer.
"""


class AuthSchemaClosed(Exception):
    """A schema `auth` is there that the owner may not use, and this login may not let it."""


def create_roles(connection: Connection) -> None:
    """Create the missing roles and let this login act as each. Existing roles, with their limits, are left as they are.

    Raises AuthSchemaClosed.
    """
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
    _open_auth_schema(connection)


def _open_auth_schema(connection: Connection) -> None:
    """Let the owner call auth.uid() in the platform's `auth` schema, and create it there where it is missing."""
    schema = connection.execute(
        text("""
            select n.nspowner::pg_catalog.regrole::text as owner,
                exists (
                    select from pg_catalog.pg_proc p
                    where p.pronamespace = n.oid and p.proname = 'uid' and p.pronargs = 0) as has_uid
            from pg_catalog.pg_namespace n
            where n.nspname = 'auth'
        """)
    ).one_or_none()
    if schema is None:
        return
    needed = ("usage",) if schema.has_uid else ("usage", "create")
    missing = [privilege for privilege in needed if not _has_on_auth(connection, OWNER, privilege)]
    grant = f"grant {', '.join(missing)} on schema auth to {OWNER}"
    # Asked first: a grant by one who may not is an error or, where he has other rights there, a mere warning.
    if not all(_has_on_auth(connection, None, f"{privilege} with grant option") for privilege in missing):
        raise AuthSchemaClosed(
            f"{schema.owner} owns the schema auth, and {OWNER} may not use it: run `{grant}` as {schema.owner} or a "
            "superuser, then stats-refresh migrate again"
        )
    if missing:
        connection.execute(text(grant))


def _has_on_auth(connection: Connection, role: str | None, privilege: str) -> bool:
    """Tell whether `role` (None: this login) has `privilege` on the schema `auth`."""
    return bool(
        connection.scalar(
            text("select pg_catalog.has_schema_privilege(coalesce(:role, current_user), 'auth', :privilege)"),
            {"role": role, "privilege": privilege},
        )
    )


def _create_role(connection: Connection, role: str) -> None:
    exists = connection.scalar(
        text("select exists (select from pg_catalog.pg_roles where rolname = :role)"), {"role": role}
    )
    if exists:
        return
    try:
        with connection.begin_nested():
            connection.execute(text(f"create role {role} nologin"))
            if role in ("anon", "authenticated"):
                for limit, value in _LIMITS.items():
                    connection.execute(text(f"alter role {role} set {limit} = '{value}'"))
    except (ProgrammingError, DBAPIError) as error:
        # Another database of this cluster made it in the meantime: before (42710) or while (23505) we did.
        if not isinstance(error.orig, errors.DuplicateObject | errors.UniqueViolation):
            raise
