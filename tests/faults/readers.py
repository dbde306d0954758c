"""Readers: they ask all the time and note every answer for the checker of histories."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

from reckoning.pr_summaries import pr_summaries
from reckoning.rows import Policy
from sqlalchemy.exc import DBAPIError

from faults.history import Expected, Read, without_links
from faults.load import Person, today

BOARD = "get_pr_overview"
_PAUSE = 0.06


@dataclass
class Reader:
    """Asks about its people in turn, until `over` is set."""

    name: str
    people: Sequence[Person]
    dice: random.Random
    over: threading.Event
    reads: list[Read] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        while not self.over.is_set():
            self.ask(self.dice.choice(self.people), *self.dice.choice(_questions()))
            self.over.wait(_PAUSE)

    def ask(self, person: Person, function: str, *arguments: str) -> None:
        began = time.monotonic()
        placed = ", ".join(f"cast(:a{place} as {_TYPES[place]})" for place in range(len(arguments)))
        values = {f"a{place}": value for place, value in enumerate(arguments)}
        try:
            answer = person.app.call(f"select public.{function}({placed})", **values)
        except DBAPIError as error:
            # 55000: no snapshot, said so. Anything else is the server, away or set otherwise for a while.
            self.refused[getattr(error.orig, "pgcode", None) or "connection lost"] += 1
            return
        read = Read(
            reader=self.name,
            began=began,
            account=person.user_id,
            question=(function, *arguments),
            generation=answer["generation"],
            requested=answer["requested_version"],
            stale=answer["stale"],
            content=digest(
                without_links(answer)["exercises"] if function == BOARD else without_links(answer)
            ),
        )
        self.reads.append(read)


_TYPES = ("date", "text")


def _questions() -> list[tuple[str, ...]]:
    day = today().isoformat()
    others = [(f"get_{one}", day) for one in ("home_overview", "calendar_month")]
    return [(BOARD, day)] * 3 + [*others, ("get_volume_overview", day, "week")]


def by_the_reckoning(people: Sequence[Person], policy: Policy) -> Expected:
    """Return what a board has to say by the rows that were noted for its generation."""
    by_id = {person.user_id: person for person in people}

    @cache
    def board(account: object, generation: int, day: str) -> str | None:
        rows = by_id[account].rows.get(generation)  # type: ignore[index]
        if rows is None:
            return None
        as_of = today().fromisoformat(day)
        summaries = pr_summaries(rows, policy, [as_of])
        board = [{"exercise_id": exercise, **row} for (_, exercise), row in sorted(summaries.items())]
        return digest(without_links(board))

    def expected(read: Read) -> str | None:
        function, *arguments = read.question
        return board(read.account, read.generation, arguments[0]) if function == BOARD else None

    return expected


def digest(content: Any) -> str:
    """Return a short name of the content: numbers as numbers, days as text, whatever the order of the keys."""
    plain = json.dumps(_plain(content), sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case list():
            return [_plain(one) for one in value]
        case bool() | None:
            return value
        case int() | float() | Decimal():
            return f"{Decimal(str(value)).normalize():f}"
    return str(value)
