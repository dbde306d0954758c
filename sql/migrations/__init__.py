"""Alembic steps: each is a small Python file that runs the SQL file of the same name beside it."""

from __future__ import annotations

from pathlib import Path

from alembic import op

from sql.script import run_script


def run_sql_beside(step: str) -> None:
    """Execute the statements of the `.sql` file that lies beside the migration step `step` (its ``__file__``)."""
    run_script(op.get_bind(), Path(step).with_suffix(".sql").read_text(encoding="utf-8"))
