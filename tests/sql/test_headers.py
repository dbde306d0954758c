"""Every SQL file says which locks it takes, in the one order of docs/locking.md, and takes no other."""

import re
from functools import cache
from itertools import pairwise

import pytest
from support.lock_headers import DOCUMENT, lock_lines, locks_of, places

from sql.functions import sql_files

FILES = {file.name: file.text for file in sql_files()}

ADVISORY = {
    "lock_import": "import",
    "try_import_lock": "import",
    "try_batch_lock": "batch",
    "lock_claim": "claim",
    "try_worker_lock": "worker",
    "lock_writes": "write",
    "try_write_lock": "write",
    "stats_try_beat_lock_v1": "beat entry",
}
ROWS = {
    "user_stats_projection_runs": "run row",
    "user_stats_refresh_state": "state row",
    "user_exercise_stats_refresh_jobs": "job rows",
    "user_pr_overview_rollover_state": "rollover rows",
    "stats_maintenance_cursors": "cursor row",
    "stats_catalog_scopes": "scope row",
    "stats_projection_worker_settings": "settings row",
    "stats_projection_policy": "policy row",
    **dict.fromkeys(
        (
            "exercises",
            "exercise_external_mappings",
            "workout_sessions",
            "session_exercise_part",
            "session_sets",
            "user_manual_pr_records",
        ),
        "canonical rows",
    ),
    **dict.fromkeys(
        (
            "user_exercise_daily_rollups",
            "user_exercise_records",
            "user_exercise_rep_maxes",
            "user_training_period_stats",
            "user_calendar_day_summaries",
            "user_pr_overview_snapshot_headers",
            "user_pr_exercise_summary_snapshots",
            "rep_max_steps",
        ),
        "read models",
    ),
}
OUTSIDE = {
    # Behind the run row: a stage touches those of its own lease, and the purge waits for none.
    "stats_batch_exercises",
    "stats_input_days",
    "stats_output_calendar",
    "stats_output_daily_rollups",
    "stats_output_periods",
    "stats_output_pr_summaries",
    "stats_output_records",
    "stats_output_rep_max_steps",
    "stats_output_rep_maxes",
    # Behind the write lock of their account: nobody but an import touches them, under it.
    "imported_workouts",
    # The last row that a change of the catalog takes, after the scope row.
    "pr_overview_projection_control",
    # Rows past their keeping time, which the one purge at a time removes.
    "cron_run_history",
    "exercise_catalog_changes",
    "stats_mutation_receipts",
}
"""Tables whose rows are locked without a place in the order, each for the reason above it."""
LOCKING = re.compile(
    r"(?:\bupdate|\bdelete from|\bmerge into)\s+(?:public|stats_private)\.(?P<changed>\w+)"
    r"|\binsert into\s+(?:public|stats_private)\.(?P<upserted>\w+)[^;]*?on conflict[^;]*?do update"
    # Between a table and its FOR UPDATE brackets close only what they opened there, or it is not that table's.
    r"|\bfrom\s+(?:public|stats_private)\.(?P<selected>\w+)(?:[^();]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*?"
    r"\bfor\s+(?:no key update|update|key share|share)\b"
)


def functions(text):
    """Each function of a file with its body, comments left out; those of one name with all their bodies."""
    bare = re.sub(r"--.*", "", text)
    bodies: dict[str, str] = {}
    for name, _, body in re.findall(
        r"create or replace function ([\w.]+).*?(\$\w*\$)(.*?)\2;", bare, flags=re.DOTALL
    ):
        bodies[name] = bodies.get(name, "") + body
    return bodies


BODIES = functions("\n".join(FILES.values()))


def locked_tables(body):
    """The tables of which a body locks rows: by changing them, or by FOR UPDATE and its like."""
    return {found["changed"] or found["upserted"] or found["selected"] for found in LOCKING.finditer(body)}


@cache
def taken(name):
    """The locks that a function takes by itself and through the functions that it calls."""
    return frozenset(_taken(name, set()))


def _taken(name, seen):
    if name in seen or name not in BODIES:
        return
    seen.add(name)
    short = name.partition(".")[2]
    if short in ADVISORY:
        yield ADVISORY[short]
    for table in locked_tables(BODIES[name]):
        if table in ROWS:
            yield ROWS[table]
    for called in re.findall(r"\b((?:public|stats_private)\.\w+)\s*\(", BODIES[name]):
        yield from _taken(called, seen)


def is_in_order(locks):
    """Tell whether the locks can be given places that never decrease."""
    reached = 0
    for lock in locks:
        later = [place for place in places()[lock] if place >= reached]
        if not later:
            return False
        reached = min(later)
    return True


def test_the_document_lists_each_place_once_and_in_order():
    table = re.findall(r"^\| (\d+) \| `", DOCUMENT.read_text(), flags=re.MULTILINE)
    assert len(table) > 10
    assert all(int(one) <= int(following) for one, following in pairwise(table))


@pytest.mark.parametrize("name", FILES)
def test_the_header_lists_known_locks_in_the_documented_order(name):
    assert lock_lines(FILES[name]), "no line `-- Locks:`"
    for line in lock_lines(FILES[name]):
        listed = [lock.name for lock in locks_of(line)]
        unknown = set(listed) - set(places())
        assert not unknown, f"not in docs/locking.md: {unknown}"
        assert is_in_order(listed), f"another order than docs/locking.md: {listed}"


@pytest.mark.parametrize("name", FILES)
def test_the_header_lists_every_lock_that_the_file_takes(name):
    listed = {lock.name for line in lock_lines(FILES[name]) for lock in locks_of(line)}
    if any("every row of the account" in line for line in lock_lines(FILES[name])):
        listed |= set(ROWS.values()) - {"settings row", "policy row", "cursor row"}
    missing = {
        function: taken(function) - listed for function in functions(FILES[name]) if taken(function) - listed
    }
    assert not missing, f"taken, but not listed: {missing}"


def test_every_table_whose_rows_are_locked_has_its_place_or_its_reason_for_none():
    locked = set().union(*(locked_tables(body) for body in BODIES.values()))
    assert locked - set(ROWS) == OUTSIDE


def test_an_advisory_lock_is_only_taken_through_the_function_that_names_it():
    """Those are what the bodies are read for: an advisory lock of another name would pass unseen."""
    taking = {name for name, body in BODIES.items() if re.search(r"\bpg_\w*advisory\w*", body)}
    assert {name.partition(".")[2] for name in taking} == set(ADVISORY)


def test_the_reading_of_bodies_finds_locks_at_all():
    """Guards the two tests above against a pattern that no longer matches anything."""
    assert taken("public.save_session_v5") == {"write", "state row", "job rows", "canonical rows"}
    assert taken("stats_private.merge_into_pending_job") == {"job rows"}
    assert taken("public.pause_stats_stages_v1") == {"settings row"}
    assert taken("public.update_stats_projection_policy_v1") == {"policy row"}
    assert taken("public.stats_try_beat_lock_v1") == {"beat entry"}
    assert taken("stats_private.remember_walk") == {"scope row"}
    assert {"rollover rows", "cursor row"} <= taken("public.run_user_pr_overview_rollover_v1")
    assert {"run row", "write", "read models", "state row"} <= taken("public.stats_projection_publish_v1")
    assert not is_in_order(["write", "worker"])
    assert not is_in_order(["job rows", "run row"])
