"""Whatever happens between two batches, an account ends equal to the reckoning."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batches.scene import Account, Run, claim, drain, end_backoffs, publish, set_settings

DAYS = ("2025-12-29", "2026-02-28", "2026-11-02", "2026-11-29", "2026-11-30", "2026-12-01")

EVENTS = st.sampled_from(
    [
        "step",
        "step",
        "step",
        "step",
        "save",
        "die",
        "double",
        "tamper",
        "new policy",
        "midnight",
        "ask",
        "delete",
    ]
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    batch_size=st.integers(1, 5),
    exercises=st.integers(1, 11),
    days=st.lists(st.sampled_from(DAYS), min_size=1, max_size=4, unique=True),
    events=st.lists(st.tuples(EVENTS, st.integers(0, 10), st.integers(1, 300)), max_size=14),
)
def test_any_history_ends_equal_to_the_reckoning(database, batch_size, exercises, days, events):
    set_settings(database, batch_size=batch_size, max_attempts=100, retry_backoff_seconds=1)
    account = Account(database, exercises, days)
    run: Run | None = None
    for event, number, weight in events:
        run = happen(event, number, weight, account, run)
    if run is not None:
        run.let_the_lease_run_out()
    drain(database)
    account.assert_converged()


def happen(event: str, number: int, weight: int, account: Account, run: Run | None) -> Run | None:
    """Let `event` happen; return the run that is under way after it."""
    database = account.database
    exercise = account.exercise_ids[number % account.exercises]
    day = account.days[number % len(account.days)]
    if event == "save":
        account.edit(exercise, day, weight)
    elif event == "delete":
        database.admin(
            "delete from public.session_exercise_part p using public.workout_sessions w"
            " where w.id = p.session_id and p.exercise_id = :exercise and w.session_date = :day",
            exercise=exercise,
            day=day,
        )
        account.enqueue(day, [exercise])
    elif event == "ask":
        account.enqueue(day, event="manual_refresh")
    elif event == "new policy":
        database.admin("update public.stats_projection_policy set policy_version = policy_version + 1")
    elif run is None:
        end_backoffs(database)
        answer = claim(database)
        return Run(database, answer) if answer["response"] == "claimed" else None
    elif event == "step":
        return advance(run)
    elif event == "double":
        offset = (run.batch or {"next_offset": 0})["next_offset"]
        advance(run)
        return advance(run, offset)
    elif event == "die":
        run.let_the_lease_run_out()
        return None
    elif event == "tamper" and run.column("phase") == "claimed":
        database.admin("update stats_private.stats_output_daily_rollups set reps = reps + 1")
    elif event == "midnight" and run.batch:
        run.change(
            "payload = jsonb_set(payload, '{_batch,anchor}', to_jsonb((payload #>> '{_batch,anchor}')::date - 1))"
        )
    return run


def advance(run: Run, expected_offset: int | None = None) -> Run | None:
    """Compute or publish, whichever is next; None when the run has ended."""
    if run.column("phase") == "computed":
        publish(run.database, run)
        return None
    run.step(expected_offset)
    return run if run.column("phase") in ("claimed", "computed") else None
