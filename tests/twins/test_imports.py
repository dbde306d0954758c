"""Twins of imports: what they remember, and what they may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin

_TURNS = "tests/importers/test_two_at_once.py"
_TESTS = "tests/importers/test_one_workout.py"

TWINS: dict[str, Twin] = {
    "an import that forgets what was deleted": Twin(
        "imports/imported_workouts_v1.sql",
        "and not exists (select from public.workout_sessions w where w.id = i.session_id)",
        "and false",
        f"{_TESTS}::test_what_was_deleted_here_stays_deleted",
    ),
    "an import that takes an edited session for its own": Twin(
        "imports/imported_workouts_v1.sql",
        "coalesce(i.left_at = w.updated_at, false)",
        "i.left_at is not null",
        f"{_TESTS}::test_what_was_edited_here_stays_and_is_told",
    ),
    "an import that widens what a person has set": Twin(
        "imports/widened_tracking.sql",
        "when not p_exercise.tracking_from_import or p_exercise.tracking = p_shown then",
        "when p_exercise.tracking = p_shown then",
        f"{_TESTS}::test_what_a_person_has_set_does_not_widen",
    ),
    "a name that is another exercise in each app": Twin(
        "imports/exercise_of_import.sql",
        "where m.external_id = p_name",
        "where false",
        f"{_TESTS}::test_a_name_is_one_exercise_whatever_app_it_came_from",
    ),
    "a person's tracking that stays the import's": Twin(
        "writes/upsert_exercise_v1.sql",
        "tracking_from_import = false,",
        "",
        f"{_TESTS}::test_a_persons_own_tracking_wins_over_the_name",
    ),
    "an import that does not wait for its turn": Twin(
        "imports/take_import_turn_v1.sql",
        "perform stats_private.lock_import(v_user_id);",
        "",
        f"{_TURNS}::test_the_later_export_waits_and_finds_what_the_earlier_one_saved",
    ),
    "an import that is told that the turn is free": Twin(
        "imports/take_import_turn_v1.sql",
        "return stats_private.try_import_lock(v_user_id);",
        "return true;",
        f"{_TURNS}::test_the_later_export_waits_and_finds_what_the_earlier_one_saved",
    ),
    "a wait for the turn that a timeout ends": Twin(
        "imports/take_import_turn_v1.sql",
        "perform set_config('statement_timeout', '0', true);",
        "",
        f"{_TURNS}::test_a_turn_outlasts_the_databases_limits",
    ),
    "a turn that silence ends": Twin(
        "imports/take_import_turn_v1.sql",
        "perform set_config('idle_in_transaction_session_timeout', '0', true);",
        "",
        f"{_TURNS}::test_a_turn_outlasts_the_databases_limits",
    ),
    "one turn for all accounts": Twin(
        "locks/keys.sql",
        "as $$ select pg_catalog.pg_try_advisory_xact_lock(\n"
        "    pg_catalog.hashtextextended('stats-refresh:import:' || p_user_id::text, 0)) $$;",
        "as $$ select pg_catalog.pg_try_advisory_xact_lock(\n"
        "    pg_catalog.hashtextextended('stats-refresh:import', 0)) $$;",
        f"{_TURNS}::test_imports_of_two_accounts_do_not_wait_for_each_other",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
