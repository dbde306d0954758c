"""Twins of the writes: the queue that they fill, and the receipts that they leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin


def _enqueue(line: str, instead: str, node: str) -> Twin:
    return Twin("queue/enqueue_job.sql", line, instead, f"tests/interleavings/{node}")


TWINS: dict[str, Twin] = {
    "enqueue without the write lock": _enqueue(
        "perform stats_private.lock_account(p_user_id);",
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
    "save without the write lock": Twin(
        "writes/save_session_v5.sql",
        "perform stats_private.lock_account(v_user_id);",
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
        "elsif not v_is_same then",
        "elsif false then",
        "tests/writes/test_save_session.py::test_another_write_under_a_used_mutation_is_refused",
    ),
    "delete without the write lock": Twin(
        "writes/delete_session_v5.sql",
        "perform stats_private.lock_account(v_user_id);",
        "perform 1;",
        "tests/interleavings/test_receipts.py::test_a_delete_from_two_devices_at_once_is_done_once",
    ),
    "delete without a look at its receipt": Twin(
        "writes/delete_session_v5.sql",
        "if v_replayed is not null then",
        "if false then",
        "tests/interleavings/test_receipts.py::test_a_save_or_a_delete_that_is_sent_again_writes_nothing",
    ),
    "a stated 1RM without the write lock": Twin(
        "writes/set_manual_pr_v1.sql",
        "perform stats_private.lock_account(v_user_id);",
        "perform 1;",
        "tests/writes/test_two_devices.py::test_an_initial_1rm_is_one_whoever_states_it",
    ),
    "a stated 1RM without a look at its receipt": Twin(
        "writes/set_manual_pr_v1.sql",
        "if v_replayed is not null then",
        "if false then",
        "tests/writes/test_two_devices.py::test_one_stated_1rm_is_written_once",
    ),
    "a deleted 1RM without the write lock": Twin(
        "writes/delete_manual_pr_v1.sql",
        "perform stats_private.lock_account(v_user_id);",
        "perform 1;",
        "tests/writes/test_two_devices.py::test_one_stated_1rm_is_deleted_once",
    ),
    "a deleted 1RM without a look at its receipt": Twin(
        "writes/delete_manual_pr_v1.sql",
        "if v_replayed is not null then",
        "if false then",
        "tests/writes/test_two_devices.py::test_one_stated_1rm_is_deleted_once",
    ),
    "an exercise without the write lock": Twin(
        "writes/upsert_exercise_v1.sql",
        "perform stats_private.lock_account(v_user_id);",
        "perform 1;",
        "tests/writes/test_two_devices.py::test_a_change_of_tracking_that_is_changed_back_is_two_generations",
    ),
    "an archive without the write lock": Twin(
        "writes/archive_exercise_v1.sql",
        "perform stats_private.lock_account(v_user_id);",
        "perform 1;",
        "tests/writes/test_two_devices.py::test_no_session_takes_an_exercise_that_is_being_archived",
    ),
    "an external identity without the write lock": Twin(
        "writes/resolve_external_exercise_v1.sql",
        "perform stats_private.lock_account(v_user_id);",
        "perform 1;",
        "tests/writes/test_two_devices.py::test_one_external_identity_becomes_one_exercise",
    ),
    "a batch import without the write lock": Twin(
        "writes/import_wodup_batch.sql",
        "perform stats_private.lock_account(v_user_id);",
        "perform 1;",
        "tests/writes/test_two_devices.py::test_one_batch_is_imported_once",
    ),
    "a save over a version that is not the newest": Twin(
        "writes/session_rows.sql",
        "elsif v_session.updated_at <> p_expected_updated_at::timestamptz then",
        "elsif false then",
        "tests/writes/test_save_session.py"
        "::test_an_edit_of_a_version_that_is_no_longer_the_newest_is_refused",
    ),
    "an edit that keeps its version": Twin(
        "writes/session_rows.sql",
        "updated_at = greatest(excluded.updated_at, w.updated_at + interval '1 microsecond')",
        "updated_at = w.updated_at",
        "tests/writes/test_save_session.py"
        "::test_an_edit_of_a_version_that_is_no_longer_the_newest_is_refused",
    ),
    # ------------------------------------------------ the same values are the same write
    "a hash of the text as it was sent": Twin(
        "writes/save_session_v5.sql",
        "stats_private.payload_text(v_session));",
        "stats_private.payload_text(p_payload));",
        "tests/writes/test_same_values.py::test_another_spelling_of_a_save_replays[a float for a whole number]",
    ),
    "a receipt that knows no earlier release": Twin(
        "writes/receipts.sql",
        "if not v_is_same and stats_private.size_problem(p_spelling, 2 * 1024 * 1024) is null then",
        "if false then",
        "tests/writes/test_same_values.py::test_a_receipt_of_an_earlier_release_replays",
    ),
    "a batch hashed as it was sent": Twin(
        "writes/import_wodup_batch.sql",
        "'import_wodup_batch_to_canonical', stats_private.wodup_values(r.value, d.value ->> 'day')::text),",
        "'import_wodup_batch_to_canonical', r.value::text),",
        "tests/writes/test_same_values.py::test_a_result_with_the_same_values_is_not_reported_as_changed",
    ),
    # ------------------------------------------------ bounds
    "numbers that are printed before they are measured": Twin(
        "arguments/json_rules.sql",
        "if v_digits > p_max_bytes then",
        "if false then",
        "tests/writes/test_bounds.py::test_no_value_grows_the_backend[an unknown field of a batch]",
    ),
    "a list of exercises without end": Twin(
        "queue/merge_scopes.sql",
        "or (select count(*) from exercises) > 1000 then",
        "then",
        "tests/writes/test_bounds.py::test_a_thousand_exercises_are_kept_and_one_more_stands_for_all",
    ),
    # ------------------------------------------------ open transactions
    "a wait for the writes without end": Twin(
        "locks/keys.sql",
        "perform pg_catalog.set_config('lock_timeout', '10s', true);",
        "perform 1;",
        "tests/writes/test_open_transactions.py::test_a_save_waits_for_an_idle_one_for_ten_seconds_at_most",
    ),
    "a limit that stays behind": Twin(
        "locks/keys.sql",
        "perform pg_catalog.set_config('lock_timeout', v_lock_timeout, true);",
        "perform 1;",
        "tests/writes/test_open_transactions.py::test_a_wait_that_ends_well_leaves_the_callers_own_limit",
    ),
    "a write in whatever snapshot": Twin(
        "queue/lock_account.sql",
        "perform stats_private.check_snapshot(p_user_id);",
        "perform 1;",
        "tests/writes/test_open_transactions.py"
        "::test_a_write_in_a_snapshot_that_lacks_its_receipt_is_told_to_begin_anew[save-repeatable read]",
    ),
    "a change of the catalog that waits for key shares": Twin(
        "writes/upsert_exercise_v1.sql",
        "    if not v_global then",
        "    perform from public.exercises x where x.id = p_exercise_id for update;\n    if not v_global then",
        "tests/writes/test_catalog_meanwhile.py"
        "::test_an_open_write_of_an_account_holds_up_no_administrator[changes-a save]",
    ),
    "a batch import without a hold on the catalog": Twin(
        "writes/import_wodup_batch.sql",
        "\n    for share;",
        ";",
        "tests/writes/test_catalog_meanwhile.py::test_a_change_of_the_catalog_waits_for_an_import_that_relies_on_it",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
