"""The embedded servers: start, stop, crash, and what is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import redis
from sqlalchemy import NullPool, create_engine, text

from core.errors import OperatorError
from core.processes import can_execute, unprivileged_user, wait_until
from embedded.postgres import FAST, PostgresServer, copy_installation, find_binaries
from embedded.run_folder import RunFolder, live_run_folders
from embedded.server import Server
from embedded.valkey import ValkeyServer, find_binary

ROOT = Path(__file__).resolve().parents[2]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as somebody else")


def ask(url: str, statement: str) -> object:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        result = connection.execute(text(statement))
        return result.scalar() if result.returns_rows else None


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


# --- Postgres


def test_postgres_has_its_settings_and_no_tcp() -> None:
    with PostgresServer(settings={**FAST, "work_mem": "7MB"}) as server:
        url = server.url()
        assert ask(url, "show listen_addresses") == ""
        assert ask(url, "show fsync") == "off"
        assert ask(url, "show work_mem") == "7MB"
        assert ask(url, "show jit") == "off"
        assert ask(url, "show track_commit_timestamp") == "on"
        assert ask(url, "show timezone") == "UTC"
        assert ask(url, "select current_setting('client_connection_check_interval')") == "1s"


def test_postgres_is_durable_unless_told_otherwise() -> None:
    with PostgresServer() as server:
        assert ask(server.url(), "show fsync") == "on"
        assert ask(server.url(), "show synchronous_commit") == "on"


def test_postgres_keeps_data_through_kill_9_and_restart() -> None:
    with PostgresServer(settings=FAST) as server:
        ask(server.url(), "create table kept as select 42 as answer")
        open_session = create_engine(server.url(), poolclass=NullPool).raw_connection()
        open_session.cursor().execute("select 1")
        server.kill()
        server.start()
        open_session.invalidate()
        assert ask(server.url(), "select answer from kept") == 42


def test_postgres_starts_over_the_process_file_of_a_killed_server_whose_number_was_used_again() -> None:
    with PostgresServer(settings=FAST) as server:
        server.kill()
        pid_file = server.data_dir / "postmaster.pid"
        sleeper = subprocess.Popen(["sleep", "1000"], **_options_of(server))
        try:
            lines = pid_file.read_text().splitlines()
            pid_file.write_text("\n".join([str(sleeper.pid), *lines[1:]]) + "\n")
            server.start()
        finally:
            sleeper.kill()
            sleeper.wait()
        assert ask(server.url(), "select 1") == 1


def _options_of(server: Server) -> dict[str, int]:
    return {} if server.run_as is None else {"user": server.run_as.uid}


def test_postgres_in_a_path_with_spaces_and_two_side_by_side(run_folder: RunFolder) -> None:
    parent = run_folder.subfolder("with a space, and 'quotes'", shared=True)
    with (
        PostgresServer(data_dir=parent / "one", settings=FAST) as one,
        PostgresServer(data_dir=parent / "two", settings=FAST) as two,
    ):
        ask(one.url(), "create table here as select 1 as n")
        assert ask(two.url(), "select to_regclass('here') is null") is True


def test_postgres_socket_in_a_temporary_folder_with_a_space(
    run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(run_folder.subfolder("a b", shared=True)))
    with PostgresServer(settings=FAST) as server, ValkeyServer() as valkey:
        assert " " in str(server.socket_dir)
        assert ask(server.url(), "select 1") == 1
        assert redis.Redis.from_url(valkey.redis_url).ping()


def test_long_temporary_folder_is_not_used_for_sockets(
    run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(run_folder.subfolder("x" * 90, shared=True)))
    with PostgresServer(settings=FAST) as server:
        assert ask(server.url(), "select 1") == 1


def test_unfinished_initdb_leaves_nothing(run_folder: RunFolder) -> None:
    parent = run_folder.subfolder("data", shared=True)
    server = PostgresServer(data_dir=parent / "pg", settings={"no_such_setting": "1"}, run_folder=run_folder)
    with pytest.raises(OperatorError, match="no_such_setting"):
        server.start()
    assert sorted(path.name for path in parent.iterdir()) == ["pg", "pg.pgpass"]


def test_data_of_another_major_version_is_refused_in_one_line(run_folder: RunFolder) -> None:
    server = PostgresServer(settings=FAST, run_folder=run_folder)
    server.prepare()
    (server.data_dir / "PG_VERSION").write_text("14\n")
    with pytest.raises(OperatorError, match="was made by PostgreSQL 14"):
        server.start()


@as_root
def test_root_hands_postgres_to_nobody() -> None:
    with PostgresServer(settings=FAST) as server:
        assert server.process is not None
        assert psutil.Process(server.process.pid).username() == "nobody"
        assert stat.S_IMODE(server.socket_dir.stat().st_mode) == 0o700


@as_root
def test_binaries_that_nobody_can_reach_are_copied_and_the_copy_goes(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "pg").symlink_to(find_binaries().parent)
    binaries = hidden / "pg" / "bin"
    assert not can_execute(binaries / "postgres", unprivileged_user())
    with PostgresServer(binaries=binaries, settings=FAST) as server:
        assert server.run_folder.path in Path(server.command()[0]).parents
        assert ask(server.url(), "select 1") == 1
    assert not server.run_folder.path.exists()


@as_root
def test_data_that_nobody_can_reach_is_refused_in_one_line(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(OperatorError, match="STATS_REFRESH_DATA_DIR"), PostgresServer(data_dir=closed / "pg"):
        pass
    assert list(closed.iterdir()) == []


_AS_ORDINARY_USER = """
import os, pwd, tempfile
from pathlib import Path
from embedded.postgres import FAST, PostgresServer
from core.processes import unprivileged_user
from embedded.valkey import ValkeyServer
from sqlalchemy import create_engine, text

