"""Alembic steps: each is a small Python file that runs the SQL file of the same name beside it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from alembic import op


def run_sql_beside(step: str) -> None:
    """Execute the statements of the `.sql` file that lies beside the migration step `step` (its ``__file__``)."""
    # The driver's own cursor: the text holds `%` and `:` that must reach the server as they stand.
    with closing(op.get_bind().connection.cursor()) as cursor:
        cursor.execute(Path(step).with_suffix(".sql").read_text(encoding="utf-8"))
