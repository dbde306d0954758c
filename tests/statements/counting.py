"""How many statements ran inside a call of one of our functions, counted by pg_stat_statements.

A statement at the top level is what a client sends; a nested one is what a function runs through the executor. An
expression that PL/pgSQL evaluates by itself is none, and neither is a SQL function that Postgres inlines. The checks of
foreign keys run as statements too. They are left out: how many there are follows from the rows, not from our functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Database

SETTINGS = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "all"}
"""What a server needs that counts them; the library can only be loaded at its start."""

_NESTED = r"""
    select s.query, s.calls
    from public.pg_stat_statements s
    join pg_catalog.pg_database d on d.oid = s.dbid and d.datname = pg_catalog.current_database()
    -- The constants of a statement are numbered: SELECT $2 FROM ONLY ... is the check's SELECT 1.
    where not s.toplevel and s.query !~ '^SELECT (1|\$[0-9]+) FROM ONLY .* FOR KEY SHARE OF x$'
    order by s.calls desc, s.query
"""


def start_counting(database: Database) -> None:
    database.admin("create extension pg_stat_statements with schema public")


@contextmanager
def nested_statements(database: Database) -> Iterator[Counter[str]]:
    """Yield a counter that has, at the end of the block, each nested statement with its number of executions."""
    counted: Counter[str] = Counter()
    database.admin("select public.pg_stat_statements_reset()")
    yield counted
    counted.update(dict(database.admin(_NESTED)))


def listing(counted: Counter[str]) -> str:
    """Return the statements one a line, the most frequent first, to be read where a bar is passed."""
    return "\n".join(f"{calls:>4}  {' '.join(query.split())[:150]}" for query, calls in counted.most_common())
