"""What a person reads when something outside is wrong: one line, and an exit code that is not 0."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ops.discovery import StackUrls, announced, running_stacks
from ops.embedded.run_folder import RunFolder

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


@pytest.mark.parametrize("url", [f"redis://127.0.0.1:{NOBODY_LISTENS}/0", "unix:///no/such.sock", "http://x"])
def test_redis_that_is_down(url: str, private_temp: Path) -> None:
    line = the_line(stats_refresh("up", temp=private_temp, redis_url=url))
    assert "Redis does not answer" in line
    assert "STATS_REFRESH_REDIS_URL" in line
    assert list(private_temp.iterdir()) == []


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
    line = the_line(stats_refresh("up", temp=private_temp, data_dir=str(data), flower_port="0"))
    os.close(lock)
    assert "another stack uses" in line


def test_no_stack_and_nothing_configured(private_temp: Path) -> None:
    line = the_line(stats_refresh("status", temp=private_temp))
    assert "make up" in line
    assert list(private_temp.iterdir()) == []


def test_several_stacks_are_listed(private_temp: Path) -> None:
    def urls(number: int) -> StackUrls:
        return StackUrls(f"postgresql:///s{number}", f"postgresql:///s{number}", None)

    with (
        RunFolder.create() as one,
        RunFolder.create() as two,
        RunFolder.create(),
        announced(urls(1), one),
        announced(urls(2), two),
    ):
        line = the_line(stats_refresh("status", temp=private_temp))
    assert "2 stacks are running" in line
    assert "/s1" in line
    assert "/s2" in line
    assert running_stacks() == []
    assert list(private_temp.iterdir()) == []
