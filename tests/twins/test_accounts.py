"""Twins of what takes a whole account, a refresh at once and a deletion, and of the keys that part accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin

_ENQUEUE = "    v_generation := public.enqueue_user_exercise_stats_refresh_job(\n"

TWINS: dict[str, Twin] = {
    # ------------------------------------------------ refreshes at once
    "a refresh without the worker lock": Twin(
        "writes/refresh_stats_now_v1.sql",
        "v_is_ours := stats_private.try_worker_lock(v_user_id);",
        "v_is_ours := true;",
        "tests/interleavings/test_refresh_meanwhile.py"
        "::test_no_claim_takes_an_account_whose_refresh_waits_for_a_writer[a_refresh]",
    ),
    "the engine without the worker lock": Twin(
        "pipeline/refresh_at_once.sql",
        f"v_is_ours := stats_private.try_worker_lock(p_user_id);\n{_ENQUEUE}",
        f"v_is_ours := true;\n{_ENQUEUE}",
        "tests/interleavings/test_refresh_meanwhile.py"
        "::test_no_claim_takes_an_account_whose_refresh_waits_for_a_writer[the_engine]",
    ),
    "a batch import without the worker lock": Twin(
        "writes/import_wodup_batch.sql",
        "v_is_ours := stats_private.try_worker_lock(v_user_id);",
        "v_is_ours := true;",
        "tests/interleavings/test_refresh_meanwhile.py"
        "::test_no_claim_takes_an_account_whose_refresh_waits_for_a_writer[an_import]",
    ),
    "a refresh of an account in flight": Twin(
        "pipeline/refresh_at_once.sql",
        "where r.user_id = p_user_id and r.phase in ('claimed', 'computed'))\n    then",
        "where false)\n    then",
        "tests/interleavings/test_refresh_meanwhile.py"
        "::test_an_account_that_a_run_has_is_left_to_it[a_refresh]",
    ),
    # ------------------------------------------------ deletion
    "a deletion without the worker lock": Twin(
        "writes/delete_account_v1.sql",
        "when not stats_private.try_worker_lock(user_id) then",
        "when false then",
        "tests/writes/test_delete_account.py"
        "::test_while_somebody_takes_the_account_nothing_is_deleted_yet[a claim]",
    ),
    "a deletion that waits for a stage": Twin(
        "writes/delete_account_v1.sql",
        "for update skip locked;",
        "for update;",
        "tests/writes/test_delete_account.py"
        "::test_while_a_stage_works_on_the_account_nothing_is_deleted_yet[compute]",
    ),
    "a deletion without the run's row lock": Twin(
        "writes/delete_account_v1.sql",
        "\n    for update skip locked;",
        ";",
        "tests/writes/test_delete_account.py"
        "::test_while_a_stage_works_on_the_account_nothing_is_deleted_yet[publish]",
    ),
    "a deletion without the run's token": Twin(
        "writes/delete_account_v1.sql",
        "perform set_config('lift_guild.stats_lease_token', v_lease_token::text, true);",
        "",
        "tests/writes/test_delete_account.py"
        "::test_a_run_in_flight_loses_its_lease_and_publishes_nothing[claimed]",
    ),
    "a deletion without the write lock": Twin(
        "writes/delete_account_v1.sql",
        "perform stats_private.lock_account(user_id);",
        "perform 1;",
        "tests/writes/test_delete_account.py::test_a_write_under_way_is_waited_for_and_goes_too",
    ),
    "a deletion that passes by a row that moves": Twin(
        "writes/delete_account_v1.sql",
        " limit $2 for update', v_part",
        " limit $2', v_part",
        "tests/writes/test_delete_account_meanwhile.py::test_a_row_that_a_rollover_page_postpones_goes_too",
    ),
    "a deletion that takes scopes before exercises": Twin(
        "writes/delete_account_v1.sql",
        "'exercise_catalog_changes', 'stats_catalog_scopes',",
        "'exercise_catalog_changes',",
        "tests/writes/test_delete_account_meanwhile.py"
        "::test_a_change_of_tracking_by_hand_takes_exercise_and_scope_in_the_same_order",
    ),
    # ------------------------------------------------ keys
    "one write lock for all accounts": Twin(
        "queue/lock_account.sql",
        "if not stats_private.try_write_lock(p_user_id) then\n        begin\n"
        "            perform stats_private.lock_writes(p_user_id);",
        "if not stats_private.try_write_lock(md5('')::uuid) then\n        begin\n"
        "            perform stats_private.lock_writes(md5('')::uuid);",
        "tests/interleavings/test_generations.py::test_two_accounts_never_wait_for_each_other",
    ),
    "one worker lock for all accounts": Twin(
        "locks/keys.sql",
        "'stats-refresh:worker:' || p_user_id::text",
        "'stats-refresh:worker:'",
        "tests/interleavings/test_refresh_meanwhile.py::test_a_claim_takes_another_account_meanwhile",
    ),
    "one lock for writers and workers": Twin(
        "locks/keys.sql",
        "'stats-refresh:worker:'",
        "'stats-refresh:write:'",
        "tests/interleavings/test_generations.py"
        "::test_a_save_meets_an_open_claim_and_neither_waits_nor_touches_what_it_took",
    ),
    "a write lock that those who try it do not see": Twin(
        "locks/keys.sql",
        "pg_try_advisory_xact_lock(\n    pg_catalog.hashtextextended('stats-refresh:write:'",
        "pg_try_advisory_xact_lock(\n    pg_catalog.hashtextextended('stats-refresh:page:'",
        "tests/interleavings/test_pages_meanwhile.py"
        "::test_a_page_passes_by_an_account_that_somebody_writes_to",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
