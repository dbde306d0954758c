"""Who refreshes an account at once has it from the start: no claim takes what the refresh is about to publish."""

from __future__ import annotations

import json

import pytest
from maintenance.scene import write_lock
from support.app import AppAccount
from support.races import DEADLINE, wait_until_blocked

from .scene import admin_session, outcome, session, wait_until_blocked_or_done

REFRESH = "select public.refresh_stats_now_v1(:user)"


def a_refresh(worker, account):
    return worker.start(REFRESH, user=account.user_id)


def the_engine(worker, account):
    return worker.start("select public.refresh_user_exercise_stats_from(:user)", user=account.user_id)


def the_window(worker, account):
    return worker.start("select public.refresh_user_pr_overview_snapshot_window(:user)", user=account.user_id)


def an_import(worker, account):
    swing = {"movementId": "swing", "load": 24, "loadUnit": "kg", "reps": 5}
    day = {"results": [{"id": 1, "doneOn": "2026-03-09", "sets": [swing]}]}
    batch = {"user_id": str(account.user_id), "movements": [], "days": [day]}
    return worker.start(
        "select public.import_wodup_batch_to_canonical(cast(:batch as jsonb))", batch=json.dumps(batch)
    )


@pytest.mark.parametrize("begin", [a_refresh, the_engine, the_window, an_import])
def test_no_claim_takes_an_account_whose_refresh_waits_for_a_writer(database, app_account, stages, begin):
    app_account.save()
    with session(database, "refresh") as worker:
        with admin_session(database, "writer") as writer:
            write_lock(writer, app_account)
            refreshing = begin(worker, app_account)
            wait_until_blocked(database, worker, by=writer)
            assert stages.claim() == {"response": "idle"}
        answer = outcome(refreshing)
        assert answer.get("refresh", answer.get("response")) == "published", answer
        worker.commit()
    requested, applied = app_account.state()
    assert requested == applied > 1


def test_a_claim_takes_another_account_meanwhile(database, app_account, stages):
    other = AppAccount(database)
    other.save()
    with session(database, "refresh") as worker, session(database, "claim") as claimer:
        a_refresh(worker, app_account).result(DEADLINE)
        claiming = claimer.start("select public.stats_projection_claim_v1('test')")
        wait_until_blocked_or_done(database, claimer, claiming)
        assert claiming.done(), "the claim waited"
        assert outcome(claiming).get("user_id") == str(other.user_id)


@pytest.mark.parametrize("begin", [a_refresh, the_engine, the_window, an_import])
def test_an_account_that_a_run_has_is_left_to_it(database, app_account, stages, begin):
    app_account.save()
    run = stages.claim()
    with session(database, "refresh") as worker:
        answer = outcome(begin(worker, app_account))
        worker.commit()
    assert answer.get("refresh", answer.get("response")) == "deferred", answer
    assert stages.compute(run)["response"] == "computed"
