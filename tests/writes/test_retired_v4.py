"""The three v4 writers: whatever they are given, they name their successor and write nothing."""

import pytest
from sqlalchemy.exc import DBAPIError

from writes.refusals import writes_nothing

CALLS = {
    "save_workout_v4": ("save_session_v5", ["", "'{}'", "'[1]'::jsonb", "null"]),
    "update_completed_session_v4": (
        "save_session_v5",
        ["", "'{}'", "gen_random_uuid(), '{}'", "'{}'::jsonb"],
    ),
    "delete_completed_session_v4": (
        "delete_session_v5",
        ["", "gen_random_uuid()", "'7c1f1c1e-0000-4000-8000-000000000000'", "'{}'::jsonb"],
    ),
}


@pytest.mark.parametrize(("name", "successor", "arguments"), [(name, *call) for name, call in CALLS.items()])
def test_a_retired_writer_names_its_successor(database, app_account, name, successor, arguments):
    with writes_nothing(database):
        for given in arguments:
            with pytest.raises(DBAPIError) as caught:
                app_account.call(f"select public.{name}({given})".replace("::", "\\:\\:"))
            diag = caught.value.orig.diag
            assert (diag.sqlstate, diag.message_primary) == ("LG426", f"{name} is retired")
            assert successor in diag.message_hint
