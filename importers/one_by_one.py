"""Writes what a file lists, each item in a transaction of its own: one that is refused costs nothing but itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from importers.refusals import refusal, told_clearly
from tasks.transaction import Identity, transaction

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class Refused:
    """The database refuses an item, for this reason."""

    reason: str


def write_each(
    engine: Engine,
    identity: Identity,
    items: Sequence[Item],
    write: Callable[[Connection, Item], Outcome],
) -> list[Outcome | Refused]:
    """Write `items` as `identity`, and return what became of each, in their order.

    Raises OperatorError, telling how far it came, where the database stops it or it is interrupted; what was
    written until then stays.
    """
    outcomes: list[Outcome | Refused] = []
    with told_clearly(
        lambda: f"{len(outcomes)} of {len(items)} done; they stay, and the same command continues from there"
    ):
        for item in items:
            outcomes.append(_write_one(engine, identity, item, write))
    return outcomes


def _write_one(
    engine: Engine, identity: Identity, item: Item, write: Callable[[Connection, Item], Outcome]
) -> Outcome | Refused:
    try:
        with transaction(engine, identity) as connection:
            return write(connection, item)
    except DBAPIError as error:
        reason = refusal(error)
        if reason is None:
            raise
        return Refused(reason)
