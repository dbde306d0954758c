"""One import at a time for an account."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from tasks.transaction import account, transaction

_TAKE = text("select public.take_import_turn_v1(:wait, :user)")
_ALIVE = text("select 1")


class Turn:
    """The account's turn to import, held by an open transaction on a connection of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def is_held(self) -> bool:
        """Ask the connection that holds the turn; with the connection the turn is lost."""
        if self._connection.invalidated:
            return False
        try:
            self._connection.execute(_ALIVE)
        except DBAPIError:
            return False
        return True


class _Lost(Exception):
    """There is no transaction left that could be committed."""


@contextmanager
def turn(engine: Engine, user: UUID, waiting: Callable[[], None]) -> Iterator[Turn]:
    """Hold the account's turn, after `waiting` was called where another import has it.

    What the import before has saved is seen by the statements of the block.
    """
    with suppress(_Lost), transaction(engine, account(user)) as connection:
        if not connection.execute(_TAKE, {"wait": False, "user": user}).scalar_one():
            waiting()
            connection.execute(_TAKE, {"wait": True, "user": user})
        ours = Turn(connection)
        yield ours
        if not ours.is_held():
            raise _Lost
