"""The models describe exactly the tables that the Alembic steps make."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, text
from support.schema import BOOKKEEPING, SCHEMAS, describe

from models import metadata
from models.base import InternalChar


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
    migrated = describe(connection)

    # Never committed: the fixture closes the connection.
    connection.execute(text("drop schema public, stats_private cascade"))
    connection.execute(text("create schema public"))
    connection.execute(text("create schema stats_private"))
    metadata.create_all(connection)
    modelled = describe(connection)

    assert modelled == migrated


def _is_ours(name, kind, _parents):
    if kind == "schema":
        return name in SCHEMAS
    return not (kind == "table" and name in BOOKKEEPING)


def _type_differs(_context, _column, _model_column, _type, model_type):
    # SQLAlchemy reflects "char" as varchar. None: compare as usual.
    return False if isinstance(model_type, InternalChar) else None
