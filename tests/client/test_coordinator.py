"""One flight for all who ask for the same account and generation, on the real service and its real door."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date

import pytest
from support.clients import (
    DAY,
    Counts,
    Watched,
    address,
    client_of,
    new_account,
    session,
    squat,
    today,
    until,
)
from support.proxy import Proxy
from support.serving import SECRET, Edge

from edge.client import (
    AsyncAccount,
    AsyncClient,
    ClientClosed,
    ContractError,
    NotPublished,
    Reconciled,
    Unanswered,
    Unauthorized,
    coordinator,
    drains,
)
from edge.service.tokens import sign

WAITS = b"stats_refresh_http_waiting 1.0"
ONE_FLIGHT = {"refresh": 1, "home-overview": 1, "pr-overview": 1, "volume-overview": 1}


class Stop:
    """Lets an answer wait until it is told to go on."""

    def __init__(self) -> None:
        self.reached, self._goes_on = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await asyncio.wait_for(self._goes_on.wait(), 20)

    def go_on(self) -> None:
        self._goes_on.set()


@asynccontextmanager
async def watched(here: Edge) -> AsyncIterator[tuple[Watched, AsyncAccount, str]]:
    """Yield a transport, a new account on it, and the account's exercise; generation 1 waits to be computed."""
    transport = Watched()
    async with client_of(here.serving, transport=transport) as client:
        account = new_account(client)
        exercise = await squat(account)
        await account.save(session(exercise))
        transport.seen.clear()
        yield transport, account, exercise


def flight(account: AsyncAccount, generation: int = 1, **options: object) -> asyncio.Task[Reconciled]:
    return asyncio.create_task(account.reconcile(generation, today(), **options))


def other_client(here: Edge, account: AsyncAccount) -> tuple[AsyncClient, AsyncAccount]:
    client = AsyncClient(address(here.serving))
    return client, new_account(client, uuid.UUID(account.user_id))


def test_a_hundred_callers_cause_one_drain_and_one_read_of_each_kind(here: Edge) -> None:
    async def run() -> None:
        async with client_of(here.serving) as client:
            account = new_account(client)
            exercise = await squat(account)
            receipt = await account.save(session(exercise))
            counts = Counts(here.serving)
            handles = [new_account(client, uuid.UUID(account.user_id)) for _ in range(100)]
            generation = receipt.stats_requested_version
            results = await asyncio.gather(
                *(one.reconcile(generation, today(), exercise_id=exercise) for one in handles)
            )
            assert counts.now() == {**ONE_FLIGHT, "pr-detail": 1}
            assert len({id(result) for result in results}) == 1
            assert (results[0].state, results[0].generation) == ("fresh", 1)
            assert (results[0].drain.outcome, results[0].drain.pages) == ("drained", 1)
            assert results[0].detail.days[0].day == DAY
            # Fresh results are kept: a later caller asks for nothing.
            later = await account.reconcile(generation, today(), exercise_id=exercise)
            assert later is results[0]
            assert counts.now() == {**ONE_FLIGHT, "pr-detail": 1}

    asyncio.run(run())


def test_another_exercise_adds_one_read(here: Edge) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, exercise):
            plain, one, two = await asyncio.gather(
                flight(account), flight(account, exercise_id=exercise), flight(account, exercise_id="another")
            )
            assert sorted(transport.seen) == sorted([*ONE_FLIGHT, "pr-detail", "pr-detail"])
            assert (plain.detail, one.detail.exercise_id, two.detail.exercise_id) == (
                None,
                exercise,
                "another",
            )
            assert one.home is two.home

    asyncio.run(run())


def test_the_order_of_a_flight(here: Edge) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, exercise):
            await account.reconcile(1, today(), exercise_id=exercise)
            assert transport.seen[:2] == ["refresh", "home-overview"]
            assert sorted(transport.seen[2:4]) == ["pr-overview", "volume-overview"]
            assert transport.seen[4:] == ["pr-detail"]

    asyncio.run(run())


