"""A paused stage answers `paused` to whoever calls it, and leaves everything as it is."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy.exc import DBAPIError

PAUSE = "select public.pause_stats_stages_v1(cast(:stages as text[]), :paused)"
ALL = ["claim", "compute", "maintenance", "publish"]


def pause(database, *stages, paused=True, caller=None):
    return (caller or database.as_service()).value(PAUSE, stages=list(stages), paused=paused)


def test_every_stage_answers_paused_with_and_without_arguments(database, app_account, stages):
    app_account.save()
    run = stages.claim()
    pause(database, *ALL)
    assert stages.claim() == {"response": "paused"}
    for stage in (stages.compute, stages.publish):
        assert stage() == {"response": "paused"}
        assert stage(run) == {"response": "paused"}
    assert app_account.jobs("status", "attempts") == [("processing", 1)]

    pause(database, *ALL, paused=False)
    assert stages.compute(run)["response"] == "computed"
    pause(database, "publish")
    assert stages.publish(run) == {"response": "paused"}
    assert app_account.state() == (1, 0)
    pause(database, "publish", paused=False)
    assert stages.publish(run)["response"] == "published"


def test_one_stage_pauses_alone(database, app_account, stages):
    app_account.save()
    pause(database, "publish")
    run = stages.claim()
    assert stages.compute(run)["response"] == "computed"
    assert stages.publish(run) == {"response": "paused"}


def test_the_superuser_is_told_so_too(database):
    pause(database, "claim")
    assert database.admin("select public.stats_projection_claim_v1('by hand') ->> 'response'") == [
        ("paused",)
    ]


def test_saving_goes_on_while_everything_is_paused(database, app_account):
    pause(database, *ALL)
    assert app_account.save()["statsRequestedVersion"] == 1


def test_pauses_add_up_and_resuming_takes_away_only_what_is_named(database):
    assert pause(database, "claim") == ["claim"]
    assert pause(database, "publish", "claim") == ["claim", "publish"]
    assert pause(database, "claim", "compute", paused=False) == ["publish"]
    assert pause(database, paused=False) == ["publish"]


@pytest.mark.parametrize("stages", [["lunch"], ["claim", None], ["claim", "lunch"], None])
@pytest.mark.parametrize("paused", [True, False])
def test_what_is_no_stage_is_refused_and_nothing_changes(database, stages, paused):
    pause(database, "compute")
    with pytest.raises(DBAPIError) as error:
        database.as_service().value(PAUSE, stages=stages, paused=paused)
    assert error.value.orig.pgcode == "22023"
    assert "stages: must be of claim, compute, publish, maintenance" in str(error.value.orig)
    assert pause(database) == ["compute"]


def test_only_service_and_administrators_pause(database):
    user = uuid.uuid4()
    with pytest.raises(DBAPIError) as error:
        pause(database, "claim", caller=database.as_account(user))
    assert error.value.orig.pgcode == "42501"
    assert pause(database, "claim", caller=database.as_account(user, admin=True)) == ["claim"]


def test_a_pause_uses_up_no_attempts(database, app_account, stages):
    app_account.save()
    stages.claim()
    pause(database, "compute")
    for _ in range(5):
        expire_leases(database)
        assert stages.claim()["response"] in ("idle", "at_capacity")
    assert app_account.jobs("status", "attempts") == [("processing", 1)]
    pause(database, "compute", paused=False)
    assert [answer["response"] for answer in stages.drain()] == ["published"]
    assert app_account.state() == (1, 1)


def expire_leases(database):
    database.admin(
        "with declared as (select set_config('lift_guild.stats_lease_token', lease_token::text, true) as token, id"
        " from public.user_stats_projection_runs)"
        " update public.user_stats_projection_runs r set lease_until = clock_timestamp() - interval '1 s'"
        " from declared d where d.id = r.id and d.token is not null"
    )
