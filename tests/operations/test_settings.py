"""The settings row: every rule answers with its column, and nothing is half changed."""

from __future__ import annotations

import json
import uuid

import pytest
from sqlalchemy.exc import DBAPIError
from support.races import session, wait_until_blocked

from models.projection import StatsProjectionWorkerSettings

UPDATE = "select public.update_stats_projection_settings_v1(cast(:changes as jsonb))"


def update(database, caller=None, **changes):
    return (caller or database.as_service()).value(UPDATE, changes=json.dumps(changes))


def row(database):
    [(settings,)] = database.admin("select to_jsonb(s) from public.stats_projection_worker_settings s")
    return settings


def refusal(database, changes: object, caller=None) -> tuple[str, str]:
    """Return SQLSTATE and message of changes that must be refused; the row stays as it is."""
    before = row(database)
    with pytest.raises(DBAPIError) as error:
        (caller or database.as_service()).value(UPDATE, changes=json.dumps(changes))
    assert row(database) == before
    return error.value.orig.pgcode, error.value.orig.diag.message_primary


def test_named_settings_change_and_the_others_stay(database):
    before = row(database)
    answer = update(database, compute_budget_ms=30000, batch_size=7, paused_stages=["publish"])
    after = row(database)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"compute_budget_ms", "batch_size", "paused_stages", "updated_at"}
    assert answer == {name: value for name, value in after.items() if name != "id"}


def test_no_changes_change_nothing(database):
    before = row(database)
    update(database)
    assert {**row(database), "updated_at": None} == {**before, "updated_at": None}


MOST = {
    "claim_budget_ms": 80000,
    "compute_budget_ms": 80000,
    "publish_budget_ms": 7999,
    "maintenance_budget_ms": 80000,
    "lease_seconds": 2147483,
    "active_lease_cap": 2147483,
    "max_attempts": 2147483,
    "retry_backoff_seconds": 2147483,
    "batch_size": 100,
    "rollover_page": 25,
}
WHOLE_NUMBER = "must be a whole number from 1 to 2147483"
RULES = [
    ({"publish_budget_ms": 8000}, "publish_budget_ms: must stay below 8000, the deadline of a save"),
    ({"publish_budget_ms": 10**12}, "publish_budget_ms: must stay below 8000, the deadline of a save"),
    ({"lease_seconds": 65}, "lease_seconds: must cover compute_budget_ms plus publish_budget_ms"),
    (
        {"paused_stages": ["compute", "lunch"]},
        "paused_stages: must be of claim, compute, publish, maintenance",
    ),
    ({"paused_stages": "compute"}, "paused_stages: must be a list of stages"),
    ({"paused_stages": None}, "paused_stages: must be a list of stages"),
    ({"paused_stages": ["compute", None]}, "paused_stages: must be a list of stages"),
    ({"paused_stages": [["compute"]]}, "paused_stages: must be a list of stages"),
    ({"paused_stages": [1]}, "paused_stages: must be a list of stages"),
    ({"lunch_break": 30}, "lunch_break: is not a setting"),
    ({"id": 2}, "id: is not a setting"),
    ({"updated_at": "2026-01-01"}, "updated_at: is not a setting"),
    ({"lunch_break": 30, "batch_size": 0}, "lunch_break: is not a setting"),
    ([1], "changes: must be an object of settings"),
    ("batch_size", "changes: must be an object of settings"),
    (None, "changes: must be an object of settings"),
]


@pytest.mark.parametrize(("changes", "message"), RULES, ids=[json.dumps(changes) for changes, _ in RULES])
def test_each_rule_is_refused_by_its_column(database, changes, message):
    assert refusal(database, changes) == ("22023", message)


@pytest.mark.parametrize("name", MOST)
def test_what_is_no_whole_number_of_its_range_is_refused_by_its_column_and_range(database, name):
    rule = f"{name}: must be a whole number from 1 to {MOST[name]}"
    for value in (None, "3", "many", "", True, [3], {"a": 3}, 2.5, 1e-9, 0, -1, -(10**400)):
        assert refusal(database, {name: value}) == ("22023", rule), value
    if name != "publish_budget_ms":
        for value in (MOST[name] + 1, 10**12, 10**400):
            assert refusal(database, {name: value}) == ("22023", rule), value


@pytest.mark.parametrize("name", MOST)
def test_the_least_and_the_greatest_of_each_range_are_taken(database, name):
    update(database, compute_budget_ms=1, publish_budget_ms=1)
    for value in (1, MOST[name]):
        assert update(database, **{name: value})[name] == value


def test_each_number_has_its_range():
    settings = StatsProjectionWorkerSettings.__table__.columns.keys()
    assert set(MOST) == set(settings) - {"id", "paused_stages", "updated_at"}


def test_a_whole_number_may_be_written_with_a_fraction(database):
    changes = '{"batch_size": 5.0, "compute_budget_ms": 3.00e4, "paused_stages": []}'
    answer = database.as_service().value(UPDATE, changes=changes)
    assert (answer["batch_size"], answer["compute_budget_ms"]) == (5, 30000)


def test_sql_null_is_refused(database):
    with pytest.raises(DBAPIError) as error:
        database.as_service().value("select public.update_stats_projection_settings_v1(null)")
    assert error.value.orig.pgcode == "22023"


def test_one_bad_setting_keeps_the_good_ones_out(database):
    assert refusal(database, {"batch_size": 5, "rollover_page": 99})[0] == "22023"


def test_budgets_that_only_fit_together_change_together(database):
    update(database, lease_seconds=66)
    assert refusal(database, {"compute_budget_ms": 80000})[0] == "22023"
    update(database, lease_seconds=86, compute_budget_ms=80000)
    assert row(database)["compute_budget_ms"] == 80000


def test_only_service_and_administrators_change_settings(database):
    user = uuid.uuid4()
    assert refusal(database, {"batch_size": 5}, database.as_account(user))[0] == "42501"
    update(database, database.as_account(user, admin=True), batch_size=6)
    assert row(database)["batch_size"] == 6


def test_two_operators_at_once_both_get_their_way(database):
    with session(database, "first") as first, session(database, "second") as second:
        first.run(UPDATE, changes='{"batch_size": 5}')
        waiting = second.start(UPDATE, changes='{"max_attempts": 9}')
        wait_until_blocked(database, second, first)
        first.commit()
        waiting.result(20)
        second.commit()
    settings = row(database)
    assert (settings["batch_size"], settings["max_attempts"]) == (5, 9)


def test_two_operators_pause_a_stage_each_at_once(database):
    pause = "select public.pause_stats_stages_v1(cast(:stages as text[]), true)"
    with session(database, "first") as first, session(database, "second") as second:
        first.run(pause, stages=["compute"])
        waiting = second.start(pause, stages=["publish"])
        wait_until_blocked(database, second, first)
        first.commit()
        assert waiting.result(20) == ["compute", "publish"]
        second.commit()
    assert row(database)["paused_stages"] == ["compute", "publish"]
