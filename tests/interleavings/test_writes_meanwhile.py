"""Saves and deletes while the account's own run computes or publishes."""

from __future__ import annotations

import pytest
from support.races import DEADLINE, wait_until_blocked

from tasks.transaction import account as account_identity

from .scene import (
    HEADERS,
    OUTPUT,
    OUTPUTS,
    READ_MODELS,
    admin_session,
    answer_of,
    assert_converges,
    gate,
    outcome,
    picture,
    run_row,
    session,
    start_compute,
    start_delete,
    start_enqueue,
    start_publish,
    start_save,
    wait_until_blocked_or_done,
)


def writer_of(database, account):
    return session(database, "writer", account_identity(account.user_id))


def test_a_save_during_a_compute_waits_for_nothing_and_stays_pending(database, app_account, stages):
    app_account.save(session_date="2026-03-01")
    run = stages.claim()
    payload = app_account.payload(app_account.block("Squat", (120, 5)), session_date="2026-02-01")
    with gate(database, OUTPUT) as keeper, session(database, "worker") as worker:
        computing = start_compute(worker, run)
        wait_until_blocked(database, worker, by=keeper)
        with writer_of(database, app_account) as writer:
            receipt = start_save(writer, app_account, payload)
            wait_until_blocked_or_done(database, writer, receipt)
            assert receipt.done(), "a save waits for no compute"
            writer.commit()
        keeper.rollback()
        assert outcome(computing)["response"] == "computed"
        worker.commit()
    assert stages.publish(run)["generation"] == 1
    assert app_account.state() == (2, 1)
    assert app_account.jobs("requested_version", "status") == [(1, "completed"), (2, "pending")]
    [[published_on]] = database.admin("select distinct day::text from public.user_exercise_daily_rollups")
    assert published_on == "2026-03-01", "the older generation, complete, without the newer save"
    assert_converges(stages, app_account)


def test_a_delete_between_compute_and_publish_rejects_and_converges(database, app_account, stages):
    kept = app_account.save(session_date="2026-03-01")
    doomed = app_account.save(app_account.block("Squat", (120, 5)), session_date="2026-03-02")
    stages.drain()
    app_account.save(
        app_account.block("Squat", (120, 6)), session_date="2026-03-02", session_id=doomed["session_id"]
    )
    run = stages.claim()
    stages.compute(run)
    app_account.delete(doomed["session_id"])
    before = picture(database, READ_MODELS)

    answer = stages.publish(run)
    assert (answer["response"], answer["reason"]) == ("rejected", "canonical_deleted")
    assert picture(database, READ_MODELS) == before
    assert picture(database, OUTPUTS) == {table: [] for table in OUTPUTS}
    assert run_row(database, run, "phase", "error") == ("failed", "canonical_deleted")
    assert app_account.state() == (4, 2)
    waits = "retry_not_before between updated_at and updated_at + interval '1.1 seconds'"
    assert app_account.jobs("status", "attempts", waits)[1:2] == [("pending", 0, True)]
    assert_converges(stages, app_account)
    assert kept["session_id"] in str(picture(database, READ_MODELS))
    assert doomed["session_id"] not in str(picture(database, READ_MODELS))


def test_a_delete_inside_a_compute_is_caught_by_its_publication(database, app_account, stages):
    doomed = app_account.save()
    run = stages.claim()
    with gate(database, OUTPUT) as keeper, session(database, "worker") as worker:
        computing = start_compute(worker, run)
        wait_until_blocked(database, worker, by=keeper)
        app_account.delete(doomed["session_id"])
        keeper.rollback()
        assert outcome(computing)["response"] == "computed", "it had read the session before"
        worker.commit()
    assert answer_of(stages.publish, run).get("reason") == "canonical_deleted"
    assert_converges(stages, app_account)
    assert picture(database, READ_MODELS[:-1]) == {table: [] for table in READ_MODELS[:-1]}


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_publication_waits_for_an_open_delete_and_heeds_how_it_ends(database, app_account, stages, end):
    doomed = app_account.save()
    run = stages.claim()
    stages.compute(run)
    with writer_of(database, app_account) as writer, session(database, "publisher") as publisher:
        start_delete(writer, app_account, doomed["session_id"]).result(DEADLINE)
        publishing = start_publish(publisher, run)
        wait_until_blocked(database, publisher, by=writer)
        getattr(writer, end)()
        answer = outcome(publishing)
        publisher.commit()
    expected = ("rejected", "canonical_deleted") if end == "commit" else ("published", None)
    assert (answer["response"], answer.get("reason")) == expected
    assert_converges(stages, app_account)


