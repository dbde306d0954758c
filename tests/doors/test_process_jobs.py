"""The maintenance door: one account a call, and nobody waits for anybody."""

from __future__ import annotations

import json

import pytest
from interleavings.scene import (
    OUTPUT,
    admin_session,
    change_settings,
    expire_lease,
    gate,
    on_insert,
    outcome,
    session,
    undo_on_insert,
)
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount
from support.races import DEADLINE, wait_until_blocked

from core.processes import wait_until
from doors.scene import (
    COUNTS,
    GLOBAL,
    SCOPED,
    assert_equals_reckoning,
    call,
    counts,
    gate_of,
    hold,
    process,
)
from tasks.transaction import account

KEYS = {*COUNTS, "has_more", "remaining_user_count", "global_worker_busy", "results"}


@pytest.fixture
def saved(database):
    """Make accounts that wait, the first one longest."""

    def make(number):
        accounts = [AppAccount(database) for _ in range(number)]
        for one in accounts:
            one.save()
        return accounts

    return make


def end_of(database, door):
    """Tell whether the session is gone."""
    return not database.admin("select 1 from pg_stat_activity where pid = :pid", pid=door.pid)


def looped(database, **arguments):
    """Call the door as long as it says that there is more; return all answers."""
    answers = [process(database, **arguments)]
    while answers[-1]["has_more"]:
        assert len(answers) < 20, "the loop on has_more does not end"
        answers.append(process(database, **arguments))
    return answers


# ---------------------------------------------------------------- the answer


def test_an_empty_queue_is_answered_with_nothing_done(database):
    assert process(database) == {
        "processed_count": 0,
        "completed_count": 0,
        "failed_count": 0,
        "deferred_count": 0,
        "results": [],
        "has_more": False,
        "remaining_user_count": 0,
        "global_worker_busy": False,
    }


def test_one_call_publishes_one_account_the_one_that_waits_longest(database, saved):
    first, second, third = saved(3)
    answer = process(database, lock_owner="the caller")
    assert answer.keys() == KEYS
    assert counts(answer) == (1, 1, 0, 0)
    assert (answer["has_more"], answer["remaining_user_count"]) == (True, 2)
    [result] = answer["results"]
    assert result["user_id"] == str(first.user_id)
    assert (result["outcome"], result["response"], result["generation"]) == ("completed", "published", 1)
    assert "lease_token" not in result
    assert [one.state() for one in (first, second, third)] == [(1, 1), (1, 0), (1, 0)]
    assert first.jobs("status", "lock_owner", "attempts") == [("completed", "the caller", 1)]
    assert_equals_reckoning(database, first.user_id)


def test_a_loop_on_has_more_takes_all_and_ends(database, saved):
    accounts = saved(3)
    answers = looped(database)
    assert [answer["has_more"] for answer in answers] == [True, True, False]
    assert [answer["remaining_user_count"] for answer in answers] == [2, 1, 0]
    assert [one.state() for one in accounts] == [(1, 1)] * 3


@pytest.mark.parametrize(("limit", "taken"), [(-5, 0), (0, 0), (1, 1), (1000, 1), (None, 1)])
def test_the_limit_is_taken_as_0_to_100(database, saved, limit, taken):
    saved(2)
    answer = process(database, limit=limit)
    assert counts(answer) == (taken, taken, 0, 0)
    assert answer["has_more"] is bool(taken)
    assert answer["remaining_user_count"] == 2 - taken


def test_the_limit_is_how_many_of_the_oldest_it_looks_at(database, saved):
    held, free = saved(2)
    with admin_session(database) as holder:
        hold(holder, "job row", held.user_id)
        assert counts(process(database, limit=1)) == (0, 0, 0, 0)
        answer = process(database, limit=2)
    assert counts(answer) == (1, 1, 0, 0)
    assert answer["results"][0]["user_id"] == str(free.user_id)


def test_a_name_too_long_is_refused(database):
    with pytest.raises(DBAPIError, match="lock_owner: must have at most 200 characters") as error:
        process(database, lock_owner="x" * 201)
    assert error.value.orig.pgcode == "22023"


# ---------------------------------------------------------------- who may


def test_an_administrator_may_and_others_may_not(database, saved):
    [one] = saved(1)
    statement = GLOBAL.format("")
    for forbidden in (
        lambda: database.as_account(one.user_id).value(statement),
        lambda: database.admin(f"set local role anon; {statement}"),
    ):
        with pytest.raises(DBAPIError) as error:
            forbidden()
        assert error.value.orig.pgcode == "42501"
    assert one.state() == (1, 0)
    assert counts(database.as_account(AppAccount(database).user_id, admin=True).value(statement)) == (
        1,
        1,
        0,
        0,
    )


