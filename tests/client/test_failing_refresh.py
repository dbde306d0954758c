"""A refresh that times out, or that the database does not have: never a failure of what was written or is read."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest
from sqlalchemy import text
from support.clients import Counts, Watched, client_of, new_account, session, squat, today, until
from support.serving import Edge, Serving, edge

from edge.client import AsyncAccount

ONE_FLIGHT = {"refresh": 1, "home-overview": 1, "pr-overview": 1, "volume-overview": 1}
DOOR = "public.process_user_exercise_stats_refresh_jobs_for_user(uuid, integer, boolean, text)"


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "edge.client")
    return caplog


def drain_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "edge.client.drains"]


@contextmanager
def sessions_locked(here: Edge) -> Iterator[None]:
    """Let whoever computes wait while the body runs."""
    with here.database.admin_engine.begin() as connection:
        connection.execute(text("lock table public.session_sets in access exclusive mode"))
        yield


def test_a_worker_that_times_out_twice_is_one_warning_and_left_to_the_workers(
    here: Edge, warnings: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with client_of(here.serving) as client:
            account = new_account(client)
            exercise = await squat(account)
            await account.save(session(exercise))
            await asyncio.to_thread(here.publish)
            await account.save(session(exercise, 110))
            counts = Counts(here.serving)
            with sessions_locked(here):
                result = await account.reconcile(2, today(), wait=0.3)
            assert (result.drain.outcome, result.drain.pages) == ("timed_out", 2)
            assert (result.state, result.generation) == ("incomplete", 1)
            assert counts.now() == {**ONE_FLIGHT, "refresh": 2}
            [record] = drain_records(warnings)
            assert (record.levelname, "timed out twice" in record.getMessage()) == ("WARNING", True)
            assert record.user_id == account.user_id
            # The job is where it was, and the next flight does it.
            assert (await account.reconcile(2, today())).state == "fresh"

    asyncio.run(run())


class TimesOutOnce(Watched):
    """Passes everything on, and says of the first refresh what the door says of one that timed out."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await super().handle_async_request(request)
        if self.seen == ["refresh"]:
            content = json.loads(await answer.aread()) | {"worker_timed_out": True, "has_more": True}
            return httpx2.Response(answer.status_code, json=content)
        return answer


def test_a_worker_that_times_out_once_is_asked_again_without_a_warning(
    here: Edge, warnings: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        transport = TimesOutOnce()
        async with client_of(here.serving, transport=transport) as client:
            account = new_account(client)
            await account.save(session(await squat(account)))
            transport.seen.clear()
            result = await account.reconcile(1, today())
            assert (result.state, result.drain.outcome, result.drain.pages) == ("fresh", "drained", 2)
            assert drain_records(warnings) == []

    asyncio.run(run())


def test_a_missing_function_is_an_error_of_the_deployment_and_nothing_else_is_called(
    warnings: pytest.LogCaptureFixture,
) -> None:
    with edge() as here:
        here.database.admin(f"drop function if exists {DOOR}")

        async def run() -> None:
            async with client_of(here.serving) as client:
                account = new_account(client)
                exercise = await squat(account)
                receipt = await account.save(session(exercise))
                counts = Counts(here.serving)
                began = time.monotonic()
                callers = [reconciled(account) for _ in range(20)]
                await until(lambda: counts.now().get("refresh") == 1)
                workers = threading.Thread(target=here.publish)
                workers.start()
                results = await asyncio.gather(*callers)
                await asyncio.to_thread(workers.join)
                assert time.monotonic() - began < 15
                assert {result.state for result in results} == {"fresh"}
                assert results[0].drain.outcome == "failed"
                # A write's success has nothing to do with it.
                again = await account.save(session(exercise, 110))
                assert again.stats_requested_version == receipt.stats_requested_version + 1
                assert counts.now() == {**ONE_FLIGHT, "sessions": 1}

        asyncio.run(run())
    [record] = drain_records(warnings)
    assert (record.levelname, "not at this client's release" in record.getMessage()) == ("ERROR", True)


def test_the_service_restarts_in_the_middle_of_a_flight(
    here: Edge, warnings: pytest.LogCaptureFixture
) -> None:
    """The answer of the refresh is lost, and it is not sent again; the reads are, until the service is there."""

    async def run() -> None:
        transport = Watched()
        first = Serving(here.database.url)
        async with client_of(first, transport=transport, attempts=8) as client:
            account = new_account(client)
            await account.save(session(await squat(account)))
            transport.seen.clear()

            async def restart() -> None:
                first.kill()
                started.append(await asyncio.to_thread(Serving, here.database.url, http_port=str(first.port)))
                raise httpx2.ReadError("the service was killed before the answer was read")

            started: list[Serving] = []
            transport.on_answer["refresh"] = restart
            try:
                result = await account.reconcile(1, today())
                assert (result.state, result.drain.outcome, len(started)) == ("fresh", "failed", 1)
                assert sorted(transport.seen) == sorted(ONE_FLIGHT)
            finally:
                for serving in started:
                    serving.kill()

    asyncio.run(run())
    [record] = drain_records(warnings)
    assert "the workers do it" in record.getMessage()


def reconciled(account: AsyncAccount) -> asyncio.Task:
    return asyncio.create_task(account.reconcile(1, today(), wait=20))
