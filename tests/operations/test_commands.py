"""The operator's commands on a real database: what they print, and one clear line for what they refuse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid

import pytest
from batches.scene import Account, claim_run, set_settings
from interleavings.scene import end_waits
from operations.terminal import terminal
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool
from support.servers import password


@pytest.fixture
def exhausted(database, app_account, stages) -> uuid.UUID:
    app_account.save()
    database.admin(
        "alter table stats_private.stats_output_daily_rollups add constraint broken check (sets > 5)"
    )
    for _ in range(3):
        database.admin("update public.user_exercise_stats_refresh_jobs set retry_not_before = null")
        stages.compute(stages.claim())
    database.admin("alter table stats_private.stats_output_daily_rollups drop constraint broken")
    [(job,)] = app_account.jobs("id")
    return job


def settings(database):
    [(row,)] = database.admin("select to_jsonb(s) from public.stats_projection_worker_settings s")
    return row


def test_settings_show_lists_every_setting(database, stats_refresh):
    code, out, _ = stats_refresh("settings", "show")
    assert code == 0
    for name in settings(database).keys() - {"id"}:
        assert name in out


def test_settings_set_changes_what_is_named_and_shows_it(database, stats_refresh):
    code, out, _ = stats_refresh(
        "settings", "set", "compute_budget_ms=30000", " batch_size = 50", "paused_stages=claim,publish"
    )
    assert code == 0
    assert "compute_budget_ms" in out
    assert "30000" in out
    assert "lease_seconds" not in out
    row = settings(database)
    assert (row["compute_budget_ms"], row["batch_size"]) == (30000, 50)
    assert row["paused_stages"] == ["claim", "publish"]
    assert stats_refresh("settings", "set", "paused_stages=")[0] == 0
    assert settings(database)["paused_stages"] == []


@pytest.mark.parametrize(
    ("assignments", "line"),
    [
        (["publish_budget_ms=9000"], "publish_budget_ms: must stay below 8000, the deadline of a save"),
        (["batch_size=5", "lunch=1"], "lunch: is not a setting"),
        (["batch_size=five"], "batch_size: must be a whole number from 1 to 100"),
        (["batch_size=2.5"], "batch_size: must be a whole number from 1 to 100"),
        (["batch_size"], "batch_size: write NAME=VALUE, such as compute_budget_ms=30000"),
        (["batch_size="], "batch_size=: write NAME=VALUE, such as compute_budget_ms=30000"),
        (["=5"], "=5: write NAME=VALUE, such as compute_budget_ms=30000"),
        (["batch_size=5", "batch_size=6"], "batch_size: is given twice"),
        (["paused_stages=lunch"], "paused_stages: must be of claim, compute, publish, maintenance"),
    ],
)
def test_a_setting_that_breaks_a_rule_is_one_line_and_changes_nothing(
    database, stats_refresh, assignments, line
):
    before = settings(database)
    assert stats_refresh("settings", "set", *assignments) == (1, "", f"stats-refresh: {line}\n")
    assert settings(database) == before


def test_pause_and_resume_one_stage_or_all(database, stats_refresh, stages):
    assert stats_refresh("pause", "publish") == (0, "paused stages: publish\n", "")
    assert stats_refresh("pause", "all") == (0, "paused stages: claim, compute, maintenance, publish\n", "")
    assert stages.claim() == {"response": "paused"}
    assert stats_refresh("resume", "claim") == (0, "paused stages: compute, maintenance, publish\n", "")
    assert stages.claim() == {"response": "idle"}
    assert stats_refresh("resume", "all") == (0, "paused stages: none\n", "")


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_what_is_no_stage_is_one_line(stats_refresh, command):
    assert stats_refresh(command, "lunch") == (
        1,
        "",
        "stats-refresh: lunch: is not a stage; name claim, compute, publish, maintenance or all\n",
    )


def test_no_jobs(stats_refresh):
    assert stats_refresh("jobs", "list") == (0, "no open jobs\n", "")
    assert stats_refresh("jobs", "list", "--status", "failed") == (0, "no failed jobs\n", "")


def test_jobs_list_shows_whole_ids_states_and_errors(database, app_account, stats_refresh, exhausted):
    code, out, _ = stats_refresh("jobs", "list", "--status", "failed")
    assert code == 0
    for shown in (str(exhausted), str(app_account.user_id), "failed", "session_created", "broken"):
        assert shown in out
    assert stats_refresh("jobs", "list", "--status", "pending")[1] == "no pending jobs\n"
    assert str(exhausted) in stats_refresh("jobs", "list")[1]


def test_an_error_that_looks_like_markup_is_shown_as_it_is(database, stats_refresh, exhausted):
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set error_message = '[red]boom[/] [/nothing]'"
    )
    assert "[red]boom[/] [/nothing]" in stats_refresh("jobs", "list")[1]


def fail_in(database, stages, stage, problem):
    """Let a run fail at `stage`, with what the trigger function's body `problem` raises."""
    table = {
        "compute": "stats_private.stats_output_daily_rollups",
        "publish": "public.user_exercise_daily_rollups",
    }[stage]
    database.admin(
        "create function stats_private.problem() returns trigger language plpgsql as"
        f" $$ begin {problem}; return new; end $$"
    )
    database.admin(
        f"create trigger problem before insert on {table} for each row execute function stats_private.problem()"
    )
    run = stages.claim()
    answer = stages.compute(run)
    return stages.publish(run) if stage == "publish" else answer


