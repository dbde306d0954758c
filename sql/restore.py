"""A migrated database without rows, into which `pg_restore --data-only` brings those of another."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, text

from sql.roles import OWNER

SEEDED = (
    "public.stats_refresh_schema_version",
    "stats_private.applied_sql_files",
    "public.stats_refresh_event_types",
    "public.stats_projection_worker_settings",
    "public.stats_projection_policy",
    "public.stats_maintenance_cursors",
    "public.pr_overview_projection_control",
)
"""The tables into which a migration itself puts rows, which a dump has too."""

_TABLES = text("""
    select format('%I.%I', c.relnamespace::regnamespace::text, c.relname)
    from pg_catalog.pg_class c
    where c.relkind = 'r' and c.relowner = current_user::regrole
        and c.relnamespace::regnamespace::text in ('public', 'stats_private')
    order by 1
""")


class NotEmpty(Exception):
    """A table has rows that no migration made."""


def remove_seeds(engine: Engine) -> None:
    """Remove the rows that the migration made. Raises NotEmpty, and removes none, where there are any others."""
    with engine.begin() as connection:
        connection.execute(text(f"set local role {OWNER}"))
        connection.execute(text("set local lock_timeout = '5s'"))
        tables = connection.scalars(_TABLES).all()
        connection.execute(text(f"lock table {', '.join(tables)} in access exclusive mode"))
        for table in tables:
            if table not in SEEDED and _has_rows(connection, table):
                raise NotEmpty(f"{table} has rows: rows are restored into a database of their own")
        for table in SEEDED:
            connection.execute(text(f"delete from {table}"))


def _has_rows(connection: Connection, table: str) -> bool:
    return bool(connection.scalar(text(f"select exists (select from {table})")))
