"""A write whose answer is lost, refused for now or cut off is sent again with its mutation_id, and stored once."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from support.clients import Counts, address, client_of, new_account, session, squat, until
from support.proxy import Proxy
from support.serving import Edge, Serving, edge

from edge.client import (
    AsyncClient,
    ClientClosed,
    DeploymentFailure,
    Unanswered,
    Unavailable,
)


def stored(here: Edge, user_id: str) -> int:
    """Return how many sessions the account has."""
    [[count]] = here.database.admin(
        "select count(*) from public.workout_sessions where user_id = cast(:user_id as uuid)", user_id=user_id
    )
    return count


@asynccontextmanager
async def through(proxy: Proxy, **options: float) -> AsyncIterator[AsyncClient]:
    """Yield a client whose way to the service leads through `proxy`."""
    port = httpx2.URL(proxy.url).port
    async with AsyncClient(f"http://127.0.0.1:{port}", **options) as client:
        yield client


def test_a_lost_answer_is_asked_for_again_and_the_write_is_stored_once(here: Edge) -> None:
    async def run() -> None:
        with Proxy(address(here.serving)) as proxy:
            async with through(proxy, timeout=1, attempts=8) as client:
                account = new_account(client)
                exercise = await squat(account)
                key = uuid.uuid4()
                proxy.swallow("down")
                saving = asyncio.create_task(account.save(session(exercise), mutation_id=key))
                await until(lambda: stored(here, account.user_id) == 1)
                proxy.resume()
                receipt = await saving
                assert (receipt.mutation_id, receipt.replayed) == (str(key), True)
                assert stored(here, account.user_id) == 1
                again = await account.save(session(exercise), mutation_id=key)
                assert again == receipt

    asyncio.run(run())


def test_the_attempts_are_bounded_and_the_error_has_the_mutation_id(here: Edge) -> None:
    async def run() -> None:
        with Proxy(address(here.serving)) as proxy:
            async with through(proxy, timeout=0.5, attempts=2) as client:
                account = new_account(client)
                exercise = await squat(account)
                counts = Counts(here.serving)
                proxy.swallow("down")
                with pytest.raises(Unanswered) as lost:
                    await account.save(session(exercise))
                await until(lambda: counts.now().get("sessions") == 2)
                assert stored(here, account.user_id) == 1
                # A later try of the caller's finds what was stored.
                proxy.resume()
                receipt = await account.save(session(exercise), mutation_id=lost.value.mutation_id)
                assert receipt.replayed
                assert stored(here, account.user_id) == 1

    asyncio.run(run())


def test_an_exercise_whose_answer_is_lost_is_not_added_twice(here: Edge) -> None:
    async def run() -> None:
        with Proxy(address(here.serving)) as proxy:
            async with through(proxy, timeout=0.5) as client:
                account = new_account(client)
                counts = Counts(here.serving)
                proxy.swallow("down")
                with pytest.raises(Unanswered):
                    await account.add_exercise("Squat", "weight_reps")
                assert counts.now() == {"exercises": 1}

    asyncio.run(run())


class Interposed(httpx2.AsyncBaseTransport):
    """Answers the first requests itself, as a proxy in front of the service may, and passes all others on."""

    def __init__(self, *first: httpx2.Response) -> None:
        self._first = list(first)
        self._network = httpx2.AsyncHTTPTransport()
        self.sent: list[tuple[float, httpx2.Request]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append((time.monotonic(), request))
        if self._first:
            return self._first.pop(0)
        return await self._network.handle_async_request(request)

    async def aclose(self) -> None:
        await self._network.aclose()


def test_retry_after_is_waited_for(here: Edge) -> None:
    async def run() -> None:
        account = new_account(AsyncClient(address(here.serving)))
        exercise = await squat(account)
        away = [httpx2.Response(503, headers={"Retry-After": "1"}), httpx2.Response(502, text="<html>")]
        transport = Interposed(*away)
        async with client_of(here.serving, transport=transport) as client:
            receipt = await new_account(client, uuid.UUID(account.user_id)).save(session(exercise))
            assert not receipt.replayed
            moments = [moment for moment, _ in transport.sent]
            assert 1 <= moments[1] - moments[0] < 5
            assert moments[2] > moments[1]
            assert len({request.headers["Idempotency-Key"] for _, request in transport.sent}) == 1

    asyncio.run(run())


@pytest.mark.parametrize("after", ["60", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_a_long_retry_after_is_the_callers_to_wait_for(here: Edge, after: str) -> None:
    async def run() -> None:
        transport = Interposed(httpx2.Response(503, headers={"Retry-After": after}))
        async with client_of(here.serving, transport=transport) as client:
            with pytest.raises(Unavailable) as away:
                await new_account(client).delete(uuid.uuid4())
            assert away.value.retry_after >= 59
            assert away.value.mutation_id is not None
            assert len(transport.sent) == 1

    asyncio.run(run())


@pytest.mark.parametrize("after", ["soon", "-1", "0", "", "９"])
def test_a_retry_after_that_is_no_time_is_none(here: Edge, after: str) -> None:
    async def run() -> None:
        answer = httpx2.Response(503, headers={"Retry-After": after.encode()})
        async with client_of(here.serving, transport=Interposed(answer)) as client:
            assert not (await new_account(client).freshness()).stale

    asyncio.run(run())


def test_a_missing_route_or_function_is_not_tried_again(here: Edge) -> None:
    async def run(answer: httpx2.Response) -> None:
        transport = Interposed(answer)
        async with client_of(here.serving, transport=transport) as client:
            with pytest.raises(DeploymentFailure):
                await new_account(client).delete(uuid.uuid4())
            assert [request.url.path.split("/")[2] for _, request in transport.sent] == ["sessions"]

    asyncio.run(run(httpx2.Response(503, json={"sqlstate": "42883"}, headers={"Retry-After": "0"})))
    asyncio.run(run(httpx2.Response(404, json={"code": "PGRST202", "message": "no function"})))
    asyncio.run(run(httpx2.Response(404, json={"detail": "Not Found"})))


def test_a_client_that_is_closed_ends_its_calls(here: Edge) -> None:
    """The write goes through or not; its caller is told which mutation_id to ask with."""

    async def run() -> None:
        account = new_account(AsyncClient(address(here.serving)))
        exercise = await squat(account)
        with Proxy(address(here.serving)) as proxy:
            async with through(proxy, timeout=20) as client:
                ours = new_account(client, uuid.UUID(account.user_id))
                proxy.swallow("down")
                saving = asyncio.create_task(ours.save(session(exercise)))
                reading = asyncio.create_task(ours.freshness())
                await until(lambda: stored(here, account.user_id) == 1)
                began = time.monotonic()
            assert time.monotonic() - began < 5
            with pytest.raises(ClientClosed) as closed:
                await saving
            with pytest.raises(ClientClosed):
                await reading
            with pytest.raises(ClientClosed):
                await ours.freshness()
            receipt = await account.save(session(exercise), mutation_id=closed.value.mutation_id)
            assert receipt.replayed

    asyncio.run(run())


def test_a_caller_that_is_cancelled_sends_nothing_more(here: Edge) -> None:
    async def run() -> None:
        transport = Interposed(httpx2.Response(503, headers={"Retry-After": "5"}))
        async with client_of(here.serving, transport=transport) as client:
            deleting = asyncio.create_task(new_account(client).delete(uuid.uuid4()))
            await until(lambda: len(transport.sent) == 1)
            deleting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await deleting
        assert len(transport.sent) == 1

    asyncio.run(run())


def test_the_service_is_killed_in_the_middle_and_comes_back() -> None:
    with edge() as here:

        async def run() -> None:
            async with client_of(here.serving, attempts=10, timeout=5) as client:
                account = new_account(client)
                exercise = await squat(account)
                every = range(1, 41)
                saves = [asyncio.create_task(account.save(session(exercise, reps=reps))) for reps in every]
                await until(lambda: stored(here, account.user_id) >= 5)
                here.serving.kill()
                restarting = asyncio.to_thread(Serving, here.database.url, http_port=str(here.serving.port))
                again = await restarting
                try:
                    receipts = await asyncio.gather(*saves)
                    assert {receipt.stats_requested_version for receipt in receipts} == set(every)
                    assert stored(here, account.user_id) == 40
                finally:
                    again.kill()

        asyncio.run(run())
