"""Broken twins: the product with one line taken out, and the test that has to go red for it.

A lock, a check or a savepoint that no test misses is either untested or unneeded. broken.py lists the twins,
test_twins.py runs each in a process of its own, on a database whose functions have that one change.
"""

from __future__ import annotations

import os

from sqlalchemy import Engine, text

from sql.roles import OWNER

from .broken import TWINS

VARIABLE = "STATS_REFRESH_TEST_TWIN"
"""The name of the twin that this test process runs against."""


def apply_twin(engine: Engine) -> None:
    """Break the migrated database behind `engine` as the environment asks; nothing where it does not."""
    name = os.environ.get(VARIABLE)
    if name is None:
        return
    with engine.begin() as connection:
        connection.execute(text(f"set local role {OWNER}"))
        connection.execute(text("set local check_function_bodies = off"))
        with connection.connection.cursor() as cursor:
            cursor.execute(TWINS[name].broken_text())
