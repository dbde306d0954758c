"""An exhausted job waits for an operator, who gives it fresh attempts."""

from __future__ import annotations

import uuid

import pytest
from interleavings.scene import outcome, session, wait_until_blocked_or_done
from sqlalchemy.exc import DBAPIError
from support.races import DEADLINE

RESUME = "select public.stats_projection_resume_job_v1(:job)"


@pytest.fixture
def exhausted(database, app_account, stages) -> uuid.UUID:
    """The job of an account whose compute has failed three times."""
    app_account.save()
    database.admin(
        "alter table stats_private.stats_output_daily_rollups add constraint broken check (sets > 5)"
    )
    for _ in range(3):
        database.admin("update public.user_exercise_stats_refresh_jobs set retry_not_before = null")
        assert stages.compute(stages.claim())["response"] == "failed"
    [(job, status, attempts)] = app_account.jobs("id", "status", "attempts")
    assert (status, attempts) == ("failed", 3)
    return job


def mend(database):
    database.admin("alter table stats_private.stats_output_daily_rollups drop constraint broken")


def test_an_exhausted_job_is_left_alone_until_it_is_resumed(database, app_account, stages, exhausted):
    mend(database)
    assert stages.claim() == {"response": "idle"}
    assert database.as_service().value(RESUME, job=exhausted) == {
        "job_id": str(exhausted),
        "user_id": str(app_account.user_id),
        "status": "pending",
    }
    assert [answer["response"] for answer in stages.drain()] == ["published"]
    assert app_account.jobs("status", "attempts") == [("completed", 1)]


def test_a_resumed_job_has_all_its_attempts_again(database, app_account, stages, exhausted):
    database.as_service().value(RESUME, job=exhausted)
    answers = []
    for _ in range(3):
        database.admin("update public.user_exercise_stats_refresh_jobs set retry_not_before = null")
        answers.append(stages.compute(stages.claim()))
    assert [(answer["attempts"], answer["exhausted"]) for answer in answers] == [
        (1, False),
        (2, False),
        (3, True),
    ]


def test_a_new_save_takes_the_exhausted_scope_along(database, app_account, stages, exhausted):
    mend(database)
    app_account.save(session_date="2026-03-12")
    assert [answer["response"] for answer in stages.drain()] == ["published"]
    assert app_account.state() == (2, 2)


@pytest.mark.parametrize("status", ["pending", "processing", "completed"])
def test_only_an_exhausted_job_is_resumed(database, app_account, stages, status):
    app_account.save()
    if status != "pending":
        run = stages.claim()
    if status == "completed":
        stages.compute(run)
        stages.publish(run)
    [(job, found)] = app_account.jobs("id", "status")
    assert found == status
    with pytest.raises(DBAPIError) as error:
        database.as_service().value(RESUME, job=job)
    assert error.value.orig.pgcode == "55000"
    assert f"job {job} is {status}; only an exhausted job (failed) is resumed" in str(error.value.orig)


def test_a_job_that_a_claim_is_taking_is_not_resumed(database, app_account, stages, exhausted):
    """A save brings the exhausted row back into a run; it must not wait for a second one besides."""
    mend(database)
    app_account.save(session_date="2026-03-12")
    with session(database, "claim") as claim, session(database, "operator") as operator:
        claim.start("select public.stats_projection_claim_v1('test')").result(DEADLINE)
        resuming = operator.start(RESUME, job=exhausted)
        wait_until_blocked_or_done(database, operator, resuming)
        claim.commit()
        assert outcome(resuming).get("raised") == "55000"
    assert set(app_account.jobs("status")) == {("processing",)}


@pytest.mark.parametrize("job", [uuid.UUID(int=1), None])
def test_a_job_that_is_not_there(database, job):
    with pytest.raises(DBAPIError) as error:
        database.as_service().value(
            "select public.stats_projection_resume_job_v1(cast(:job as uuid))", job=job
        )
    assert error.value.orig.pgcode == "P0002"


def test_only_service_and_administrators_resume(database, app_account, exhausted):
    with pytest.raises(DBAPIError) as error:
        database.as_account(app_account.user_id).value(RESUME, job=exhausted)
    assert error.value.orig.pgcode == "42501"
    answer = database.as_account(app_account.user_id, admin=True).value(RESUME, job=exhausted)
    assert answer["status"] == "pending"
