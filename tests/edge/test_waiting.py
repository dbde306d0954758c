"""Waiting and events: one listener for all, no connection each, and Postgres that goes away and comes back."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import text
from support.app import Stages
from support.serving import SECRET, Edge, Serving, WebAccount, edge

from core.processes import wait_until
from edge.service.tokens import sign

MONTH = "/v1/calendar-month?month=2026-03"


@pytest.fixture(scope="module")
def here() -> Iterator[Edge]:
    with edge() as made:
        yield made


class Stream:
    """A stream of events as a browser reads it."""

    def __init__(self, account: WebAccount, last: int | None = None, token: str | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", account.serving.port, timeout=40)
        headers = {"Authorization": f"Bearer {token or account.token}", "Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        self._connection.request("GET", "/v1/freshness", headers=headers)
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        assert self._answer.headers["content-type"].startswith("text/event-stream")

    def next(self) -> tuple[int, dict]:
        """Return the next event's id and data."""
        event: dict[str, str] = {}
        while line := self._answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name and not line.startswith(":"):
                event[name] = value
            elif not line.strip() and event:
                return int(event["id"]), json.loads(event["data"])
        raise EOFError("the stream ended")

    def close(self) -> None:
        self._answer.close()  # which holds the socket open, too
        self._connection.close()


def save_and_publish(here: Edge, account: WebAccount) -> int:
    saved = account.ask("POST", "/v1/sessions", body=account.session())
    assert saved.status == 201, saved.body
    here.publish()
    return saved.json["statsRequestedVersion"]


def waiting(serving: Serving) -> float:
    for line in serving.ask("GET", "/metrics").body.decode().splitlines():
        if line.startswith("stats_refresh_http_waiting "):
            return float(line.split()[1])
    raise AssertionError


def test_events_of_one_account_and_their_resumption(here: Edge) -> None:
    account, other = here.account(), here.account()
    stream = Stream(account)
    assert stream.next() == (0, {"requested_version": 0, "applied_version": 0, "stale": False})
    assert save_and_publish(here, account) == 1
    assert stream.next() == (1, {"requested_version": 1, "applied_version": 1, "stale": False})
    save_and_publish(here, other)
    save_and_publish(here, other)
    save_and_publish(here, account)
    assert stream.next()[0] == 2  # and nothing of the other account between
    stream.close()
    save_and_publish(here, account)
    resumed = Stream(account, last=2)
    assert resumed.next()[0] == 3
    resumed.close()
    known = Stream(account, last=3)
    save_and_publish(here, account)
    assert known.next()[0] == 4
    known.close()


def test_a_stream_ends_with_its_token(here: Edge) -> None:
    account = here.account()
    stream = Stream(account, token=sign(SECRET, account.user_id, seconds=2))
    assert stream.next()[0] == 0
    with pytest.raises(EOFError):
        stream.next()


def test_a_lost_notification_costs_seconds_only(here: Edge) -> None:
    account = here.account()
    account.ask("POST", "/v1/sessions", body=account.session())
    replies = in_thread(account, f"{MONTH}&min_generation=1&wait=30")
    assert wait_until(lambda: waiting(here.serving) >= 1, 10)
    Stages(here.database).drain()  # tells nobody
    assert replies()["generation"] == 1


def test_rubbish_on_the_channel_is_dropped(here: Edge) -> None:
    for said in ("", "x", "[1]", '{"user_id": 1, "generation": 2}', '{"user_id": "x"}', "[" * 3000):
        here.database.admin("select pg_notify('stats_refresh_published', :said)", said=said)
    account = here.account()
    assert save_and_publish(here, account) == 1
    assert here.serving.said("can't be read: dropped")
    assert here.serving.ask("GET", "/readyz").json["listener"] == "proven"


