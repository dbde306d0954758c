"""Each input of a run in batches, when it moves between two of them, ends the attempt with its own reason."""

from __future__ import annotations

import pytest

from batches.scene import Account, Run, claim_run, drain, end_backoffs, outputs, publish, set_settings


@pytest.fixture
def account(database):
    set_settings(database, batch_size=2, retry_backoff_seconds=60)
    return Account(database, 5)


@pytest.fixture(params=[1, 2, 4], ids=["after prepare", "after a batch", "before finalize"])
def run(request, database, account) -> Run:
    run = claim_run(database)
    assert run.steps(request.param)["response"] == "batch_pending"
    return run


def assert_invalidated(database, run, reason, *, attempts, at_once):
    """The next step ends the attempt: nothing stays behind, the scope waits with `attempts` on its account."""
    answer = run.step()
    assert (answer["response"], answer["reason"]) == ("invalidated", reason)
    assert outputs(database) == 0
    assert run.column("phase") == "failed"
    [(found, waits)] = database.admin(
        "select attempts, retry_not_before > clock_timestamp() from public.user_exercise_stats_refresh_jobs"
        " where status = 'pending' order by requested_version limit 1"
    )
    assert (found, not waits) == (attempts, at_once)


def assert_converges(database, account):
    end_backoffs(database)
    assert drain(database)[-1] == "computed"
    account.assert_converged()


def test_a_newer_save(database, account, run):
    account.edit(account.exercise_ids[4], "2026-03-08", 200)
    assert_invalidated(database, run, "source", attempts=0, at_once=True)
    merged = claim_run(database)
    assert merged.claimed["target_version"] == 2
    merged.finish()
    publish(database, merged)
    account.assert_converged()


def test_a_request_that_is_no_write_of_the_account_does_not_disturb_it(database, account, run):
    account.enqueue(event="manual_refresh")
    assert run.finish()[-1]["response"] == "computed"
    assert publish(database, run)["generation"] == 1
    assert not account.is_fresh()
    assert_converges(database, account)


def test_another_accounts_save_does_not_disturb_it(database, account, run):
    Account(database, 3)
    assert run.finish()[-1]["response"] == "computed"


def test_a_policy_change(database, account, run):
    database.admin(
        "update public.stats_projection_policy set e1rm_formula = 'epley', policy_version = policy_version + 1"
    )
    assert_invalidated(database, run, "policy", attempts=0, at_once=False)
    assert_converges(database, account)


def test_a_policy_change_before_the_first_step(database, account):
    run = claim_run(database)
    database.admin("update public.stats_projection_policy set policy_version = policy_version + 1")
    assert_invalidated(database, run, "policy", attempts=0, at_once=False)


def test_midnight(database, account, run):
    run.change(
        "payload = jsonb_set(payload, '{_batch,anchor}', to_jsonb((payload #>> '{_batch,anchor}')::date - 1))"
    )
    assert_invalidated(database, run, "anchor", attempts=0, at_once=False)
    assert_converges(database, account)


def test_a_moved_base(database, account, run):
    database.admin("update public.user_stats_refresh_state set applied_version = requested_version")
    assert_invalidated(database, run, "base", attempts=0, at_once=False)
    assert_converges(database, account)


TAMPERINGS = {
    "inserted": "insert into stats_private.stats_output_records (run_id, exercise_id, kind, day, op)"
    " select r.id, 'x', 'weight', '2026-01-01', 'd' from public.user_stats_projection_runs r",
    "deleted": "delete from stats_private.stats_output_daily_rollups o where o.ctid ="
    " (select min(m.ctid) from stats_private.stats_output_daily_rollups m)",
    "updated": "update stats_private.stats_output_daily_rollups set reps = reps + 1 where ctid ="
    " (select min(m.ctid) from stats_private.stats_output_daily_rollups m)",
    "all deleted": "delete from stats_private.stats_output_daily_rollups",
    "a rep max updated": "update stats_private.stats_output_rep_maxes set weight_kg = 1000",
    "a day deleted": "delete from stats_private.stats_input_days where day = '2026-03-08'",
    "an exercise deleted from the list": "delete from stats_private.stats_batch_exercises where position = 4",
    "an exercise exchanged in the list": "update stats_private.stats_batch_exercises set exercise_id = 'y'"
    " where position = 4",
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_outputs_that_somebody_touched_cost_an_attempt(database, account, tampering):
    run = claim_run(database)
    run.steps(2)
    database.admin(TAMPERINGS[tampering])
    assert_invalidated(database, run, "outputs", attempts=1, at_once=False)
    [(error,)] = account.jobs("metadata #>> '{last_error,message}'")
    assert error == "invalidated: its private outputs were changed"
    assert_converges(database, account)


def test_everything_deleted_is_noticed_even_where_nothing_is_left_to_count(database, account):
    run = claim_run(database)
    run.steps(2)
    for table in (
        "stats_batch_exercises",
        "stats_input_days",
        "stats_output_daily_rollups",
        "stats_output_records",
    ):
        database.admin(f"delete from stats_private.{table}")
    for table in ("rep_maxes", "rep_max_steps", "pr_summaries"):
        database.admin(f"delete from stats_private.stats_output_{table}")
    assert outputs(database) == 0
    assert_invalidated(database, run, "outputs", attempts=1, at_once=False)


def test_outputs_that_are_always_touched_exhaust_the_account(database, account):
    set_settings(database, max_attempts=2)
    for _ in range(2):
        end_backoffs(database)
        run = claim_run(database)
        run.steps(2)
        database.admin(TAMPERINGS["updated"])
        assert run.step()["reason"] == "outputs"
    assert account.jobs("status", "attempts") == [("failed", 2)]
    assert outputs(database) == 0


def test_an_account_saved_between_any_two_steps_is_in_the_end_computed_at_once(database, account):
    computes = []
    for generation in range(2, 30):
        run = claim_run(database)
        answers = [run.step()]
        while answers[-1]["response"] == "batch_pending":
            account.edit(account.exercise_ids[generation % 5], "2026-03-08", 100 + generation)
            answers.append(run.step())
        computes.append([answer["response"] for answer in answers])
        if answers[-1]["response"] == "computed":
            publish(database, run)
            break
    assert computes == [["batch_pending", "invalidated"]] * 3 + [["computed"]]
    account.assert_converged()
    # Published, it has no record of being overtaken any more.
    account.enqueue()
    assert claim_run(database).step()["response"] == "batch_pending"


def test_a_base_that_always_moves_costs_an_attempt_in_the_end(database, account):
    set_settings(database, max_attempts=2)
    ends = []
    for _ in range(4):
        end_backoffs(database)
        claim_run(database).steps(1)
        database.admin(
            "update public.user_stats_refresh_state set requested_version = requested_version + 1,"
            " applied_version = applied_version + 1"
        )
        database.as_service().value("select public.stats_projection_compute_v1()")
        ends += account.jobs(
            "status", "attempts", "round(extract(epoch from retry_not_before - updated_at))::integer"
        )
    assert ends == [("pending", 0, 1), ("pending", 1, 60), ("pending", 1, 1), ("failed", 2, None)]


def test_the_status_counts_invalidations(database, account, run):
    account.edit(account.exercise_ids[0], "2026-03-08", 200)
    run.step()
    status = database.as_service().value("select public.stats_projection_worker_status_v1()")
    assert status["last_hour"]["invalidated"] == 1
    assert status["last_hour"]["failed"] == 0
