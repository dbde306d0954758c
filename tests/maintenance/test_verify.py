"""`stats-refresh verify`: says what differs, and its exit code says whether anything does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from maintenance.damage import READ_MODELS, alter, remove
from maintenance.scene import published_accounts
from ops.verify import verify_account

ROOT = Path(__file__).resolve().parents[2]


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


def test_who_waits_for_a_run_is_not_compared(database, accounts):
    accounts[0].save()

    verified = verify_account(database.url, accounts[0].user_id)

    assert (verified.waits, verified.findings) == (True, ())


def test_the_command_says_so_in_a_table_and_in_its_exit_code(database, accounts):
    ran = run_verify(database)
    assert (ran.returncode, ran.stdout) == (
        0,
        "3 accounts compared, 0 differ, 0 wait for a run and were not compared\n",
    )

    accounts[0].save()
    alter(database, "public.user_exercise_records", accounts[2])
    ran = run_verify(database)
    assert ran.returncode == 1
    assert f"{accounts[2].user_id}" in ran.stdout
    assert "0 rows missing, 1 wrong, 0 too many" in ran.stdout
    assert "2 accounts compared, 1 differ, 1 wait for a run" in ran.stdout

    assert run_verify(database, "--user", str(accounts[1].user_id)).returncode == 0
    assert run_verify(database, "--user", str(accounts[2].user_id)).returncode == 1
    assert "1 accounts compared" in run_verify(database, "--user", str(accounts[1].user_id)).stdout
    assert run_verify(database, "--sample", "3").returncode == 1
    # The first account waits, so of one by chance either it is compared or it waits.
    sampled = run_verify(database, "--sample", "1").stdout
    assert re.search(
        "1 accounts compared, . differ, 0 wait|0 accounts compared, 0 differ, 1 wait", sampled
    ), sampled


def test_what_cannot_be_meant_is_one_line(database, accounts):
    for arguments in (
        ["--user", "00000000-0000-0000-0000-00000000000a"],
        ["--user", str(accounts[0].user_id), "--sample", "2"],
    ):
        ran = run_verify(database, *arguments)
        assert ran.returncode == 1
        assert ran.stderr.count("\n") == 1
        assert ran.stderr.startswith("stats-refresh: ")
