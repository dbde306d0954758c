"""What a client may not do to the service: too much, too slowly, not JSON, somebody else's."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil
import pytest
from support.serving import SECRET, SERVICE_TOKEN, Edge, WebAccount, edge

from edge.service.limits import BODY_SECONDS, LARGEST_BODY
from edge.service.server import HEAD_SECONDS

APPLICATION = "stats-refresh-edge"


@pytest.fixture(scope="module")
def here() -> Iterator[Edge]:
    with edge() as made:
        yield made


@pytest.fixture(scope="module")
def account(here: Edge) -> WebAccount:
    made = here.account()
    made.squat()
    return made


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"session_date": NaN}', 400),
        (b"[" * 100_000, 400),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, 400),
        (b"[1]", 422),
        (b"null", 422),
        (b"{}", 422),
        (b'{"mutation_id": "x"}', 422),
        (b'{"expected_user_id": "x"}', 422),
        (b'{"session_date": "2026-03-10", "exercises": [], "title": "\\u0000"}', 422),
        (b'{"session_date": "2026-03-10", "exercises": [], "title": "\\ud800"}', 422),
        (b'{"session_date": 1e999999, "exercises": []}', 422),
        (b'{"a": ' + b"9" * 5000 + b"}", 400),
    ],
)
def test_bodies_that_are_not_a_session(account: WebAccount, body: bytes, status: int) -> None:
    reply = account.ask("POST", "/v1/sessions", body=body)
    assert reply.status == status, reply.body
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["request_id"] == reply.headers["x-request-id"]


def test_a_deep_body_of_a_route_with_a_shape(account: WebAccount) -> None:
    assert account.ask("POST", "/v1/exercises", body=b"[" * 100_000).status in (400, 422)
    assert account.ask("POST", "/v1/exercises", body=b"{").status == 400


def test_a_body_that_is_too_large(here: Edge, account: WebAccount) -> None:
    announced = raw(here, head(account, f"Content-Length: {LARGEST_BODY + 1}"))
    assert announced.startswith(b"HTTP/1.1 413 ")
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    chunked = raw(here, head(account, "Transfer-Encoding: chunked") + chunk * 4 + b"0\r\n\r\n")
    assert chunked.startswith(b"HTTP/1.1 413 ")
    assert account.ask("GET", "/v1/freshness").status == 200


def test_slow_clients_are_let_go(here: Edge, account: WebAccount) -> None:
    """A head that does not end, and a body that does not come, both at once."""
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        slow_head = pool.submit(drip, here, b"GET /livez HTTP/1.1\r\nHost: x\r\n", b"X: y\r\n")
        slow_body = pool.submit(drip, here, head(account, "Content-Length: 1000"), b" ")
        said, seconds = slow_head.result()
        assert said == b""
        assert HEAD_SECONDS - 1 < seconds < HEAD_SECONDS + 5
        said, seconds = slow_body.result()
    assert said.startswith(b"HTTP/1.1 408 ")
    assert seconds < BODY_SECONDS + 5
    assert time.monotonic() - began < BODY_SECONDS + 10


def test_what_is_not_a_request_of_ours(here: Edge, account: WebAccount) -> None:
    assert account.ask("GET", "/v1/nothing").status == 404
    wrong = account.ask("PATCH", "/v1/sessions", body={})
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert account.ask("GET", "/v1/pr-overview?date=1700000000").status == 422
    assert account.ask("GET", "/v1/calendar-month?month=2026-03&wait=31&min_generation=1").status == 422
    assert account.ask("GET", "/v1/calendar-month?month=2026-03&wait=nan&min_generation=1").status == 422
    assert account.ask("GET", "/v1/pr-detail/a%00b?date=2026-03-10").status == 422
    assert raw(here, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_another_account_s_session_is_not_there(here: Edge, account: WebAccount) -> None:
    saved = account.ask("POST", "/v1/sessions", body=account.session()).json
    stranger = here.account()
    path = f"/v1/sessions/{saved['session_id']}"
    assert stranger.ask("PUT", path, body=stranger.session()).status == 404
    assert stranger.ask("DELETE", path).status == 404
    assert stranger.ask("POST", "/v1/sessions", body=account.session()).status == 422
    for token in (None, "x", SERVICE_TOKEN):
        key = {"Idempotency_Key": str(uuid.uuid4())}
        assert here.serving.ask("DELETE", path, token=token, **key).status == (
            403 if token == SERVICE_TOKEN else 401
        )
    assert account.ask("GET", "/v1/freshness").json["requested_version"] == 1


def test_metrics_are_for_loopback_and_operators(here: Edge, account: WebAccount) -> None:
    assert b"stats_refresh_http_requests_total" in here.serving.ask("GET", "/metrics").body
    forwarded = {"X_Forwarded_For": "203.0.113.9"}
    assert here.serving.ask("GET", "/metrics", **forwarded).status == 401
    assert account.ask("GET", "/metrics", **forwarded).status == 403
    assert here.serving.ask("GET", "/metrics", token=SERVICE_TOKEN, **forwarded).status == 200


def test_two_hundred_at_once_share_the_connections(here: Edge, account: WebAccount) -> None:
    process = psutil.Process(here.serving.process.pid)
    before, seen = process.memory_info().rss, []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            [[count]] = here.database.admin(
                "select count(*) from pg_stat_activity where application_name = :name", name=APPLICATION
            )
            seen.append(count)

    watching = threading.Thread(target=watch)
    watching.start()
    with ThreadPoolExecutor(200) as pool:
        replies = list(pool.map(lambda _: account.ask("GET", "/v1/freshness").status, range(1000)))
    ended.set()
    watching.join()
    assert set(replies) == {200}
    assert 1 <= max(seen) <= 14
    assert process.memory_info().rss - before < 100_000_000


def test_nothing_secret_is_in_the_log(here: Edge, account: WebAccount) -> None:
    account.ask("POST", "/v1/sessions", body={**account.session(), "notes": "knee hurts", "rows": 1})
    account.ask("GET", "/v1/pr-detail/knee%0Ahurts?date=x", X_Request_Id="of-the-test")
    assert here.serving.said("request=of-the-test")
    for secret in (SECRET, SERVICE_TOKEN, account.token, "knee", str(account.user_id)):
        assert secret not in here.serving.log
    assert "Traceback" not in here.serving.log


def head(account: WebAccount, *lines: str) -> bytes:
    sent = [
        "POST /v1/sessions HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {account.token}",
        f"Idempotency-Key: {uuid.uuid4()}",
        "Content-Type: application/json",
        *lines,
    ]
    return "\r\n".join(sent).encode() + b"\r\n\r\n"


def raw(here: Edge, sent: bytes) -> bytes:
    """Send bytes and return what comes until the service closes, which it must."""
    with socket.create_connection(("127.0.0.1", here.serving.port), timeout=30) as connection:
        with suppress(OSError):  # it had enough before it had all
            connection.sendall(sent)
        return everything(connection)


def drip(here: Edge, sent: bytes, drop: bytes) -> tuple[bytes, float]:
    """Send `sent`, then `drop` again and again; return what came and when the service let go."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", here.serving.port), timeout=1) as connection:
        connection.sendall(sent)
        while time.monotonic() - began < BODY_SECONDS + 10:
            try:
                connection.sendall(drop)
                said = connection.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                said = b""
            return said, time.monotonic() - began
    raise AssertionError("it was never let go")


def everything(connection: socket.socket) -> bytes:
    said = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(65536):
            said += part
    return said


ROUTES = {
    "/livez", "/metrics", "/readyz", "/stats-process-refresh-jobs", "/v1/calendar-month", "/v1/exercises",
    "/v1/exercises/{exercise_id}", "/v1/freshness", "/v1/home-overview", "/v1/imports", "/v1/manual-records/{id}",
    "/v1/pr-detail/{exercise_id}", "/v1/pr-overview", "/v1/refresh", "/v1/sessions", "/v1/sessions/{session_id}",
    "/v1/volume-overview",
}  # fmt: skip


def test_the_document_names_every_route(here: Edge) -> None:
    document = here.serving.ask("GET", "/openapi.json").json
    assert set(document["paths"]) == ROUTES
    for path in document["paths"].values():
        for operation in path.values():
            assert operation["summary"]
    assert http.client.responses[422]
    assert "cdn" not in json.dumps(document).lower()
    assert here.serving.ask("GET", "/docs").status == 404
