"""What the tables of a database are like, in PostgreSQL's own words."""

from __future__ import annotations

from sqlalchemy import Connection, text

SCHEMAS = ("public", "stats_private")
BOOKKEEPING = ("stats_refresh_schema_version", "applied_sql_files")


def describe(connection: Connection) -> dict[str, str]:
    """Return PostgreSQL's own words for each column, constraint, index and table of our schemas."""
    rows = connection.execute(
        text(
            """
            with ours as (
                select oid, oid::regclass::text as name, reloptions
                from pg_class
                where
                    relkind in ('r', 'p')
                    and relnamespace::regnamespace::text = any(:schemas)
                    and relname <> all(:bookkeeping)
            )

            select 'table ' || name, concat_ws(' ', reloptions, obj_description(oid, 'pg_class'))
            from ours
            union all
            select
                'column ' || ours.name || '.' || attname,
                concat_ws(
                    ' ',
                    format_type(atttypid, atttypmod),
                    'collate ' || nullif(attcollation, 0)::regcollation,
                    case when attnotnull then 'not null' end,
                    'identity ' || nullif(attidentity::text, ''),
                    'default ' || pg_get_expr(adbin, adrelid),
                    'comment ' || col_description(attrelid, attnum)
                )
            from ours
            inner join pg_attribute on attrelid = ours.oid and attnum > 0 and not attisdropped
            left join pg_attrdef on adrelid = attrelid and adnum = attnum
            union all
            -- 18 keeps "not null" as constraints too, under names of its own; the columns have told it.
            select 'constraint ' || conname || ' on ' || ours.name, pg_get_constraintdef(pg_constraint.oid)
            from ours
            inner join pg_constraint on conrelid = ours.oid and contype <> 'n'
            union all
            select 'index ' || indexrelid::regclass, pg_get_indexdef(indexrelid)
            from ours
            inner join pg_index on indrelid = ours.oid
            """
        ),
        {"schemas": list(SCHEMAS), "bookkeeping": list(BOOKKEEPING)},
    )
    return dict(tuple(row) for row in rows)


def describe_functions(connection: Connection) -> dict[str, str]:
    """Return the text of each function of our schemas, and who may call it."""
    rows = connection.execute(
        text(
            """
            select
                oid::regprocedure::text,
                concat_ws(
                    ' ', pg_get_functiondef(oid), 'owned by', proowner::regrole, 'called by',
                    array(select a::text from unnest(proacl) as acl (a) order by 1)
                )
            from pg_proc
            where pronamespace::regnamespace::text = any(:schemas)
            """
        ),
        {"schemas": list(SCHEMAS)},
    )
    return dict(tuple(row) for row in rows)
