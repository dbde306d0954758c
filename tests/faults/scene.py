"""What a fault has at hand."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from faults.load import Person
from faults.stack import Stack
from faults.watch import Watch


@dataclass(frozen=True)
class Scene:
    """The stack, the accounts of the round, the fault's own dice, and the end of the round."""

    stack: Stack
    people: Sequence[Person]
    watch: Watch
    dice: random.Random
    over: threading.Event

    def last(self, seconds: float) -> None:
        """Let the fault last for so long, or to the end of the round."""
        self.over.wait(seconds)