def job_row(stats_refresh):
    """Return the one job that `jobs list` prints, by heading."""
    headings, row = (re.split(" {2,}", line) for line in stats_refresh("jobs", "list")[1].splitlines())
    return dict(zip(headings, row, strict=True))


@pytest.mark.parametrize("stage", ["compute", "publish"])
def test_jobs_list_names_the_stage_that_failed_and_the_budget_that_it_ran_over(
    database, app_account, stages, stats_refresh, stage
):
    app_account.save()
    timeout = (
        "raise exception using errcode = '57014', message = 'canceling statement due to statement timeout'"
    )
    assert fail_in(database, stages, stage, timeout)["response"] == "failed"
    shown = job_row(stats_refresh)
    assert shown["failed in"] == stage
    assert shown["last error"] == f"canceling statement due to statement timeout (over {stage}_budget_ms)"
    assert shown["retry in"] != "-"


@pytest.mark.parametrize("stage", ["compute", "publish"])
def test_a_wait_for_a_lock_is_told_from_an_error_of_the_work(
    database, app_account, stages, stats_refresh, stage
):
    app_account.save()
    waited = "raise exception using errcode = '55P03', message = 'canceling statement due to lock timeout'"
    assert fail_in(database, stages, stage, waited)["response"] == "busy"
    assert job_row(stats_refresh)["last error"].endswith(f"lock timeout (over half of {stage}_budget_ms)")
    database.admin(
        "create or replace function stats_private.problem() returns trigger language plpgsql as"
        " $$ begin raise 'out of plates'; end $$"
    )
    end_waits(database)
    run = stages.claim()
    assert (stages.publish(run) if stage == "publish" else stages.compute(run))["response"] == "failed"
    shown = job_row(stats_refresh)
    assert (shown["failed in"], shown["last error"], shown["attempts"]) == (stage, "out of plates", "1")


def test_a_batch_that_is_tried_again_shows_the_error_of_its_run(database, stats_refresh):
    set_settings(database, batch_size=2)
    Account(database, 3)
    run = claim_run(database)
    run.steps(1)
    database.admin(
        "create function stats_private.problem() returns trigger language plpgsql as $$ begin raise exception"
        " using errcode = '57014', message = 'canceling statement due to statement timeout'; end $$"
    )
    database.admin(
        "create trigger problem before insert on stats_private.stats_output_daily_rollups"
        " for each row execute function stats_private.problem()"
    )
    assert run.step()["response"] == "retry_pending"
    shown = job_row(stats_refresh)
    assert (shown["status"], shown["failed in"]) == ("processing", "compute")
    assert shown["last error"].startswith("57014: canceling statement due to statement timeout")
    assert shown["last error"].endswith("(over compute_budget_ms)")
    assert shown["retry in"] != "-"


def test_a_job_that_never_failed_shows_neither_stage_nor_error(app_account, stats_refresh):
    app_account.save()
    shown = job_row(stats_refresh)
    assert (shown["failed in"], shown["last error"], shown["retry in"]) == ("-", "-", "-")


def test_the_stage_goes_with_its_run_the_error_stays(database, stats_refresh, exhausted):
    """Ended runs are kept for a week, an exhausted job until somebody resumes it."""
    database.admin("delete from public.user_stats_projection_runs")
    shown = job_row(stats_refresh)
    assert shown["failed in"] == "-"
    assert "broken" in shown["last error"]


