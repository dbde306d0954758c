"""The lease fence: who may move a run while its lease lives, and who may not, on every path around it."""

from __future__ import annotations

import uuid

import pytest
from support.races import DEADLINE

from core.processes import wait_until

from .scene import (
    READ_MODELS,
    admin_session,
    assert_converges,
    expire_lease,
    outcome,
    picture,
    run_row,
    session,
    start_claim,
    start_compute,
    start_publish,
    wait_until_blocked_or_done,
)

REFUSED = ("55P03", "stats_projection_run_lease_fence_v1")
MOVES = {
    "phase": "update public.user_stats_projection_runs set phase = 'failed'",
    "payload": "update public.user_stats_projection_runs set payload = '{\"manifest\": {}}'",
    "token": "update public.user_stats_projection_runs set lease_token = gen_random_uuid()",
    "lease time": "update public.user_stats_projection_runs set lease_until = lease_until + interval '1 hour'",
    "delete": "delete from public.user_stats_projection_runs",
}
ALL_REFUSED = dict.fromkeys(MOVES, REFUSED)
ALL_FREE = dict.fromkeys(MOVES)
MODES = {
    "plain": (),
    "now() frozen": ("select now()",),
    "replica": ("set local session_replication_role = 'replica'",),
    "repeatable read": ("set transaction isolation level repeatable read",),
}


@pytest.fixture
def run(app_account, stages):
    app_account.save()
    return stages.claim()


def declare(session, token):
    session.run("select set_config('lift_guild.stats_lease_token', :token, true)", token=str(token))


def attempts(session):
    """Try every move and take it back; return what each raised, None where it was let through."""
    answers = {}
    for move, statement in MOVES.items():
        session.run("savepoint move")
        answer = outcome(session.start(statement))
        answers[move] = answer and (answer["raised"], answer["constraint"])
        session.run("rollback to savepoint move")
    return answers


@pytest.mark.parametrize("mode", MODES)
def test_a_repair_script_is_refused_while_the_lease_lives(database, stages, run, mode):
    before = picture(database)
    with admin_session(database, "repair") as repair:
        for statement in MODES[mode]:
            repair.run(statement)
        assert attempts(repair) == ALL_REFUSED
    assert picture(database) == before
    assert stages.compute(run)["response"] == "computed"


def test_a_token_of_another_run_opens_nothing(database, run):
    with admin_session(database, "zombie") as zombie:
        declare(zombie, uuid.uuid4())
        assert attempts(zombie) == ALL_REFUSED


def test_a_declared_token_ends_with_its_transaction(database, run):
    with admin_session(database, "repair") as repair:
        declare(repair, run["lease_token"])
        repair.commit()
        assert repair.run("select current_setting('lift_guild.stats_lease_token', true)") == ""
        assert attempts(repair) == ALL_REFUSED


def test_the_holder_of_the_token_may_move_its_run(database, run):
    with admin_session(database, "holder") as holder:
        declare(holder, run["lease_token"])
        assert attempts(holder) == ALL_FREE


@pytest.mark.parametrize("mode", MODES)
def test_a_repair_script_is_free_once_the_lease_ran_out(database, stages, run, mode):
    with admin_session(database, "repair") as repair:
        if mode == "repeatable read":
            expire_lease(database, run)  # its snapshot has to see it
        for statement in MODES[mode]:
            repair.run(statement)
        if mode != "repeatable read":
            expire_lease(database, run)
        assert attempts(repair) == ALL_FREE


def test_a_finished_run_is_free_though_its_lease_has_time_left(database, stages, run):
    stages.compute(run)
    stages.publish(run)
    assert run_row(database, run, "lease_until > clock_timestamp()") == (True,)
    with admin_session(database, "repair") as repair:
        assert attempts(repair) == ALL_FREE


def test_what_the_fence_does_not_guard_stays_open(database, run):
    with admin_session(database, "operator") as operator:
        assert (
            outcome(operator.start("update public.user_stats_projection_runs set error = 'looked at'"))
            is None
        )


# ---------------------------------------------------------------- zombies


