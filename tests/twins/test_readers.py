"""Twins of the readers, which answer from one generation, and of whose account a call is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin

TWINS: dict[str, Twin] = {
    "a PR overview that looks twice": Twin(
        "readers/get_pr_overview.sql",
        "language plpgsql stable\nsecurity definer",
        "language plpgsql volatile\nsecurity definer",
        "tests/numbers/test_readers.py"
        "::test_a_publication_in_the_middle_of_an_answer_does_not_show_in_it[PR]",
    ),
    "a home overview that looks twice": Twin(
        "readers/get_home_overview.sql",
        "language plpgsql stable\nsecurity definer",
        "language plpgsql volatile\nsecurity definer",
        "tests/numbers/test_readers.py"
        "::test_a_publication_in_the_middle_of_an_answer_does_not_show_in_it[home-records]",
    ),
    "a volume overview that looks twice": Twin(
        "readers/get_volume_overview.sql",
        "language plpgsql stable\nsecurity definer",
        "language plpgsql volatile\nsecurity definer",
        "tests/numbers/test_readers.py"
        "::test_a_publication_in_the_middle_of_an_answer_does_not_show_in_it[volume]",
    ),
    "a PR detail that looks twice": Twin(
        "readers/get_pr_detail.sql",
        "language plpgsql stable\nsecurity definer",
        "language plpgsql volatile\nsecurity definer",
        "tests/numbers/test_readers.py"
        "::test_a_publication_in_the_middle_of_an_answer_does_not_show_in_it[detail-rep_maxes]",
    ),
    "a calendar month that looks twice": Twin(
        "readers/get_calendar_month.sql",
        "language plpgsql stable\nsecurity definer",
        "language plpgsql volatile\nsecurity definer",
        "tests/numbers/test_readers.py"
        "::test_a_publication_in_the_middle_of_an_answer_does_not_show_in_it[month]",
    ),
    "a header of any generation": Twin(
        "readers/answer.sql",
        " and h.generation = v_state.applied_version",
        "",
        "tests/numbers/test_readers.py"
        "::test_a_header_of_another_generation_is_no_answer[select public.get_pr_overview(:today)]",
    ),
    # ------------------------------------------------ whose
    "answers for any account": Twin(
        "identity/caller.sql",
        "elsif p_user_id = v_caller or stats_private.is_service() or stats_private.is_admin() then",
        "elsif true then",
        "tests/numbers/test_readers.py"
        "::test_only_the_account_itself_and_service_and_administrators_read_it[select public.get_pr_overview(:today)]",
    ),
    "writes for any account": Twin(
        "identity/caller.sql",
        "elsif octet_length(p_expected_user_id) > 36 or lower(p_expected_user_id) is distinct from v_caller::text then",
        "elsif false then",
        "tests/writes/test_ownership.py::test_a_save_for_another_owner_writes_nothing",
    ),
    "an administrator by the account's own word": Twin(
        "identity/caller.sql",
        "#> '{app_metadata,role}' = '\"admin\"'",
        "#> '{user_metadata,role}' = '\"admin\"'",
        "tests/writes/test_ownership.py::test_an_admin_flag_outside_app_metadata_is_none",
    ),
    "a save over another account's session": Twin(
        "writes/session_rows.sql",
        "where w.id = p_session_id and w.user_id = p_user_id;",
        "where w.id = p_session_id;",
        "tests/writes/test_ownership.py::test_anothers_session_cannot_be_told_from_a_missing_one",
    ),
    "a save with another account's exercise": Twin(
        "writes/session_exercises.sql",
        "on x.id = e.value ->> 'exercise_id' and (x.owner_user_id is null or x.owner_user_id = p_user_id)",
        "on x.id = e.value ->> 'exercise_id'",
        "tests/writes/test_ownership.py::test_anothers_exercise_cannot_be_told_from_a_missing_one",
    ),
    "a deletion of another account's stated 1RM": Twin(
        "writes/delete_manual_pr_v1.sql",
        "where r.id = p_manual_pr_id and r.user_id = v_user_id;",
        "where r.id = p_manual_pr_id;",
        "tests/writes/test_ownership.py::test_anothers_manual_record_cannot_be_told_from_a_missing_one",
    ),
    "rows of all accounts": Twin(
        "access/policies.sql",
        "on public.workout_sessions for select to authenticated\nusing (user_id = (select auth.uid()));",
        "on public.workout_sessions for select to authenticated\nusing (true);",
        "tests/writes/test_ownership.py::test_an_account_reads_its_own_rows_and_the_catalog_and_no_others",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