def test_accounts_and_generations_do_not_share(here: Edge) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, exercise):
            client, other = other_client(here, account)
            stranger = new_account(client)
            await stranger.save(session(await squat(stranger)))
            transport.seen.clear()
            first = await account.reconcile(1, today())
            await account.save(session(exercise, 110))
            second = await account.reconcile(2, today())
            assert (first.pr.exercises[0].best_weight_kg, second.pr.exercises[0].best_weight_kg) == (100, 110)
            theirs = await stranger.reconcile(1, today())
            assert theirs.pr.user_id == stranger.user_id
            await other.freshness()
            await client.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("is_asked_for", [False, True])
def test_a_write_during_a_flight_causes_exactly_one_more_pass(here: Edge, is_asked_for: bool) -> None:
    """Two writes, one of them sent twice, mere observers, and who asks for what was written: one more pass."""

    async def run() -> None:
        async with watched(here) as (transport, account, exercise):
            stop = transport.on_answer["refresh"] = Stop()
            flights = [flight(account)]
            await stop.reached.wait()
            key = uuid.uuid4()
            await account.save(session(exercise, 110))
            for _ in range(2):
                written = await account.save(session(exercise, 120), mutation_id=key)
            assert written.stats_requested_version == 3
            flights += [flight(account), *([flight(account, 3)] if is_asked_for else [])]
            await asyncio.sleep(0)
            stop.go_on()
            results = await asyncio.gather(*flights)
            assert transport.seen.count("refresh") == 2
            assert (results[0].drain.pages, results[0].drain.outcome) == (2, "drained")
            assert results[1] is results[0]
            # The second pass is what has published them.
            assert [result.generation for result in results] == [3] * len(results)
            assert results[-1].pr.exercises[0].best_weight_kg == 120

    asyncio.run(run())


def test_a_higher_generation_causes_one_more_pass_and_an_observer_none(here: Edge) -> None:
    """The write is another device's, so this client knows of it by the generation alone."""

    async def run() -> None:
        async with watched(here) as (transport, account, exercise):
            client, other = other_client(here, account)
            stop = transport.on_answer["refresh"] = Stop()
            flights = [flight(account), flight(account)]
            await stop.reached.wait()
            await other.save(session(exercise, 110))
            flights += [flight(account), flight(account, 2), flight(account, 2)]
            await asyncio.sleep(0)
            stop.go_on()
            results = await asyncio.gather(*flights)
            assert transport.seen.count("refresh") == 2
            assert transport.seen.count("home-overview") == 2
            assert [result.state for result in results] == ["fresh"] * 5
            assert results[3].generation == 2
            await client.aclose()

    asyncio.run(run())


def test_observers_and_known_writes_cause_no_other_pass(here: Edge) -> None:
    """Who asks for the same or a lower generation, and a write that is sent again."""

    async def run() -> None:
        async with watched(here) as (transport, account, exercise):
            key = uuid.uuid4()
            await account.save(session(exercise, 110), mutation_id=key)
            transport.seen.clear()
            stop = transport.on_answer["refresh"] = Stop()
            flights = [flight(account, 2)]
            await stop.reached.wait()
            flights += [flight(account, generation) for generation in (1, 2) for _ in range(5)]
            assert (await account.save(session(exercise, 110), mutation_id=key)).replayed
            stop.go_on()
            results = await asyncio.gather(*flights)
            assert transport.seen.count("refresh") == 1
            assert {result.drain.pages for result in results} == {1}

    asyncio.run(run())


def test_the_drain_is_bounded_however_often_somebody_writes(here: Edge) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, exercise):
            weights = iter(range(110, 200))
            transport.on_answer["refresh"] = lambda: account.save(session(exercise, next(weights)))
            result = await account.reconcile(1, today())
            assert transport.seen.count("refresh") == drains.MOST_PAGES == 10
            assert (result.drain.outcome, result.drain.pages) == ("left", 10)
            assert result.state == "fresh"

    asyncio.run(run())


@pytest.mark.parametrize("generation", [None, 0, -1, True, 1.0, "1"])
def test_a_generation_that_is_none_is_refused_before_anything_is_sent(here: Edge, generation: object) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, _):
            with pytest.raises(ContractError, match="requested_version: a generation is a positive integer"):
                await account.reconcile(generation, today())
            assert transport.seen == []

    asyncio.run(run())


