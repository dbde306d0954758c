"""What a refused write looks like: its SQLSTATE, its message, and a database that is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from conftest import Database


@dataclass
class Refusal:
    """SQLSTATE and first line of the message; empty until the block raised."""

    code: str = ""
    message: str = ""


@contextmanager
def refused(code: str, message: str = "") -> Iterator[Refusal]:
    """Expect the block to be refused with `code` and a message that begins with `message`."""
    refusal = Refusal()
    try:
        yield refusal
    except DBAPIError as error:
        refusal.code, refusal.message = error.orig.pgcode, error.orig.diag.message_primary
    assert refusal.code == code, f"expected {code}, got {refusal}"
    assert refusal.message.startswith(message), f"expected {message!r}, got {refusal.message!r}"


@contextmanager
def writes_nothing(database: Database) -> Iterator[None]:
    """Expect the block to leave every row of every table as it was."""
    before = contents(database)
    yield
    assert contents(database) == before, "something was written"


def contents(database: Database) -> dict[str, tuple]:
    """Return, for every table of ours, how many rows it has and a hash of them all."""
    tables = [
        name
        for [name] in database.admin(
            "select oid::regclass::text from pg_catalog.pg_class where relkind = 'r'"
            " and relnamespace in ('public'::regnamespace, 'stats_private'::regnamespace)"
        )
    ]
    rows = database.admin(
        " union all ".join(
            f"select '{table}', count(*), sum(pg_catalog.hashtextextended(t::text, 0)) from {table} t"
            for table in tables
        )
    )
    return {table: (count, content) for table, count, content in rows}
