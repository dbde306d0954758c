"""The worker entry point: what it takes, when it stops, and that its report says so."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from batches.scene import Account
from interleavings.scene import (
    OUTPUT,
    admin_session,
    change_settings,
    drop_backoff,
    end_waits,
    gate,
    on_insert,
    undo_on_insert,
    wait_until_waiting,
)
from support.app import AppAccount, Stages
from support.serving import SECRET, SERVICE_TOKEN, Edge, Reply, Serving, WebAccount, edge

from core.processes import wait_until
from edge.service import worker
from edge.service.shapes import WorkRequest
from edge.service.tokens import sign

PATH = "/stats-process-refresh-jobs"
DAMAGED = "update public.user_exercise_daily_rollups set volume_kg = volume_kg + 1 where user_id = :user"


@pytest.fixture(scope="module")
def served() -> Iterator[Edge]:
    with edge() as made:
        yield made


@pytest.fixture
def here(served: Edge) -> Iterator[Edge]:
    """The service, with nothing that waits."""
    names = ("batch_size", "compute_budget_ms", "publish_budget_ms", "active_lease_cap")
    [settings] = served.database.admin(
        f"select {', '.join(names)} from public.stats_projection_worker_settings"
    )
    yield served
    change_settings(served.database, **dict(zip(names, settings, strict=True)))
    drop_backoff(served.database)
    end_waits(served.database)
    Stages(served.database).drain()
    served.database.as_service()("select public.pause_stats_stages_v1(array['claim'], false)")


def saved(here: Edge, number: int) -> list[WebAccount]:
    """Make accounts with a save that waits, the first one longest."""
    accounts = [here.account() for _ in range(number)]
    for one in accounts:
        one.save()
    return accounts


def work(here: Edge, **body: object) -> dict:
    reply = here.serving.ask("POST", PATH, token=SERVICE_TOKEN, body=body)
    assert reply.status == 200, reply.body
    shape = here.serving.ask("GET", "/openapi.json").json["components"]["schemas"]["WorkReport"]
    assert reply.json.keys() == shape["properties"].keys()
    return reply.json


def counts(report: dict) -> tuple[int, ...]:
    return tuple(report[f"{name}_count"] for name in ("processed", "completed", "failed", "deferred"))


# ---------------------------------------------------------------- what it takes


def test_nothing_to_do(here: Edge) -> None:
    assert work(here) == {
        "processed_count": 0,
        "completed_count": 0,
        "failed_count": 0,
        "deferred_count": 0,
        "batch_count": 0,
        "pending_count": 0,
        "retry_not_before": None,
        "has_more": False,
        "scan": None,
        "results": [],
    }


def test_the_oldest_up_to_the_limit_each_in_transactions_of_its_own(here: Edge) -> None:
    accounts = saved(here, 3)
    report = work(here, limit=2, lock_owner="a script", validate_integrity=True)
    assert counts(report) == (2, 2, 0, 0)
    assert (report["pending_count"], report["has_more"]) == (1, True)
    assert [result["user_id"] for result in report["results"]] == [str(one.user_id) for one in accounts[:2]]
    assert {result["generation"] for result in report["results"]} == {1}
    assert [result["integrity"] for result in report["results"]] == [
        {"valid": True, "stale": False, "moved": False}
    ] * 2
    [(first, own), (second, _)] = here.database.admin(
        "select compute_ms is not null and publish_ms is not null, lock_owner from public.user_stats_projection_runs"
        " where user_id in (:a, :b)",
        a=accounts[0].user_id,
        b=accounts[1].user_id,
    )
    assert (first, second, own) == (True, True, "a script")
    rest = work(here, limit=100)
    assert counts(rest) == (1, 1, 0, 0)
    assert (rest["pending_count"], rest["has_more"]) == (0, False)


def test_a_loop_on_has_more_ends(here: Edge) -> None:
    saved(here, 4)
    reports = [work(here, limit=1)]
    while reports[-1]["has_more"]:
        assert len(reports) < 20
        reports.append(work(here, limit=1))
    assert sum(report["completed_count"] for report in reports) == 4


def test_the_last_account_is_known_to_be_the_last(here: Edge) -> None:
    saved(here, 1)
    assert work(here, limit=1)["has_more"] is False


def test_no_limit_is_ten_and_0_takes_nothing(here: Edge) -> None:
    saved(here, 11)
    assert counts(work(here, limit=0)) == (0, 0, 0, 0)
    report = work(here)
    assert (report["processed_count"], report["pending_count"], report["has_more"]) == (10, 1, True)


@pytest.mark.parametrize(
    "body",
    [
        {"limit": -1},
        {"limit": 101},
        {"limit": "5"},
        {"limit": 1.5},
        {"limit": None},
        {"limit": True},
        {"enqueue_stale": 1},
        {"enqueue_limit": 0},
        {"enqueue_limit": 1001},
        {"lock_owner": "x" * 201},
        {"validate_integrity": "yes"},
        {"something": 1},
    ],
)
def test_a_value_that_breaks_a_rule_is_refused_before_anything_is_done(here: Edge, body: dict) -> None:
    [one] = saved(here, 1)
    reply = here.serving.ask("POST", PATH, token=SERVICE_TOKEN, body=body)
    assert (reply.status, reply.headers["content-type"]) == (422, "application/problem+json")
    assert one.state() == (1, 0)


def test_the_scanner_runs_first_when_asked(here: Edge) -> None:
    [one] = saved(here, 1)
    here.publish()
    here.database.admin(DAMAGED, user=one.user_id)
    assert counts(work(here)) == (0, 0, 0, 0)
    found = 0
    # A lap over all accounts may have begun somewhere in the middle.
    for _ in range(3):
        report = work(here, enqueue_stale=True, enqueue_limit=1000)
        assert report["scan"]["response"] == "scanned"
        found += report["scan"]["found"]
        if found:
            break
    assert found == 1
    assert [(result["user_id"], result["outcome"]) for result in report["results"]] == [
        (str(one.user_id), "completed")
    ]


# ---------------------------------------------------------------- who may


def test_for_services_and_administrators_alone(here: Edge) -> None:
    [one] = saved(here, 1)
    ask = here.serving.ask
    assert ask("POST", PATH, body={}).status == 401
    assert ask("POST", PATH, body={}, token="wrong").status == 401
    assert one.ask("POST", PATH, body={}).status == 403
    assert one.state() == (1, 0)
    admin = sign(SECRET, here.account().user_id, "admin")
    reply = ask("POST", PATH, body={}, token=admin)
    assert (reply.status, reply.json["completed_count"]) == (200, 1)


def test_health_and_with_a_token_the_worker_status(here: Edge) -> None:
    saved(here, 2)
    ask = here.serving.ask
    assert ask("GET", PATH).json == {"status": "ok"}
    status = ask("GET", PATH, token=SERVICE_TOKEN)
    assert (status.status, status.json["status"]) == (200, "ok")
    assert status.json["worker"]["jobs"]["pending_users"] == 2
    assert "settings" in status.json["worker"]
    assert ask("GET", PATH, token="wrong").status == 401
    assert here.account().ask("GET", PATH).status == 403


# ---------------------------------------------------------------- others at work, failures


def test_two_calls_at_once_share_the_accounts(here: Edge) -> None:
    accounts = saved(here, 2)
    with gate(here.database, OUTPUT) as keeper, ThreadPoolExecutor(2) as pool:
        running = [pool.submit(work, here, limit=1) for _ in range(2)]
        wait_until_waiting(here.database, 2)
        keeper.rollback()
        reports = [one.result(30) for one in running]
    undo_on_insert(here.database, OUTPUT)
    taken = sorted(result["user_id"] for report in reports for result in report["results"])
    assert taken == sorted(str(one.user_id) for one in accounts)
    assert [one.jobs("status", "attempts") for one in accounts] == [[("completed", 1)]] * 2


def test_a_failed_attempt_is_counted_and_the_next_account_taken(here: Edge) -> None:
    accounts = saved(here, 2)
    on_insert(here.database, OUTPUT, "raise exception 'planted';")
    report = work(here)
    undo_on_insert(here.database, OUTPUT)
    assert counts(report) == (2, 0, 2, 0)
    assert [result["sqlstate"] for result in report["results"]] == ["P0001"] * 2
    assert (report["pending_count"], report["has_more"]) == (2, False)
    [[soonest]] = here.database.admin(
        "select min(retry_not_before) from public.user_exercise_stats_refresh_jobs"
    )
    [[same]] = here.database.admin(
        "select cast(:told as timestamptz) = :soonest", told=report["retry_not_before"], soonest=soonest
    )
    assert same
    assert [one.jobs("status", "attempts") for one in accounts] == [[("pending", 1)]] * 2
    assert counts(work(here)) == (0, 0, 0, 0)


def test_an_account_that_a_writer_holds_is_deferred(here: Edge) -> None:
    held, free = saved(here, 2)
    change_settings(here.database, publish_budget_ms=500)
    try:
        with admin_session(here.database) as holder:
            holder.run(
                "select pg_advisory_xact_lock(hashtextextended('stats-refresh:write:' || :user, 0))",
                user=str(held.user_id),
            )
            report = work(here)
    finally:
        change_settings(here.database, publish_budget_ms=6000)
    outcomes = {result["user_id"]: result["outcome"] for result in report["results"]}
    assert outcomes[str(free.user_id)] == "completed"
    assert outcomes[str(held.user_id)] == "deferred"
    assert report["retry_not_before"] is not None


def test_a_paused_stage_or_a_full_cap_is_no_more(here: Edge) -> None:
    saved(here, 1)
    here.database.as_service()("select public.pause_stats_stages_v1(array['claim'], true)")
    assert work(here)["has_more"] is False
    here.database.as_service()("select public.pause_stats_stages_v1(array['claim'], false)")
    change_settings(here.database, active_lease_cap=1)
    saved(here, 1)
    run = Stages(here.database).claim()
    report = work(here)
    assert (counts(report), report["has_more"], report["pending_count"]) == ((0, 0, 0, 0), False, 1)
    Stages(here.database).compute(run)
    Stages(here.database).publish(run)


def test_postgres_away_is_a_503(here: Edge) -> None:
    here.database.engine.dispose()
    here.server.stop()
    try:
        reply = here.serving.ask("POST", PATH, token=SERVICE_TOKEN, body={})
        assert (reply.status, int(reply.headers["retry-after"]) > 0) == (503, True)
    finally:
        here.server.start()
    assert wait_until(lambda: here.serving.ask("GET", "/readyz").status == 200, 20)
    assert counts(work(here)) == (0, 0, 0, 0)


# ---------------------------------------------------------------- batches


def test_batches_are_counted_and_the_account_is_published(here: Edge) -> None:
    change_settings(here.database, batch_size=2)
    many = Account(here.database, 5)
    report = work(here)
    assert counts(report) == (1, 1, 0, 0)
    assert report["batch_count"] == 3
    many.assert_converged()


def test_it_stops_where_a_batch_has_to_wait(here: Edge) -> None:
    change_settings(here.database, batch_size=2, compute_budget_ms=500)
    many, free = Account(here.database, 5), AppAccount(here.database)
    free.save()
    here.database.admin(
        "create function stats_private.hold_up() returns trigger language plpgsql as"
        " $$ begin perform pg_catalog.pg_sleep(30); return new; end $$"
    )
    here.database.admin(
        "create trigger hold_up before insert on stats_private.stats_output_daily_rollups"
        f" for each row when (new.exercise_id = '{many.exercise_ids[3]}') execute function stats_private.hold_up()"
    )
    try:
        reports = [work(here)]
        while reports[-1]["results"] and reports[-1]["results"][-1]["response"] != "retry_pending":
            reports.append(work(here))
    finally:
        here.database.admin("drop function stats_private.hold_up() cascade")
    last = reports[-1]
    assert [(one["user_id"], one["outcome"]) for one in last["results"]][-1] == (
        str(many.user_id),
        "deferred",
    )
    assert last["batch_count"] == 1
    [[waits_until]] = here.database.admin(
        "select retry_not_before = cast(:told as timestamptz) from public.user_stats_projection_runs"
        " where user_id = :user",
        told=last["retry_not_before"],
        user=many.user_id,
    )
    assert waits_until
    # Whoever stood behind it is taken by the next call.
    work(here)
    assert free.state() == (1, 1)
    end_waits(here.database)
    assert work(here)["results"][0]["outcome"] == "completed"
    many.assert_converged()


# ---------------------------------------------------------------- when it ends


def test_nothing_new_is_begun_after_the_round(database, monkeypatch) -> None:
    accounts = [AppAccount(database) for _ in range(2)]
    for one in accounts:
        one.save()
    monkeypatch.setattr(worker, "ROUND_SECONDS", 0.5)
    drive = worker.Drive(database.engine, "a test", WorkRequest(limit=10), lambda: False)
    with gate(database, OUTPUT) as keeper, ThreadPoolExecutor(1) as pool:
        running = pool.submit(drive.report)
        wait_until_waiting(database, 1)
        waited = time.monotonic()
        assert wait_until(lambda: time.monotonic() > waited + 0.5, 5)
        keeper.rollback()
        report = running.result(20)
    assert counts(report) == (1, 1, 0, 0)
    assert (report["has_more"], report["pending_count"]) == (True, 1)
    assert [one.state() for one in accounts] == [(1, 1), (1, 0)]


def test_a_service_that_is_told_to_stop_finishes_the_account_and_reports(here: Edge) -> None:
    first, second = saved(here, 2)
    serving = Serving(here.database.url)

    def ask() -> Reply:
        return serving.ask("POST", PATH, token=SERVICE_TOKEN, body={})

    with gate(here.database, OUTPUT) as keeper, ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask)
        wait_until_waiting(here.database, 1)
        serving.process.send_signal(signal.SIGTERM)
        assert serving.said("Shutting down")
        keeper.rollback()
        reply = running.result(20)
    undo_on_insert(here.database, OUTPUT)
    assert (reply.status, reply.json["completed_count"], reply.json["has_more"]) == (200, 1, True)
    assert (first.state(), second.state()) == ((1, 1), (1, 0))
    assert serving.process.wait(20) == 0


def test_a_service_that_is_killed_leaves_a_lease_that_others_take_up(here: Edge) -> None:
    [one] = saved(here, 1)
    serving = Serving(here.database.url)
    with gate(here.database, OUTPUT) as keeper, ThreadPoolExecutor(1) as pool:
        running = pool.submit(serving.ask, "POST", PATH, token=SERVICE_TOKEN, body={})
        wait_until_waiting(here.database, 1)
        serving.kill()
        assert running.exception(20) is not None
        keeper.rollback()
    undo_on_insert(here.database, OUTPUT)
    stages = Stages(here.database)
    assert wait_until(
        lambda: stages.compute()["response"] == "computed" or phase(here, one) == "computed", 20
    )
    assert stages.publish()["response"] == "published"
    assert one.jobs("status", "attempts") == [("completed", 1)]


def phase(here: Edge, account: AppAccount) -> str:
    [[found]] = here.database.admin(
        "select phase from public.user_stats_projection_runs where user_id = :user", user=account.user_id
    )
    return found