def test_a_delete_during_a_publication_waits_and_both_succeed(database, app_account, stages):
    doomed = app_account.save()
    app_account.save(app_account.block("Squat", (90, 5)), session_date="2026-03-01")
    run = stages.claim()
    stages.compute(run)
    with (
        gate(database, HEADERS) as keeper,
        session(database, "publisher") as publisher,
        writer_of(database, app_account) as writer,
    ):
        publishing = start_publish(publisher, run)
        wait_until_blocked(database, publisher, by=keeper)
        deleting = start_delete(writer, app_account, doomed["session_id"])
        wait_until_blocked(database, writer, by=publisher)
        keeper.rollback()
        published = outcome(publishing)
        publisher.commit()
        deleted = outcome(deleting)
        writer.commit()
    assert published.get("response") == "published"
    assert deleted.get("operation") == "session_deleted"
    assert doomed["session_id"] not in str(picture(database, READ_MODELS)), "its links go with it, at once"
    assert_converges(stages, app_account)


def test_a_save_during_a_publication_waits_and_both_succeed(database, app_account, stages):
    app_account.save()
    run = stages.claim()
    stages.compute(run)
    payload = app_account.payload(session_date="2026-01-01")
    with (
        gate(database, HEADERS) as keeper,
        session(database, "publisher") as publisher,
        writer_of(database, app_account) as writer,
    ):
        publishing = start_publish(publisher, run)
        wait_until_blocked(database, publisher, by=keeper)
        saving = start_save(writer, app_account, payload)
        wait_until_blocked(database, writer, by=publisher)
        keeper.rollback()
        assert outcome(publishing)["response"] == "published"
        publisher.commit()
        assert outcome(saving)["statsRequestedVersion"] == 2
        writer.commit()
    assert app_account.state() == (2, 1)
    assert_converges(stages, app_account)


def test_an_enqueue_followed_by_a_save_in_one_transaction_never_deadlocks_with_a_publication(
    database, app_account, stages
):
    app_account.save()
    run = stages.claim()
    stages.compute(run)
    payload = app_account.payload(session_date="2026-01-01")
    with (
        gate(database, HEADERS) as keeper,
        session(database, "publisher") as publisher,
        writer_of(database, app_account) as writer,
    ):
        publishing = start_publish(publisher, run)
        wait_until_blocked(database, publisher, by=keeper)
        enqueued = start_enqueue(writer, app_account)
        saved = start_save(writer, app_account, payload)
        wait_until_blocked_or_done(database, writer, saved)
        keeper.rollback()
        published = outcome(publishing)
        publisher.commit()
        requested, receipt = outcome(enqueued), outcome(saved)
        writer.commit()
    assert published.get("response") == "published"
    assert requested == 2
    assert receipt.get("statsRequestedVersion") == 3
    assert_converges(stages, app_account)


def test_a_session_deleted_past_the_write_lock_still_rejects_the_publication(database, app_account, stages):
    """A repair script deletes the row itself: only the foreign key stands between it and a broken link."""
    doomed = app_account.save()
    app_account.save(session_date="2026-03-01")
    run = stages.claim()
    stages.compute(run)
    with admin_session(database, "repair") as repair, session(database, "publisher") as publisher:
        repair.run(
            "delete from public.workout_sessions where id = cast(:id as uuid)", id=doomed["session_id"]
        )
        publishing = start_publish(publisher, run)
        wait_until_blocked(database, publisher, by=repair)
        repair.commit()
        assert outcome(publishing)["reason"] == "canonical_deleted"
        publisher.commit()
    assert_converges(stages, app_account)


def change_policy(database):
    database.admin(
        "update public.stats_projection_policy set e1rm_formula = 'epley', policy_version = policy_version + 1"
    )


def test_a_policy_change_before_the_compute_invalidates_the_run(database, app_account, stages):
    app_account.save()
    run = stages.claim()
    change_policy(database)
    answer = stages.compute(run)
    assert (answer["response"], answer.get("reason")) == ("invalidated", "policy")
    assert app_account.jobs("status", "attempts") == [("pending", 0)]
    assert_converges(stages, app_account)


def test_a_policy_change_after_the_compute_reaches_the_account_with_its_next_run(
    database, app_account, stages
):
    app_account.save()
    run = stages.claim()
    stages.compute(run)
    change_policy(database)
    assert stages.publish(run)["response"] == "published"
    app_account.save(app_account.block("Bench", (60, 5)), session_date="2026-04-01")
    assert_converges(stages, app_account)
