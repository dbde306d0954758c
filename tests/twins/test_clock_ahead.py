"""Twins of what a clock that ran ahead leaves behind: each comparison with a time that no right clock writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin

_WINDOWS = "tests/maintenance/test_clock_ahead.py::test_"
_TIMES = "tests/maintenance/test_times_ahead.py::test_"
TWINS: dict[str, Twin] = {
    "a rollover that waits for a window of days to come": Twin(
        "maintenance/rollover.sql",
        "where coalesce(r.next_retry_at, r.due_at) > v_latest_due_at and r.next_retry_at is null",
        "where false and coalesce(r.next_retry_at, r.due_at) > v_latest_due_at and r.next_retry_at is null",
        _WINDOWS + "what_was_published_ahead_is_due_at_once[3]",
    ),
    "a window of today that counts as ahead": Twin(
        "maintenance/rollover.sql",
        "select (stats_private.latest_day() + 1)::timestamp",
        "select stats_private.latest_day()::timestamp",
        _WINDOWS + "nobody_is_due_for_a_window_of_today",
    ),
    "a window of tomorrow that counts as right": Twin(
        "maintenance/rollover.sql",
        "select (stats_private.latest_day() + 1)::timestamp",
        "select (stats_private.latest_day() + 2)::timestamp",
        _WINDOWS + "nobody_is_due_for_a_window_of_today",
    ),
    "one account twice on a page": Twin(
        "maintenance/rollover.sql",
        "v_latest_due_at and r.next_retry_at is null",
        "v_latest_due_at",
        _WINDOWS + "an_account_ahead_with_a_retry_time_ahead_is_taken_once",
    ),
    "a rollover that waits for any retry time": Twin(
        "maintenance/rollover.sql",
        "where r.next_retry_at > v_latest_retry_at",
        "where false and r.next_retry_at > v_latest_retry_at",
        _WINDOWS + "a_retry_time_that_no_backoff_explains_is_over[61 minutes-True]",
    ),
    "a retry time that is over too early": Twin(
        "maintenance/rollover.sql",
        "v_now + stats_private.longest_rollover_wait();",
        "v_now;",
        _WINDOWS + "a_retry_time_that_no_backoff_explains_is_over[59 minutes-False]",
    ),
    "readers of tomorrow before those who are refused": Twin(
        "maintenance/rollover.sql",
        "order by coalesce(r.next_retry_at, r.due_at)\n            limit p_limit\n            for update skip locked\n"
        "        ) ahead",
        "order by coalesce(r.next_retry_at, r.due_at)\n            limit (p_limit - 1)\n"
        "            for update skip locked\n        ) ahead",
        _WINDOWS + "readers_who_are_refused_now_come_before_those_of_tomorrow",
    ),
    "a page that reads all who are not due": Twin(
        "maintenance/rollover.sql",
        "where coalesce(r.next_retry_at, r.due_at) <= v_now\n",
        "where coalesce(r.next_retry_at, r.due_at) <= clock_timestamp()\n",
        _WINDOWS + "a_page_without_anything_due_reads_only_some_of_those_who_wait",
    ),
    "an account ahead that counts as valid": Twin(
        "maintenance/integrity.sql",
        "if v_state.published_anchor > stats_private.latest_day() then",
        "if false then",
        _WINDOWS + "the_repair_finds_a_window_ahead_by_itself[1]",
    ),
    "an account of today that counts as ahead": Twin(
        "maintenance/integrity.sql",
        "if v_state.published_anchor > stats_private.latest_day() then",
        "if v_state.published_anchor > stats_private.latest_day() - 2 then",
        _WINDOWS + "a_window_that_has_passed_is_no_success_of_verify",
    ),
    "a status that knows no window ahead": Twin(
        "operations/worker_status.sql",
        "where r.due_at <= t.now or r.due_at > t.latest",
        "where r.due_at <= t.now",
        _WINDOWS + "status_and_verify_say_what_is_wrong_until_it_is_mended[3]",
    ),
    "an alert that knows no window ahead": Twin(
        "operations/alerts.sql",
        "where r.due_at <= t.now or r.due_at > t.latest",
        "where r.due_at <= t.now",
        _WINDOWS + "status_and_verify_say_what_is_wrong_until_it_is_mended[3]",
    ),
    "a success of days to come that silences an alert": Twin(
        "operations/alerts.sql",
        "interval '1 hour' or stats_private.is_ahead(c.heard_of_at)",
        "interval '1 hour'",
        _TIMES + "a_success_of_days_to_come_does_not_hide_that_no_page_runs[repair]",
    ),
    "a success of days to come that was a moment ago": Twin(
        "operations/worker_status.sql",
        "when not stats_private.is_ahead(c.last_success_at) then",
        "when true then",
        _TIMES + "a_success_of_days_to_come_does_not_hide_that_no_page_runs[repair]",
    ),
    "a walk that comes last until its time is true": Twin(
        "maintenance/catalog_walk.sql",
        "order by not stats_private.is_ahead(s.updated_at), s.updated_at",
        "order by s.updated_at",
        _TIMES + "a_walk_of_days_to_come_is_not_put_off_by_later_ones",
    ),
    "publications of days to come that silence an alert": Twin(
        "operations/alerts.sql",
        "and not stats_private.is_ahead(r.completed_at))",
        ")",
        _TIMES + "publications_of_days_to_come_do_not_hide_that_nothing_is_published",
    ),
    "publications of days to come in the last hour": Twin(
        "operations/worker_status.sql",
        "and not stats_private.is_ahead(r.completed_at)",
        "",
        _TIMES + "publications_of_days_to_come_do_not_hide_that_nothing_is_published",
    ),
    "a job of days to come that nobody misses": Twin(
        "operations/alerts.sql",
        "interval '2 minutes' or stats_private.is_ahead(j.created_at))",
        "interval '2 minutes')",
        _TIMES + "a_job_of_days_to_come_and_one_that_waits_for_them_are_seen_to_wait",
    ),
    "a job that waits for days to come and nobody misses": Twin(
        "operations/alerts.sql",
        "or stats_private.is_ahead(j.retry_not_before - (select stats_private.longest_wait())))",
        ")",
        _TIMES + "a_job_of_days_to_come_and_one_that_waits_for_them_are_seen_to_wait",
    ),
    "a backoff that counts as days to come": Twin(
        "operations/alerts.sql",
        "j.retry_not_before - (select stats_private.longest_wait())",
        "j.retry_not_before",
        _TIMES + "a_job_of_days_to_come_and_one_that_waits_for_them_are_seen_to_wait",
    ),
    "a lease of days to come that stays": Twin(
        "runs/readmit.sql",
        "or stats_private.is_ahead(r.lease_until - (select stats_private.longest_lease())))",
        ")",
        _TIMES + "a_lease_of_days_to_come_is_bounded_and_its_holder_goes_on",
    ),
    "a lease that the settings explain and that is cut": Twin(
        "runs/readmit.sql",
        "r.lease_until - (select stats_private.longest_lease())",
        "r.lease_until",
        _TIMES + "a_lease_that_the_settings_explain_is_left_alone[changes0-390]",
    ),
    "history of days to come that stops the purge": Twin(
        "maintenance/purge.sql",
        "coalesce(h.ended_at, h.started_at) not between k.since and k.until as is_old",
        "coalesce(h.ended_at, h.started_at) < k.since as is_old",
        _TIMES + "history_of_days_to_come_does_not_hold_up_the_purge",
    ),
    "work of days to come that is kept": Twin(
        "maintenance/purge.sql",
        "(values ('-infinity', k.since), (k.until, 'infinity')) b (first, last)",
        "(values ('-infinity', k.since)) b (first, last)",
        _TIMES + "work_of_days_to_come_is_not_kept_until_then",
    ),
    "changes of days to come that are kept": Twin(
        "maintenance/purge.sql",
        "where o.changed_at not between k.since and k.until",
        "where o.changed_at < k.since",
        _TIMES + "work_of_days_to_come_is_not_kept_until_then",
    ),
    "a receipt of days to come that goes": Twin(
        "maintenance/purge.sql",
        "where o.created_at < p_now - interval '30 days'",
        "where o.created_at not between p_now - interval '30 days' and now()",
        _TIMES + "a_receipt_of_days_to_come_is_kept_and_replays",
    ),
    "a purge that believes a clock that jumps ahead": Twin(
        "maintenance/purge.sql",
        "v_now := stats_private.time_of_purge(v_begun.page);",
        "v_now := now();",
        _TIMES + "nothing_becomes_old_while_the_clock_is_six_months_ahead",
    ),
    "a purge that never makes up for a pause": Twin(
        "maintenance/purge.sql",
        "+ 2 * greatest(",
        "+ greatest(",
        _TIMES + "a_purge_makes_up_for_a_pause_and_then_keeps_to_the_clock",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
