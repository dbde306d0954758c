"""Running a file of SQL statements as it stands."""

from __future__ import annotations

from sqlalchemy import Connection


def run_script(connection: Connection, script: str) -> None:
    """Execute the statements of `script`, in which `%` and `:` mean nothing but themselves."""
    connection.exec_driver_sql(script, execution_options={"no_parameters": True})
