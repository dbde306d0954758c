"""Dated meet results of a real lifter as manual records: ties, meets without a good lift, several a day."""

from __future__ import annotations

import csv
from decimal import Decimal
from uuid import uuid4

import pytest
from reckoning.compare import assert_account_equals_reckoning

LIFTS = {"Squat": "Best3SquatKg", "Bench": "Best3BenchKg", "Deadlift": "Best3DeadliftKg"}


@pytest.fixture
def meets(real_file):
    """The results of the lifter with the most meets, in the order of their days."""
    with real_file("powerlifting-meets-tested-1rm.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["LifterId"] == "L0001"]
    return sorted(rows, key=lambda row: row["Date"])


def test_the_latest_tested_1rm_of_each_lift_stands_on_the_board(app_account, stages, meets):
    latest: dict[str, tuple[str, Decimal]] = {}
    failed = 0
    for meet in meets:
        for lift, column in LIFTS.items():
            kilograms = Decimal(meet[column] or 0)
            if kilograms <= 0:
                failed += 1  # no good lift: nothing was tested
                continue
            app_account.call(
                "select public.set_manual_pr_v1(:exercise, :kilograms, cast(:day as date), 'manual', :user, :mutation)",
                exercise=app_account.exercise(lift),
                kilograms=kilograms,
                day=meet["Date"],
                mutation=uuid4(),
            )
            latest[lift] = max(latest.get(lift, ("", Decimal(0))), (meet["Date"], kilograms))
    assert failed
    stages.drain()

    board = app_account.call("select public.get_pr_overview(current_date)")
    shown = {
        row["exercise_id"]: (row["one_rm_on"], Decimal(str(row["one_rm_kg"]))) for row in board["exercises"]
    }
    assert shown == {app_account.exercise(lift): best for lift, best in latest.items()}
    with app_account.database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection, app_account.user_id)
