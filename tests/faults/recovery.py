"""How long it takes after each fault until all is published that had been waiting when it ended."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from uuid import UUID

from faults.stack import Stack
from faults.watch import Watch

_REQUESTED = """
    select s.user_id, s.requested_version, s.applied_version
    from public.user_stats_refresh_state s
"""
_EVERY = 0.25


@dataclass(frozen=True)
class _Wait:
    kind: str
    since: float


@dataclass
class Recoveries:
    """Looks at the generations again and again. Other faults go on meanwhile, so the times are upper bounds."""

    stack: Stack
    longest: dict[str, float]
    """Filled by kind."""
    _new: list[_Wait] = field(default_factory=list)
    _open: list[tuple[_Wait, dict[UUID, int]]] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def expect(self, kind: str) -> None:
        """A fault of this kind has ended now."""
        self._new.append(_Wait(kind, time.monotonic()))

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        watch = Watch(self.stack)
        try:
            while not self._stopped.wait(_EVERY):
                rows = watch.rows(_REQUESTED)
                if rows:
                    self._look(rows)
        finally:
            watch.close()

    def _look(self, rows: list[tuple]) -> None:
        applied = {user: version for user, _, version in rows}
        still = []
        for wait, awaited in self._open:
            if all(applied.get(user, 0) >= version for user, version in awaited.items()):
                took = time.monotonic() - wait.since
                self.longest[wait.kind] = max(took, self.longest.get(wait.kind, 0.0))
            else:
                still.append((wait, awaited))
        awaited = {user: requested for user, requested, version in rows if requested > version}
        while self._new:
            still.append((self._new.pop(0), awaited))
        self._open = still
