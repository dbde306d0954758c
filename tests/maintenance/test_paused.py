"""A stage is paused for long: recovery leaves its runs alone, pages go on asking, and nothing is lost by it."""

from __future__ import annotations

import pytest
from conftest import Database
from interleavings.scene import expire_lease
from support.app import AppAccount, Stages

from maintenance.damage import remove_all
from maintenance.scene import (
    Pages,
    assert_all_equal_reckoning,
    change_global,
    global_exercise,
    let_days_pass,
    published_accounts,
    requested,
    save_with,
    settings,
)


@pytest.mark.parametrize("stage", ["compute", "publish"])
def test_a_run_whose_lease_runs_out_while_its_stage_is_paused_goes_on_after_it(
    database: Database, stages: Stages, app_account: AppAccount, stage: str
) -> None:
    """It is neither revived nor given up, however often a claim comes by; others are claimed beside it."""
    app_account.save()
    run = stages.claim()
    if stage == "publish":
        stages.compute(run)
    settings(database, paused_stages=[stage])
    for _ in range(5):
        expire_lease(database, run)
        assert stages.claim()["response"] == "idle"
    assert app_account.jobs("status", "attempts") == [("processing", 1)]
    other = AppAccount(database)
    other.save()
    assert stages.claim()["user_id"] == str(other.user_id)

    settings(database, paused_stages=[])
    stages.drain()
    while (stages.compute()["response"], stages.publish()["response"]) != ("idle", "idle"):
        pass
    assert (app_account.state(), other.state()) == ((1, 1), (1, 1))
    assert_all_equal_reckoning(database, [app_account, other])


@pytest.mark.parametrize("stage", ["claim", "compute", "publish"])
def test_pages_go_on_while_the_pipeline_is_paused(
    database: Database, stages: Stages, pages: Pages, stage: str
) -> None:
    """A day turns, the catalog changes and a read model is damaged meanwhile: one run of each account makes it good."""
    exercise = global_exercise(database)
    accounts = published_accounts(database, 3)
    save_with(accounts[1], exercise)
    stages.drain()
    settings(database, paused_stages=[stage])
    let_days_pass(database, 1, accounts[:1])
    change_global(database, exercise, "Plank", "duration")
    remove_all(database, "public.user_exercise_records", accounts[2])
    for _ in range(2):
        pages.rollover()
        pages.walk_to_the_end()
        pages.repair_lap()
    assert requested(database) == [account.user_id for account in accounts]
    generations = [account.state()[0] for account in accounts]

    settings(database, paused_stages=[])
    stages.drain()
    assert [account.state() for account in accounts] == [(last, last) for last in generations]
    assert generations == [2, 3, 2]
    assert_all_equal_reckoning(database, accounts)
