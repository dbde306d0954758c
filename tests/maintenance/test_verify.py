"""`stats-refresh verify`: says what differs, and its exit code says whether anything does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from interleavings.scene import on_insert

from maintenance.damage import READ_MODELS, alter, remove, remove_all
from maintenance.scene import exhaust, published_accounts
from ops.verify import LeftOut, verify_account

ROOT = Path(__file__).resolve().parents[2]
JOBS = "public.user_exercise_stats_refresh_jobs"


def run_verify(database, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "ops.cli", "verify", *arguments],
        env=os.environ | {"STATS_REFRESH_DATABASE_URL": database.url, "COLUMNS": "200"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def accounts(database):
    return published_accounts(database, 3)


@pytest.mark.parametrize("table", READ_MODELS, ids=[name.partition(".")[2] for name in READ_MODELS])
def test_damage_of_every_read_model_is_named(database, accounts, table):
    healthy, damaged, _ = accounts
    alter(database, table, damaged)

    assert verify_account(database.url, healthy.user_id).findings == ()
    verified = verify_account(database.url, damaged.user_id)
    assert verified.findings
    assert {finding.user_id for finding in verified.findings} == {damaged.user_id}


def test_a_missing_header_and_an_orphan_snapshot_are_named(database, accounts):
    missing, orphan, no_state = accounts
    remove(database, "public.user_pr_overview_snapshot_headers", missing)
    database.admin(
        "insert into public.user_pr_exercise_summary_snapshots"
        " (user_id, as_of_date, exercise_id, sessions_30d, records_30d) values (:user, '2020-01-01', 'x', 0, 0)",
        user=orphan.user_id,
    )
    database.admin("delete from public.user_stats_refresh_state where user_id = :user", user=no_state.user_id)

    assert {finding.what for finding in verify_account(database.url, missing.user_id).findings} == {
        "headers",
        "orphan snapshots",
    }
    [*_, last] = verify_account(database.url, orphan.user_id).findings
    assert (last.what, last.detail) == ("orphan snapshots", "2020-01-01 (1 rows)")
    assert "orphan snapshots" in {f.what for f in verify_account(database.url, no_state.user_id).findings}


@pytest.fixture
def left_out(database, accounts, stages):
    """Bring accounts[0] into a state in which it can't be compared, by its reason."""

    def bring(reason):
        if reason in ("pending", "in flight", "exhausted", "no job"):
            accounts[0].save()
        match reason:
            case "in flight":
                stages.claim()
            case "exhausted":
                exhaust(database, accounts[0])
            case "no job":
                database.admin(f"delete from {JOBS} where user_id = :user", user=accounts[0].user_id)
            case "policy":
                database.as_service()("select public.update_stats_projection_policy_v1('epley')")
            case "busy":
                # Whatever a comparison computes, the account has been published anew meanwhile.
                remove_all(database, "public.user_exercise_records", accounts[0])
                on_insert(
                    database,
                    "stats_private.stats_output_records",
                    "update public.user_stats_refresh_state s set requested_version = requested_version + 1,"
                    " applied_version = applied_version + 1 where s.applied_version = s.requested_version;",
                )

    return bring


WORDS = {
    "pending": "the job waits to be claimed; `stats-refresh status` says what holds it up",
    "in flight": "a run is at work; verify again once it has ended",
    "exhausted": "the job has used up its attempts; `stats-refresh jobs list --status failed` says why",
    "no job": "no job stands for them; public.refresh_stats_now_v1(user_id) asks for one",
    "policy": "the changed policy has not come this far",
    "busy": "something was published during each of 5 comparisons; verify again",
}


@pytest.mark.parametrize("reason", WORDS)
def test_a_named_account_that_cannot_be_compared_is_no_success(database, accounts, left_out, reason):
    left_out(reason)
    user = accounts[0].user_id
    remove_all(database, "public.user_exercise_daily_rollups", accounts[0])

    verified = verify_account(database.url, user)
    assert (verified.left_out and verified.left_out.reason, verified.findings) == (reason, ())

    ran = run_verify(database, "--user", str(user))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"stats-refresh: account {user} was not compared: ")
    assert WORDS[reason] in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_the_exhausted_job_is_named_and_a_new_save_makes_the_account_pending(database, accounts, left_out):
    left_out("exhausted")
    [(job,)] = database.admin(f"select id from {JOBS} where status = 'failed'")
    ran = run_verify(database, "--user", str(accounts[0].user_id))
    assert f"`stats-refresh jobs resume {job}` tries again" in ran.stderr

    accounts[0].save()
    assert verify_account(database.url, accounts[0].user_id).left_out == LeftOut("pending")