def test_an_incomplete_flight_is_not_kept(here: Edge) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, exercise):
            assert (await account.reconcile(1, today())).state == "fresh"
            await account.save(session(exercise, 110))
            pause(here, True)
            try:
                transport.seen.clear()
                waits = await asyncio.gather(*(flight(account, 2, wait=0.3) for _ in range(3)))
                assert [one.state for one in waits] == ["incomplete"] * 3
                assert (waits[0].generation, waits[0].home.stale) == (1, True)
                assert waits[0].drain.outcome == "left"
                assert sorted(transport.seen) == sorted(ONE_FLIGHT)
            finally:
                pause(here, False)
            again = await account.reconcile(2, today())
            assert (again.state, again.generation, transport.seen.count("refresh")) == ("fresh", 2, 2)

    asyncio.run(run())


def test_a_flight_before_the_first_publication_is_not_kept(here: Edge) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, _):
            pause(here, True)
            try:
                with pytest.raises(NotPublished) as building:
                    await account.reconcile(1, today(), wait=0.3)
                assert building.value.reason == "building"
            finally:
                pause(here, False)
            assert (await account.reconcile(1, today())).state == "fresh"
            assert transport.seen.count("home-overview") == 2

    asyncio.run(run())


def test_what_the_drain_leaves_is_waited_for(here: Edge) -> None:
    """The door is paused, as where a worker holds the account: the workers publish, and one read hears it."""

    async def run() -> None:
        async with watched(here) as (transport, account, _):
            pause(here, True)
            try:
                waiting = flight(account, wait=20)
                await until(lambda: WAITS in here.serving.ask("GET", "/metrics").body)
            finally:
                pause(here, False)
            await asyncio.to_thread(here.publish)
            result = await waiting
            assert (result.state, result.drain.outcome) == ("fresh", "left")
            assert sorted(transport.seen) == sorted(ONE_FLIGHT)

    asyncio.run(run())


def test_a_generation_that_nobody_asked_for_is_terminal_and_kept(here: Edge) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, _):
            began = time.monotonic()
            results = [await account.reconcile(99, today(), wait=20) for _ in range(3)]
            assert time.monotonic() - began < 10
            assert [one.state for one in results] == ["terminal"] * 3
            assert sorted(transport.seen) == sorted(ONE_FLIGHT)

    asyncio.run(run())


def test_a_lasting_refusal_is_kept(here: Edge) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, _):
            for _ in range(3):
                with pytest.raises(NotPublished, match="no published snapshot"):
                    await account.reconcile(1, date(2001, 1, 1))
            assert transport.seen == ["refresh", "home-overview"]
            # The refusal is of that day's view alone.
            assert (await account.reconcile(1, today())).state == "fresh"

    asyncio.run(run())


def test_a_flight_that_failed_is_not_kept(here: Edge) -> None:
    async def run() -> None:
        with Proxy(address(here.serving)) as proxy:
            port = int(proxy.url.rpartition(":")[2].split("/")[0])
            async with AsyncClient(f"http://127.0.0.1:{port}", timeout=0.5, attempts=1) as client:
                account = new_account(client)
                await account.save(session(await squat(account)))
                proxy.swallow("up")
                tries = [flight(account, wait=0) for _ in range(5)]
                for failed in await asyncio.gather(*tries, return_exceptions=True):
                    assert isinstance(failed, Unanswered)
                proxy.resume()
                assert (await account.reconcile(1, today())).state == "fresh"

    asyncio.run(run())


