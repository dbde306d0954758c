"""What a task sends after a step of a run in batches, from the answer that the database really gave."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from interleavings.cases import TIMEOUT
from interleavings.scene import OUTPUT, on_insert
from sqlalchemy import text

from batches.scene import Account, claim_run, set_settings
from tasks.transaction import service, transaction
from tasks.wake import Message, follow_ups


def test_a_batch_asks_for_the_next_one_and_the_last_for_the_publication(database):
    set_settings(database, batch_size=2)
    Account(database, 4)
    run = claim_run(database)
    lease = {"run_id": run.id, "lease_token": run.token}
    assert follow_ups("claim", run.claimed) == [Message("stats.compute", lease)]
    assert [follow_ups("compute", answer) for answer in run.finish()] == [
        [Message("stats.compute", {**lease, "expected_offset": 0})],
        [Message("stats.compute", {**lease, "expected_offset": 2})],
        [Message("stats.compute", {**lease, "expected_offset": 4})],
        [Message("stats.publish", lease)],
    ]


def test_a_second_call_in_one_transaction_asks_for_nothing(database):
    set_settings(database, batch_size=2)
    Account(database, 4)
    claim_run(database)
    with transaction(database.engine, service()) as connection:
        connection.scalar(text("select public.stats_projection_compute_v1()"))
        repeated = connection.scalar(text("select public.stats_projection_compute_v1()"))
    assert repeated["reason"] == "transaction_boundary_required"
    assert follow_ups("compute", repeated) == []


def test_a_retry_asks_for_a_claim_when_its_time_has_come(database):
    set_settings(database, batch_size=2, retry_backoff_seconds=40)
    account = Account(database, 4)
    run = claim_run(database)
    run.steps(1)
    on_insert(database, OUTPUT, f"raise exception using errcode = '57014', message = '{TIMEOUT}';")
    answer = run.step()
    assert answer["response"] == "retry_pending", answer
    now, message = follow_ups("compute", answer)
    assert now == Message("stats.claim")  # until then its slot is somebody else's
    assert (message.task, message.arguments) == ("stats.claim", {})
    assert timedelta(seconds=30) < message.not_before - datetime.now(UTC) <= timedelta(seconds=40)
    assert not account.is_fresh()


def test_an_overtaken_run_asks_for_a_claim(database):
    set_settings(database, batch_size=2)
    account = Account(database, 4)
    run = claim_run(database)
    run.steps(2)
    account.edit(account.exercise_ids[0], "2026-03-08", 99)
    assert follow_ups("compute", run.step()) == [Message("stats.claim")]
    assert follow_ups("compute", run.step()) == []