@pytest.mark.parametrize("stage", ["compute", "publish"])
@pytest.mark.parametrize("mode", ["plain", "now() frozen"])
def test_a_zombie_whose_lease_ran_out_changes_nothing(database, app_account, stages, run, stage, mode):
    if stage == "publish":
        stages.compute(run)
    with session(database, "zombie") as zombie:
        if mode == "now() frozen":
            assert zombie.run("select now()") < run_row(database, run, "lease_until")[0]
        expire_lease(database, run)
        before = picture(database)
        answer = outcome((start_compute if stage == "compute" else start_publish)(zombie, run))
        zombie.commit()
    assert answer == {"response": "lease_lost"}
    assert picture(database) == before


@pytest.mark.parametrize("stage", ["compute", "publish"])
@pytest.mark.parametrize("mode", ["plain", "now() frozen", "replica"])
def test_a_zombie_whose_run_was_taken_over_changes_nothing(database, app_account, stages, run, stage, mode):
    if stage == "publish":
        stages.compute(run)
    with admin_session(database, "zombie") as zombie:
        for statement in MODES[mode]:
            zombie.run(statement)
        expire_lease(database, run)
        successor = stages.claim()
        before = picture(database)
        answer = outcome((start_compute if stage == "compute" else start_publish)(zombie, run))
        zombie.commit()
    assert answer["response"] in ("idle", "lease_lost")
    assert picture(database) == before
    stages.compute(successor)
    assert stages.publish(successor)["response"] == "published"
    assert_converges(stages, app_account)


@pytest.mark.parametrize("mode", MODES)
def test_a_zombies_token_opens_nothing_of_its_successor(database, app_account, stages, run, mode):
    expire_lease(database, run)
    successor = stages.claim()
    with admin_session(database, "zombie") as zombie:
        for statement in MODES[mode]:
            zombie.run(statement)
        declare(zombie, run["lease_token"])
        # The row of the zombie's own run is finished: free for everybody, and of no use to it.
        zombie.run("delete from public.user_stats_projection_runs where phase = 'failed'")
        assert attempts(zombie) == ALL_REFUSED
    assert stages.compute(successor)["response"] == "computed"


def test_a_worker_that_holds_its_run_cannot_be_taken_over_however_late_it_commits(
    database, app_account, stages, run
):
    """Write, expire, take over, commit: the row lock leaves no place for the third step."""
    stages.compute(run)
    with session(database, "worker") as worker, session(database, "claim") as claimer:
        # The lease shall be over by the time of the claim, though publish renews it: one second, and it passed.
        database.admin(
            "update public.stats_projection_worker_settings"
            " set compute_budget_ms = 500, publish_budget_ms = 500, lease_seconds = 1"
        )
        assert outcome(start_publish(worker, run))["response"] == "published"
        assert wait_until(
            lambda: worker.run(
                "select lease_until <= clock_timestamp() from public.user_stats_projection_runs"
            ),
            DEADLINE,
        )
        answer = start_claim(claimer)
        wait_until_blocked_or_done(database, claimer, answer)
        assert answer.done(), "a claim waits for nobody's run"
        assert outcome(answer) == {"response": "idle"}
        claimer.commit()
        worker.commit()
    assert run_row(database, run, "phase") == ("completed",)
    assert app_account.state() == (1, 1)
    assert_converges(stages, app_account)


def test_a_worker_about_to_lose_its_lease_renews_it_by_beginning(database, app_account, stages, run):
    with admin_session(database, "operator") as operator:
        declare(operator, run["lease_token"])
        operator.run(
            "update public.user_stats_projection_runs set lease_until = clock_timestamp() + interval '2 seconds'"
        )
        operator.commit()
    assert stages.compute(run)["response"] == "computed"
    assert run_row(database, run, "lease_until > clock_timestamp() + interval '1 minute'") == (True,)
    assert stages.claim() == {"response": "idle"}
    assert stages.publish(run)["response"] == "published"


def test_nothing_is_published_by_a_zombie_that_writes_the_outputs_itself(database, app_account, stages, run):
    expire_lease(database, run)
    successor = stages.claim()
    before = picture(database, READ_MODELS)
    with admin_session(database, "zombie") as zombie:
        declare(zombie, run["lease_token"])
        zombie.run(
            "insert into stats_private.stats_output_daily_rollups (run_id, exercise_id, day, op)"
            " values (cast(:run as uuid), 'nothing', '2026-01-01', 'd')",
            run=run["run_id"],
        )
        zombie.commit()
    assert picture(database, READ_MODELS) == before
    assert stages.compute(successor)["response"] == "computed"
    assert stages.publish(successor)["response"] == "published"
    assert_converges(stages, app_account)
