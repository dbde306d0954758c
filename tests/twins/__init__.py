"""Broken twins: the product with one line taken out, and the test that has to go red for it.

A lock, a check or a savepoint that no test misses is either untested or unneeded. The test modules here list the
twins, one subject each; trial.py runs a twin's test in a process of its own, on a database with that one change.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Engine, text

from sql.roles import OWNER

VARIABLE = "STATS_REFRESH_TEST_TWIN"
"""The file with the SQL that breaks the databases of this test process."""


def apply_twin(engine: Engine) -> None:
    """Break the migrated database behind `engine` as the environment asks; nothing where it does not."""
    file = os.environ.get(VARIABLE)
    if file is None:
        return
    with engine.begin() as connection:
        connection.execute(text(f"set local role {OWNER}"))
        connection.execute(text("set local check_function_bodies = off"))
        with connection.connection.cursor() as cursor:
            cursor.execute(Path(file).read_text(encoding="utf-8"))
