"""Nothing that one transaction holds hides what others could have: in recovery, in the queue, behind any number."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from support.app import AppAccount

from tasks.transaction import service, transaction

from .scene import (
    OUTPUT,
    admin_session,
    assert_converges,
    change_settings,
    expire_lease,
    on_insert,
    run_row,
    undo_on_insert,
)

JOBS = "public.user_exercise_stats_refresh_jobs"
RUNS = "public.user_stats_projection_runs"


def make_pending(database, accounts):
    """Let so many accounts without any history wait for a run, since before everybody else."""
    database.admin(
        "insert into public.user_stats_refresh_state (user_id, requested_version)"
        " select gen_random_uuid(), 1 from generate_series(1, :accounts)",
        accounts=accounts,
    )
    database.admin(
        f"insert into {JOBS} (user_id, event_type, requested_version, created_at)"
        " select s.user_id, 'session_created', 1, clock_timestamp() - interval '1 hour'"
        " from public.user_stats_refresh_state s"
    )


def claim_counting_locks(database):
    """Claim as a worker does; return the answer and how many advisory locks it held at the end."""
    with transaction(database.engine, service()) as connection:
        connection.execute(text("select public.stats_projection_statement_budget_v1('claim')"))
        answer = connection.scalar(text("select public.stats_projection_claim_v1('test')"))
        locks = connection.scalar(
            text("select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'")
        )
    return answer, locks


# ---------------------------------------------------------------- recovery


@pytest.mark.parametrize("table", [JOBS, RUNS], ids=["its job", "its run"])
def test_an_expired_run_that_somebody_holds_hides_no_younger_one(database, stages, table):
    accounts = [AppAccount(database) for _ in range(2)]
    runs = []
    for account in accounts:
        account.save()
        runs.append(stages.claim())
    third = AppAccount(database)
    third.save()
    for run in runs:
        expire_lease(database, run)
    with admin_session(database, "holder") as holder:
        holder.run(f"select id from {table} where user_id = :user for update", user=accounts[0].user_id)
        revived = stages.claim()
        assert revived.get("user_id") == str(accounts[1].user_id)
        assert run_row(database, runs[1], "phase") == ("failed",)
        stages.compute(revived)
        assert stages.publish(revived)["response"] == "published"
        assert stages.claim().get("user_id") == str(third.user_id)
        assert run_row(database, runs[0], "phase") == ("claimed",)


def test_a_dead_run_that_somebody_holds_keeps_its_slot_no_longer_than_a_stage_takes(database, stages):
    change_settings(database, active_lease_cap=1, compute_budget_ms=1000, publish_budget_ms=1000)
    held, other = AppAccount(database), AppAccount(database)
    held.save()
    dead = stages.claim()
    other.save()
    let_the_lease_be_over(database, dead, "10 seconds")
    with admin_session(database, "holder") as holder:
        holder.run(f"select id from {JOBS} where user_id = :user for update", user=held.user_id)
        assert stages.claim() == {"response": "at_capacity"}, "a slow worker may be at it"
        let_the_lease_be_over(database, dead, "12 seconds")
        assert stages.claim().get("user_id") == str(other.user_id)


def let_the_lease_be_over(database, run, since):
    with database.admin_engine.begin() as connection:
        connection.execute(
            text("select set_config('lift_guild.stats_lease_token', :token, true)"),
            {"token": run["lease_token"]},
        )
        connection.execute(
            text(f"update {RUNS} set lease_until = clock_timestamp() - cast(:since as interval)"),
            {"since": since},
        )


# ---------------------------------------------------------------- the queue


@pytest.mark.parametrize("held", [55, 5000])
def test_pending_rows_that_others_hold_hide_no_account_behind_them(database, held):
    make_pending(database, held)
    with admin_session(database, "holder") as holder:
        holder.run(f"select count(*) from (select id from {JOBS} for update) j")
        free = AppAccount(database)
        free.save()
        answer, locks = claim_counting_locks(database)
    assert (answer["response"], answer.get("user_id")) == ("claimed", str(free.user_id))
    assert locks < 10


@pytest.mark.parametrize("held", [55, 5000])
def test_accounts_that_others_work_on_hide_none_behind_them(database, held):
    make_pending(database, held)
    free = AppAccount(database)
    free.save()
    with admin_session(database, "door") as door:
        door.run(
            f"select count(stats_private.try_worker_lock(j.user_id)) from {JOBS} j where j.user_id <> :free",
            free=free.user_id,
        )
        answer, locks = claim_counting_locks(database)
    assert (answer["response"], answer.get("user_id")) == ("claimed", str(free.user_id))
    assert locks < 10


def test_accounts_of_which_one_row_is_held_go_to_the_end_of_the_queue(database, stages):
    """Each costs a lock, so a call tries only so many: the next one begins behind them."""
    make_pending(database, 120)
    database.admin(
        f"insert into {JOBS} (user_id, event_type, requested_version, status, created_at)"
        f" select j.user_id, 'session_created', 0, 'failed', j.created_at from {JOBS} j"
    )
    free = AppAccount(database)
    free.save()
    answers = []
    with admin_session(database, "holder") as holder:
        holder.run(f"select count(*) from (select id from {JOBS} where status = 'failed' for update) j")
        while len(answers) < 4 and not (answers and answers[-1][0]["response"] == "claimed"):
            answers.append(claim_counting_locks(database))
    assert answers[-1][0].get("user_id") == str(free.user_id)
    assert max(locks for _, locks in answers) < 60


# ---------------------------------------------------------------- what waits is not read


def rows_read(database, table, call="public.stats_projection_claim_v1('test')"):
    with database.admin_engine.begin() as connection:
        answer = connection.scalar(text(f"select {call}"))
        read = connection.scalar(
            text(
                "select seq_tup_read + coalesce(idx_tup_fetch, 0)"
                " from pg_catalog.pg_stat_xact_user_tables where relname = :table"
            ),
            {"table": table},
        )
    return answer, read


@pytest.mark.parametrize("statistics", ["of nothing", "of the full queue"])
def test_a_claim_reads_no_job_that_waits_for_its_retry_time(database, statistics):
    make_pending(database, 5000)
    database.admin(f"update {JOBS} set retry_not_before = clock_timestamp() + interval '20 seconds'")
    free = AppAccount(database)
    free.save()
    if statistics == "of the full queue":
        database.admin("analyze")
    answer, read = rows_read(database, "user_exercise_stats_refresh_jobs")
    assert (answer["response"], answer.get("user_id")) == ("claimed", str(free.user_id))
    assert answer["has_more"] is False
    assert read < 100, f"the claim read {read} job rows"
    answer, read = rows_read(database, "user_exercise_stats_refresh_jobs")
    assert (answer["response"], read < 100) == ("idle", True), read


@pytest.mark.parametrize("statistics", ["of nothing", "of the full table"])
def test_a_claim_reads_no_run_that_waits(database, statistics):
    make_pending(database, 5000)
    database.admin(
        f"insert into {RUNS} (user_id, target_version, base_version, policy_version, anchor, lease_until,"
        " retry_not_before, busy_waits, busy_since) select j.user_id, 1, 0, 1, current_date,"
        " clock_timestamp() + interval '1 minute', clock_timestamp() + interval '20 seconds', 1, clock_timestamp()"
        f" from {JOBS} j"
    )
    database.admin(
        f"update {JOBS} j set status = 'processing', run_id = r.id from {RUNS} r where r.user_id = j.user_id"
    )
    free = AppAccount(database)
    free.save()
    if statistics == "of the full table":
        database.admin("analyze")
    answer, read = rows_read(database, "user_stats_projection_runs")
    assert answer.get("user_id") == str(free.user_id)
    assert read < 100, f"the claim read {read} runs"


def test_a_merge_still_updates_in_place(database, app_account):
    """The retry time is in the queue's index; a merge leaves it as it is."""
    app_account.exercise()
    app_account.save()
    with database.admin_engine.begin() as connection:
        for day in range(1, 6):
            connection.execute(
                text(
                    "select public.enqueue_user_exercise_stats_refresh_job("
                    ":user, cast(:day as date), '{}', 'session_updated')"
                ),
                {"user": app_account.user_id, "day": f"2026-02-0{day}"},
            )
        hot = connection.execute(
            text(
                "select n_tup_upd, n_tup_hot_upd from pg_catalog.pg_stat_xact_user_tables"
                " where relname = 'user_exercise_stats_refresh_jobs'"
            )
        ).one()
    assert tuple(hot) == (5, 5)


