"""The policy: who changes it, what a change does to what is published, and to a run under way."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from uuid import uuid4

import pytest
from sqlalchemy.exc import DBAPIError

CHANGE = "select public.update_stats_projection_policy_v1(:formula, :most_reps, :week_start)"
SUNDAY, MONDAY = date(2024, 3, 10), date(2024, 3, 11)


@pytest.fixture
def change(database):
    """Change the policy as the service does, and return the row."""

    def change(caller=None, formula=None, most_reps=None, week_start=None):
        caller = caller or database.as_service()
        return caller.value(CHANGE, formula=formula, most_reps=most_reps, week_start=week_start)

    return change


def test_a_change_counts_the_version_and_the_same_again_does_not(change):
    before = change()

    changed = change(formula="epley")
    assert (changed["e1rm_formula"], changed["e1rm_max_reps"]) == ("epley", before["e1rm_max_reps"])
    assert changed["policy_version"] == before["policy_version"] + 1
    assert change(formula="epley") == changed


def test_the_next_run_of_an_account_rebuilds_everything_under_the_new_policy(
    database, app_account, change, seen, settled
):
    squat = app_account.exercise("Squat")
    app_account.save(app_account.block("Squat", (100, 5)), session_date=str(SUNDAY))
    app_account.save(app_account.block("Squat", (100, 13)), session_date=str(MONDAY))
    settled()
    assert seen.rollup(squat, SUNDAY, "best_e1rm_kg") == (Decimal("112.50"),)
    assert seen.rollup(squat, MONDAY, "best_e1rm_kg") == (None,)
    assert list(seen.periods("week", "sessions")) == [date(2024, 3, 4), date(2024, 3, 11)]

    change(formula="epley", most_reps=15, week_start=7)
    # Of another exercise and a later day: the scope says nothing about what there is.
    app_account.save(app_account.block("Bench", (60, 5)))
    settled()

    assert seen.rollup(squat, SUNDAY, "best_e1rm_kg") == (Decimal("116.67"),)
    assert seen.rollup(squat, MONDAY, "best_e1rm_kg") == (Decimal("143.33"),)
    assert seen.periods("week", "sessions", "exercises")[SUNDAY] == (2, 1)
    assert date(2024, 3, 11) not in seen.periods("week", "sessions")


def test_a_run_that_was_computed_under_the_old_policy_does_not_end_the_rebuild(
    app_account, change, seen, stages, settled
):
    squat = app_account.exercise("Squat")
    app_account.save(app_account.block("Squat", (100, 5)), session_date=str(SUNDAY))
    run = stages.claim()
    stages.compute(run)
    change(formula="epley")
    stages.publish(run)

    app_account.save(app_account.block("Bench", (60, 5)))
    settled()

    assert seen.rollup(squat, SUNDAY, "best_e1rm_kg") == (Decimal("116.67"),)


@pytest.mark.parametrize(
    "wrong",
    [{"formula": "wathan"}, {"most_reps": 0}, {"most_reps": 37}, {"week_start": 0}, {"week_start": 8}],
)
def test_a_value_out_of_range_is_refused_and_changes_nothing(change, wrong):
    before = change()

    with pytest.raises(DBAPIError) as refused:
        change(**wrong)

    assert refused.value.orig.pgcode == "22023"
    assert change() == before


def test_only_service_and_administrators_change_it(database, change):
    with pytest.raises(DBAPIError) as refused:
        change(database.as_account(uuid4()), formula="epley")
    assert refused.value.orig.pgcode == "42501"

    assert change(database.as_account(uuid4(), admin=True), formula="epley")["e1rm_formula"] == "epley"
