"""The refresh at once over HTTP: the scoped door's answer, whoever asks and whatever comes between."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from doors.scene import COUNTS, hold
from interleavings.scene import OUTPUT, admin_session, gate, on_insert, undo_on_insert, wait_until_waiting
from support.serving import SECRET, SERVICE_TOKEN, Edge, WebAccount, edge

from edge.service.tokens import sign

REFRESH = "/v1/refresh"


@pytest.fixture(scope="module")
def here() -> Iterator[Edge]:
    with edge() as made:
        yield made


@pytest.fixture
def saved(here: Edge) -> WebAccount:
    """An account with one save that waits."""
    account = here.account()
    assert account.ask("POST", "/v1/sessions", body=account.session()).status == 201
    return account


def test_an_account_publishes_its_own_save(here: Edge, saved: WebAccount) -> None:
    reply = saved.ask("POST", REFRESH, body={"validate_integrity": True, "lock_owner": "a phone"})
    assert reply.status == 200, reply.body
    shape = here.serving.ask("GET", "/openapi.json").json["components"]["schemas"]["RefreshReport"]
    assert reply.json.keys() == shape["properties"].keys()
    assert [reply.json[name] for name in COUNTS] == [1, 1, 0, 0]
    assert (reply.json["remaining_count"], reply.json["has_more"]) == (0, False)
    assert reply.json["worker_timed_out"] is False
    assert reply.json["results"][0]["generation"] == 1
    assert saved.jobs("lock_owner") == [("a phone",)]
    assert saved.ask("GET", "/v1/freshness").json["stale"] is False
    again = saved.ask("POST", REFRESH, body={})
    assert (again.status, again.json["processed_count"]) == (200, 0)


@pytest.mark.parametrize(("limit", "taken"), [(-5, 0), (0, 0), (1000, 1)])
def test_any_limit_is_taken_as_0_to_100(saved: WebAccount, limit: int, taken: int) -> None:
    reply = saved.ask("POST", REFRESH, body={"limit": limit})
    assert (reply.status, reply.json["processed_count"], reply.json["has_more"]) == (200, taken, not taken)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 422),
        (b'{"limit": "1"}', 422),
        (b'{"limit": 1e99}', 422),
        (b'{"limit": 3000000000}', 422),
        (b'{"lock_owner": "\\ud800"}', 422),
        (b'{"user_id": "00000000-0000-0000-0000-000000000000"}', 422),
    ],
)
def test_a_body_that_breaks_a_rule_is_refused(saved: WebAccount, body: bytes, status: int) -> None:
    assert saved.ask("POST", REFRESH, body=body).status == status
    assert saved.ask("POST", REFRESH, body={"lock_owner": "x" * 201}).status == 422
    assert saved.state() == (1, 0)


def test_it_is_for_the_tokens_own_account(here: Edge, saved: WebAccount) -> None:
    ask = here.serving.ask
    assert ask("POST", REFRESH, body={}).status == 401
    assert ask("POST", REFRESH, body={}, token=sign(SECRET, saved.user_id, seconds=-60)).status == 401
    assert ask("POST", REFRESH, body={}, token=SERVICE_TOKEN).status == 403
    assert here.account().ask("POST", REFRESH, body={}).json["processed_count"] == 0
    assert saved.state() == (1, 0)


def test_a_statement_timeout_is_an_answer(here: Edge, saved: WebAccount) -> None:
    """8 s of the service are shorter than the 10 s that a publication waits for a lock."""
    with admin_session(here.database) as holder:
        hold(holder, "write", saved.user_id)
        reply = saved.ask("POST", REFRESH, body={})
    assert reply.status == 200, reply.body
    assert reply.json["worker_timed_out"] is True
    assert (reply.json["remaining_count"], reply.json["has_more"], reply.json["results"]) == (1, True, [])
    assert saved.jobs("status", "attempts") == [("pending", 0)]
    assert saved.ask("POST", REFRESH, body={}).json["completed_count"] == 1


def test_a_persons_cancel_is_a_503(here: Edge, saved: WebAccount) -> None:
    with gate(here.database, OUTPUT) as keeper, ThreadPoolExecutor(1) as pool:
        running = pool.submit(saved.ask, "POST", REFRESH, body={})
        wait_until_waiting(here.database, 1)
        here.database.admin(
            "select pg_cancel_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
        )
        reply = running.result(20)
        keeper.rollback()
    undo_on_insert(here.database, OUTPUT)
    assert (reply.status, reply.json["sqlstate"]) == (503, "57014")
    assert int(reply.headers["retry-after"]) > 0
    assert saved.jobs("status", "attempts") == [("pending", 0)]


def test_a_second_call_at_once_says_that_there_is_more(here: Edge, saved: WebAccount) -> None:
    with gate(here.database, OUTPUT) as keeper, ThreadPoolExecutor(1) as pool:
        running = pool.submit(saved.ask, "POST", REFRESH, body={})
        wait_until_waiting(here.database, 1)
        second = saved.ask("POST", REFRESH, body={})
        keeper.rollback()
        first = running.result(20)
    undo_on_insert(here.database, OUTPUT)
    assert (second.status, second.json["processed_count"], second.json["has_more"]) == (200, 0, True)
    assert first.json["completed_count"] == 1


def test_a_failed_attempt_is_an_answer_that_says_no_more_than_the_sqlstate_and_the_message(
    here: Edge, saved: WebAccount
) -> None:
    on_insert(here.database, OUTPUT, "raise exception 'planted';")
    reply = saved.ask("POST", REFRESH, body={})
    undo_on_insert(here.database, OUTPUT)
    assert (reply.status, reply.json["failed_count"], reply.json["has_more"]) == (200, 1, True)
    assert reply.json["results"][0]["sqlstate"] == "P0001"
    assert "lease_token" not in str(reply.json)


def test_imports_leave_refreshes_their_connections(here: Edge, saved: WebAccount) -> None:
    """Two imports that stand still use up the threads of their kind."""
    others = [here.account(), here.account()]
    with admin_session(here.database) as holder, ThreadPoolExecutor(2) as pool:
        for other in others:
            hold(holder, "write", other.user_id)
        importing = [pool.submit(other.ask, "POST", "/v1/imports?unit=kg", body=EXPORT) for other in others]
        wait_until_waiting(here.database, 2)
        reply = saved.ask("POST", REFRESH, body={})
        holder.rollback()
        assert [one.result(30).status for one in importing] == [200, 200]
    assert (reply.status, reply.json["completed_count"]) == (200, 1)


EXPORT = (
    b"Date,Workout Name,Duration,Exercise Name,Set Order,Weight,Reps,Distance,Seconds,Notes,Workout Notes,RPE\n"
    b'2024-01-08 18:30:00,"Push",1h 5m,"Bench Press (Barbell)",1,60.0,8,0,0,"","",\n'
)