# ---------------------------------------------------------------- a clock that once ran ahead


@pytest.mark.parametrize("column", ["retry_not_before", "created_at"])
@pytest.mark.parametrize("saved_again", [False, True])
def test_a_time_beyond_every_wait_counts_as_over(database, app_account, stages, column, saved_again):
    app_account.save()
    database.admin(f"update {JOBS} set {column} = clock_timestamp() + interval '1 year'")
    if saved_again:
        app_account.save()
    assert stages.claim().get("user_id") == str(app_account.user_id)
    stages.compute()
    stages.publish()
    assert_converges(stages, app_account)


def test_the_longest_backoff_is_waited_for(database, app_account, stages):
    change_settings(database, max_attempts=4, retry_backoff_seconds=100)
    app_account.save()
    database.admin(f"update {JOBS} set retry_not_before = clock_timestamp() + interval '399 seconds'")
    assert stages.claim() == {"response": "idle"}
    database.admin(f"update {JOBS} set retry_not_before = clock_timestamp() + interval '420 seconds'")
    assert stages.claim()["response"] == "claimed"


def test_a_run_that_would_wait_for_a_year_comes_back(database, app_account, stages):
    app_account.save()
    run = stages.claim()
    on_insert(database, OUTPUT, "raise exception using errcode = '55P03', message = 'held';")
    assert stages.compute(run)["response"] == "busy"
    undo_on_insert(database, OUTPUT)
    database.admin(f"update {RUNS} set retry_not_before = clock_timestamp() + interval '1 year'")
    assert stages.claim().get("run_id") == run["run_id"]
    assert stages.compute(run)["response"] == "computed"


def test_a_lease_that_would_last_for_a_year_begins_anew(database, app_account, stages):
    app_account.save()
    dead = stages.claim()
    let_the_lease_be_over(database, dead, "-1 year")
    assert stages.claim()["response"] == "idle"
    assert run_row(database, dead, "lease_until < clock_timestamp() + interval '301 seconds'") == (True,)
    expire_lease(database, dead)
    run = stages.claim()
    assert run["response"] == "claimed"
    assert run["run_id"] != dead["run_id"]
    assert_converges_from(stages, run, app_account)


def assert_converges_from(stages, run, account):
    stages.compute(run)
    assert stages.publish(run)["response"] == "published"
    assert_converges(stages, account)