@pytest.mark.parametrize("door", [GLOBAL.format(""), SCOPED.format("gen_random_uuid()")])
def test_above_read_committed_a_door_is_refused(database, door):
    with admin_session(database) as late:
        late.run("set transaction isolation level repeatable read")
        late.run("""select set_config('request.jwt.claims', '{"role": "service_role"}', true)""")
        assert outcome(late.start(door)).get("raised") == "25000"


# ---------------------------------------------------------------- others at work


def test_an_overlapping_call_does_nothing_and_says_so(database, saved):
    first, second = saved(2)
    with gate(database, OUTPUT) as keeper, session(database, "one") as one:
        running = one.start(call(GLOBAL, {}))
        wait_until_blocked(database, one, keeper)
        with session(database, "two") as two:
            # A door that went on would wait at the gate.
            two.run("set local lock_timeout = '2s'")
            answer = two.run(call(GLOBAL, {}))
            two.commit()
        assert counts(answer) == (0, 0, 0, 0)
        assert (answer["global_worker_busy"], answer["has_more"]) == (True, False)
        assert answer["remaining_user_count"] == 2
        keeper.rollback()
        assert counts(outcome(running)) == (1, 1, 0, 0)
        one.commit()
    assert (first.state(), second.state()) == ((1, 1), (1, 0))


def test_nothing_of_one_account_waits_for_another(database, stages, saved):
    """While the door computes the first account, the second is saved, claimed, computed and published."""
    first, second = saved(2)
    with session(database, "door") as door, gate_of(database, door) as keeper:
        running = door.start(call(GLOBAL, {}))
        wait_until_blocked(database, door, keeper)
        assert second.save()["statsRequestedVersion"] == 2
        run = stages.claim()
        assert run["user_id"] == str(second.user_id)
        assert stages.claim()["response"] == "idle", "the account that the door computes is left to it"
        stages.compute(run)
        assert stages.publish(run)["generation"] == 2
        assert first.save()["statsRequestedVersion"] == 2, "a save of the same account does not wait either"
        keeper.rollback()
        assert counts(outcome(running)) == (1, 1, 0, 0)
        door.commit()
    assert (first.state(), second.state()) == ((2, 1), (2, 2))


@pytest.mark.parametrize("what", ["job row", "worker"])
def test_an_account_that_somebody_holds_is_passed_by_and_nothing_of_it_stays_held(
    database, stages, saved, what
):
    """Its worker lock is given back at once: a claim takes it while the door computes another account."""
    held, free = saved(2)
    with (
        admin_session(database) as holder,
        session(database, "door") as door,
        gate_of(database, door) as keeper,
    ):
        hold(holder, what, held.user_id)
        running = door.start(call(GLOBAL, {}))
        wait_until_blocked(database, door, keeper)
        holder.rollback()
        assert stages.claim().get("user_id") == str(held.user_id)
        keeper.rollback()
        answer = outcome(running)
        door.commit()
    assert answer["results"][0]["user_id"] == str(free.user_id)


def test_of_a_thousand_it_looks_at_a_hundred(database, saved):
    first, *_ = accounts = saved(101)
    with admin_session(database) as holder:
        holder.run(
            "select count(*) from (select from public.user_exercise_stats_refresh_jobs"
            " where user_id <> :last for update) held",
            last=accounts[-1].user_id,
        )
        assert counts(process(database, limit=1000)) == (0, 0, 0, 0)
    answer = process(database, limit=1000)
    assert answer["results"][0]["user_id"] == str(first.user_id)
    assert answer["remaining_user_count"] == 100


def test_what_others_hold_is_not_more(database, saved):
    free, held = saved(2)
    with admin_session(database) as holder:
        hold(holder, "job row", held.user_id)
        answers = looped(database)
        assert [answer["has_more"] for answer in answers] == [False]
        assert answers[0]["remaining_user_count"] == 1
    assert [one.state() for one in (free, held)] == [(1, 1), (1, 0)]
    assert counts(process(database)) == (1, 1, 0, 0)


def test_the_look_for_more_leaves_nothing_behind(database, stages, saved):
    first, second = saved(2)
    assert process(database)["has_more"]
    assert second.jobs("status", "attempts", "run_id") == [("pending", 0, None)]
    assert database.admin("select user_id from public.user_stats_projection_runs") == [(first.user_id,)]


def test_a_live_lease_is_left_to_its_holder(database, stages, saved):
    leased, free = saved(2)
    run = stages.claim()
    assert run["user_id"] == str(leased.user_id)
    leased.save()
    answers = looped(database)
    assert [result["user_id"] for answer in answers for result in answer["results"]] == [str(free.user_id)]
    expire_lease(database, run)
    assert counts(process(database)) == (0, 0, 0, 0), "the claim recovers it, under its own lock"