def test_a_thousand_wait_without_connections_while_postgres_restarts(here: Edge) -> None:
    account = here.account()
    save_and_publish(here, account)
    account.ask("POST", "/v1/sessions", body=account.session())
    with ThreadPoolExecutor(1) as threads:
        answers = threads.submit(lambda: asyncio.run(a_thousand(here, account)))
        assert wait_until(lambda: waiting(here.serving) >= 1000, 30)
        [[count]] = here.database.admin(
            "select count(*) from pg_stat_activity where application_name like 'stats-refresh-edge%'"
        )
        assert count <= 16
        # In this thread: a server ends with the thread that started it.
        restart(here)
        assert wait_until(lambda: here.serving.ask("GET", "/readyz").json.get("listener") == "proven", 20)
        here.publish()
        assert answers.result(60) == [(200, 2)] * 1000


def restart(here: Edge) -> None:
    here.database.engine.dispose()
    here.server.stop()
    here.server.start()


async def a_thousand(here: Edge, account: WebAccount) -> list[tuple[int, int]]:
    path = f"{MONTH}&min_generation=2&wait=30"
    return await asyncio.gather(*(ask(here.serving.port, account.token, path) for _ in range(1000)))


async def ask(port: int, token: str, path: str) -> tuple[int, int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode()
    )
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), json.loads(body).get("generation", -1)


def test_postgres_away_is_a_503_and_back_by_itself(here: Edge) -> None:
    account = here.account()
    account.squat()
    here.database.engine.dispose()
    here.server.stop()
    try:
        for path in ("/v1/freshness", MONTH, "/readyz"):
            away = account.ask("GET", path)
            assert (away.status, int(away.headers["retry-after"]) > 0) == (503, True)
            assert "socket" not in away.json["detail"]
        assert account.ask("POST", "/v1/sessions", body=account.session()).status == 503
        assert here.serving.ask("GET", "/livez").status == 200
    finally:
        here.server.start()
    assert wait_until(lambda: account.ask("GET", "/v1/freshness").status == 200, 20)
    assert account.ask("POST", "/v1/sessions", body=account.session()).status == 201


def test_sigterm_finishes_what_runs(here: Edge) -> None:
    """A save that waits for a lock is finished, who waits gets the present answer, a stream ends."""
    account = here.account()
    save_and_publish(here, account)
    serving = Serving(here.database.url)
    stopping = WebAccount(here.database, user_id=account.user_id, exercises=account.exercises).on(serving)
    waits = in_thread(stopping, f"{MONTH}&min_generation=9&wait=30")
    stream = Stream(stopping)
    stream.next()
    with held(here, account):
        saves = in_thread(stopping, "/v1/sessions", "POST", body=account.session())
        assert wait_until(lambda: blocked(here) == 1, 10)
        serving.process.send_signal(signal.SIGTERM)
        assert waits()["stale"] is True
        assert wait_until(lambda: refuses(serving), 10)
    assert saves()["statsRequestedVersion"] == 2
    with pytest.raises((EOFError, http.client.IncompleteRead)):
        stream.next()
    assert serving.process.wait(20) == 0
    assert "Traceback" not in serving.log


@contextmanager
def held(here: Edge, account: WebAccount) -> Iterator[None]:
    """Hold the account's write lock while the body runs."""
    with here.database.admin_engine.begin() as connection:
        key = "pg_advisory_xact_lock(hashtextextended('stats-refresh:write:' || :user, 0))"
        connection.execute(text(f"select {key}"), {"user": str(account.user_id)})
        yield


def blocked(here: Edge) -> int:
    [[count]] = here.database.admin("select count(*) from pg_locks where not granted")
    return count


def refuses(serving: Serving) -> bool:
    try:
        socket.create_connection(("127.0.0.1", serving.port), timeout=1).close()
    except ConnectionRefusedError:
        return True
    return False


def in_thread(account: WebAccount, path: str, method: str = "GET", **more):
    """Ask in a thread; return what waits for the JSON of the answer."""
    replies = []
    thread = threading.Thread(target=lambda: replies.append(account.ask(method, path, **more)))
    thread.start()

    def result():
        thread.join(40)
        assert replies, "no answer"
        return replies[0].json

    return result
