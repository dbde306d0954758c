"""One flight for all who ask for the same account and generation: drain, home, boards, one exercise."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol, TypeVar, cast

from edge.client.answers import (
    Drain,
    HomeOverview,
    PrDetail,
    PrOverview,
    Reconciled,
    Refresh,
    VolumeOverview,
    positive_generation,
)
from edge.client.documents import Grain
from edge.client.drains import Drains
from edge.client.errors import Unauthorized, is_lasting
from edge.client.tasks import Tasks, wait_for

T = TypeVar("T")

KEPT_SECONDS = 60.0
MOST_KEPT = 256


class Reader(Protocol):
    """One account, as the coordinator asks for it."""

    @property
    def user_id(self) -> str: ...

    async def refresh(self) -> Refresh: ...

    async def home_overview(
        self, as_of: date, *, min_generation: int | None = None, wait: float = 0
    ) -> HomeOverview: ...

    async def pr_overview(
        self, as_of: date, *, min_generation: int | None = None, wait: float = 0
    ) -> PrOverview: ...

    async def volume_overview(
        self, as_of: date, grain: Grain, *, min_generation: int | None = None, wait: float = 0
    ) -> VolumeOverview: ...

    async def pr_detail(
        self, exercise_id: str, as_of: date, *, min_generation: int | None = None, wait: float = 0
    ) -> PrDetail: ...


@dataclass(frozen=True)
class View:
    """What a caller shows."""

    as_of: date
    grain: Grain
    exercise_id: str | None


class Coordinator:
    """The flights of one client, and those of its results that are kept."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks, self.drains = tasks, Drains(tasks)
        self._flights: OrderedDict[tuple[str, int], _Flight] = OrderedDict()

    async def reconcile(self, reader: Reader, generation: object, view: View, wait: float) -> Reconciled:
        """Return the screens of `view` with `generation`, from the flight that all callers share."""
        key = (reader.user_id, positive_generation(generation, "requested_version"))
        flight, is_ours = self._flight_of(key, reader, wait)
        try:
            return await flight.show(view)
        except Unauthorized:
            # The token is that of the first caller; this one may have a better one.
            if is_ours:
                raise
        flight, _ = self._flight_of(key, reader, wait)
        return await flight.show(view)

    def _flight_of(self, key: tuple[str, int], reader: Reader, wait: float) -> tuple[_Flight, bool]:
        flight = self._flights.get(key)
        if flight is not None and not flight.is_over:
            return flight, False

        def drop() -> None:
            if self._flights.get(key) is flight:
                del self._flights[key]

        flight = self._flights[key] = _Flight(self._tasks, self.drains, reader, key[1], wait, drop)
        self._flights.move_to_end(key)
        if len(self._flights) > MOST_KEPT:
            self._forget_some()
        return flight, True

    def _forget_some(self) -> None:
        """Forget what is over, then the oldest results. One that still flies stays, or others would fly it again."""
        for key, flight in list(self._flights.items()):
            if flight.is_over or (len(self._flights) > MOST_KEPT and not flight.is_flying):
                del self._flights[key]


class _Flight:
    """One account and generation: a drain, and each read once, whoever asks for it."""

    def __init__(
        self,
        tasks: Tasks,
        drains: Drains,
        reader: Reader,
        generation: int,
        wait: float,
        drop: Callable[[], None],
    ) -> None:
        self._tasks, self._drains, self._reader = tasks, drains, reader
        self._generation, self._wait, self._drop = generation, wait, drop
        self._shared: dict[object, asyncio.Task[Any]] = {}
        self._ends_at: float | None = None

    @property
    def is_flying(self) -> bool:
        """Whether it has not begun, or something of it has not ended."""
        return not self._shared or any(not task.done() for task in self._shared.values())

    @property
    def is_over(self) -> bool:
        """Whether its results are too old for a new caller."""
        return self._ends_at is not None and time.monotonic() >= self._ends_at

    async def show(self, view: View) -> Reconciled:
        """Return the screens of `view`."""
        return await self._once(view, lambda: self._fly(view))

    async def _fly(self, view: View) -> Reconciled:
        """Read; what is incomplete or failed is dropped for the next caller, what is fresh or lasting stays a while."""
        try:
            shown = await self._read(view)
        except Exception as error:
            self._end(is_kept=is_lasting(error))
            raise
        self._end(is_kept=shown.state != "incomplete")
        return shown

    def _end(self, *, is_kept: bool) -> None:
        if not is_kept:
            self._drop()
        elif self._ends_at is None:
            self._ends_at = time.monotonic() + KEPT_SECONDS

    async def _once(self, what: object, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what `work` returns, which is done once for all who name it `what`."""
        if what not in self._shared:
            self._shared[what] = self._tasks.start(work())
        return await wait_for(cast("asyncio.Task[T]", self._shared[what]))

    async def _read(self, view: View) -> Reconciled:
        """Read in the order in which a person looks: home first, and the chosen exercise last."""
        reader, as_of, grain, exercise_id = self._reader, view.as_of, view.grain, view.exercise_id
        drain = await self._once("drain", self._drain)
        # What is drained is there, or does not come; else the workers bring it, and one read waits for that.
        wait = 0.0 if drain.outcome == "drained" else self._wait
        asked = {"min_generation": self._generation}
        home = await self._once(("home", as_of), lambda: reader.home_overview(as_of, wait=wait, **asked))
        pr, volume = await asyncio.gather(
            self._once(("pr", as_of), lambda: reader.pr_overview(as_of, **asked)),
            self._once(("volume", as_of, grain), lambda: reader.volume_overview(as_of, grain, **asked)),
        )
        detail = None
        if exercise_id is not None:
            detail = await self._once(
                ("detail", exercise_id, as_of), lambda: reader.pr_detail(exercise_id, as_of, **asked)
            )
        return Reconciled(
            requested_version=self._generation, home=home, pr=pr, volume=volume, detail=detail, drain=drain
        )

    async def _drain(self) -> Drain:
        return await self._drains.drain(self._reader.user_id, self._generation, self._reader.refresh)
