"""What a stack keeps is its owner's alone: files, sockets, its Postgres, and what clients say to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import NullPool, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError
from support.privacy import open_to_others

from core.config import libpq_url
from embedded.postgres import FAST, PostgresServer
from embedded.run_folder import RunFolder
from embedded.valkey import ValkeyServer
from ops.data_folder import kept_folder
from ops.discovery import StackUrls, announced
from ops.stack import WORKER_ROLE, create_worker_role
from sql.migrate import migrate

ROOT = Path(__file__).resolve().parents[2]
NOTE = "knee hurts since Tuesday"
"""Something that an account wrote and that belongs into no log."""


@pytest.fixture
def careless_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A migrated server with the workers' login."""
    with PostgresServer(settings=FAST) as started:
        migrate(create_engine(started.url(), poolclass=NullPool))
        create_worker_role(started.url())
        yield started


_AS_NOBODY = """
import contextlib, io, os, pwd, socket, sys
import psycopg2
from ops.cli import main
from core.config import config

def attempt(what):
    try:
        what()
    except Exception as error:
        return str(error).strip().splitlines()[0]
    return "got in"

def connect(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)

def status(url):
    os.environ["STATS_REFRESH_DATABASE_URL"] = url
    config.cache_clear()
    sys.argv = ["stats-refresh", "status"]
    with contextlib.redirect_stderr(sys.stdout):
        try:
            main()
        except SystemExit as end:
            print("exit", end.code)

def program():
    for line in {lines!r}:
        exec(line)

with contextlib.redirect_stdout(io.StringIO()):
    program()  # and now all modules are loaded: Python itself may lie out of reach below
nobody = pwd.getpwnam("nobody")
os.setgroups([])
os.setgid(nobody.pw_gid)
os.setuid(nobody.pw_uid)
program()
"""


def as_nobody(*lines: str) -> list[str]:
    """Run the lines of Python as the user that runs Postgres for root, and return what they print."""
    ran = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY.format(lines=lines)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_process_of_the_servers_user_gets_no_session(server: PostgresServer) -> None:
    urls = [libpq_url(server.url()), libpq_url(server.url(user=WORKER_ROLE))]
    without = [libpq_url(str(make_url(url).difference_update_query(["passfile"]))) for url in urls]
    refused = as_nobody(*(f"print(attempt(lambda: psycopg2.connect({url!r})))" for url in urls + without))

    assert len(refused) == 4
    assert all("no password supplied" in line for line in refused), refused
    with psycopg2.connect(urls[1]) as connection, connection.cursor() as cursor:
        cursor.execute("select session_user")
        assert cursor.fetchone() == (WORKER_ROLE,)


def test_a_process_of_the_servers_user_reads_neither_password_nor_queue(server: PostgresServer) -> None:
    with ValkeyServer(append_only=True) as valkey:
        answers = as_nobody(
            f"print(attempt(lambda: open({str(server.password_file)!r}).read()))",
            f"print(attempt(lambda: os.listdir({str(valkey.data_dir)!r})))",
            f"print(attempt(lambda: connect({str(valkey.socket_path)!r})))",
        )
    assert ["Permission denied" in answer for answer in answers] == [True, True, True], answers


def test_no_login_gets_in_without_the_password(server: PostgresServer) -> None:
    for user in ("postgres", WORKER_ROLE):
        url = make_url(server.url(user=user)).set(password="guessed")
        with pytest.raises(DBAPIError, match="password authentication failed"):
            create_engine(url, poolclass=NullPool).connect()


def test_files_and_sockets_are_the_owners_alone(careless_umask: None) -> None:
    with (
        RunFolder.create() as folder,
        PostgresServer(run_folder=folder, settings=FAST) as postgres,
        ValkeyServer(run_folder=folder, append_only=True),
    ):
        with create_engine(postgres.url(), poolclass=NullPool).begin() as connection:
            connection.execute(text("create table made as select 1 as n"))
        assert len(list(folder.path.rglob("*"))) > 1000
        assert open_to_others(folder.path) == []


