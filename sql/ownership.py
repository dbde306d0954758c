"""Whose the objects of this product are: after a restore without owners, those of whoever restored."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

from models import metadata
from models.base import PRIVATE
from sql.functions import created_names, sql_files
from sql.roles import OWNER
from sql.script import run_script

VERSION_TABLE = "stats_refresh_schema_version"
"""Made by the first migration, so whoever owns it owns what a restore brought."""


@dataclass(frozen=True)
class Foreign:
    """One object under a name of ours that another role owns."""

    statement: str
    """Gives it to OWNER."""
    came_with_the_version_table: bool
    may_be_given: bool
    """Whether this login may run the statement."""


_FOREIGN = text("""
    with objects as (
        select 0 as place, format('schema %I', n.nspname) as name, n.nspowner as owner
        from pg_catalog.pg_namespace n
        where n.nspname = 'stats_private'
        union all
        select 1, format('table %I.%I', n.nspname, c.relname), c.relowner
        from pg_catalog.pg_class c
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where c.relkind in ('r', 'p')
            and (n.nspname = 'stats_private' or n.nspname = 'public' and c.relname = any (:tables))
        union all
        select 2, format('type %I.%I', n.nspname, t.typname), t.typowner
        from pg_catalog.pg_type t
        join pg_catalog.pg_namespace n on n.oid = t.typnamespace
        join pg_catalog.pg_class c on c.oid = t.typrelid
        where n.nspname = 'stats_private' and c.relkind = 'c'
        union all
        select
            3,
            format('function %I.%I(%s)', n.nspname, p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid)),
            p.proowner
        from pg_catalog.pg_proc p
        join pg_catalog.pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'stats_private' or n.nspname || '.' || p.proname = any (:functions)
    )
    select
        format('alter %s owner to %I', o.name, cast(:owner as text)) as statement,
        coalesce(o.owner = v.relowner, false) as came_with_the_version_table,
        pg_catalog.pg_has_role(current_user, o.owner, 'usage') as may_be_given
    from objects o
    left join pg_catalog.pg_class v on v.oid = pg_catalog.to_regclass('public.' || :version_table)
    where o.owner <> (select r.oid from pg_catalog.pg_roles r where r.rolname = :owner)
    order by o.place, o.name
""")


def foreign_objects(connection: Connection) -> list[Foreign]:
    """Return what stands under our names and is another role's, in the order in which it can be given to OWNER."""
    tables = [table.name for table in metadata.tables.values() if table.schema != PRIVATE]
    rows = connection.execute(
        _FOREIGN,
        {
            "tables": [*tables, VERSION_TABLE],
            "functions": created_names(list(sql_files())),
            "owner": OWNER,
            "version_table": VERSION_TABLE,
        },
    )
    return [Foreign(*row) for row in rows]


def take_over_restored(connection: Connection) -> None:
    """Give OWNER what a restore without owners left with the role that restored, all of it in this transaction.

    What somebody gave to yet another role stays there, and so does what this login may not give: the migration says
    so, by name, when it is refused.
    """
    for found in foreign_objects(connection):
        if found.came_with_the_version_table and found.may_be_given:
            run_script(connection, found.statement)
