"""Twins of publish, and of how an attempt ends without a publication."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin


def _publish(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/publish.sql", line, instead, f"tests/interleavings/{node}")


def _ending(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/end_attempt.sql", line, instead, f"tests/interleavings/{node}")


_TIMEOUT = "if sqlerrm <> 'canceling statement due to statement timeout' then"

TWINS: dict[str, Twin] = {
    "a publish that may read whole tables": Twin(
        "pipeline/publish.sql",
        "set enable_seqscan = off\n",
        "",
        "tests/numbers/test_stages_read_their_own.py::test_what_others_have_is_not_read",
    ),
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
    "publish without its jobs' row locks": Twin(
        "pipeline/publish.sql",
        "perform from public.user_exercise_stats_refresh_jobs j where j.run_id = p_run.id for update;",
        "",
        "tests/interleavings/test_lock_order.py"
        "::test_while_it_waits_for_its_job_it_holds_no_read_model_and_no_state",
    ),
    "publish that does not renew its lease": _publish(
        "perform stats_private.hold_lease(v_run);",
        "perform set_config('lift_guild.stats_lease_token', v_run.lease_token::text, true);",
        "test_doubled_messages.py::test_a_stage_renews_its_lease[publish]",
    ),
    "publish with any token": _publish(
        "take_run('computed', p_run_id, p_lease_token)",
        "take_run('computed', p_run_id, ("
        "select r.lease_token from public.user_stats_projection_runs r where r.id = p_run_id))",
        "test_doubled_messages.py::test_a_token_that_is_not_the_runs_loses[another-publish]",
    ),
    "publish that takes its jobs before the write lock": _publish(
        "perform stats_private.lock_writes(v_run.user_id);",
        "perform from public.user_exercise_stats_refresh_jobs j where j.run_id = v_run.id for update;\n"
        "perform stats_private.lock_writes(v_run.user_id);",
        "test_lock_order.py::test_while_it_waits_for_a_writer_it_holds_no_job_no_read_model_and_no_state",
    ),
    "publish that takes the state row first": _publish(
        "v_rows := stats_private.publish_daily_rollups(p_run)",
        "perform from public.user_stats_refresh_state s where s.user_id = p_run.user_id for update;\n"
        "v_rows := stats_private.publish_daily_rollups(p_run)",
        "test_lock_order.py::test_while_it_waits_for_a_read_models_row_it_does_not_hold_the_state",
    ),
    "publish that writes what did not change": Twin(
        "pipeline/publish.sql",
        "set constraints all immediate;",
        "update public.user_calendar_day_summaries c set day = c.day where c.user_id = p_run.user_id;\n"
        "set constraints all immediate;",
        "tests/numbers/test_work_is_bounded.py"
        "::test_one_edited_session_of_today_costs_the_same_whatever_the_account_has[small account]",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
