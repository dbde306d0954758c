"""validate_user_exercise_stats_integrity: finds what is wrong, names it, and leaves nothing behind."""

from __future__ import annotations

from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError
from support.published import READ_MODELS

from ops.verify import verify

VALIDATE = "select public.validate_user_exercise_stats_integrity(:account)"
DAY = "2024-03-12"

DAMAGE = [
    (
        "daily_rollups",
        "update public.user_exercise_daily_rollups set volume_kg = volume_kg + 1",
        {"operation": "update", "key": {"exercise_id": "SQUAT", "day": DAY}},
    ),
    (
        "records",
        "delete from public.user_exercise_records where kind = 'weight'",
        {"operation": "insert", "key": {"exercise_id": "SQUAT", "kind": "weight", "day": DAY}},
    ),
    (
        "rep_maxes",
        "insert into public.user_exercise_rep_maxes"
        " select user_id, exercise_id, 12, 1, achieved_on from public.user_exercise_rep_maxes where reps = 1",
        {"operation": "delete", "key": {"exercise_id": "SQUAT", "reps": 12}},
    ),
    (
        "rep_max_steps",
        "delete from stats_private.rep_max_steps",
        {"operation": "insert", "key": {"exercise_id": "SQUAT", "reps": 5, "day": DAY}},
    ),
    (
        "pr_summaries",
        "update public.user_pr_exercise_summary_snapshots set sessions_30d = 99"
        " where as_of_date = stats_private.utc_today()",
        {"operation": "update"},
    ),
    (
        "periods",
        "delete from public.user_training_period_stats where grain = 'week'",
        {"operation": "insert", "key": {"grain": "week", "period_start": "2024-03-11"}},
    ),
    (
        "calendar",
        "update public.user_calendar_day_summaries set titles = '{Arms}'",
        {"operation": "update", "key": {"day": DAY}},
    ),
    (
        "headers",
        "delete from public.user_pr_overview_snapshot_headers where as_of_date = stats_private.utc_today()",
        {"operation": "insert"},
    ),
    (
        "headers",
        "update public.user_pr_overview_snapshot_headers set generation = generation - 1"
        " where as_of_date > stats_private.utc_today()",
        {"operation": "update"},
    ),
    (
        "headers",
        "update public.user_pr_overview_snapshot_headers set exercises = exercises + 1"
        " where as_of_date < stats_private.utc_today()",
        {"operation": "update"},
    ),
    (
        "headers",
        "insert into public.user_pr_overview_snapshot_headers"
        " select user_id, '2020-01-01', generation, exercises, generated_at"
        " from public.user_pr_overview_snapshot_headers where as_of_date = stats_private.utc_today()",
        {"operation": "delete", "key": {"as_of_date": "2020-01-01"}},
    ),
]


@pytest.fixture
def validate(database, app_account):
    return lambda: database.as_service().value(VALIDATE, account=app_account.user_id)


@pytest.fixture
def squat(app_account, stages):
    """Publish one session and return its exercise."""
    app_account.save(app_account.block("Squat", (100, 5)), session_date=DAY, title="Legs")
    stages.drain()
    return app_account.exercise("Squat")


def test_an_account_that_is_right_is_valid(squat, validate):
    answer = validate()

    assert (answer["valid"], answer["stale"], answer["moved"], answer["differences"]) == (
        True,
        False,
        False,
        [],
    )
    assert answer["generation"] == answer["requested_version"] > 0


@pytest.mark.parametrize(
    ("read_model", "damage", "difference"),
    DAMAGE,
    ids=[f"{name} {end['operation']}" for name, _, end in DAMAGE],
)
def test_damage_to_any_read_model_is_found_and_named(
    database, squat, validate, read_model, damage, difference
):
    database.admin(damage)

    answer = validate()

    assert answer["valid"] is False
    [found] = answer["differences"]
    assert found["read_model"] == read_model
    assert found["operation"] == difference["operation"]
    expected = {k: squat if v == "SQUAT" else v for k, v in difference.get("key", found["key"]).items()}
    assert found["key"] == expected
    assert {name for name, counts in answer["counts"].items() if sum(counts.values())} == {read_model}


def test_it_repairs_nothing_and_leaves_nothing(database, app_account, squat, validate, published):
    database.admin("update public.user_exercise_daily_rollups set volume_kg = volume_kg + 1")
    before = published(app_account.user_id)
    runs = database.admin("select * from public.user_stats_projection_runs")
    assert validate()["valid"] is False

    assert published(app_account.user_id) == before
    assert database.admin("select * from public.user_stats_projection_runs") == runs
    assert validate()["valid"] is False
    left = database.admin(
        "select relname from pg_class where relnamespace = 'stats_private'::regnamespace and relkind = 'r'"
        " and (relname like 'stats\\_output\\_%' or relname = 'stats_input_days')"
    )
    assert len(left) == len(READ_MODELS) + 1
    for [table] in left:
        assert database.admin(f"select * from stats_private.{table}") == []


def test_an_account_that_waits_for_a_run_is_told_to_be_stale(app_account, squat, validate, stages):
    app_account.save(app_account.block("Squat", (120, 5)), session_date="2024-03-14")

    answer = validate()
    assert (answer["valid"], answer["stale"]) == (False, True)

    stages.drain()
    assert (validate()["valid"], validate()["stale"]) == (True, False)


def test_an_account_that_a_changed_policy_has_not_reached_is_told_to_be_stale(
    database, squat, validate, stages
):
    database.as_service()("select public.update_stats_projection_policy_v1('epley')")
    waiting = validate()
    database.as_service()("select public.run_stats_catalog_walk_v1()")
    stages.drain()
    reached = validate()

    assert (waiting["valid"], waiting["stale"]) == (False, True)
    assert (reached["valid"], reached["stale"]) == (True, False)


def test_a_published_window_that_has_passed_is_not_damage(database, squat, validate):
    database.admin("update public.user_stats_refresh_state set published_anchor = published_anchor - 10")
    database.admin("update public.user_pr_exercise_summary_snapshots set as_of_date = as_of_date - 10")
    database.admin("update public.user_pr_overview_snapshot_headers set as_of_date = as_of_date - 10")

    assert validate()["valid"] is True


def test_an_unknown_account_is_valid_and_empty(database):
    answer = database.as_service().value(VALIDATE, account=uuid4())

    assert (answer["valid"], answer["generation"]) == (True, 0)


def test_only_service_and_administrators_validate(database, app_account, squat):
    with pytest.raises(DBAPIError) as refused:
        app_account.call(VALIDATE, account=app_account.user_id)
    assert refused.value.orig.pgcode == "42501"
    assert database.as_account(uuid4(), admin=True).value(VALIDATE, account=app_account.user_id)["valid"]


@pytest.mark.parametrize(
    "table",
    [name for name in READ_MODELS if name.startswith("public.")],
    ids=lambda name: name.partition(".")[2],
)
def test_an_account_that_has_nothing_but_a_leftover_row_is_compared(
    database, app_account, squat, table, capsys
):
    others = {*READ_MODELS, "public.user_stats_refresh_state", "public.workout_sessions"} - {table}
    for other in others | {"public.user_pr_overview_snapshot_headers"}:
        database.admin(f"delete from {other} where user_id = :user", user=app_account.user_id)
    assert database.admin(f"select count(*) from {table}") > [(0,)]

    assert verify(database.url, app_account.user_id, None) is False
    assert verify(database.url, None, None) is False
    assert "1 accounts compared, 1 differ" in capsys.readouterr().out