def test_what_backs_off_waits(database, saved):
    [one] = saved(1)
    on_insert(database, OUTPUT, "raise exception 'planted';")
    answer = process(database)
    assert counts(answer) == (1, 0, 1, 0)
    assert answer["results"][0]["sqlstate"] == "P0001"
    assert (answer["has_more"], answer["remaining_user_count"]) == (False, 1)
    assert counts(process(database)) == (0, 0, 0, 0)
    assert one.jobs("status", "attempts") == [("pending", 1)]


def test_a_failed_job_returns_to_pending_twice_and_is_kept_then(database, saved):
    [one] = saved(1)
    on_insert(database, OUTPUT, "raise exception 'planted';")
    for attempt, status in ((1, "pending"), (2, "pending"), (3, "failed")):
        assert counts(process(database)) == (1, 0, 1, 0)
        assert one.jobs("status", "attempts", "metadata #>> '{last_error,message}'") == [
            (status, attempt, "planted")
        ]
        database.admin("update public.user_exercise_stats_refresh_jobs set retry_not_before = null")
    undo_on_insert(database, OUTPUT)
    assert counts(process(database)) == (0, 0, 0, 0)


def test_paused_stages_are_left_alone(database, saved):
    [one] = saved(1)
    for stage in ("claim", "compute", "publish"):
        pause = "select public.pause_stats_stages_v1(array[:stage], :paused)"
        database.as_service()(pause, stage=stage, paused=True)
        answer = process(database)
        assert (counts(answer), answer["has_more"]) == ((0, 0, 0, 0), False)
        database.as_service()(pause, stage=stage, paused=False)
    assert one.jobs("status", "attempts") == [("pending", 0)]


def test_an_account_in_batches_is_deferred_never_validated_and_goes_on_with_the_workers(database, stages):
    change_settings(database, batch_size=2)
    many = AppAccount(database)
    many.save(*(many.block(f"exercise {number}", (100, 5)) for number in range(5)))
    answer = process(database, validate_integrity=True)
    assert counts(answer) == (1, 0, 0, 1)
    assert answer["results"][0].get("reason") == "batches"
    assert answer["has_more"] is False
    assert many.state() == (1, 0)
    while stages.compute()["response"] == "batch_pending":
        pass
    assert stages.publish()["response"] == "published"
    assert_equals_reckoning(database, many.user_id)


def test_a_writer_that_holds_the_account_lets_the_run_wait(database, saved):
    [one] = saved(1)
    payload = one.payload()
    with session(database, "writer", account(one.user_id)) as writer, session(database, "door") as door:
        writer.run("select public.save_session_v5(cast(:payload as jsonb))", payload=json.dumps(payload))
        door.run("set local lock_timeout = '50ms'")
        answer = door.run(call(GLOBAL, {}))
        door.commit()
    # The writer held the job's row as well, so nothing could be taken.
    assert counts(answer) == (0, 0, 0, 0)
    with admin_session(database) as holder, session(database, "door") as door:
        hold(holder, "write", one.user_id)
        door.run("set local lock_timeout = '50ms'")
        answer = door.run(call(GLOBAL, {}))
        door.commit()
    assert counts(answer) == (1, 0, 0, 1)
    assert answer["results"][0]["response"] == "busy"
    assert one.jobs("status", "attempts") == [("processing", 1)]


def test_it_holds_write_only_to_publish(database, saved):
    """A save commits while the door computes; its own generation waits for the next call."""
    [one] = saved(1)
    with session(database, "door") as door, gate_of(database, door) as keeper:
        running = door.start(call(GLOBAL, {"validate_integrity": True}), validate_integrity=True)
        wait_until_blocked(database, door, keeper)
        one.save()
        keeper.rollback()
        answer = outcome(running)
        door.commit()
    assert counts(answer) == (1, 0, 0, 1)
    assert (answer["results"][0]["reason"], answer["results"][0]["generation"]) == ("newer_request", 1)
    assert one.state() == (2, 1)
    assert database.admin("select last_value from public.computations") == [(1,)], "nothing was compared"


# ---------------------------------------------------------------- integrity


def test_a_publication_that_equals_a_rebuild_is_completed(database, saved):
    saved(1)
    assert counts(process(database, validate_integrity=True)) == (1, 1, 0, 0)


