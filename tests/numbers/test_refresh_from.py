"""refresh_user_exercise_stats_from: the engine at once, or a request that stands."""

from __future__ import annotations

from datetime import date

import pytest
from sqlalchemy.exc import DBAPIError
from support.races import session

REFRESH = "select public.refresh_user_exercise_stats_from(:account, :day, :exercises)"


@pytest.fixture
def refresh(database, app_account):
    def refresh(day=None, exercises=()):
        return database.as_service().value(
            REFRESH, account=app_account.user_id, day=day, exercises=list(exercises)
        )

    return refresh


def test_it_publishes_at_once_whatever_of_the_account_waits(app_account, refresh, settle):
    app_account.save()

    answer = refresh(day="2026-03-10", exercises=[app_account.exercise("Squat")])

    assert answer["response"] == "published"
    assert app_account.state() == (answer["statsRequestedVersion"],) * 2
    assert app_account.jobs("status") == [("completed",)]
    settle(app_account.user_id)


def test_it_asks_for_the_scope_that_it_is_given(app_account, refresh, stages):
    app_account.save()
    stages.drain()
    squat = app_account.exercise("Squat")

    refresh(day="2026-03-09", exercises=[squat])

    assert app_account.jobs("from_date", "exercise_ids", "event_type")[-1] == (
        date(2026, 3, 9),
        [squat],
        "manual_refresh",
    )


def test_it_repairs_a_damaged_read_model(database, app_account, refresh, settle):
    app_account.save()
    refresh()
    database.admin("delete from public.user_training_period_stats")

    assert refresh()["response"] == "published"

    settle(app_account.user_id)


def test_where_a_run_is_in_flight_the_request_stands(app_account, refresh, stages, settle):
    app_account.save()
    run = stages.claim()

    answer = refresh()

    assert answer["response"] == "deferred"
    assert app_account.jobs("status") == [("processing",), ("pending",)]
    stages.compute(run)
    stages.publish(run)
    settle(app_account.user_id)
    assert app_account.state() == (answer["statsRequestedVersion"],) * 2


def test_where_somebody_holds_the_account_the_request_stands(database, app_account, refresh, settle):
    app_account.save()
    with session(database, "another worker") as other:
        other.run(
            "select pg_advisory_xact_lock(hashtextextended('stats-refresh:worker:' || :user, 0))",
            user=str(app_account.user_id),
        )

        assert refresh()["response"] == "deferred"

    settle(app_account.user_id)


def test_an_account_in_batches_is_left_to_the_workers(database, app_account, refresh):
    database.admin("update public.stats_projection_worker_settings set batch_size = 1")
    app_account.save(app_account.block("Squat", (100, 5)), app_account.block("Bench", (60, 5)))

    assert refresh()["response"] == "deferred"

    assert app_account.jobs("status") == [("processing",)]


def test_only_the_service_calls_it(database, app_account):
    for caller in (
        database.as_account(app_account.user_id),
        database.as_account(app_account.user_id, admin=True),
    ):
        with pytest.raises(DBAPIError) as refused:
            caller(REFRESH, account=app_account.user_id, day=None, exercises=[])
        assert refused.value.orig.pgcode == "42501"
