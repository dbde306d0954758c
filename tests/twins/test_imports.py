"""Twins of imports: what they remember, and what they may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin

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
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