def test_a_publication_that_differs_is_taken_back_and_the_job_says_where(database, stages, saved):
    [one] = saved(1)
    stages.drain()
    database.admin(
        "update public.user_exercise_daily_rollups set volume_kg = volume_kg + 1 where user_id = :u",
        u=one.user_id,
    )
    before = database.admin("select * from public.user_exercise_daily_rollups")
    one.save(one.block("Row", (50, 5)), session_date="2026-03-11")
    answer = process(database, validate_integrity=True)
    assert counts(answer) == (1, 0, 1, 0)
    [result] = answer["results"]
    assert (result["response"], result["reason"], result["sqlstate"]) == ("failed", "integrity", "XX001")
    assert one.state() == (2, 1)
    assert database.admin("select * from public.user_exercise_daily_rollups") == before
    [(status, attempts, integrity)] = one.jobs("status", "attempts", "metadata -> 'integrity'")[1:]
    assert (status, attempts, integrity["generation"]) == ("pending", 1, 2)
    assert "daily_rollups" in {one["read_model"] for one in integrity["differences"]}
    assert database.admin("select 1 from stats_private.stats_output_daily_rollups") == []


def test_what_is_not_compared_is_published_as_it_is(database, stages, saved):
    [one] = saved(1)
    stages.drain()
    database.admin("update public.user_exercise_daily_rollups set volume_kg = volume_kg + 1")
    one.save(one.block("Row", (50, 5)), session_date="2026-03-11")
    assert counts(process(database)) == (1, 1, 0, 0)
    assert one.state() == (2, 2)


@pytest.mark.parametrize("computation", [1, 2])
def test_a_policy_that_changes_meanwhile_makes_a_comparison_meaningless(database, saved, computation):
    """Before the publication, and while it is compared: what is published is right under the policy that was."""
    [one] = saved(1)
    with session(database, "door") as door, gate_of(database, door, computation) as keeper:
        running = door.start(call(GLOBAL, {"validate_integrity": True}), validate_integrity=True)
        wait_until_blocked(database, door, keeper)
        database.as_service()("select public.update_stats_projection_policy_v1('epley')")
        keeper.rollback()
        answer = outcome(running)
        door.commit()
    assert counts(answer) == (1, 0, 0, 1)
    assert answer["results"][0]["reason"] == "newer_request"
    assert one.state() == (1, 1)


def test_a_comparison_is_under_the_write_lock_that_published(database, saved):
    """So a save waits for it, and nothing is compared with what came later."""
    [one] = saved(1)
    payload = one.payload()
    with (
        session(database, "writer", account(one.user_id)) as writer,
        session(database, "door") as door,
        gate_of(database, door, 2) as keeper,
    ):
        running = door.start(call(GLOBAL, {"validate_integrity": True}), validate_integrity=True)
        wait_until_blocked(database, door, keeper)
        saving = writer.start(
            "select public.save_session_v5(cast(:payload as jsonb))", payload=json.dumps(payload)
        )
        wait_until_blocked(database, writer, door)
        keeper.rollback()
        assert counts(outcome(running)) == (1, 1, 0, 0)
        door.commit()
        assert outcome(saving)["statsRequestedVersion"] == 2
        writer.commit()
    assert one.state() == (2, 1)


# ---------------------------------------------------------------- how a call ends early


@pytest.mark.parametrize(("end", "raised"), [("pg_cancel_backend", "57014"), ("pg_terminate_backend", None)])
@pytest.mark.parametrize("computation", [1, 2])
def test_a_call_that_somebody_ends_leaves_the_account_as_it_was(database, saved, end, raised, computation):
    """In the computation, and after the publication in the comparison."""
    [one] = saved(1)
    with session(database, "door") as door, gate_of(database, door, computation) as keeper:
        running = door.start(call(GLOBAL, {"validate_integrity": True}), validate_integrity=True)
        wait_until_blocked(database, door, keeper)
        database.admin(f"select {end}(:pid)", pid=door.pid)
        assert outcome(running).get("raised", "nothing") == raised
        # A session that is ended gives its locks back last of all.
        assert wait_until(lambda: end_of(database, door) or end == "pg_cancel_backend", DEADLINE)
    assert one.state() == (1, 0)
    assert one.jobs("status", "attempts", "run_id") == [("pending", 0, None)]
    undo_on_insert(database, OUTPUT)
    assert counts(process(database)) == (1, 1, 0, 0)


def test_a_statement_timeout_of_the_maintenance_door_is_a_failed_attempt(database, saved):
    [one] = saved(1)
    with session(database, "door") as door, gate_of(database, door):
        door.run("set local statement_timeout = '500ms'")
        answer = door.run(call(GLOBAL, {}))
        door.commit()
    assert counts(answer) == (1, 0, 1, 0)
    assert answer["results"][0]["sqlstate"] == "57014"
    assert one.jobs("status", "attempts") == [("pending", 1)]
