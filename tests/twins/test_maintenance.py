"""Twins of the maintenance pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin

TWINS: dict[str, Twin] = {
    "a page that waits for an account's writer": Twin(
        "maintenance/try_enqueue_maintenance.sql",
        "if not stats_private.try_write_lock(p_user_id) then",
        "if false then",
        "tests/interleavings/test_pages_meanwhile.py"
        "::test_a_page_passes_by_an_account_that_somebody_writes_to",
    ),
    "a page that waits for the worker on it": Twin(
        "maintenance/cursors.sql",
        "where c.job = p_job for update skip locked;",
        "where c.job = p_job for update;",
        "tests/interleavings/test_pages_meanwhile.py"
        "::test_a_page_that_another_worker_runs_is_left_to_it[repair]",
    ),
    "two workers on one page": Twin(
        "maintenance/cursors.sql",
        "where c.job = p_job for update skip locked;",
        "where c.job = p_job;",
        "tests/interleavings/test_pages_meanwhile.py"
        "::test_a_page_that_another_worker_runs_is_left_to_it[walk]",
    ),
    "a rollover that waits for another page's accounts": Twin(
        "maintenance/rollover.sql",
        "limit p_limit\n            for update skip locked\n        ) late",
        "limit p_limit\n            for update\n        ) late",
        "tests/interleavings/test_pages_meanwhile.py::test_two_pages_of_the_rollover_take_different_accounts",
    ),
    "two pages of the rollover on one account": Twin(
        "maintenance/rollover.sql",
        "limit p_limit\n            for update skip locked\n        ) late",
        "limit p_limit\n        ) late",
        "tests/interleavings/test_pages_meanwhile.py::test_two_pages_of_the_rollover_take_different_accounts",
    ),
    "a page that waits at its end for who looks at its cursor": Twin(
        "maintenance/cursors.sql",
        "where l.job = p_job for update skip locked)",
        "where l.job = p_job)",
        "tests/interleavings/test_pages_meanwhile.py"
        "::test_a_rollover_waits_for_nobody_who_looks_at_its_cursor",
    ),
    "a repair that waits for an account's writer": Twin(
        "maintenance/repair.sql",
        "if stats_private.try_write_lock(v_user_id) and stats_private.is_still_damaged(v_user_id, v_versions) then",
        "if stats_private.is_still_damaged(v_user_id, v_versions) then",
        "tests/interleavings/test_pages_meanwhile.py"
        "::test_a_page_of_the_repair_passes_by_an_account_that_somebody_writes_to",
    ),
    "a repair of what moved since it was compared": Twin(
        "maintenance/repair.sql",
        "if stats_private.versions_of(p_user_id) is distinct from p_versions then",
        "if false then",
        "tests/maintenance/test_repair.py"
        "::test_an_account_that_was_saved_since_its_comparison_is_left_to_its_own_generation",
    ),
    "a walk that waits for a change": Twin(
        "maintenance/catalog_walk.sql",
        "limit 1\n    for update skip locked;",
        "limit 1\n    for update;",
        "tests/interleavings/test_pages_meanwhile.py"
        "::test_a_walk_leaves_a_scope_that_somebody_is_changing_to_the_next_page",
    ),
    "a walk without the scope's row lock": Twin(
        "maintenance/catalog_walk.sql",
        "limit 1\n    for update skip locked;",
        "limit 1;",
        "tests/interleavings/test_pages_meanwhile.py"
        "::test_a_walk_leaves_a_scope_that_somebody_is_changing_to_the_next_page",
    ),
    "a page that waits for an exhausted job": Twin(
        "maintenance/try_enqueue_maintenance.sql",
        "limit 1\n    for update skip locked;",
        "limit 1\n    for update;",
        "tests/interleavings/test_pages_meanwhile.py"
        "::test_a_page_waits_for_nobody_who_resumes_an_exhausted_job",
    ),
    "a purge that waits for a job": Twin(
        "maintenance/purge.sql",
        "where f.completed_at between c.first and c.last)\n"
        "                limit p_limit\n                for update skip locked",
        "where f.completed_at between c.first and c.last)\n                limit p_limit",
        "tests/interleavings/test_pages_meanwhile.py::test_a_purge_waits_for_nobody_who_holds_what_is_old",
    ),
    "a purge that waits for a run": Twin(
        "maintenance/purge.sql",
        "order by f.completed_at\n                limit p_limit\n                for update skip locked",
        "order by f.completed_at\n                limit p_limit",
        "tests/interleavings/test_pages_meanwhile.py::test_a_purge_waits_for_nobody_who_holds_what_is_old",
    ),
    "a purge that waits for a receipt": Twin(
        "maintenance/purge.sql",
        "order by o.created_at\n            limit p_limit\n            for update skip locked)",
        "order by o.created_at\n            limit p_limit)",
        "tests/interleavings/test_pages_meanwhile.py::test_a_purge_waits_for_nobody_who_holds_what_is_old",
    ),
    # ------------------------------------------------ operators and beats
    "settings without their row's lock": Twin(
        "operations/change_settings.sql",
        "select s.* into v_settings from public.stats_projection_worker_settings s for update;",
        "select s.* into v_settings from public.stats_projection_worker_settings s;",
        "tests/operations/test_settings.py::test_two_operators_at_once_both_get_their_way",
    ),
    "a pause without the settings row's lock": Twin(
        "operations/change_settings.sql",
        "select s.paused_stages into v_stages from public.stats_projection_worker_settings s for update;",
        "select s.paused_stages into v_stages from public.stats_projection_worker_settings s;",
        "tests/operations/test_settings.py::test_two_operators_pause_a_stage_each_at_once",
    ),
    "a resumption without the job's row lock": Twin(
        "operations/resume_job.sql",
        "where j.id = p_job_id for update;",
        "where j.id = p_job_id;",
        "tests/operations/test_resume_job.py::test_a_job_that_a_claim_is_taking_is_not_resumed",
    ),
    "a beat's lock that anybody gets": Twin(
        "maintenance/record_beat.sql",
        "select pg_try_advisory_xact_lock(hashtextextended('stats-refresh:beat:' || p_entry, 0))",
        "select true",
        "tests/interleavings/test_one_transaction.py"
        "::test_the_entrys_lock_is_held_in_the_transaction_of_the_work",
    ),
    "a purge that waits for private outputs": Twin(
        "maintenance/purge_outputs.sql",
        "for update skip locked",
        "",
        "tests/interleavings/test_pages_meanwhile.py::test_a_purge_waits_for_nobody_who_holds_what_is_old",
    ),
    "a purge of outputs that a run needs": Twin(
        "maintenance/purge_outputs.sql",
        "where r.id = d.run_id and r.phase in",
        "where false and r.phase in",
        "tests/maintenance/test_purge.py::test_outputs_of_no_run_go_and_those_of_a_run_in_flight_stay",
    ),
    **{
        f"a {page} page that swallows a person's cancel": Twin(
            f"maintenance/{file}",
            "if stats_private.is_cancelled_by_a_person(sqlstate, sqlerrm) then",
            "if false then",
            f"tests/maintenance/test_pages.py::test_a_persons_cancel_is_no_failure_of_the_page[{page}]",
        )
        for page, file in {
            "rollover": "rollover.sql",
            "walk": "catalog_walk.sql",
            "repair": "repair.sql",
            "purge": "purge.sql",
        }.items()
    },
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
