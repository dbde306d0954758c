"""refresh_user_pr_overview_snapshot_window: the three snapshot days at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy.exc import DBAPIError

REFRESH = "select public.refresh_user_pr_overview_snapshot_window(:account)"
HEADERS = (
    "select as_of_date from public.user_pr_overview_snapshot_headers where user_id = :account order by 1"
)


@pytest.fixture
def refresh(database, app_account):
    return lambda: database.as_service().value(REFRESH, account=app_account.user_id)


def _today(database):
    [[today]] = database.admin("select (now() at time zone 'UTC')::date")
    return today


def test_a_window_that_has_passed_is_published_at_once_around_today(database, app_account, refresh, settle):
    app_account.save()
    settle(app_account.user_id)
    # As if the last publication had been ten days ago.
    for statement in (
        "update public.user_stats_refresh_state set published_anchor = published_anchor - 10",
        "update public.user_pr_overview_snapshot_headers set as_of_date = as_of_date - 10",
        "update public.user_pr_exercise_summary_snapshots set as_of_date = as_of_date - 10",
    ):
        database.admin(statement)

    answer = refresh()

    assert answer["response"] == "published"
    assert app_account.state() == (answer["statsRequestedVersion"],) * 2
    today = _today(database)
    assert database.admin(HEADERS, account=app_account.user_id) == [
        (today + timedelta(days),) for days in (-1, 0, 1)
    ]
    board = database.as_account(app_account.user_id).value("select public.get_pr_overview(:day)", day=today)
    assert len(board["exercises"]) == 1


def test_it_takes_what_else_waits_with_it(app_account, refresh, settle):
    app_account.save()

    assert refresh()["response"] == "published"

    assert app_account.jobs("status") == [("completed",)]
    settle(app_account.user_id)


def test_where_a_run_is_in_flight_the_request_stands(app_account, refresh, stages, settle):
    app_account.save()
    run = stages.claim()

    answer = refresh()

    assert (answer["response"], answer["reason"]) == ("deferred", "busy")
    stages.compute(run)
    stages.publish(run)
    settle(app_account.user_id)
    assert app_account.state() == (answer["statsRequestedVersion"],) * 2


def test_only_the_service_calls_it(database, app_account):
    for admin in (False, True):
        with pytest.raises(DBAPIError) as refused:
            database.as_account(app_account.user_id, admin=admin)(REFRESH, account=app_account.user_id)
        assert refused.value.orig.pgcode == "42501"
