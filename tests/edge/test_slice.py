"""The main path over HTTP: save, wait for one's own write, read, and what may be asked again."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from support.serving import SERVICE_TOKEN, Edge, edge

from core.processes import wait_until


@pytest.fixture(scope="module")
def here() -> Iterator[Edge]:
    with edge() as made:
        yield made


def test_a_save_is_read_by_its_own_generation(here: Edge) -> None:
    account = here.account()
    saved = account.ask("POST", "/v1/sessions", body=account.session())
    assert saved.status == 201, saved.body
    generation = saved.json["statsRequestedVersion"]
    path = f"/v1/calendar-month?month=2026-03&min_generation={generation}&wait=20"
    replies = []
    waiting = threading.Thread(target=lambda: replies.append((account.ask("GET", path), time.monotonic())))
    waiting.start()
    assert_waiting(here, 1)
    here.publish()
    published_at = time.monotonic()
    waiting.join(20)
    [(reply, answered_at)] = replies
    assert reply.status == 200, reply.body
    assert reply.json["generation"] >= generation
    assert reply.json["stale"] is False
    assert answered_at - published_at < 1
    assert [day["day"] for day in reply.json["days"]] == ["2026-03-10"]


def test_the_same_write_again_is_done_once(here: Edge) -> None:
    account, key = here.account(), str(uuid.uuid4())
    first = account.ask("POST", "/v1/sessions", body=account.session(), Idempotency_Key=key)
    again = account.ask("POST", "/v1/sessions", body=account.session(), Idempotency_Key=key)
    assert [first.status, again.status] == [201, 200]
    assert again.json == {**first.json, "replayed": True}
    missing = here.serving.ask("POST", "/v1/sessions", token=account.token, body=account.session())
    assert missing.status == 400
    assert missing.headers["content-type"] == "application/problem+json"


def test_an_edit_a_conflict_and_a_deletion(here: Edge) -> None:
    account = here.account()
    saved = account.ask("POST", "/v1/sessions", body=account.session()).json
    path = f"/v1/sessions/{saved['session_id']}"
    edited = account.ask(
        "PUT", path, body={**account.session((110, 5)), "expected_updated_at": saved["updated_at"]}
    )
    assert edited.status == 200, edited.body
    late = account.ask(
        "PUT", path, body={**account.session((120, 5)), "expected_updated_at": saved["updated_at"]}
    )
    assert (late.status, late.json["sqlstate"]) == (409, "40001")
    assert here.account().ask("DELETE", path).status == 404
    assert account.ask("DELETE", path).status == 200
    assert account.ask("DELETE", path).status == 404


def test_every_reader_and_not_modified(here: Edge) -> None:
    account = here.account()
    building = account.ask("GET", f"/v1/pr-detail/{account.squat()}?date=2026-03-10")
    assert (building.status, building.json["reason"], building.headers["retry-after"]) == (
        409,
        "building",
        "1",
    )
    account.ask("POST", "/v1/sessions", body=account.session())
    here.publish()
    today = str(here.database.admin("select (now() at time zone 'UTC')::date")[0][0])
    for path in (
        f"/v1/pr-overview?date={today}",
        f"/v1/home-overview?date={today}",
        "/v1/volume-overview?date=2026-03-10&grain=week",
        f"/v1/pr-detail/{account.squat()}?date=2026-03-10",
        "/v1/calendar-month?month=2026-03",
    ):
        reply = account.ask("GET", path)
        assert reply.status == 200, reply.body
        tag = reply.headers["etag"]
        same = account.ask("GET", path, If_None_Match=tag)
        assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
    elsewhere = account.ask("GET", "/v1/calendar-month?month=2026-04", If_None_Match=tag)
    assert elsewhere.status == 200
    account.ask("POST", "/v1/sessions", body=account.session((130, 2)))
    assert account.ask("GET", path, If_None_Match=tag).status == 200
    outside = account.ask("GET", "/v1/pr-overview?date=2001-01-01")
    assert (outside.status, outside.json["reason"]) == (409, "not_in_window")


def test_a_generation_that_does_not_come_is_the_present_one_marked_stale(here: Edge) -> None:
    account = here.account()
    account.ask("POST", "/v1/sessions", body=account.session())
    here.publish()
    reply = account.ask("GET", "/v1/calendar-month?month=2026-03&min_generation=99&wait=0.3")
    assert (reply.status, reply.json["generation"], reply.json["stale"]) == (200, 1, True)


def test_stated_maxima_exercises_and_freshness(here: Edge) -> None:
    account = here.account()
    body = {"one_rm_kg": 140.5, "achieved_on": "2026-03-01", "source": "manual"}
    stated = account.ask("PUT", f"/v1/manual-records/{account.squat()}", body=body)
    assert stated.status == 200, stated.body
    fresh = account.ask("GET", "/v1/freshness")
    assert fresh.json == {"requested_version": 1, "applied_version": 0, "stale": True}
    assert account.ask("DELETE", f"/v1/manual-records/{stated.json['manual_pr_id']}").status == 200
    assert account.ask("DELETE", f"/v1/exercises/{account.squat()}").status == 200
    assert account.ask("POST", "/v1/sessions", body=account.session()).status == 422


def test_the_worker_entry_point_drives_the_stages(here: Edge) -> None:
    account = here.account()
    account.ask("POST", "/v1/sessions", body=account.session())
    path = "/stats-process-refresh-jobs"
    assert account.ask("POST", path, body={}).status == 403
    report = here.serving.ask(
        "POST",
        path,
        token=SERVICE_TOKEN,
        body={"limit": 100, "validate_integrity": True, "enqueue_stale": True},
    )
    assert report.status == 200, report.body
    [ours] = [one for one in report.json["results"] if one["user_id"] == str(account.user_id)]
    assert (ours["outcome"], ours["integrity"]["valid"]) == ("completed", True)
    assert report.json["has_more"] is False
    assert report.json["pending_count"] == 0
    assert here.serving.ask("GET", path).json == {"status": "ok"}
    assert "jobs" in here.serving.ask("GET", path, token=SERVICE_TOKEN).json["worker"]
    assert account.ask("GET", path).status == 403


def assert_waiting(here: Edge, count: int) -> None:
    line = f"stats_refresh_http_waiting {float(count)}".encode()
    assert wait_until(lambda: line in here.serving.ask("GET", "/metrics").body, 20)