def test_a_kept_folder_is_made_for_its_owner_alone_and_one_of_an_earlier_release_is_closed(
    run_folder: RunFolder, careless_umask: None
) -> None:
    path = run_folder.path / "kept"
    with kept_folder(path):
        pass
    assert open_to_others(path) == []
    (path / "valkey" / "appendonlydir").mkdir(parents=True)
    for name in ("flower.dat", "stack.log", "stack.log.1", "valkey/appendonlydir/appendonly.aof.1.incr.aof"):
        (path / name).write_text("lease tokens")
    assert len(open_to_others(path)) == 6
    with kept_folder(path):
        assert open_to_others(path) == []


def test_data_of_a_release_that_trusted_everybody_asks_for_a_password(run_folder: RunFolder) -> None:
    """And so does data whose password was lost: the next start makes another one."""
    data = run_folder.subfolder("data", shared=True) / "postgres"
    with (
        PostgresServer(data_dir=data, settings=FAST) as old,
        create_engine(old.url(), poolclass=NullPool).begin() as connection,
    ):
        connection.execute(text("create table kept as select 42 as answer"))
        connection.execute(text(f"create role {WORKER_ROLE} login"))
    (data / "pg_hba.conf").write_text("local all all trust\n")
    first = old.password_file.read_text()
    old.password_file.unlink()

    with PostgresServer(data_dir=data, settings=FAST) as server:
        without = make_url(server.url()).difference_update_query(["passfile"])
        with pytest.raises(DBAPIError, match="no password supplied"):
            create_engine(without, poolclass=NullPool).connect()
        assert server.password_file.read_text() != first
        migrate(create_engine(server.url(), poolclass=NullPool))
        create_worker_role(server.url())
        with create_engine(server.url(user=WORKER_ROLE), poolclass=NullPool).connect() as connection:
            assert connection.scalar(text("select session_user")) == WORKER_ROLE
        with create_engine(server.url(), poolclass=NullPool).connect() as connection:
            assert connection.scalar(text("select answer from kept")) == 42


def test_the_servers_log_has_the_error_and_nothing_that_a_client_sent(server: PostgresServer) -> None:
    statements = [
        f"select '{NOTE}', 1 / 0",
        f"do $$ begin raise exception 'refused' using detail = '{NOTE}', hint = '{NOTE}'; end $$",
        f"do $$ begin perform '{NOTE}' || 1 / 0; end $$",
        f"create table notes (note text primary key); insert into notes values ('{NOTE}'), ('{NOTE}')",
    ]
    engine = create_engine(server.url(user=WORKER_ROLE), poolclass=NullPool)
    administrator = create_engine(server.url(), poolclass=NullPool)
    for statement in statements:
        with administrator.connect() as connection, pytest.raises(DBAPIError):
            connection.exec_driver_sql(statement)
    with engine.connect() as connection, pytest.raises(DBAPIError):
        connection.execute(
            text("select cast(:note as text), 1 / cast(:zero as integer)"), {"note": NOTE, "zero": 0}
        )

    log = server.log_file.read_text()
    assert NOTE not in log
    assert "STATEMENT:" not in log
    assert log.count("ERROR:  division by zero") == 3
    assert "ERROR:  refused" in log
    assert 'duplicate key value violates unique constraint "notes_pkey"' in log


def test_another_user_reads_one_line_and_where_the_server_is_to_be_found(server: PostgresServer) -> None:
    """Of the stack that root runs, nobody finds nothing; with its URL in hand it is told why it does not get in."""
    url = server.url(user=WORKER_ROLE)
    with announced(StackUrls(url, server.url(), None), server.run_folder):
        lines = as_nobody("status('')", f"status({url!r})")
    assert lines[0].startswith("stats-refresh: no stack is running here: ")
    assert lines[2].startswith("stats-refresh: Postgres does not let this login in (")
    assert lines[2].endswith("an embedded stack is for the user who runs it")
    assert [lines[1], lines[3]] == ["exit 1", "exit 1"]