def test_cancelling_one_caller_leaves_the_others(here: Edge) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, _):
            stop = transport.on_answer["refresh"] = Stop()
            flights = [flight(account) for _ in range(5)]
            await stop.reached.wait()
            flights[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await flights[0]
            stop.go_on()
            results = await asyncio.gather(*flights[1:])
            assert {result.state for result in results} == {"fresh"}
            assert sorted(transport.seen) == sorted(ONE_FLIGHT)

    asyncio.run(run())


def test_a_flight_without_callers_goes_on_and_its_result_is_kept(here: Edge) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, _):
            stop = transport.on_answer["refresh"] = Stop()
            only = flight(account)
            await stop.reached.wait()
            only.cancel()
            await asyncio.wait([only])
            stop.go_on()
            await until(lambda: len(transport.seen) == 4)
            assert (await account.reconcile(1, today())).state == "fresh"
            assert sorted(transport.seen) == sorted(ONE_FLIGHT)

    asyncio.run(run())


def test_a_failed_flight_without_callers_is_not_kept_either(here: Edge) -> None:
    complaints: list[dict[str, object]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        with Proxy(address(here.serving)) as proxy:
            port = int(proxy.url.rpartition(":")[2].split("/")[0])
            async with AsyncClient(f"http://127.0.0.1:{port}", timeout=0.5, attempts=1) as client:
                account = new_account(client)
                await account.save(session(await squat(account)))
                proxy.swallow("up")
                only = flight(account, wait=0)
                await asyncio.sleep(0)
                only.cancel()
                await asyncio.wait([only])
                await until(lambda: not client._tasks._running)
                proxy.resume()
                assert (await account.reconcile(1, today())).state == "fresh"
        # asyncio complains of an error that nobody has taken when its task is collected.
        del only
        gc.collect()

    asyncio.run(run())
    assert complaints == []


def test_closing_ends_a_flight_for_all_its_callers(here: Edge) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, _):
            stop = transport.on_answer["refresh"] = Stop()
            flights = [flight(account) for _ in range(5)]
            await stop.reached.wait()
        for ended in await asyncio.gather(*flights, return_exceptions=True):
            assert isinstance(ended, ClientClosed)
        with pytest.raises(ClientClosed):
            await account.reconcile(1, today())

    asyncio.run(run())


def test_an_expired_token_of_the_first_caller_is_not_the_others_problem(here: Edge) -> None:
    async def run() -> None:
        async with watched(here) as (_transport, account, _):
            user_id = uuid.UUID(account.user_id)
            expired = account_like(account, sign(SECRET, user_id, seconds=-100))
            flights = [flight(expired), *(flight(account) for _ in range(5)), flight(expired)]
            ended = await asyncio.gather(*flights, return_exceptions=True)
            assert isinstance(ended[0], Unauthorized)
            assert [result.state for result in ended[1:6]] == ["fresh"] * 5

    asyncio.run(run())


def account_like(account: AsyncAccount, token: str) -> AsyncAccount:
    return AsyncAccount(account._http, account._tasks, account._coordinator, account.user_id, token)


def test_what_is_kept_has_a_time_and_a_number(here: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with watched(here) as (transport, account, _):
            monkeypatch.setattr(coordinator, "MOST_KEPT", 3)
            for generation in (1, 2, 3, 4):
                await account.reconcile(generation, today())
            assert transport.seen.count("home-overview") == 4
            await account.reconcile(4, today())
            assert transport.seen.count("home-overview") == 4
            await account.reconcile(1, today())  # the oldest had to go
            assert transport.seen.count("home-overview") == 5
            monkeypatch.setattr(coordinator, "KEPT_SECONDS", 0)
            await account.reconcile(9, today())
            await account.reconcile(9, today())
            assert transport.seen.count("home-overview") == 7

    asyncio.run(run())


def pause(here: Edge, is_paused: bool) -> None:
    here.database.as_service().value(
        "select public.pause_stats_stages_v1(cast(:stages as text[]), :paused)",
        stages=["claim", "compute", "publish"],
        paused=is_paused,
    )


def test_a_refused_refresh_is_one_warning_and_the_workers_do_it(
    here: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with watched(here) as (_, account, _):
            expired = account_like(account, sign(SECRET, uuid.UUID(account.user_id), seconds=-100))
            with pytest.raises(Unauthorized):
                await expired.reconcile(1, today())

    caplog.set_level(logging.WARNING, "edge.client")
    asyncio.run(run())
    [record] = [one for one in caplog.records if one.name == "edge.client.drains"]
    assert record.levelname == "WARNING"
