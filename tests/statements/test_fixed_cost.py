"""What an ordinary account costs, in statements: one new session in 20 of 5 exercises with 3 sets each.

The stages of a small account take about as long as their statements are many, so each of them has a bar. A stage that
needs fewer statements lowers its bar here.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta

import pytest
from conftest import Database
from support.app import AppAccount, Json, Stages

from .counting import listing, nested_statements

BARS = {"save": 17, "budget": 3, "claim": 9, "compute": 11, "publish": 20}
"""The most nested statements of one call, foreign key checks aside; the budget is armed before each stage."""
EXERCISES = ("Squat", "Bench Press", "Deadlift", "Overhead Press", "Row")
SESSIONS = 20


@pytest.fixture(scope="module")
def counted(counting_database: Database) -> dict[str, Counter[str]]:
    """The nested statements of the save of the new session, and of each stage that publishes it."""
    account, stages = AppAccount(counting_database), Stages(counting_database)
    for number in range(SESSIONS):
        save_session(account, number)
    assert [run["response"] for run in stages.drain()] == ["published"]
    counting_database.admin("analyze")

    counted: dict[str, Counter[str]] = {}
    with nested_statements(counting_database) as counted["save"]:
        save_session(account, SESSIONS)
    with nested_statements(counting_database) as counted["budget"]:
        counting_database.as_service()("select public.stats_projection_statement_budget_v1('claim')")
    with nested_statements(counting_database) as counted["claim"]:
        run = stages.claim()
    assert (run["response"], run["has_more"]) == ("claimed", False)
    with nested_statements(counting_database) as counted["compute"]:
        assert stages.compute(run)["response"] == "computed"
    with nested_statements(counting_database) as counted["publish"]:
        assert stages.publish(run)["response"] == "published"
    return counted


def save_session(account: AppAccount, number: int) -> Json:
    """Save a session of all exercises, two days after the one before and a little heavier."""
    blocks = [
        account.block(name, *[(60 + 10 * place + 2.5 * number, 5 - set_no) for set_no in range(3)])
        for place, name in enumerate(EXERCISES)
    ]
    day = date(2026, 1, 5) + timedelta(days=2 * number)
    return account.save(*blocks, session_date=day.isoformat())


@pytest.mark.parametrize("stage", BARS)
def test_an_ordinary_session_takes_no_more_statements_than_its_bar(
    counted: dict[str, Counter[str]], stage: str
) -> None:
    assert 0 < counted[stage].total() <= BARS[stage], f"{stage}:\n{listing(counted[stage])}"
