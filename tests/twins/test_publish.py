"""Twins of publish, and of how an attempt ends without a publication."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin


def _publish(line: str, instead: str, node: str) -> Twin:
    return Twin("pipeline/publish.sql", line, instead, f"tests/interleavings/{node}")


def _ending(line: str, instead: str, node: str) -> Twin:
    return Twin("runs/end_attempt.sql", line, instead, f"tests/interleavings/{node}")


_FORCED = """set constraints
        public.user_exercise_daily_rollups_first_session_id_fkey,
        public.user_exercise_records_session_id_fkey,
        public.user_exercise_rep_maxes_session_id_fkey,
        stats_private.rep_max_steps_session_id_fkey,
        public.user_pr_exercise_summary_snapshots_best_weight_session_id_fkey,
        public.user_pr_exercise_summary_snapshots_best_e1rm_session_id_fkey
        immediate;"""
_JOBS = """v_others := stats_private.complete_jobs(p_run.id);
    """
_READ_MODELS = """v_rows := stats_private.publish_daily_rollups(p_run)
        + stats_private.publish_records(p_run)
        + stats_private.publish_rep_maxes(p_run)
        + stats_private.publish_rep_max_steps(p_run)
        + stats_private.publish_pr_summaries(p_run)
        + stats_private.publish_periods(p_run)
        + stats_private.publish_calendar(p_run);
    """
_TIMEOUT = "if stats_private.is_cancelled_by_a_person(sqlstate, sqlerrm) then"

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
        _FORCED,
        "perform 1;",
        "test_writes_meanwhile.py::test_a_delete_inside_a_compute_is_caught_by_its_publication",
    ),
    "publish that fails on a deleted session": _publish(
        "elsif v_sqlstate = '23503' and",
        "elsif false and",
        "test_writes_meanwhile.py::test_a_delete_inside_a_compute_is_caught_by_its_publication",
    ),
    "publish that lets errors through": _publish(
        "when query_canceled or others then",
        "when query_canceled then",
        "test_failures.py::test_an_error_inside_is_recorded_and_leaves_nothing_partial[raise-publish]",
    ),
    "publish that lets its timeout through": _publish(
        "when query_canceled or others then",
        "when others then",
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
        "test_rejections.py::test_rejections_wait_longer_and_so_many_in_a_row_as_attempts_are_one",
    ),
    "rejections without end": _ending(
        "if v_in_a_row >= (",
        "if 1000 * v_in_a_row < (",
        "test_rejections.py::test_rejections_wait_longer_and_so_many_in_a_row_as_attempts_are_one",
    ),
    "a rejection for any key's sake": _publish(
        "and v_constraint = any (stats_private.links_to_sessions())\n"
        "        and stats_private.names_a_lost_session(v_run)",
        "",
        "test_rejections.py::test_a_key_of_the_app_that_is_violated_is_an_error_like_any_other",
    ),
    "a rejection though every session is there": _publish(
        "and stats_private.names_a_lost_session(v_run)",
        "",
        "test_rejections.py::test_a_key_of_ours_is_no_explanation_where_every_session_is_there",
    ),
    "a publication that forces the app's constraints": _publish(
        _FORCED,
        "set constraints all immediate;",
        "test_rejections.py::test_a_publication_leaves_the_apps_deferred_constraints_to_the_apps_commit",
    ),
    "touched outputs that cost nothing": _publish(
        "when 'manifest' then stats_private.fail_attempt(",
        "when 'nothing' then stats_private.fail_attempt(",
        "test_rejections.py::test_a_row_too_many_rejects",
    ),
    "a lock timeout in publish that costs an attempt": _publish(
        "if stats_private.is_contention(v_sqlstate, v_constraint) then",
        "if false then",
        "test_waiting.py::test_contention_costs_no_attempt_and_no_finished_work[55P03-publish]",
    ),
    "publish that waits for a job row to say no": _publish(
        "elsif not stats_private.try_lock_jobs(v_run.id) then",
        "elsif false then",
        "test_waiting.py::test_an_end_that_cannot_be_recorded_is_put_off[rejected]",
    ),
    "a publication at any isolation level": _publish(
        "perform stats_private.require_read_committed();",
        "",
        "test_waiting.py::test_a_stage_or_page_at_another_level_refuses_and_says_what_to_do"
        "[repeatable read-public.stats_projection_publish_v1()]",
    ),
    "publish that closes its jobs after the read models": Twin(
        "pipeline/publish.sql",
        _JOBS + _READ_MODELS,
        _READ_MODELS + _JOBS,
        "tests/interleavings/test_lock_order.py"
        "::test_while_it_waits_for_its_job_it_holds_no_read_model_and_no_state",
    ),
    "publish that does not renew its lease": _publish(
        "lease_until = clock_timestamp() + p_lease_seconds * interval '1 second',",
        "",
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
        _FORCED,
        "update public.user_calendar_day_summaries c set day = c.day where c.user_id = p_run.user_id;\n"
        + _FORCED,
        "tests/numbers/test_work_is_bounded.py"
        "::test_one_edited_session_of_today_costs_the_same_whatever_the_account_has[small account]",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
