"""The twins: which line goes, in which file, and which test misses it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FUNCTIONS = Path(__file__).parents[2] / "sql" / "functions"


@dataclass(frozen=True)
class Twin:
    """One change to one SQL file, and the test that has to go red."""

    file: str
    line: str
    instead: str
    node: str

    def broken_text(self) -> str:
        """Return the file's text with the change. Raises ValueError where the line is not there exactly once."""
        text = (FUNCTIONS / self.file).read_text(encoding="utf-8")
        if (found := text.count(self.line)) != 1:
            raise ValueError(f"{self.file} has this {found} times, the twin needs it once:\n{self.line}")
        return text.replace(self.line, self.instead)


def _claim(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/claim.sql", line, instead, f"tests/interleavings/{node}")


def _take_run(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/take_run.sql", line, instead, f"tests/interleavings/{node}")


def _lease(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/lease.sql", line, instead, f"tests/interleavings/{node}")


def _compute(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/compute.sql", line, instead, f"tests/interleavings/{node}")


def _inputs(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/batch_inputs.sql", line, instead, f"tests/{node}")


def _publish(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/publish.sql", line, instead, f"tests/interleavings/{node}")


def _ending(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/end_attempt.sql", line, instead, f"tests/interleavings/{node}")


def _enqueue(line: str, instead: str, node: str) -> Twin:
    return Twin("queue/enqueue_job.sql", line, instead, f"tests/interleavings/{node}")


def _retry(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/batch_retry.sql", line, instead, f"tests/{node}")


_TIMEOUT = "if sqlerrm <> 'canceling statement due to statement timeout' then"
_FENCED = """(old.phase, old.payload, old.lease_token, old.lease_until)
            is distinct from (new.phase, new.payload, new.lease_token, new.lease_until)"""


def _unfenced(*columns: str) -> str:
    old, new = (", ".join(f"{row}.{column}" for column in columns) for row in ("old", "new"))
    return f"({old})\n            is distinct from ({new})"


TWINS: dict[str, Twin] = {
    # ------------------------------------------------ claim
    "claim without the claim lock": _claim(
        "perform stats_private.lock_claim();",
        "perform 1;",
        "test_claims.py::test_a_claim_counts_what_an_unfinished_claim_takes",
    ),
    "claim one above the cap": _claim(
        "stats_private.runs_in_flight() >= v_cap",
        "stats_private.runs_in_flight() > v_cap",
        "test_claims.py::test_the_last_slot_is_taken_and_no_more",
    ),
    "claim without the worker lock": _claim(
        "if not stats_private.try_worker_lock(p_user_id) then",
        "if false then",
        "test_claims.py::test_an_account_whose_worker_lock_is_held_is_left_for_the_next",
    ),
    "claim without the job rows' locks": _claim(
        "and j.status || '' in ('pending', 'failed')\n        for update skip locked",
        "and j.status || '' in ('pending', 'failed')",
        "test_generations.py::test_a_claim_takes_nothing_of_what_an_enqueuer_is_merging",
    ),
    "claim that waits for job rows": _claim(
        "and j.status || '' in ('pending', 'failed')\n        for update skip locked",
        "and j.status || '' in ('pending', 'failed')\n        for update",
        "test_generations.py::test_a_held_row_holds_back_the_whole_account[rollback-4]",
    ),
    "claim that takes the rows it can get": _claim(
        "cardinality(v_jobs) <> (",
        "0 = (",
        "test_generations.py::test_a_held_row_holds_back_the_whole_account[rollback-4]",
    ),
    "claim without the write lock": _claim(
        "if not stats_private.try_write_lock(p_user_id) then",
        "if false then",
        "test_generations.py::test_a_claim_requests_a_generation_only_where_no_writer_is_at_work",
    ),
    "claim of a target that was applied": _claim(
        "if v_target <= v_state.applied_version then",
        "if false then",
        "test_generations.py::test_a_target_that_was_already_applied_becomes_a_new_generation",
    ),
    "claim before the account's retry time": _claim(
        "and waiting.retry_not_before > clock_timestamp()",
        "and false",
        "test_claims.py::test_a_backing_off_account_waits_with_everything_it_has",
    ),
    "claim of an account in flight": _claim(
        "where r.user_id = j.user_id and r.phase in ('claimed', 'computed')",
        "where r.user_id = j.user_id and r.phase in ('claimed', 'computed') and false",
        "test_claims.py::test_an_account_in_flight_is_not_claimed_again",
    ),
    "recovery of a live lease": _claim(
        "and r.lease_until <= clock_timestamp()",
        "",
        "test_claims.py::test_an_account_in_flight_is_not_claimed_again",
    ),
    "recovery without the run's row lock": _claim(
        "order by r.lease_until\n    limit 1\n    for update skip locked;",
        "order by r.lease_until\n    limit 1;",
        "test_claims.py::test_an_expired_run_whose_row_somebody_holds_is_left_alone",
    ),
    # ------------------------------------------------ taking a run
    "a run taken by its message without its row lock": _take_run(
        "where r.id = p_run_id\n    for update skip locked;",
        "where r.id = p_run_id;",
        "test_doubled_messages.py::test_a_second_compute_finds_the_run_held[by its message]",
    ),
    "a run taken by a beat without its row lock": _take_run(
        "limit 1\n        for update skip locked;",
        "limit 1;",
        "test_doubled_messages.py::test_a_second_compute_finds_the_run_held[by a beat]",
    ),
    "a run taken with any token": _take_run(
        "when run.lease_token is distinct from p_lease_token then",
        "when false then",
        "test_doubled_messages.py::test_a_token_that_is_not_the_runs_loses[another-compute]",
    ),
    "a run taken after its lease": _take_run(
        "and run.lease_until <= clock_timestamp() then",
        "and false then",
        "test_fence.py::test_a_zombie_whose_lease_ran_out_changes_nothing[plain-compute]",
    ),
    "a run taken by a clock that stands still": _take_run(
        "and run.lease_until <= clock_timestamp() then",
        "and run.lease_until <= now() then",
        "test_fence.py::test_a_zombie_whose_lease_ran_out_changes_nothing[now() frozen-compute]",
    ),
    "a run taken by a beat after its lease": _take_run(
        "and r.lease_until > clock_timestamp()",
        "",
        "test_doubled_messages.py::test_a_beat_leaves_an_expired_run_to_the_claim[compute]",
    ),
    "a run taken in any phase": _take_run(
        "when run.phase <> p_phase or",
        "when",
        "test_doubled_messages.py::test_messages_that_come_late_or_twice_change_nothing",
    ),
    # ------------------------------------------------ the fence
    "a fence around expired leases": _lease(
        "and old.lease_until > clock_timestamp()",
        "",
        "test_fence.py::test_a_repair_script_is_free_once_the_lease_ran_out[plain]",
    ),
    "a fence with a clock that stands still": _lease(
        "and old.lease_until > clock_timestamp()",
        "and old.lease_until > now()",
        "test_fence.py::test_a_repair_script_is_free_once_the_lease_ran_out[now() frozen]",
    ),
    "a fence around finished runs": _lease(
        "old.phase in ('claimed', 'computed')",
        "true",
        "test_fence.py::test_a_finished_run_is_free_though_its_lease_has_time_left",
    ),
    "a fence that any token opens": _lease(
        "is distinct from old.lease_token::text",
        "is null",
        "test_fence.py::test_a_token_of_another_run_opens_nothing",
    ),
    "a fence with a hole for the phase": _lease(
        _FENCED,
        _unfenced("payload", "lease_token", "lease_until"),
        "test_fence.py::test_a_repair_script_is_refused_while_the_lease_lives[plain]",
    ),
    "a fence with a hole for the payload": _lease(
        _FENCED,
        _unfenced("phase", "lease_token", "lease_until"),
        "test_fence.py::test_a_repair_script_is_refused_while_the_lease_lives[plain]",
    ),
    "a fence with a hole for the token": _lease(
        _FENCED,
        _unfenced("phase", "payload", "lease_until"),
        "test_fence.py::test_a_repair_script_is_refused_while_the_lease_lives[plain]",
    ),
    "a fence with a hole for the lease": _lease(
        _FENCED,
        _unfenced("phase", "payload", "lease_token"),
        "test_fence.py::test_a_repair_script_is_refused_while_the_lease_lives[plain]",
    ),
    "a fence with a hole for deletes": _lease(
        "before update or delete on",
        "before update on",
        "test_fence.py::test_a_repair_script_is_refused_while_the_lease_lives[plain]",
    ),
    "a fence that a replica walks around": _lease(
        "enable always trigger",
        "enable trigger",
        "test_fence.py::test_a_repair_script_is_refused_while_the_lease_lives[replica]",
    ),
    "a lease that is not renewed": _lease(
        "* interval '1 second'",
        "* interval '0 second'",
        "test_doubled_messages.py::test_a_stage_renews_its_lease[compute]",
    ),
    # ------------------------------------------------ compute
    "compute under another policy than the run's": _inputs(
        "when p_run.policy_version <> (select p.policy_version from public.stats_projection_policy p) then 'policy'",
        "when false then 'policy'",
        "interleavings/test_writes_meanwhile.py::test_a_policy_change_before_the_compute_invalidates_the_run",
    ),
    "batches over a newer write": _inputs(
        "when (b ->> 'source_revision')::bigint <> stats_private.source_revision(p_run.user_id) then 'source'",
        "when false then 'source'",
        "interleavings/test_batch_inputs.py::test_what_moves_between_two_batches_invalidates_the_run[source]",
    ),
    "batches past midnight": _inputs(
        "when (b ->> 'anchor')::date <> stats_private.utc_today() then 'anchor'",
        "when false then 'anchor'",
        "interleavings/test_batch_inputs.py::test_what_moves_between_two_batches_invalidates_the_run[anchor]",
    ),
    "batches on a base that moved": _inputs(
        ") then 'base'",
        ") and false then 'base'",
        "interleavings/test_batch_inputs.py::test_what_moves_between_two_batches_invalidates_the_run[base]",
    ),
    "batches on outputs that somebody touched": _inputs(
        "when b -> 'outputs' <> stats_private.output_revision(p_run.id, p_run.lease_token) then 'outputs'",
        "when false then 'outputs'",
        "interleavings/test_batch_inputs.py::test_what_moves_between_two_batches_invalidates_the_run[outputs]",
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
        "when others then",
        "when assert_failure then",
        "test_failures.py::test_an_error_inside_is_recorded_and_leaves_nothing_partial[raise-compute]",
    ),
    "compute that lets its timeout through": _compute(
        "when query_canceled then",
        "when assert_failure then",
        "test_failures.py::test_the_statement_timeout_is_recorded[compute]",
    ),
    "compute that swallows a person's cancel": _compute(
        _TIMEOUT,
        "if false then",
        "test_failures.py::test_a_persons_cancel_is_raised_on_and_the_run_stays_as_it_was[compute]",
    ),
    # ------------------------------------------------ publish
    "publish without the write lock": _publish(
        "perform stats_private.lock_writes(v_run.user_id);",
        "perform 1;",
        "test_writes_meanwhile.py::test_a_delete_during_a_publication_waits_and_both_succeed",
    ),
    "publish on any base": _publish(
        "is distinct from p_run.base_version then 'base_moved'",
        "is null then 'base_moved'",
        "test_rejections.py::test_a_base_that_moved_rejects[applied_version - 1]",
    ),
    "publish without a look at the base it replaces": _publish(
        " and s.applied_version = p_run.base_version;",
        ";",
        "test_rejections.py::test_a_base_that_moves_past_the_write_lock_publishes_nothing",
    ),
    "publish of any outputs": _publish(
        "is distinct from p_run.payload -> 'outputs'",
        "is null",
        "test_rejections.py::test_a_row_too_many_rejects",
    ),
    "publish that leaves the foreign keys to the commit": _publish(
        "set constraints all immediate;",
        "perform 1;",
        "test_writes_meanwhile.py::test_a_delete_inside_a_compute_is_caught_by_its_publication",
    ),
    "publish that fails on a deleted session": _publish(
        "when foreign_key_violation then",
        "when assert_failure then",
        "test_writes_meanwhile.py::test_a_delete_inside_a_compute_is_caught_by_its_publication",
    ),
    "publish that lets errors through": _publish(
        "when others then",
        "when assert_failure then",
        "test_failures.py::test_an_error_inside_is_recorded_and_leaves_nothing_partial[raise-publish]",
    ),
    "publish that lets its timeout through": _publish(
        "when query_canceled then",
        "when assert_failure then",
        "test_failures.py::test_the_statement_timeout_is_recorded[publish]",
    ),
    "publish that swallows a person's cancel": _publish(
        _TIMEOUT,
        "if false then",
        "test_failures.py::test_a_persons_cancel_is_raised_on_and_the_run_stays_as_it_was[publish]",
    ),
    # ------------------------------------------------ the end of an attempt
    "attempts without an end": _ending(
        "v_exhausted := p_run.attempts >= v_settings.max_attempts;",
        "v_exhausted := false;",
        "test_failures.py::test_each_attempt_waits_longer_and_the_last_one_stays_failed",
    ),
    "a rejection that costs an attempt": _ending(
        "attempts = greatest(j.attempts - 1, 0),",
        "",
        "test_writes_meanwhile.py::test_an_account_that_is_rejected_again_and_again_keeps_its_attempts",
    ),
    # ------------------------------------------------ the queue
    "enqueue without the write lock": _enqueue(
        "perform stats_private.lock_writes(p_user_id);",
        "perform 1;",
        "test_writes_meanwhile.py"
        "::test_an_enqueue_followed_by_a_save_in_one_transaction_never_deadlocks_with_a_publication",
    ),
    "enqueue into a row that a claim takes": _enqueue(
        "limit 1\n    for update skip locked;",
        "limit 1;",
        "test_generations.py::test_a_save_meets_an_open_claim_and_neither_waits_nor_touches_what_it_took",
    ),
    "enqueue that waits for a claim": _enqueue(
        "limit 1\n    for update skip locked;",
        "limit 1\n    for update;",
        "test_generations.py::test_a_save_meets_an_open_claim_and_neither_waits_nor_touches_what_it_took",
    ),
    # ------------------------------------------------ batches: slots, retries, resumption
    "recovery without the jobs' locks": _claim(
        "if not found or not stats_private.try_lock_jobs(v_run.id) then",
        "if not found then",
        "test_claims.py::test_recovery_waits_for_no_job_row_and_the_next_account_is_claimed",
    ),
    "recovery that waits for job rows": _claim(
        "where j.run_id = p_run_id and j.status = 'processing'\n        for update skip locked",
        "where j.run_id = p_run_id and j.status = 'processing'\n        for update",
        "test_claims.py::test_recovery_waits_for_no_job_row_and_the_next_account_is_claimed",
    ),
    "claim of the slot that is kept from batches": Twin(
        "pipeline/claim.sql",
        "if v_needs_batches and stats_private.batch_slots_are_taken() then",
        "if false then",
        "tests/batches/test_slots.py::test_one_slot_is_kept_from_accounts_that_need_batches",
    ),
    "readmission before its time": _retry(
        "and r.retry_not_before <= clock_timestamp()",
        "and r.retry_not_before is not null",
        "interleavings/test_batch_retries.py"
        "::test_a_run_that_backs_off_comes_back_when_its_time_has_come_and_not_before",
    ),
    "readmission that waits for a run's row": _retry(
        "order by r.retry_not_before\n    limit 1\n    for update skip locked;",
        "order by r.retry_not_before\n    limit 1\n    for update;",
        "interleavings/test_batch_retries.py"
        "::test_a_run_that_backs_off_and_whose_row_somebody_holds_keeps_no_claim_waiting",
    ),
    "readmission into the slot that is kept from batches": _retry(
        "and not stats_private.batch_slots_are_taken()",
        "",
        "batches/test_retry.py::test_a_run_that_comes_back_does_not_take_the_slot_of_the_small_accounts",
    ),
    "readmission without a new lease": _retry(
        "perform stats_private.hold_lease(v_run);",
        "perform 1;",
        "interleavings/test_batch_retries.py::test_a_run_that_comes_back_has_a_whole_lease_and_ends",
    ),
    "batches that are retried without end": _retry(
        "< s.max_attempts",
        "< 1000",
        "interleavings/test_batch_retries.py::test_a_batch_is_tried_again_as_often_as_the_attempts_and_no_more",
    ),
    "resumption without a look at the inputs": _retry(
        "or stats_private.invalidation_of(p_run) is not null",
        "or false",
        "batches/test_resume.py::test_it_is_not_resumed_where_an_input_moved_meanwhile[source]",
    ),
    "resumption without end": _retry(
        "or not stats_private.batch_may_retry(p_run)",
        "or false",
        "batches/test_resume.py::test_it_is_resumed_a_bounded_number_of_times_and_then_begins_anew",
    ),
    # ------------------------------------------------ writes
    "save without the write lock": Twin(
        "writes/save_session_v5.sql",
        "perform stats_private.lock_writes(v_user_id);",
        "perform 1;",
        "tests/interleavings/test_receipts.py::test_a_save_from_two_devices_at_once_is_written_once",
    ),
    "save without a look at its receipt": Twin(
        "writes/save_session_v5.sql",
        "if v_replayed is not null then",
        "if false then",
        "tests/interleavings/test_receipts.py::test_a_save_or_a_delete_that_is_sent_again_writes_nothing",
    ),
    "a receipt for whatever comes under its mutation": Twin(
        "writes/receipts.sql",
        "elsif v_receipt.payload_hash <> p_payload_hash then",
        "elsif false then",
        "tests/writes/test_save_session.py::test_another_write_under_a_used_mutation_is_refused",
    ),
    "delete without the write lock": Twin(
        "writes/delete_session_v5.sql",
        "perform stats_private.lock_writes(v_user_id);",
        "perform 1;",
        "tests/interleavings/test_receipts.py::test_a_delete_from_two_devices_at_once_is_done_once",
    ),
    "delete without a look at its receipt": Twin(
        "writes/delete_session_v5.sql",
        "if v_replayed is not null then",
        "if false then",
        "tests/interleavings/test_receipts.py::test_a_save_or_a_delete_that_is_sent_again_writes_nothing",
    ),
    # ------------------------------------------------ maintenance
    "a page that waits for an account's writer": Twin(
        "maintenance/enqueue.sql",
        "if not stats_private.try_write_lock(p_user_id) then",
        "if false then",
        "tests/interleavings/test_pages_meanwhile.py::test_a_page_passes_by_an_account_that_somebody_writes_to",
    ),
    "a page that waits for the worker on it": Twin(
        "maintenance/cursors.sql",
        "where c.job = p_job for update skip locked;",
        "where c.job = p_job for update;",
        "tests/interleavings/test_pages_meanwhile.py::test_a_page_that_another_worker_runs_is_left_to_it[repair]",
    ),
    "two workers on one page": Twin(
        "maintenance/cursors.sql",
        "where c.job = p_job for update skip locked;",
        "where c.job = p_job;",
        "tests/interleavings/test_pages_meanwhile.py::test_a_page_that_another_worker_runs_is_left_to_it[walk]",
    ),
    "a rollover that waits for another page's accounts": Twin(
        "maintenance/rollover.sql",
        "limit p_limit\n            for update skip locked",
        "limit p_limit\n            for update",
        "tests/interleavings/test_pages_meanwhile.py::test_two_pages_of_the_rollover_take_different_accounts",
    ),
}
