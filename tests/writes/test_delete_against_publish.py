"""A user deletes a session while the run that names it publishes: the delete always succeeds, nobody deadlocks."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from interleavings.scene import HEADERS, drop_backoff, end_waits, gate
from reckoning.compare import assert_account_equals_reckoning
from support.races import session, wait_until_blocked

from tasks.transaction import account

DELETE = "select public.delete_session_v5(cast(:session as uuid), :user, gen_random_uuid())"
PUBLISH = "select public.stats_projection_publish_v1(cast(:run_id as uuid), cast(:token as uuid))"


@pytest.fixture
def record_holder(app_account):
    """A session that every read model names: it holds all records."""
    app_account.save(app_account.block("Squat", (90, 5)), session_date="2026-03-01")
    return app_account.save(app_account.block("Squat", (100, 5)), session_date="2026-03-10")["session_id"]


@pytest.fixture
def computed(stages, record_holder):
    """The run that is about to publish the record holder."""
    run = stages.claim()
    assert stages.compute(run)["response"] == "computed"
    return {"run_id": run["run_id"], "token": run["lease_token"]}


def converges(database, app_account, stages):
    # Rejections wait before they are tried again.
    drop_backoff(database)
    end_waits(database)
    stages.drain()
    assert app_account.state()[0] == app_account.state()[1]
    with database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection, app_account.user_id)
    [[deadlocks]] = database.admin(
        "select deadlocks from pg_catalog.pg_stat_database where datname = current_database()"
    )
    assert deadlocks == 0


def test_the_delete_waits_for_the_publication_and_then_succeeds(
    database, app_account, stages, record_holder, computed
):
    with session(database, "worker") as worker, session(database, "app", account(app_account.user_id)) as app:
        assert worker.run(PUBLISH, **computed)["response"] == "published"
        deleting = app.start(DELETE, session=record_holder, user=app_account.user_id)
        wait_until_blocked(database, app, by=worker)
        worker.commit()
        assert deleting.result(20)["operation"] == "session_deleted"
        app.commit()

    converges(database, app_account, stages)


def test_the_publication_waits_for_the_delete_and_is_rejected(
    database, app_account, stages, record_holder, computed
):
    with session(database, "worker") as worker, session(database, "app", account(app_account.user_id)) as app:
        app.run(DELETE, session=record_holder, user=app_account.user_id)
        publishing = worker.start(PUBLISH, **computed)
        wait_until_blocked(database, worker, by=app)
        app.commit()
        answer = publishing.result(20)
        worker.commit()

    assert (answer["response"], answer["reason"]) == ("rejected", "canonical_deleted")
    converges(database, app_account, stages)


def test_a_delete_of_what_is_published_already_meets_the_publication_of_its_edit(
    database, app_account, stages, record_holder, computed
):
    """Now the read models name the session too, so the delete has links to clear in rows that publish rewrites."""
    assert (
        stages.publish({"run_id": computed["run_id"], "lease_token": computed["token"]})["response"]
        == "published"
    )
    app_account.save(
        app_account.block("Squat", (110, 5)), session_id=record_holder, session_date="2026-03-10"
    )
    run = stages.claim()
    stages.compute(run)
    # Half way: the read models are written, the state row is not. Without one lock above both, the delete would
    # hold the state row and want the read models.
    with (
        gate(database, HEADERS) as keeper,
        session(database, "worker") as worker,
        session(database, "app", account(app_account.user_id)) as app,
    ):
        publishing = worker.start(PUBLISH, run_id=run["run_id"], token=run["lease_token"])
        wait_until_blocked(database, worker, by=keeper)
        deleting = app.start(DELETE, session=record_holder, user=app_account.user_id)
        wait_until_blocked(database, app, by=worker)
        keeper.rollback()
        assert publishing.result(20)["response"] == "published"
        worker.commit()
        assert deleting.result(20)["operation"] == "session_deleted"
        app.commit()

    converges(database, app_account, stages)


def test_a_save_and_a_delete_take_turns_with_publications(database, app_account, stages, record_holder):
    """One thread drains, the app edits and deletes; whichever comes first, the app's call never fails."""
    done = threading.Event()

    def work():
        while not done.is_set():
            stages.drain()

    with ThreadPoolExecutor(1) as thread:
        working = thread.submit(work)
        try:
            for number in range(25):
                receipt = app_account.save(
                    app_account.block("Squat", (100 + number, 5)), session_date="2026-03-10"
                )
                app_account.save(
                    app_account.block("Squat", (101 + number, 5)), session_id=receipt["session_id"]
                )
                app_account.delete(receipt["session_id"], uuid.uuid4())
        finally:
            done.set()
        working.result(60)

    converges(database, app_account, stages)
