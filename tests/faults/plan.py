"""Which fault comes when, from the seed alone.

Each lane is a deck of its kinds that is shuffled anew whenever it is used up, so that every kind comes equally often.
The same seed gives the same faults with the same dice in the same order. Timings are not repeated: what a fault finds
in flight depends on the machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faults.scene import Scene


class Lane(Enum):
    """Faults of one lane come one after the other; the lanes go on at the same time."""

    PROCESSES = "processes"
    SERVERS = "servers"
    CONNECTIONS = "connections"
    MESSAGES = "messages"


@dataclass(frozen=True)
class Outcome:
    """What a fault did, and whether it hit a stage, a run or a message in flight."""

    in_flight: bool
    what: str


@dataclass(frozen=True)
class Kind:
    """One kind of fault. `inject` returns when the fault is over."""

    name: str
    lane: Lane
    inject: Callable[[Scene], Outcome]
    missing: Callable[[], str | None] = lambda: None
    """Why it can't be done on this machine; None: it can."""


@dataclass(frozen=True)
class Planned:
    """The next fault of a lane: its kind, its dice, and how long the lane rests before it."""

    kind: Kind
    dice: random.Random
    rest: float


def faults(seed: int, number: int, lane: Lane, kinds: Iterable[Kind]) -> Iterator[Planned]:
    """Yield the faults of one lane of round `number`, without end; none where the lane has no kinds."""
    ours = [kind for kind in kinds if kind.lane is lane]
    dice = random.Random(f"{seed}/{lane.value}")
    deck: Iterator[Kind] = _deck(ours, dice)
    # A round goes on where the deck of the round before it would be, however many of it were used.
    for _ in range(number * FAULTS_OF_A_ROUND[lane] if ours else 0):
        next(deck)
    yield from (
        Planned(
            kind, random.Random(f"{seed}/{number}/{lane.value}/{place}"), dice.uniform(*REST_SECONDS[lane])
        )
        for place, kind in enumerate(deck)
    )


REST_SECONDS: Mapping[Lane, tuple[float, float]] = {
    Lane.PROCESSES: (2, 6),
    Lane.SERVERS: (3, 7),
    Lane.CONNECTIONS: (1, 4),
    Lane.MESSAGES: (1, 4),
}
"""From one fault of a lane to the next, so that work gets done between them."""
FAULTS_OF_A_ROUND: Mapping[Lane, int] = {
    Lane.PROCESSES: 8,
    Lane.SERVERS: 8,
    Lane.CONNECTIONS: 10,
    Lane.MESSAGES: 9,
}
"""About how many faults a lane gets done in a round: so far the next round's deck is ahead."""


def _deck(kinds: list[Kind], dice: random.Random) -> Iterator[Kind]:
    while kinds:
        yield from dice.sample(kinds, len(kinds))
