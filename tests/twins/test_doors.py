"""Twins of the two doors, which do a whole refresh in one transaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin


def _account(line: str, instead: str, node: str) -> Twin:
    return Twin("doors/process_account.sql", line, instead, f"tests/doors/{node}")


def _maintenance(line: str, instead: str, node: str) -> Twin:
    return Twin("doors/process_jobs.sql", line, instead, f"tests/doors/test_process_jobs.py::{node}")


def _scoped(line: str, instead: str, node: str) -> Twin:
    return Twin(
        "doors/process_jobs_for_user.sql", line, instead, f"tests/doors/test_process_jobs_for_user.py::{node}"
    )


_CANCEL = "if stats_private.is_cancelled_by_a_person(sqlstate, sqlerrm) then"
_NOT_FREE = "raise exception using errcode = 'SR001', message = 'somebody holds a row of the account';"

TWINS: dict[str, Twin] = {
    "a door without the worker lock": _account(
        "if not stats_private.try_worker_lock(p_user_id) then",
        "if false then",
        "test_process_jobs_for_user.py::test_what_somebody_holds_is_passed_by[worker]",
    ),
    "a door that takes what a lease holds": _account(
        "r.phase in ('claimed', 'computed'))",
        "r.phase = 'nothing')",
        "test_process_jobs_for_user.py::test_a_row_that_a_worker_holds_is_not_a_drained_queue",
    ),
    "a door that keeps the lock of what it can't have": _account(
        _NOT_FREE,
        "return null;",
        "test_process_jobs.py"
        "::test_an_account_that_somebody_holds_is_passed_by_and_nothing_of_it_stays_held[job row]",
    ),
    "a door that computes batches at once": _account(
        "elsif v_run.needs_batches then",
        "elsif false then",
        "test_process_jobs.py"
        "::test_an_account_in_batches_is_deferred_never_validated_and_goes_on_with_the_workers",
    ),
    "a door that never compares": _account(
        "if p_validate_integrity and",
        "if false and",
        "test_process_jobs.py::test_a_publication_that_differs_is_taken_back_and_the_job_says_where",
    ),
    "a door that always compares": _account(
        "if p_validate_integrity and",
        "if",
        "test_process_jobs.py::test_what_is_not_compared_is_published_as_it_is",
    ),
    "a comparison that takes nothing back": _account(
        "raise exception using errcode = 'SR002', message = 'the publication differs from a rebuild';",
        "v_answer := stats_private.fail_integrity(v_run, v_integrity);",
        "test_process_jobs.py::test_a_publication_that_differs_is_taken_back_and_the_job_says_where",
    ),
    "a comparison with what was saved since": _account(
        " and s.requested_version = p_run.target_version);",
        ");",
        "test_process_jobs.py::test_it_holds_write_only_to_publish",
    ),
    "a comparison under another policy": _account(
        "return case when not (v_integrity ->> 'stale')::boolean then v_integrity end;",
        "return v_integrity;",
        "test_process_jobs.py::test_a_policy_that_changes_meanwhile_makes_a_comparison_meaningless[2]",
    ),
    "differences that nobody keeps": _account(
        "'differences', p_integrity -> 'differences'",
        "'differences', '[]'::jsonb",
        "test_process_jobs.py::test_a_publication_that_differs_is_taken_back_and_the_job_says_where",
    ),
    "a door that looks at more than a hundred": _account(
        "least(greatest(coalesce(p_limit, 10), 0), 100)",
        "greatest(coalesce(p_limit, 10), 0)",
        "test_process_jobs.py::test_of_a_thousand_it_looks_at_a_hundred",
    ),
    "a door past a pause": _account(
        "or stats_private.stage_is_paused('publish'))",
        ")",
        "test_process_jobs.py::test_paused_stages_are_left_alone",
    ),
    "two maintenance doors at once": _maintenance(
        "v_is_ours := stats_private.try_batch_lock();",
        "v_is_ours := true;",
        "test_an_overlapping_call_does_nothing_and_says_so",
    ),
    "a maintenance door for everybody": _maintenance(
        "if not (stats_private.is_service() or stats_private.is_admin()) then",
        "if false then",
        "test_an_administrator_may_and_others_may_not",
    ),
    "a maintenance door that begins with the newest": _maintenance(
        "order by a.place, a.due_at\n",
        "order by a.place desc, a.due_at desc\n",
        "test_one_call_publishes_one_account_the_one_that_waits_longest",
    ),
    "a maintenance door that goes on after the first": _maintenance(
        "exit when v_result is not null;",
        "",
        "test_one_call_publishes_one_account_the_one_that_waits_longest",
    ),
    "a look for more that takes what it finds": _maintenance(
        "raise exception using errcode = 'SR003', message = 'an account can be taken';",
        "return true;",
        "test_the_look_for_more_leaves_nothing_behind",
    ),
    "more that nobody can take": _maintenance(
        "if (stats_private.take_account(v_user_id, p_lock_owner)).id is not null then",
        "if true then",
        "test_what_others_hold_is_not_more",
    ),
    "a maintenance door at any isolation level": _maintenance(
        "perform stats_private.require_read_committed();",
        "",
        "test_above_read_committed_a_door_is_refused[select public.process_user_exercise_stats_refresh_jobs()]",
    ),
    "a scoped door past the retry time": _scoped(
        "and stats_private.account_is_due(v_user_id)",
        "",
        "test_a_failure_waits_for_its_retry_time_whatever_the_app_asks",
    ),
    "a scoped door for every account": _scoped(
        "stats_private.account_of_call(p_user_id)",
        "coalesce(p_user_id, stats_private.account_of_call(p_user_id))",
        "test_only_the_own_account_unless_an_administrator_or_the_service_asks",
    ),
    "a scoped door that counts pending rows alone": _scoped(
        "in ('pending', 'processing')",
        "= 'pending'",
        "test_a_row_that_a_worker_holds_is_not_a_drained_queue",
    ),
    "a timeout of the caller that costs an attempt": _scoped(
        "if v_result ->> 'sqlstate' = '57014' then",
        "if false then",
        "test_a_statement_timeout_leaves_the_job_pending_without_an_attempt"
        "[public.user_pr_overview_snapshot_headers]",
    ),
    "a scoped door that swallows a person's cancel": _scoped(
        _CANCEL,
        "if false then",
        "test_a_persons_cancel_is_raised",
    ),
    "a scoped door that raises its timeout": _scoped(
        _CANCEL,
        "if true then",
        "test_a_statement_timeout_of_the_comparison_takes_the_publication_back",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
