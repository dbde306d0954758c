"""The client for asyncio."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote
from uuid import UUID, uuid4

import httpx2

from edge.client.answers import (
    Archived,
    CalendarMonth,
    Frame,
    Freshness,
    HomeOverview,
    PrDetail,
    PrOverview,
    Receipt,
    Reconciled,
    Refresh,
    StoredExercise,
    VolumeOverview,
)
from edge.client.coordinator import Coordinator, View
from edge.client.decoding import decoded
from edge.client.documents import Grain, Session, Tracking, encoded
from edge.client.errors import ContractError, StatsError
from edge.client.http import Http, Request, TokenSource
from edge.client.tasks import Tasks

T = TypeVar("T")
F = TypeVar("F", bound=Frame)


class AsyncClient:
    """One service, for all accounts of an app. Made and used in one event loop; closed when the app ends.

    timeout: seconds to connect, and to wait for an answer; attempts: how often a request is sent at most; connections:
    how many at once; transport: another way than the network, as httpx2 has them.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeout: float = 20,
        attempts: int = 4,
        connections: int = 200,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = Http(
            base_url, timeout=timeout, attempts=attempts, connections=connections, transport=transport
        )
        self._tasks = Tasks()
        self._coordinator = Coordinator(self._tasks)

    def account(self, user_id: UUID | str, token: TokenSource) -> AsyncAccount:
        """Return the calls of one account. `user_id` must be the one that the app has signed in: results that are kept
        for it are given out without a look at the token."""
        return AsyncAccount(self._http, self._tasks, self._coordinator, str(UUID(str(user_id))), token)

    async def aclose(self) -> None:
        """End what runs, whose callers get ClientClosed, and close the connections."""
        await self._tasks.close()
        await self._http.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class AsyncAccount:
    """The calls of one account. Each raises a StatsError."""

    def __init__(
        self, http: Http, tasks: Tasks, coordinator: Coordinator, user_id: str, token: TokenSource
    ) -> None:
        self._http, self._tasks, self._coordinator = http, tasks, coordinator
        self.user_id, self._token = user_id, token

    async def save(
        self,
        session: Session,
        *,
        session_id: UUID | str | None = None,
        mutation_id: UUID | None = None,
    ) -> Receipt:
        """Save a new session, or replace the one of `session_id`. What was stored is stored, whatever is read later.

        `mutation_id`: of this write; the same one again writes once. Made up where it is not given.
        """
        if session_id is None:
            return await self._write("POST", "/v1/sessions", mutation_id, session)
        return await self._write("PUT", f"/v1/sessions/{_part(session_id)}", mutation_id, session)

    async def delete(self, session_id: UUID | str, *, mutation_id: UUID | None = None) -> Receipt:
        """Delete a session."""
        return await self._write("DELETE", f"/v1/sessions/{_part(session_id)}", mutation_id)

    async def add_exercise(self, name: str, tracking: Tracking) -> StoredExercise:
        """Add an exercise. Sent again only where it can't have been stored: a second one of the name would be new."""
        document = {"name": name, "tracking": tracking}
        request = Request("POST", "/v1/exercises", body=encoded(document), is_repeatable=False)
        return await self._ask(StoredExercise, request)

    async def change_exercise(self, exercise_id: str, name: str, tracking: Tracking) -> StoredExercise:
        """Change an exercise, and bring it back from the archive."""
        document = {"name": name, "tracking": tracking, "exercise_id": exercise_id}
        stored = await self._ask(StoredExercise, Request("POST", "/v1/exercises", body=encoded(document)))
        if stored.stats_requested_version is not None:
            self._coordinator.drains.note_write(self.user_id, stored.stats_requested_version)
        return stored

    async def archive_exercise(self, exercise_id: str) -> Archived:
        """Let no new session name the exercise."""
        return await self._ask(Archived, Request("DELETE", f"/v1/exercises/{_part(exercise_id)}"))

    async def state_record(
        self,
        exercise_id: str,
        one_rm_kg: float,
        achieved_on: date,
        *,
        is_onboarding: bool = False,
        mutation_id: UUID | None = None,
    ) -> Receipt:
        """State a 1RM; `is_onboarding`: the exercise's one initial 1RM. The receipt has its `manual_pr_id`."""
        source = "onboarding" if is_onboarding else "manual"
        record = {"one_rm_kg": one_rm_kg, "achieved_on": achieved_on, "source": source}
        return await self._write("PUT", f"/v1/manual-records/{_part(exercise_id)}", mutation_id, record)

    async def delete_record(self, manual_pr_id: UUID | str, *, mutation_id: UUID | None = None) -> Receipt:
        """Delete a stated 1RM."""
        return await self._write("DELETE", f"/v1/manual-records/{_part(manual_pr_id)}", mutation_id)

    async def pr_overview(
        self, as_of: date, *, min_generation: int | None = None, wait: float = 0
    ) -> PrOverview:
        """Return the PR board of today, the day before or the day after."""
        return await self._read(PrOverview, "/v1/pr-overview", {"date": str(as_of)}, min_generation, wait)

    async def home_overview(
        self, as_of: date, *, min_generation: int | None = None, wait: float = 0
    ) -> HomeOverview:
        """Return the periods, days and records up to today, the day before or the day after."""
        return await self._read(HomeOverview, "/v1/home-overview", {"date": str(as_of)}, min_generation, wait)

    async def volume_overview(
        self, as_of: date, grain: Grain, *, min_generation: int | None = None, wait: float = 0
    ) -> VolumeOverview:
        """Return the periods of one grain that began by the day."""
        query = {"date": str(as_of), "grain": grain}
        return await self._read(VolumeOverview, "/v1/volume-overview", query, min_generation, wait)

    async def pr_detail(
        self, exercise_id: str, as_of: date, *, min_generation: int | None = None, wait: float = 0
    ) -> PrDetail:
        """Return the days, records and rep maxes of one exercise."""
        path = f"/v1/pr-detail/{_part(exercise_id)}"
        return await self._read(PrDetail, path, {"date": str(as_of)}, min_generation, wait)

    async def calendar_month(
        self, month: date, *, min_generation: int | None = None, wait: float = 0
    ) -> CalendarMonth:
        """Return the days of the month that have a session."""
        return await self._read(
            CalendarMonth, "/v1/calendar-month", {"month": str(month)}, min_generation, wait
        )

    async def freshness(self) -> Freshness:
        """Return the requested and the published generation."""
        return await self._ask(Freshness, Request("GET", "/v1/freshness"))

    async def refresh(self) -> Refresh:
        """Refresh the account at once, as far as one call goes: for `reconcile`, which knows when to ask again."""
        return await self._ask(Refresh, Request("POST", "/v1/refresh", body=b"{}", attempts=1))

    async def reconcile(
        self,
        requested_version: int,
        as_of: date,
        *,
        grain: Grain = "week",
        exercise_id: str | None = None,
        wait: float = 10,
    ) -> Reconciled:
        """Return the screens with the generation that a receipt or a reader's answer told, in one flight for all
        callers: the account's queue is drained, then home, PR and volume board and the exercise are read.

        `wait`: how long the first read waits for the workers, where the drain left something to them.
        """
        view = View(as_of, grain, exercise_id)
        return await self._coordinator.reconcile(self, requested_version, view, wait)

    async def _write(
        self, method: str, path: str, mutation_id: UUID | None, document: object = None
    ) -> Receipt:
        body = None if document is None else encoded(document)
        request = Request(method, path, body=body, mutation_id=mutation_id or uuid4())
        receipt = await self._ask(Receipt, request)
        self._coordinator.drains.note_write(self.user_id, receipt.stats_requested_version)
        return receipt

    async def _read(
        self, kind: type[F], path: str, query: Mapping[str, str], min_generation: int | None, wait: float
    ) -> F:
        more = {"wait": str(wait)} if wait else {}
        if min_generation is not None:
            more["min_generation"] = str(min_generation)
        answer = await self._ask(kind, Request("GET", path, {**query, **more}, wait=wait))
        if answer.user_id != self.user_id:
            raise ContractError(f"the token is not of the account {self.user_id}")
        return answer

    async def _ask(self, kind: type[T], request: Request) -> T:
        try:
            return decoded(kind, await self._tasks.run(self._http.ask(self._token, request)))
        except StatsError as error:
            error.mutation_id = request.mutation_id
            raise


def _part(value: UUID | str) -> str:
    """Return `value` as one part of a path. A dot is encoded, too: a part of dots alone would be resolved."""
    return quote(str(value), safe="").replace(".", "%2E")
