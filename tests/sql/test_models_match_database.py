"""The models describe exactly the tables that the Alembic steps make."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, text

from models import metadata
from models.base import InternalChar

SCHEMAS = ("public", "stats_private")
BOOKKEEPING = ("stats_refresh_schema_version", "applied_sql_files")


@pytest.fixture
def connection(database):
    """A connection without our schemas on its search path, so that both sides name every schema."""
    engine = create_engine(database.admin_engine.url, connect_args={"options": "-csearch_path=pg_catalog"})
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_alembic_finds_nothing_to_change(connection):
    context = MigrationContext.configure(
        connection,
        opts={
            "include_schemas": True,
            "include_name": _is_ours,
            "compare_type": _type_differs,
            "compare_server_default": True,
        },
    )

    assert compare_metadata(context, metadata) == []


def test_tables_made_from_the_models_are_the_same_in_every_detail(connection):
    """Covers what Alembic leaves out: checks, collations, deferrability, storage parameters."""
    migrated = _describe(connection)

    # Never committed: the fixture closes the connection.
    connection.execute(text("drop schema public, stats_private cascade"))
    connection.execute(text("create schema public"))
    connection.execute(text("create schema stats_private"))
    metadata.create_all(connection)
    modelled = _describe(connection)

    assert modelled == migrated


def _is_ours(name, kind, _parents):
    if kind == "schema":
        return name in SCHEMAS
    return not (kind == "table" and name in BOOKKEEPING)


def _type_differs(_context, _column, _model_column, _type, model_type):
    # SQLAlchemy reflects "char" as varchar. None: compare as usual.
    return False if isinstance(model_type, InternalChar) else None


def _describe(connection):
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
