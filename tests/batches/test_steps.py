"""An account of more than batch_size exercises is computed step by step, and ends as if computed at once."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from batches.scene import Account, Run, claim_run, drain, outputs, publish, set_settings
from tasks.transaction import service, transaction


@pytest.mark.parametrize("exercises", [101, 250, 1200])
def test_a_large_account_takes_prepare_its_batches_and_finalize(database, exercises):
    account = Account(database, exercises)
    run = claim_run(database)
    answers = run.finish()

    full, rest = divmod(exercises, 100)
    offsets = [0, *(100 * n for n in range(1, full + 1)), *([exercises] if rest else [])]
    assert [(a["response"], a["stage"], a["next_offset"], a["total_exercises"]) for a in answers[:-1]] == [
        ("batch_pending", "finalize" if offset == exercises else "exercises", offset, exercises)
        for offset in offsets
    ]
    assert answers[-1]["response"] == "computed"
    assert publish(database, run)["response"] == "published"
    account.assert_converged()


def test_a_hundred_exercises_are_one_computed(database):
    account = Account(database, 100)
    run = claim_run(database)
    assert [answer["response"] for answer in run.finish()] == ["computed"]
    publish(database, run)
    account.assert_converged()


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5])
def test_any_batch_size_ends_equal_to_the_reckoning(database, batch_size):
    set_settings(database, batch_size=batch_size)
    account = Account(database, 7)
    run = claim_run(database)
    answers = run.finish()
    assert [a["response"] for a in answers] == ["batch_pending"] * (1 + -(-7 // batch_size)) + ["computed"]
    publish(database, run)
    account.assert_converged()


def test_a_batch_size_that_changes_between_two_batches_leaves_no_exercise_out(database):
    set_settings(database, batch_size=2)
    account = Account(database, 9)
    run = claim_run(database)
    run.steps(2)
    set_settings(database, batch_size=5)
    assert run.step()["next_offset"] == 7
    assert run.finish()[-1]["response"] == "computed"
    publish(database, run)
    account.assert_converged()


def test_nothing_is_published_before_the_last_batch(database):
    set_settings(database, batch_size=2)
    account = Account(database, 5)
    run = claim_run(database)
    for _ in range(4):
        assert run.step()["response"] == "batch_pending"
        assert run.column("phase") == "claimed"
        assert publish(database, run) == {"response": "idle"}
        assert not database.admin("select from public.user_exercise_daily_rollups")
    assert run.step()["response"] == "computed"
    publish(database, run)
    account.assert_converged()


def test_a_scope_of_more_than_a_hundred_exercises_begins_at_its_date(database):
    account = Account(database, 130)
    drain(database)
    edited = account.exercise_ids[:120]
    database.admin(
        "update public.session_sets s set weight_kg = weight_kg + 40"
        " from public.session_exercise_part p join public.workout_sessions w on w.id = p.session_id"
        " where s.part_id = p.id and p.exercise_id = any (:ids) and w.session_date >= '2026-03-08'",
        ids=edited,
    )
    account.enqueue("2026-03-08", edited)

    run = claim_run(database)
    answers = run.finish()
    assert [a["next_offset"] for a in answers[:-1]] == [0, 100, 120]
    assert answers[0]["total_exercises"] == 120
    days = database.admin(
        "select distinct day::text from stats_private.stats_output_daily_rollups order by 1"
    )
    assert days == [("2026-03-08",), ("2026-11-20",)]
    publish(database, run)
    account.assert_converged()


def test_a_moved_anchor_rebuilds_the_windows_of_exercises_outside_the_list_too(database):
    set_settings(database, batch_size=2)
    account = Account(database, 6)
    drain(database)
    # As published two days ago: all three snapshot days of every exercise lie two days back.
    database.admin("update public.user_stats_refresh_state set published_anchor = published_anchor - 2")
    # One statement a step: a key must never meet its neighbour.
    for table in ("user_pr_exercise_summary_snapshots", "user_pr_overview_snapshot_headers"):
        database.admin(f"update public.{table} set as_of_date = as_of_date - 1000")
        database.admin(f"update public.{table} set as_of_date = as_of_date + 998")
    for exercise in account.exercise_ids[:3]:
        account.edit(exercise, "2026-11-20", 90)

    run = claim_run(database)
    answers = run.finish()
    assert answers[0]["total_exercises"] == 3
    publish(database, run)
    account.assert_converged()


def test_a_scope_that_only_moves_the_window_is_never_batched(database):
    set_settings(database, batch_size=2)
    account = Account(database, 6)
    drain(database)
    database.as_service().value(
        "select public.enqueue_user_exercise_stats_refresh_job(:user, null, '{}', 'pr_snapshot_rollover',"
        " p_window_only => true, p_priority => 1)",
        user=account.user_id,
    )
    run = claim_run(database)
    assert [answer["response"] for answer in run.finish()] == ["computed"]


def test_what_was_deleted_disappears_from_a_batched_account_too(database):
    set_settings(database, batch_size=2)
    account = Account(database, 5)
    drain(database)
    gone = account.exercise_ids[0]
    database.admin("delete from public.session_exercise_part where exercise_id = :gone", gone=gone)
    account.enqueue(event="session_deleted")
    drain(database)
    assert not database.admin(
        "select from public.user_exercise_daily_rollups where exercise_id = :gone", gone=gone
    )
    account.assert_converged()


def test_a_second_call_in_one_transaction_advances_nothing(database):
    set_settings(database, batch_size=2)
    account = Account(database, 5)
    run = claim_run(database)
    call = "select public.stats_projection_compute_v1(cast(:run as uuid), cast(:token as uuid))"
    with transaction(database.engine, service()) as connection:
        lease = {"run": run.id, "token": run.token}
        first = connection.scalar(text(call), lease)
        second = connection.scalar(text(call), lease)
        without_arguments = connection.scalar(text("select public.stats_projection_compute_v1()"))
    assert (first["stage"], first["next_offset"]) == ("exercises", 0)
    for repeated in (second, without_arguments):
        assert repeated["response"] == "batch_pending"
        assert repeated["reason"] == "transaction_boundary_required"
        assert (repeated["stage"], repeated["next_offset"]) == ("exercises", 0)
    assert run.finish()[-1]["response"] == "computed"
    publish(database, run)
    account.assert_converged()


def test_a_doubled_or_delayed_message_of_the_chain_changes_nothing(database):
    set_settings(database, batch_size=2)
    account = Account(database, 5)
    run = claim_run(database)
    run.step()
    assert run.step(0)["next_offset"] == 2
    before = run.batch, outputs(database)
    assert run.step(0)["response"] == "idle"  # the doubled one
    assert run.step(4)["response"] == "idle"  # one that nobody has asked for
    assert (run.batch, outputs(database)) == before
    answers = [run.step(2), run.step(4), run.step(5)]
    assert [a["response"] for a in answers] == ["batch_pending", "batch_pending", "computed"]
    assert run.step(5)["response"] == "idle"
    publish(database, run)
    assert run.step(5)["response"] == "idle"
    account.assert_converged()


def test_a_message_for_a_run_that_ended_changes_nothing(database):
    set_settings(database, batch_size=2)
    account = Account(database, 5)
    old = claim_run(database)
    old.steps(2)
    account.edit(account.exercise_ids[0], "2026-03-01", 150)
    assert old.step(2)["response"] == "invalidated"
    new = claim_run(database)
    new.steps(2)
    before = new.batch
    assert old.step(2)["response"] == "idle"
    assert Run(database, {**new.claimed, "lease_token": old.token}).step(2)["response"] == "lease_lost"
    assert new.batch == before
    drain(database)