def test_the_refresh_that_is_advised_mends_an_account_without_a_job(database, accounts, left_out):
    left_out("no job")
    user = accounts[0].user_id
    refreshed = database.as_service().value("select public.refresh_stats_now_v1(:user)", user=user)
    assert refreshed["response"] == "published"
    assert verify_account(database.url, user).left_out is None


def test_accounts_that_are_left_out_of_many_are_counted_by_reason(database, accounts, left_out, stages):
    left_out("exhausted")
    accounts[1].save()
    for arguments in ([], ["--sample", "3"]):
        ran = run_verify(database, *arguments)
        assert ran.returncode == 0
        first, *others = ran.stdout.splitlines()
        assert first == "1 accounts compared, 0 differ, 2 left out"
        assert sorted(line.partition(";")[0] for line in others) == [
            "  1 left out: the job has used up its attempts",
            "  1 left out: the job waits to be claimed",
        ]
        assert "jobs resume JOB_ID" in ran.stdout

    accounts[2].save()
    ran = run_verify(database)
    assert ran.returncode == 2
    assert ran.stdout.startswith("0 accounts compared, 0 differ, 3 left out\n")
    assert ran.stderr.endswith("no account could be compared; the reasons are above\n")


def test_a_database_without_accounts_is_a_success(database):
    ran = run_verify(database)
    assert (ran.returncode, ran.stdout) == (0, "0 accounts compared, 0 differ, 0 left out\n")


def test_the_command_says_what_differs_in_a_table_and_in_its_exit_code(database, accounts):
    ran = run_verify(database)
    assert (ran.returncode, ran.stdout) == (0, "3 accounts compared, 0 differ, 0 left out\n")

    accounts[0].save()
    alter(database, "public.user_exercise_records", accounts[2])
    ran = run_verify(database)
    assert ran.returncode == 1
    assert f"{accounts[2].user_id}" in ran.stdout
    assert "0 rows missing, 1 wrong, 0 too many" in ran.stdout
    assert "2 accounts compared, 1 differ, 1 left out" in ran.stdout

    assert run_verify(database, "--user", str(accounts[1].user_id)).returncode == 0
    assert run_verify(database, "--user", str(accounts[2].user_id)).returncode == 1
    assert "1 accounts compared" in run_verify(database, "--user", str(accounts[1].user_id)).stdout
    assert run_verify(database, "--sample", "3").returncode == 1
    # The first account waits, so of one by chance either it is compared or it is left out.
    sampled = run_verify(database, "--sample", "1").stdout
    assert re.search(
        "1 accounts compared, . differ, 0 left out|0 accounts compared, 0 differ, 1 left out", sampled
    ), sampled


def test_help_explains_the_exit_codes():
    shown = subprocess.run(
        [sys.executable, "-m", "ops.cli", "verify", "--help"],
        env=os.environ | {"COLUMNS": "200"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for words in ("Exit code 0: ", "1: one does", "2: none could be compared"):
        assert words in shown


def test_accounts_are_looked_for_where_the_repair_looks(database):
    sources = database.admin(
        "select p.prosrc from pg_catalog.pg_proc p"
        " where p.oid = any (array['stats_private.next_account(uuid)', 'public.stats_accounts_v1(uuid,integer)']"
        "::regprocedure[])"
    )
    repair, verify = (set(re.findall(r"from (\w+\.\w+) t\b", source)) for [source] in sources)
    assert repair == verify
    assert len(repair) > 10


def test_what_cannot_be_meant_is_one_line(database, accounts):
    for arguments in (
        ["--user", "00000000-0000-0000-0000-00000000000a"],
        ["--user", str(accounts[0].user_id), "--sample", "2"],
    ):
        ran = run_verify(database, *arguments)
        assert ran.returncode == 1
        assert ran.stderr.count("\n") == 1
        assert ran.stderr.startswith("stats-refresh: ")