def try_servers():
    with (
        PostgresServer(settings=FAST, binaries=Path({postgres!r})) as server,
        ValkeyServer(binary=Path({valkey!r})),
    ):
        server.kill()
        server.start()
        engine = create_engine(server.url())
        assert engine.connect().scalar(text("select 1")) == 1
        engine.dispose()
        return server.run_as

tempfile.tempdir = {temp!r}
assert try_servers() is not None  # and now all modules are loaded: Python itself may lie out of reach below
nobody = pwd.getpwnam("nobody")
os.setgroups([])
os.setgid(nobody.pw_gid)
os.setuid(nobody.pw_uid)
unprivileged_user.cache_clear()
assert try_servers() is None
"""


@as_root
def test_servers_run_for_an_ordinary_user_too(run_folder: RunFolder) -> None:
    temp = run_folder.subfolder("tmp", owner=unprivileged_user(), shared=True)
    valkey = Path(shutil.copy(find_binary(), run_folder.path))
    postgres = copy_installation(find_binaries(), run_folder.path / "postgres")
    program = _AS_ORDINARY_USER.format(temp=str(temp), postgres=str(postgres), valkey=str(valkey))
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert list(temp.iterdir()) == []


# --- Valkey


def test_valkey_never_evicts_and_listens_on_its_socket_only() -> None:
    with ValkeyServer() as server, redis.Redis.from_url(server.redis_url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("port") == {"port": "0"}
        assert stat.S_IMODE(server.socket_path.stat().st_mode) == 0o700


def test_valkey_with_append_only_keeps_data_through_restart() -> None:
    with ValkeyServer(append_only=True) as server:
        with redis.Redis.from_url(server.redis_url) as client:
            client.config_set("appendfsync", "always")
            client.set("kept", "yes")
        server.kill()
        server.start()
        with redis.Redis.from_url(server.redis_url) as client:
            assert client.get("kept") == b"yes"


def test_valkey_in_a_path_with_spaces(run_folder: RunFolder) -> None:
    data = run_folder.path / "with a space"
    with ValkeyServer(data_dir=data, append_only=True) as server:
        assert redis.Redis.from_url(server.redis_url).ping()
    assert (data / "appendonlydir").is_dir()


# --- Both


SERVERS: list[Callable[[], Server]] = [lambda: PostgresServer(settings=FAST), ValkeyServer]


@pytest.mark.parametrize("make", SERVERS, ids=["postgres", "valkey"])
def test_stop_leaves_no_process_and_no_file(make: Callable[[], Server], private_temp: Path) -> None:
    with make() as server:
        assert server.process is not None
        family = [server.process.pid, *_children(server.process.pid)]
        assert live_run_folders() == [server.run_folder.path]
    assert all(gone(pid) for pid in family)
    assert list(private_temp.iterdir()) == []


def _children(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


_OWNER = """
import sys, tempfile
tempfile.tempdir = {temp!r}
from embedded.postgres import FAST, PostgresServer
from embedded.valkey import ValkeyServer
server = {server}.start()
print(server.process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("server", ["PostgresServer(settings=FAST)", "ValkeyServer()"])
def test_server_goes_when_its_owner_is_killed(server: str, private_temp: Path) -> None:
    program = _OWNER.format(temp=str(private_temp), server=server)
    owner = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    family = [pid, *_children(pid)]
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    assert wait_until(lambda: all(gone(pid) for pid in family), 20)
    assert live_run_folders() == []
    assert list(private_temp.iterdir()) == []
