"""Processes die in the middle of the work: what was saved is published all the same, and once."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

import pytest
from batches.scene import outputs
from interleavings.scene import OUTPUT, change_settings, gate, wait_until_waiting
from pytest_celery import CeleryTestSetup
from reckoning.compare import assert_account_equals_reckoning
from support.app import AppAccount
from support.rig import soon

from core.processes import wait_until
from stack.nodes import WorkerNode

if TYPE_CHECKING:
    from conftest import Database


@pytest.fixture
def short_lease(database: Database) -> None:
    """A lease to wait for. Half of the compute budget is how long a stage stands at the gate, awaiting its kill."""
    change_settings(database, compute_budget_ms=7000, publish_budget_ms=1000, lease_seconds=8)


@pytest.mark.usefixtures("short_lease")
def test_another_worker_takes_over_from_one_that_was_killed(
    celery_setup: CeleryTestSetup, database: Database, app_account: AppAccount
):
    with gate(database, OUTPUT) as keeper:
        app_account.save()
        wait_until_waiting(database, 1)
        victim = holder_of_compute(celery_setup)
        victim.kill()
        keeper.rollback()

    app_account.save(app_account.block("Bench", (80, 8)))
    wait_until_recoverable(database)
    send(celery_setup, "stats.claim")

    wait_until_published(app_account)
    assert [node.is_running() for node in celery_setup.worker_cluster if node != victim] == [True]
    [(first, error, _), (second, _, attempts)] = runs(database)
    assert (first, second, attempts) == ("failed", "completed", 2)
    assert error.startswith("lease ran out")


@pytest.mark.usefixtures("short_lease")
def test_a_run_in_batches_goes_on_after_its_pool_child_was_killed(
    celery_setup: CeleryTestSetup, database: Database, app_account: AppAccount
):
    change_settings(database, batch_size=1)
    with gate(database, OUTPUT) as keeper:
        app_account.save(*(app_account.block(name, (100, 5)) for name in ("Squat", "Bench", "Row")))
        wait_until_waiting(database, 1)
        assert outputs(database) > 0  # the steps before it are committed
        victim = holder_of_compute(celery_setup)
        [task] = victim.active("stats.compute")
        os.kill(task["worker_pid"], signal.SIGKILL)
        victim.wait_for_log("WorkerLostError")
        keeper.rollback()

    wait_until_recoverable(database)
    send(celery_setup, "stats.claim")

    wait_until_published(app_account)
    assert all(node.is_running() for node in celery_setup.worker_cluster)
    # The same run, from the step that was committed last.
    assert runs(database) == [("completed", None, 1)]


def test_work_goes_on_after_the_broker_was_killed_with_messages_in_flight(
    celery_setup: CeleryTestSetup, database: Database
):
    accounts = [AppAccount(database) for _ in range(5)]
    workers = celery_setup.worker_cluster
    with gate(database, OUTPUT) as keeper:
        for account in accounts:
            account.save()
        wait_until_waiting(database, 2)  # as many as may be in flight; the others wait
        # What ends a worker with Celery's own consumer when the connection is lost.
        assert soon(lambda: all(holds_a_message_or_is_sent_one(celery_setup, node) for node in workers))
        celery_setup.broker.kill()
        for account in accounts:
            account.save(account.block("Bench", (80, 8)))
        celery_setup.broker.restart()
        keeper.rollback()

    beat_until_published(celery_setup, accounts)
    assert all(node.is_running() for node in workers)


def test_a_compute_message_that_comes_five_times_publishes_once(
    celery_setup: CeleryTestSetup, database: Database, app_account: AppAccount
):
    with gate(database, OUTPUT) as keeper:
        app_account.save()
        wait_until_waiting(database, 1)
        [(run_id, token)] = database.admin(
            "select id::text, lease_token::text from public.user_stats_projection_runs"
        )
        for _ in range(5):
            send(celery_setup, "stats.compute", run_id=run_id, lease_token=token)
        assert soon(lambda: responses(celery_setup, "stats.compute") == ["idle"] * 5)
        keeper.rollback()

    wait_until_published(app_account)
    assert soon(lambda: "published" in responses(celery_setup, "stats.publish"))
    assert soon(lambda: len(responses(celery_setup, "stats.compute")) == 6)
    for _ in range(5):
        send(celery_setup, "stats.compute", run_id=run_id, lease_token=token)
    assert soon(lambda: len(responses(celery_setup, "stats.compute")) == 11)

    assert responses(celery_setup, "stats.compute") == ["computed"] + ["idle"] * 10
    assert responses(celery_setup, "stats.publish") == ["published"]
    assert runs(database) == [("completed", None, 1)]


# ---------------------------------------------------------------- the workers


def send(setup: CeleryTestSetup, task: str, countdown: float | None = None, **arguments: object) -> None:
    setup.app.send_task(task, kwargs=arguments, countdown=countdown)


def holder_of_compute(setup: CeleryTestSetup) -> WorkerNode:
    """Return the worker that is at a compute."""
    [holder] = [node for node in setup.worker_cluster if node.active("stats.compute")]
    return holder


def holds_a_message_or_is_sent_one(setup: CeleryTestSetup, node: WorkerNode) -> bool:
    """Tell whether the worker holds an unacked message; where not, send one for later, which any may take."""
    held = bool(node.scheduled("stats.claim"))
    if not held:
        send(setup, "stats.claim", countdown=40)
    return held


def responses(setup: CeleryTestSetup, task: str) -> list[str]:
    """Return what the workers' logs say that `task` has answered so far, sorted."""
    done = re.compile(rf"Task {re.escape(task)}\[\S+\] succeeded in .*'response': '(\w+)'")
    return sorted(found for node in setup.worker_cluster for found in done.findall(node.logs()))


def beat_until_published(setup: CeleryTestSetup, accounts: list[AppAccount]) -> None:
    """Send each stage's message once a second, as beats do, until all that was saved is published."""

    def published_or_sent() -> bool:
        if all(is_published(account) for account in accounts):
            return True
        for stage in ("claim", "compute", "publish"):
            send(setup, f"stats.{stage}")
        return False

    assert wait_until(published_or_sent, 30, interval=1), [account.state() for account in accounts]
    for account in accounts:
        assert_settled(account)


# ---------------------------------------------------------------- the database


def wait_until_recoverable(database: Database) -> None:
    """Wait until the one run in flight has lost its lease and the dead worker's transaction has ended."""
    free = (
        "select from public.user_stats_projection_runs"
        " where phase = 'claimed' and lease_until <= clock_timestamp() for update skip locked"
    )
    assert soon(lambda: len(database.admin(free)) == 1), "the run never became free"


def runs(database: Database) -> list[tuple[str, str | None, int]]:
    """Return (phase, error, attempts) of every run, the oldest first."""
    return database.admin(
        "select phase, error, attempts from public.user_stats_projection_runs order by created_at"
    )


def is_published(account: AppAccount) -> bool:
    requested, applied = account.state()
    return 0 < requested == applied


def wait_until_published(account: AppAccount) -> None:
    assert soon(lambda: is_published(account)), (account.state(), account.jobs("status", "error_message"))
    assert_settled(account)


def assert_settled(account: AppAccount) -> None:
    """No job waits, nothing private is left, and what is published is right."""
    assert {status for (status,) in account.jobs("status")} == {"completed"}
    assert outputs(account.database) == 0
    with account.database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection, account.user_id)
