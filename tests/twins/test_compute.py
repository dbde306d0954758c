"""Twins of compute: the inputs that it checks, its batches, and the retries of those."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin


def _compute(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/compute.sql", line, instead, f"tests/interleavings/{node}")


def _inputs(line: str, instead: str, node: str) -> Twin:
    return Twin("runs/invalidation.sql", line, instead, f"tests/{node}")


def _retry(line: str, instead: str, node: str) -> Twin:
    return Twin("runs/batch_retry.sql", line, instead, f"tests/{node}")


def _waiting(line: str, instead: str, node: str) -> Twin:
    return Twin("runs/waiting.sql", line, instead, f"tests/{node}")


def _readmit(line: str, instead: str, node: str) -> Twin:
    return Twin("runs/readmit.sql", line, instead, f"tests/{node}")


_TIMEOUT = "if stats_private.is_cancelled_by_a_person(sqlstate, sqlerrm) then"

_PLANS = "tests/numbers/test_plans.py::test_no_step_looks_at_more_rows_than_a_few_for_each_set"

TWINS: dict[str, Twin] = {
    "a compute that may read whole tables": Twin(
        "pipeline/compute.sql",
        "set enable_seqscan = off\n",
        "",
        "tests/numbers/test_stages_read_their_own.py::test_what_others_have_is_not_read",
    ),
    "compute under another policy than the run's": _inputs(
        "when p_run.policy_version <> p_policy_version then 'policy'",
        "when false then 'policy'",
        "interleavings/test_writes_meanwhile.py::test_a_policy_change_before_the_compute_invalidates_the_run",
    ),
    "batches over a newer write": _inputs(
        "when (b ->> 'source_revision')::bigint <> s.source_revision then 'source'",
        "when false then 'source'",
        "interleavings/test_batch_inputs.py::test_what_moves_between_two_batches_invalidates_the_run[source]",
    ),
    "batches past midnight": _inputs(
        "when (b ->> 'anchor')::date <> stats_private.utc_today() then 'anchor'",
        "when false then 'anchor'",
        "interleavings/test_batch_inputs.py::test_what_moves_between_two_batches_invalidates_the_run[anchor]",
    ),
    "batches on a base that moved": _inputs(
        "when p_run.base_version <> s.applied_version then 'base'",
        "when false then 'base'",
        "interleavings/test_batch_inputs.py::test_what_moves_between_two_batches_invalidates_the_run[base]",
    ),
    "batches on outputs that somebody touched": _inputs(
        "when b -> 'outputs' <> (select o.revision from stats_private.outputs_of(p_run.id) o) then 'outputs'",
        "when false then 'outputs'",
        "interleavings/test_batch_inputs.py"
        "::test_what_moves_between_two_batches_invalidates_the_run[outputs]",
    ),
    "batches at any offset": _compute(
        "if p_expected_offset is distinct from (",
        "if false and p_expected_offset is distinct from (",
        "test_doubled_messages.py::test_a_message_of_a_batch_chain_that_comes_late_or_twice_changes_nothing",
    ),
    "two batches in one transaction": _compute(
        "elsif v_run.payload #>> '{_batch,xid}' = pg_current_xact_id()::text then",
        "elsif false then",
        "test_doubled_messages.py::test_a_transaction_advances_a_run_by_one_step_however_often_it_calls",
    ),
    "compute that lets errors through": _compute(
        "when query_canceled or others then",
        "when query_canceled then",
        "test_failures.py::test_an_error_inside_is_recorded_and_leaves_nothing_partial[raise-compute]",
    ),
    "compute that lets its timeout through": _compute(
        "when query_canceled or others then",
        "when others then",
        "test_failures.py::test_the_statement_timeout_is_recorded[compute]",
    ),
    "compute that swallows a person's cancel": _compute(
        _TIMEOUT,
        "if false then",
        "test_failures.py::test_a_persons_cancel_is_raised_on_and_the_run_stays_as_it_was[compute]",
    ),
    "readmission before its time": _readmit(
        "'-infinity'::timestamptz, v_now), ",
        "'-infinity'::timestamptz, v_latest), ",
        "interleavings/test_batch_retries.py"
        "::test_a_run_that_backs_off_comes_back_when_its_time_has_come_and_not_before",
    ),
    "readmission that waits for a run's row": _readmit(
        "order by r.retry_not_before\n            for update skip locked",
        "order by r.retry_not_before\n            for update",
        "interleavings/test_batch_retries.py"
        "::test_a_run_that_backs_off_and_whose_row_somebody_holds_keeps_no_claim_waiting",
    ),
    "readmission into the slot that is kept from batches": _readmit(
        "and (not r.needs_batches or not (select stats_private.batch_slots_are_taken()))",
        "",
        "batches/test_retry.py::test_a_run_that_comes_back_does_not_take_the_slot_of_the_small_accounts",
    ),
    "readmission without a new lease": _readmit(
        "perform stats_private.hold_lease(run);",
        "perform 1;",
        "interleavings/test_batch_retries.py::test_a_run_that_comes_back_has_a_whole_lease_and_ends",
    ),
    "batches that are retried without end": _retry(
        "< s.max_attempts",
        "< 1000",
        "interleavings/test_batch_retries.py"
        "::test_a_batch_is_tried_again_as_often_as_the_attempts_and_no_more",
    ),
    "resumption without a look at the inputs": _retry(
        "or stats_private.invalidation_of(\n"
        "            p_run, (select p.policy_version from public.stats_projection_policy p)) is not null",
        "or false",
        "batches/test_resume.py::test_it_is_not_resumed_where_an_input_moved_meanwhile[source]",
    ),
    "resumption without end": _retry(
        "or not stats_private.batch_may_retry(p_run)",
        "or false",
        "batches/test_resume.py::test_it_is_resumed_a_bounded_number_of_times_and_then_begins_anew",
    ),
    "batches whose source is read after their list": Twin(
        "pipeline/batches.sql",
        "'source_revision', v_source_revision,",
        "'source_revision', stats_private.source_revision(p_run.user_id),",
        "tests/interleavings/test_batch_inputs.py"
        "::test_a_save_while_the_list_is_frozen_is_noticed_by_the_next_step",
    ),
    "a lease shorter than the backoff": Twin(
        "runs/batch_retry.sql",
        "w.wait + (s.compute_budget_ms + s.publish_budget_ms)",
        "(s.compute_budget_ms + s.publish_budget_ms)",
        "tests/batches/test_retry.py"
        "::test_the_lease_of_a_run_that_backs_off_covers_the_wait_a_compute_and_a_publication",
    ),
    # ------------------------------------------------ no more than the scope
    "compute of days before the scope": Twin(
        "pipeline/compute.sql",
        "else coalesce(p_run.from_date, '-infinity') end;",
        "else '-infinity' end;",
        "tests/numbers/test_work_is_bounded.py"
        "::test_one_edited_session_of_today_costs_the_same_whatever_the_account_has[small account]",
    ),
    "compute of exercises outside the scope": Twin(
        "pipeline/compute.sql",
        "stats_private.candidate_exercises(p_run.user_id, p_run.exercise_ids) c)",
        "stats_private.candidate_exercises(p_run.user_id, '{}') c)",
        "tests/numbers/test_work_is_bounded.py::test_another_exercise_of_the_same_day_is_not_read",
    ),
    "compute of what others did of an exercise": Twin(
        "numbers/sets_by_session.sql",
        "where i.user_id = p_user_id and i.exercise_id",
        "where i.exercise_id",
        "tests/numbers/test_work_is_bounded.py::test_what_others_did_of_a_global_exercise_is_not_read",
    ),
    "a projection that may loop over its own rows": Twin(
        "projection/project.sql",
        "set enable_nestloop = off\n",
        "",
        f"{_PLANS}[on empty tables]",
    ),
    "a projection that may read whole tables": Twin(
        "projection/project.sql",
        "set enable_seqscan = off\n",
        "",
        f"{_PLANS}[on tiny tables]",
    ),
    "parts looked up without a fence": Twin(
        "numbers/sets_by_session.sql",
        "        where p_from_date = '-infinity'\n        offset 0\n",
        "        where p_from_date = '-infinity'\n",
        f"{_PLANS}[on full tables]",
    ),
    # ------------------------------------------------ contention
    "a lock timeout in compute that costs an attempt": _compute(
        "if stats_private.is_contention(v_sqlstate, v_constraint) then",
        "if false then",
        "test_waiting.py::test_contention_costs_no_attempt_and_no_finished_work[55P03-compute]",
    ),
    "a refusal of the fence that is waited for": Twin(
        "runs/failures.sql",
        " and coalesce(p_constraint, '') <> 'stats_projection_run_lease_fence_v1'",
        "",
        "tests/interleavings/test_waiting.py::test_the_fences_refusal_is_none[compute]",
    ),
    "waits that do not grow": _waiting(
        "least(power(2, least(p_run.busy_waits, 5)), 30)",
        "1",
        "interleavings/test_waiting.py"
        "::test_a_writer_that_holds_its_account_and_rolls_back_leaves_no_exhausted_job",
    ),
    "a held account that is given a slot": _readmit(
        "if run.phase = 'claimed' or stats_private.try_write_lock(run.user_id) then",
        "if true then",
        "interleavings/test_waiting.py::test_many_accounts_that_others_hold_keep_no_slot_from_the_rest",
    ),
    "a run's retry time that a wrong clock makes last": _readmit(
        ", (v_latest, 'infinity')",
        "",
        "interleavings/test_held_rows.py::test_a_run_that_would_wait_for_a_year_comes_back",
    ),
    "rows of a waiting account that stay in front": _waiting(
        "perform stats_private.put_off_pending(v_run.user_id, v_run.retry_not_before);",
        "",
        "interleavings/test_waiting.py::test_what_a_save_adds_while_the_run_waits_stands_out_of_the_way",
    ),
    "compute that waits for a job row": _compute(
        "elsif not stats_private.try_lock_jobs(v_run.id) then",
        "elsif false then",
        "test_waiting.py::test_an_end_that_cannot_be_recorded_is_put_off[failed]",
    ),
    "compute that keeps the count of its waits": _compute(
        "busy_waits = 0,",
        "busy_waits = r.busy_waits,",
        "test_waiting.py::test_a_success_begins_the_waits_anew",
    ),
    "a budget that leaves the database's transaction_timeout": Twin(
        "runs/statement_budget.sql",
        "set_config('transaction_timeout', '0', true),",
        "",
        "tests/interleavings/test_waiting.py"
        "::test_a_transaction_timeout_of_the_database_ends_no_stage[compute]",
    ),
    "a compute at any isolation level": _compute(
        "perform stats_private.require_read_committed();",
        "",
        "test_waiting.py::test_a_stage_or_page_at_another_level_refuses_and_says_what_to_do"
        "[repeatable read-public.stats_projection_compute_v1()]",
    ),
    "compute that does not renew its lease": _compute(
        "lease_until = clock_timestamp() + p_lease_seconds * interval '1 second',",
        "",
        "test_doubled_messages.py::test_a_stage_renews_its_lease[compute]",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
