"""Alembic's environment: runs the steps on the connection and inside the transaction of `sql.migrate`."""

from __future__ import annotations

from alembic import context

from models import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table="stats_refresh_schema_version",
)
context.run_migrations()
