"""What a person reads when something outside is wrong: one line, and an exit code that is not 0."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from embedded.run_folder import RunFolder
from ops.discovery import StackUrls, announced, running_stacks

ROOT = Path(__file__).resolve().parents[2]
NOBODY_LISTENS = 1
"""A port that nothing listens on."""


def stats_refresh(*arguments: str, temp: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STATS_REFRESH_")}
    configured = {f"STATS_REFRESH_{name.upper()}": value for name, value in settings.items()}
    return subprocess.run(
        [sys.executable, "-m", "ops.cli", *arguments],
        env=inherited | configured | {"TMPDIR": str(temp)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def the_line(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode != 0
    assert ran.stderr.startswith("stats-refresh: ")
    assert ran.stderr.count("\n") == 1
    return ran.stderr


def assert_nothing_is_left(temp: Path) -> None:
    """Neither files nor processes: all that a stack starts has its temporary folder in the environment."""
    assert list(temp.iterdir()) == []
    assert [process for process in psutil.process_iter() if _runs_in(process, temp)] == []


def _runs_in(process: psutil.Process, temp: Path) -> bool:
    try:
        return str(temp) in " ".join([*process.cmdline(), *process.environ().values()])
    except psutil.Error:
        return False  # ended, or somebody else's


@pytest.mark.parametrize("command", ["up", "demo", "migrate", "import", "status"])
def test_help_of_each_command(command: str, private_temp: Path) -> None:
    ran = stats_refresh(command, "--help", temp=private_temp)
    assert ran.returncode == 0
    assert "Usage" in ran.stdout


@pytest.mark.parametrize("command", ["up", "demo", "status", "migrate"])
def test_unreachable_database(command: str, private_temp: Path) -> None:
    url = f"postgresql://me:secret@127.0.0.1:{NOBODY_LISTENS}/app"
    line = the_line(stats_refresh(command, temp=private_temp, database_url=url))
    assert "Postgres does not answer" in line
    assert "STATS_REFRESH_DATABASE_URL" in line
    assert "secret" not in line
    assert list(private_temp.iterdir()) == []


@pytest.mark.parametrize("url", [f"redis://127.0.0.1:{NOBODY_LISTENS}/0", "unix:///no/such.sock"])
def test_redis_that_is_down(url: str, private_temp: Path) -> None:
    line = the_line(stats_refresh("up", temp=private_temp, redis_url=url))
    assert "Redis does not answer" in line
    assert "STATS_REFRESH_REDIS_URL" in line
    assert list(private_temp.iterdir()) == []


def test_a_redis_without_its_database_is_not_put_beside_a_stack_that_runs_here(private_temp: Path) -> None:
    ran = stats_refresh(
        "schedule", "pause", "catalog", temp=private_temp, redis_url=f"redis://127.0.0.1:{NOBODY_LISTENS}/0"
    )
    assert "STATS_REFRESH_REDIS_URL is set: set STATS_REFRESH_DATABASE_URL too, or neither" in the_line(ran)


@pytest.mark.parametrize(
    ("setting", "value", "problem"),
    [
        ("redis_url", "foo", "must begin with redis://"),
        ("redis_url", "http://:secret@x", "must begin with redis://"),
        ("redis_url", "redis://:bad port", "host or port can't be read"),
        ("redis_url", "redis://:secret/@x:6379/0", "host or port can't be read"),
        ("redis_url", "redis://:secret@x/zero", "the number of a database"),
        ("redis_url", "redis://:secret@x/0?colour=red", "does not take its option 'colour'"),
        ("database_url", "postgresql://me:secret@x:port/y", "is not a URL"),
        ("database_url", "postgresql://me:secret@x/y?colour=red", '"colour"'),
        ("listen_database_url", "mysql://me:secret@x/y", "names mysql"),
        ("flower_port", "99999", "a port from 1 to 65535"),
        ("flower_port", "http", "a port from 1 to 65535"),
        ("wake", "maybe", "'on' or 'off'"),
    ],
)
def test_a_setting_that_breaks_its_rule(setting: str, value: str, problem: str, private_temp: Path) -> None:
    line = the_line(stats_refresh("up", temp=private_temp, **{setting: value}))
    assert line.startswith(f"stats-refresh: STATS_REFRESH_{setting.upper()}")
    assert problem in line
    assert "secret" not in line
    assert list(private_temp.iterdir()) == []


@pytest.mark.parametrize("command", [("demo",), ("migrate",), ("schedule", "list"), ("status",)])
def test_a_setting_that_breaks_its_rule_ends_every_command(
    command: tuple[str, ...], private_temp: Path
) -> None:
    line = the_line(stats_refresh(*command, temp=private_temp, redis_url="foo"))
    assert line.startswith("stats-refresh: STATS_REFRESH_REDIS_URL: must begin with redis://")


@pytest.mark.parametrize("command", ["worker", "beat", "flower"])
def test_a_setting_that_breaks_its_rule_ends_a_celery_process(command: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "tasks.app", command],
        env={**os.environ, "STATS_REFRESH_REDIS_URL": "http://x"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert the_line(ran).startswith("stats-refresh: STATS_REFRESH_REDIS_URL: must begin with redis://")


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        (__file__, "Not a directory"),
        ("/proc/nope", "No such file or directory"),
        ("/proc", "can't hold data"),
        ("/tmp/" + "a" * 300, "File name too long"),
        ("/tmp/" + "nine_char/" * 90, "more than 900 bytes"),
    ],
)
def test_a_data_folder_that_can_not_be_one(folder: str, problem: str, private_temp: Path) -> None:
    line = the_line(stats_refresh("up", temp=private_temp, data_dir=folder, flower_port="0", http_port="0"))
    assert line.startswith("stats-refresh: STATS_REFRESH_DATA_DIR: ")
    assert problem in line
    assert_nothing_is_left(private_temp)


def test_a_data_folder_with_something_else_in_place_of_the_data(
    private_temp: Path, run_folder: RunFolder
) -> None:
    data = run_folder.subfolder("data", shared=True)
    (data / "valkey").write_text("not a folder")
    ran = stats_refresh("up", temp=private_temp, data_dir=str(data), flower_port="0", http_port="0")
    assert "valkey can't use" in the_line(ran)
    assert "STATS_REFRESH_DATA_DIR" in ran.stderr
    assert_nothing_is_left(private_temp)


@pytest.mark.parametrize("setting", ["postgres_bin", "valkey_bin"])
@pytest.mark.parametrize("path", [str(ROOT), "/proc/nope", str(ROOT / "README.md")])
def test_binaries_that_are_none(setting: str, path: str, private_temp: Path) -> None:
    ran = stats_refresh("up", temp=private_temp, flower_port="0", http_port="0", **{setting: path})
    assert f"STATS_REFRESH_{setting.upper()}" in the_line(ran)
    assert "started" not in ran.stdout
    assert_nothing_is_left(private_temp)


def test_an_empty_setting_is_none(private_temp: Path) -> None:
    line = the_line(stats_refresh("status", temp=private_temp, database_url="", redis_url="", data_dir=""))
    assert "no stack is running here" in line


def test_port_in_use(private_temp: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = the_line(stats_refresh("up", temp=private_temp, flower_port=port))
    assert f"port {port}" in line
    assert "STATS_REFRESH_FLOWER_PORT" in line
    assert list(private_temp.iterdir()) == []


def test_url_of_another_kind_of_database(private_temp: Path) -> None:
    line = the_line(stats_refresh("status", temp=private_temp, database_url="mysql://x/y"))
    assert "STATS_REFRESH_DATABASE_URL" in line
    assert "mysql" in line


def test_data_folder_in_use(private_temp: Path, run_folder: RunFolder) -> None:
    data = run_folder.subfolder("data", shared=True)
    lock = os.open(data, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    line = the_line(
        stats_refresh("up", temp=private_temp, data_dir=str(data), flower_port="0", http_port="0")
    )
    os.close(lock)
    assert "another stack uses" in line


def test_no_stack_and_nothing_configured(private_temp: Path) -> None:
    line = the_line(stats_refresh("status", temp=private_temp))
    assert "make up" in line
    assert list(private_temp.iterdir()) == []


def test_several_stacks_are_listed(private_temp: Path) -> None:
    def urls(number: int) -> StackUrls:
        url = f"postgresql+psycopg2://me:secret@/s{number}"
        return StackUrls(url, url, None)

    with (
        RunFolder.create() as one,
        RunFolder.create() as two,
        RunFolder.create(),
        announced(urls(1), one),
        announced(urls(2), two),
    ):
        line = the_line(stats_refresh("status", temp=private_temp))
    assert "2 stacks are running" in line
    assert "postgresql://me:***@/s1" in line
    assert "postgresql://me:***@/s2" in line
    assert running_stacks() == []
    assert list(private_temp.iterdir()) == []
