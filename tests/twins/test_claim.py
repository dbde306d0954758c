"""Twins of claim: its locks, what it counts, and how it looks after runs whose worker died."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin


def _claim(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/claim.sql", line, instead, f"tests/interleavings/{node}")


def _queue(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/due_jobs.sql", line, instead, f"tests/{node}")


def _account(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/claim_account.sql", line, instead, f"tests/interleavings/{node}")


def _jobs(line: str, instead: str, node: str) -> Twin:
    return Twin("runs/take_run.sql", line, instead, f"tests/interleavings/{node}")


def _readmit(line: str, instead: str, node: str) -> Twin:
    return Twin("runs/readmit.sql", line, instead, f"tests/interleavings/{node}")


def _slots(line: str, instead: str, node: str) -> Twin:
    return Twin("runs/slots.sql", line, instead, f"tests/interleavings/{node}")


TWINS: dict[str, Twin] = {
    "a claim that may read whole tables": Twin(
        "pipeline/claim.sql",
        "set enable_seqscan = off\n",
        "",
        "tests/numbers/test_stages_read_their_own.py::test_what_others_have_is_not_read",
    ),
    "claim without the claim lock": _claim(
        "perform stats_private.lock_claim();",
        "perform 1;",
        "test_claims.py::test_a_claim_counts_what_an_unfinished_claim_takes",
    ),
    "claim one above the cap": _claim(
        "v_slots.in_flight >= v_slots.cap",
        "v_slots.in_flight > v_slots.cap",
        "test_claims.py::test_the_last_slot_is_taken_and_no_more",
    ),
    "claim of the first account without its worker lock": _claim(
        "elsif not stats_private.try_worker_lock(v_accounts[1]) then",
        "elsif false then",
        "test_claims.py::test_an_account_whose_worker_lock_is_held_is_left_for_the_next",
    ),
    "claim of the next account without its worker lock": _claim(
        "where stats_private.try_worker_lock(x.user_id)",
        "where true",
        "test_claims.py::test_an_account_whose_worker_lock_is_held_is_left_for_the_next",
    ),
    "claim without the job rows' locks": _account(
        "and j.status || '' in ('pending', 'failed')\n        for update skip locked",
        "and j.status || '' in ('pending', 'failed')",
        "test_generations.py::test_a_held_row_holds_back_the_whole_account[rollback-4]",
    ),
    "claim that waits for job rows": _account(
        "and j.status || '' in ('pending', 'failed')\n        for update skip locked",
        "and j.status || '' in ('pending', 'failed')\n        for update",
        "test_generations.py::test_a_held_row_holds_back_the_whole_account[rollback-4]",
    ),
    "claim that takes the rows it can get": _account(
        "cardinality(v_open.jobs) <> v_open.all_jobs",
        "false",
        "test_generations.py::test_a_held_row_holds_back_the_whole_account[rollback-4]",
    ),
    "claim without the write lock": _account(
        "if not stats_private.try_write_lock(p_user_id) then",
        "if false then",
        "test_generations.py::test_a_claim_requests_a_generation_only_where_no_writer_is_at_work",
    ),
    "claim of a target that was applied": _account(
        "if v_target <= v_open.applied_version then",
        "if false then",
        "test_generations.py::test_a_target_that_was_already_applied_becomes_a_new_generation",
    ),
    "claim before the account's retry time": _queue(
        "and waiting.retry_not_before > p_now",
        "and false",
        "interleavings/test_claims.py::test_an_account_waits_for_the_latest_of_its_retry_times",
    ),
    "claim of an account in flight": _queue(
        "where r.user_id = j.user_id and r.phase in ('claimed', 'computed')",
        "where r.user_id = j.user_id and r.phase in ('claimed', 'computed') and false",
        "interleavings/test_claims.py::test_an_account_in_flight_is_not_claimed_again",
    ),
    "recovery of a live lease": _readmit(
        "r.lease_until <= clock_timestamp()\n",
        "true\n",
        "test_claims.py::test_an_account_in_flight_is_not_claimed_again",
    ),
    "recovery without the run's row lock": _readmit(
        "order by r.lease_until\n        offset 0\n        for update skip locked",
        "order by r.lease_until\n        offset 0",
        "test_claims.py::test_an_expired_run_whose_row_somebody_holds_is_left_alone",
    ),
    "recovery without the jobs' locks": _readmit(
        "where stats_private.try_lock_jobs(x.id)\n    limit 1;\n",
        "limit 1;\n",
        "test_claims.py::test_recovery_waits_for_no_job_row_and_the_next_account_is_claimed",
    ),
    "recovery that waits for job rows": _jobs(
        "where j.run_id = p_run_id and j.status = 'processing'\n        for update skip locked",
        "where j.run_id = p_run_id and j.status = 'processing'\n        for update",
        "test_claims.py::test_recovery_waits_for_no_job_row_and_the_next_account_is_claimed",
    ),
    "claim of the slot that is kept from batches": Twin(
        "pipeline/claim_account.sql",
        "if v_needs_batches and stats_private.batch_slots_are_taken() then",
        "if false then",
        "tests/batches/test_slots.py::test_one_slot_is_kept_from_accounts_that_need_batches",
    ),
    # ------------------------------------------------ large accounts
    "large accounts that are tried at every claim": Twin(
        "pipeline/due_jobs.sql",
        "and (not j.metadata ? 'needs_batches' or not (select stats_private.batch_slots_are_taken()))",
        "",
        "tests/batches/test_slots.py::test_a_claim_does_not_lock_every_large_account_that_waits",
    ),
    "large accounts that are not marked": Twin(
        "pipeline/claim_account.sql",
        "set metadata = j.metadata || '{\"needs_batches\": true}'",
        "set metadata = j.metadata",
        "tests/batches/test_slots.py::test_a_claim_does_not_lock_every_large_account_that_waits",
    ),
    "a claim that locks as many accounts as wait": Twin(
        "pipeline/claim.sql",
        "if v_tried = 50 then",
        "if false then",
        "tests/batches/test_slots.py::test_a_claim_does_not_lock_every_large_account_that_waits",
    ),
    "a mark that stays": Twin(
        "pipeline/claim_account.sql",
        "metadata = j.metadata - 'needs_batches',",
        "",
        "tests/batches/test_slots.py::test_a_large_account_that_was_passed_by_is_claimed_when_a_slot_is_free",
    ),
    "marked accounts that wait for ever": Twin(
        "pipeline/due_jobs.sql",
        "or not (select stats_private.batch_slots_are_taken()))",
        ")",
        "tests/batches/test_slots.py::test_a_large_account_that_was_passed_by_is_claimed_when_a_slot_is_free",
    ),
    "a busy account that is computed in batches for ever": Twin(
        "pipeline/claim_account.sql",
        "and v_open.invalidations < v_open.max_attempts\n",
        "\n",
        "tests/batches/test_invalidation.py"
        "::test_an_account_saved_between_any_two_steps_is_in_the_end_computed_at_once",
    ),
    # ------------------------------------------------ runs that back off, stages that pause
    "a backing-off run that keeps its slot": Twin(
        "runs/slots.sql",
        "where r.phase in ('claimed', 'computed') and r.retry_not_before is null\n        and (r.lease_until > ",
        "where r.phase in ('claimed', 'computed')\n        and (r.lease_until > ",
        "tests/batches/test_retry.py::test_a_run_that_backs_off_leaves_its_slot_to_others_and_waits_for_one",
    ),
    "resumption past the cap": Twin(
        "runs/readmit.sql",
        "where r.phase in ('claimed', 'computed') and r.retry_not_before is null\n            and (r.lease_until",
        "where r.phase in ('claimed', 'computed')\n            and (r.lease_until",
        "tests/batches/test_retry.py"
        "::test_a_run_whose_lease_ran_out_while_it_backed_off_still_waits_for_a_slot",
    ),
    "recovery of a run that nobody may work on": Twin(
        "runs/readmit.sql",
        "and not stats_private.next_stage_is_paused(r.phase)",
        "",
        "tests/operations/test_pause.py::test_a_pause_uses_up_no_attempts",
    ),
    # ------------------------------------------------ what others hold, and what waits
    "recovery of the oldest alone": _readmit(
        "order by r.lease_until\n        offset 0\n        for update skip locked",
        "order by r.lease_until\n        limit 1\n        for update skip locked",
        "test_held_rows.py::test_an_expired_run_that_somebody_holds_hides_no_younger_one[its job]",
    ),
    "a dead run that keeps its slot": _slots(
        "(r.lease_until > clock_timestamp() - stage.longest or",
        "(true or",
        "test_held_rows.py::test_a_dead_run_that_somebody_holds_keeps_its_slot_no_longer_than_a_stage_takes",
    ),
    "a slot that a slow worker loses": _slots(
        "clock_timestamp() - stage.longest or",
        "clock_timestamp() or",
        "test_held_rows.py::test_a_dead_run_that_somebody_holds_keeps_its_slot_no_longer_than_a_stage_takes",
    ),
    "accounts locked before their rows": _claim(
        "                offset 0\n                for update of j skip locked",
        "                for update of j skip locked",
        "test_held_rows.py::test_pending_rows_that_others_hold_hide_no_account_behind_them[55]",
    ),
    "accounts tried in vain that stay in front": _claim(
        "set retry_not_before = clock_timestamp()\n            where j.id = v_job.id and",
        "set retry_not_before = clock_timestamp()\n            where false and",
        "test_held_rows.py::test_accounts_of_which_one_row_is_held_go_to_the_end_of_the_queue",
    ),
    "a lease of a wrong clock that costs an attempt": _readmit(
        "elsif stats_private.is_ahead(v_run.lease_until - stats_private.longest_lease()) then",
        "elsif false then",
        "test_held_rows.py::test_a_lease_that_would_last_for_a_year_begins_anew",
    ),
    "a queue that begins with what waits": _queue(
        "and greatest(j.created_at, j.retry_not_before) <= p_due_until",
        "and coalesce(greatest(j.created_at, j.retry_not_before), p_now) <= p_due_until",
        "interleavings/test_held_rows.py"
        "::test_a_claim_reads_no_job_that_waits_for_its_retry_time[of nothing]",
    ),
    "a retry time that a wrong clock makes last": _queue(
        "(2, 0, p_latest, 'infinity'),",
        "",
        "interleavings/test_held_rows.py"
        "::test_a_time_beyond_every_wait_counts_as_over[False-retry_not_before]",
    ),
    "a claim at any isolation level": _claim(
        "perform stats_private.require_read_committed();",
        "",
        "test_waiting.py::test_a_stage_or_page_at_another_level_refuses_and_says_what_to_do"
        "[repeatable read-public.stats_projection_claim_v1('sql')]",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