def test_jobs_list_in_a_pipe_is_one_whole_line_a_job(database, app_account, stats_refresh, exhausted):
    error = " ".join(f"word{number}" for number in range(200))
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set error_message = :error", error=error + "\n!"
    )
    _, line = stats_refresh("jobs", "list")[1].splitlines()
    assert line.startswith(f"{exhausted}  {app_account.user_id}  failed ")
    assert line.endswith(f" {error}\\n!")


def test_jobs_list_fits_a_terminal_of_80_columns(database, app_account, exhausted):
    with terminal("jobs", "list", columns=80, STATS_REFRESH_DATABASE_URL=database.url) as opened:
        lines = opened.finish()
    assert max(map(len, lines)) <= 80
    assert f"{exhausted}  {app_account.user_id}" in lines
    shown = " ".join(" ".join(lines).split())
    assert 'violates check constraint "broken"' in shown


def test_jobs_list_names_how_many_it_does_not_show(database, stats_refresh):
    database.admin(
        "insert into public.user_exercise_stats_refresh_jobs (user_id, event_type, requested_version)"
        " select gen_random_uuid(), 'manual_refresh', 1 from generate_series(1, 53)"
    )
    assert stats_refresh("jobs", "list")[1].endswith("3 more are not shown\n")


def test_an_unknown_status_is_refused(stats_refresh):
    code, _, err = stats_refresh("jobs", "list", "--status", "lost")
    assert code == 2
    assert "'pending', 'processing', 'failed'" in re.sub(r"[\s│]+", " ", err)


def test_a_job_is_resumed_and_drains(app_account, stages, stats_refresh, exhausted):
    code, out, _ = stats_refresh("jobs", "resume", str(exhausted))
    assert (code, out) == (0, f"job {exhausted} of account {app_account.user_id} is pending again\n")
    assert [answer["response"] for answer in stages.drain()] == ["published"]


def test_a_job_that_can_not_be_resumed_is_one_line(app_account, stats_refresh):
    app_account.save()
    [(job,)] = app_account.jobs("id")
    assert stats_refresh("jobs", "resume", str(job)) == (
        1,
        "",
        f"stats-refresh: job {job} is pending; only an exhausted job (failed) is resumed\n",
    )
    nobody = uuid.UUID(int=7)
    assert stats_refresh("jobs", "resume", str(nobody))[2] == (
        f"stats-refresh: job_id: there is no job {nobody}\n"
    )
    assert stats_refresh("jobs", "resume", "seven")[0] == 2


def test_a_login_that_may_not_is_one_line(database, postgres_server, stats_refresh):
    role = "stats_refresh_visitor"
    with create_engine(database.admin_url, poolclass=NullPool).begin() as connection:
        connection.execute(text(f"create role {role} login {password(postgres_server)}"))
    try:
        url = make_url(database.url).set(username=role).render_as_string(hide_password=False)
        code, _, err = stats_refresh("pause", "all", url=url)
    finally:
        database.admin(f"drop role {role}")
    assert code == 1
    assert err == (
        'stats-refresh: permission denied to set role "service_role": grant service_role,'
        " authenticated, anon to the login in STATS_REFRESH_DATABASE_URL\n"
    )


def test_a_database_that_was_never_migrated_is_one_line(database, stats_refresh):
    url = make_url(database.admin_url).set(database="postgres").render_as_string(hide_password=False)
    code, _, err = stats_refresh("settings", "show", url=url)
    assert code == 1
    assert err.startswith("stats-refresh: the database is not at this release (")
    assert err.endswith("): run stats-refresh migrate\n")


def test_a_server_that_does_not_answer_is_one_line(stats_refresh):
    code, _, err = stats_refresh("pause", "all", url="postgresql://nobody@127.0.0.1:1/nothing")
    assert code == 1
    assert err.startswith("stats-refresh: Postgres does not answer")
    assert err.count("\n") == 1


def test_status_as_json_is_the_functions_answer(stats_refresh):
    status = json.loads(stats_refresh("status", "--json")[1])
    assert status.keys() >= {"jobs", "leases", "last_hour", "accounts", "paused_stages", "settings"}


def test_the_installed_command_reads_the_url_from_the_environment(database):
    environment = {**os.environ, "STATS_REFRESH_DATABASE_URL": database.url}
    shown = subprocess.run(
        [sys.executable, "-m", "ops.cli", "pause", "compute"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (shown.returncode, shown.stdout) == (0, "paused stages: compute\n")
