"""Imports that come to a stop in the middle, or find no room: how far they came, in one line."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from support.histories import block, history, lift, numbered_sessions, session, stored_sessions

from core.errors import OperatorError
from importers.saving import MOST_SESSIONS, import_history

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def user():
    return uuid4()


def test_an_interrupted_import_says_how_far_it_came_and_continues(database, user):
    read = numbered_sessions(2 * MOST_SESSIONS + 3)

    def interrupt(done, total):
        if done == MOST_SESSIONS:
            raise KeyboardInterrupt

    with pytest.raises(
        OperatorError, match="interrupted; 10 of 23 sessions done, 10 of them saved"
    ) as stopped:
        import_history(database.engine, user, "strong", read, interrupt)
    assert stopped.value.exit_code == 130
    assert len(stored_sessions(database, user)) == MOST_SESSIONS

    report = import_history(database.engine, user, "strong", read)
    assert (report.sessions_saved, report.sessions_already_there) == (MOST_SESSIONS + 3, MOST_SESSIONS)


def test_two_imports_of_one_file_at_once_end_as_one(database, user):
    read = numbered_sessions(3 * MOST_SESSIONS)
    with ThreadPoolExecutor(2) as both:
        reports = list(
            both.map(lambda _: import_history(database.engine, user, "strong", read), range(2), timeout=300)
        )
    assert sum(report.sessions_saved for report in reports) == 3 * MOST_SESSIONS
    assert all(
        report.sessions_saved + report.sessions_already_there == len(read.sessions) for report in reports
    )
    assert len(stored_sessions(database, user)) == 3 * MOST_SESSIONS


def test_an_interrupted_update_is_continued(database, user):
    """Half of the sessions have the new start, and half the old one."""

    def export(hour):
        days = (date(2026, 1, 1) + timedelta(days=2 * n) for n in range(2 * MOST_SESSIONS))
        return history(
            *(
                session(
                    block("Bench", lift(n, 60 + n)),
                    ref=f"{day} {hour}",
                    day=day,
                    at=datetime(day.year, day.month, day.day, hour, n),
                )
                for n, day in enumerate(days)
            )
        )

    def interrupt(done, total):
        raise KeyboardInterrupt

    import_history(database.engine, user, "strong", export(18))
    with pytest.raises(OperatorError, match="interrupted; 10 of 20"):
        import_history(database.engine, user, "strong", export(17), interrupt)
    report = import_history(database.engine, user, "strong", export(17))
    assert (report.sessions_saved, report.sessions_updated, report.sessions_already_there) == (0, 10, 10)
    assert {started.hour for _, _, _, started, *_ in stored_sessions(database, user)} == {17}


def test_a_connection_lost_between_two_transactions_costs_nothing(database, user):
    lost = []

    def lose_the_connection(done, total):
        if done == 2 * MOST_SESSIONS:
            # The second argument waits until the server process is really gone.
            lost.extend(
                database.admin(
                    "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
            )

    read = numbered_sessions(2 * MOST_SESSIONS + 3)
    report = import_history(database.engine, user, "strong", read, lose_the_connection)
    assert lost
    assert (report.sessions_saved, report.sessions_already_there) == (2 * MOST_SESSIONS + 3, 0)


def test_a_connection_lost_within_a_transaction_says_how_far_it_came(database, user):
    read = numbered_sessions(2 * MOST_SESSIONS + 3)
    database.admin("""
        create function public.lose_the_connection() returns trigger language plpgsql security definer as $$
        begin
            perform pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid());
            return new;
        end $$
    """)

    def lose_the_connection(done, total):
        if done == 2 * MOST_SESSIONS:
            database.admin(
                "create trigger lose_the_connection before insert on public.session_sets"
                " for each row execute function public.lose_the_connection()"
            )

    with pytest.raises(
        OperatorError, match=r"no connection to the database .* 20 of 23 sessions done, 20 of them"
    ):
        import_history(database.engine, user, "strong", read, lose_the_connection)
    database.admin("drop trigger lose_the_connection on public.session_sets")
    assert import_history(database.engine, user, "strong", read).sessions_saved == 3


def test_a_full_disk_in_the_middle_says_how_far_it_came(database, user):
    read = numbered_sessions(2 * MOST_SESSIONS + 3)

    def fill_the_disk(done, total):
        if done == MOST_SESSIONS:
            full = sqlite3.connect("")
            full.executescript("pragma max_page_count = 1; create table one_more (page)")

    with pytest.raises(
        OperatorError,
        match=r"no room for temporary files \(.*full\).*TMPDIR.*; 10 of 23 sessions done, 10 of",
    ):
        import_history(database.engine, user, "strong", read, fill_the_disk)
    assert import_history(database.engine, user, "strong", read).sessions_saved == MOST_SESSIONS + 3


def import_where_no_file_may_be_longer(file, most_bytes):
    limited = (
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most_bytes}, {most_bytes}))\n"
        "from ops.cli import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", limited, "import", file, "--unit", "kg", "--user", str(uuid4())],
        env=os.environ | {"STATS_REFRESH_DATABASE_URL": "postgresql://localhost/nowhere"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("most_bytes", "problem"),
    [
        (0, "No usable temporary directory found"),
        (500_000, "File too large"),
        # The file fits, but not its sessions, which are kept with an index.
        (1_500_000, "disk"),
    ],
)
def test_no_room_for_temporary_files_is_one_line(tmp_path, most_bytes, problem):
    file = tmp_path / "strong.csv"
    rows = (f"2024-01-08 18:30:00,{n},B,1,60,8\n" for n in range(40_000))
    file.write_text("Date,Workout Name,Exercise Name,Set Order,Weight,Reps\n" + "".join(rows))
    assert 500_000 < file.stat().st_size < 1_500_000

    ran = import_where_no_file_may_be_longer(file, most_bytes)

    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert ran.stderr.startswith("stats-refresh: no room for temporary files (")
    assert problem in ran.stderr
    assert "TMPDIR" in ran.stderr


def test_an_account_that_cannot_be_printed_is_one_line(database, user, tmp_path):
    file = tmp_path / "strong.csv"
    file.write_text(
        "Date,Workout Name,Exercise Name,Set Order,Weight,Reps\n2024-01-08 18:30:00,Push,Bench,1,60,8\n"
    )
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "ops.cli", "import", file, "--unit", "kg", "--user", str(user)],
            env=os.environ | {"STATS_REFRESH_DATABASE_URL": database.url},
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert "cannot be printed (No space left on device)" in ran.stderr
