"""`stats-refresh up` for real: all parts come up, come back after a crash, and go without a trace."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import psycopg2
import pytest
import redis
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.exc import DataError
from support.privacy import open_to_others

from core.processes import wait_until
from embedded.postgres import stack_password
from embedded.run_folder import RunFolder
from ops.discovery import RunningStack, running_stacks
from ops.stack import SERVICE_NAMES

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 90


class Up:
    """A running `up`, with what it has printed so far."""

    def __init__(self, temp: Path, **settings: str) -> None:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("STATS_REFRESH_")
        }
        configured = {f"STATS_REFRESH_{name.upper()}": value for name, value in settings.items()}
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "ops.cli", "up"],
            env=inherited | configured | {"TMPDIR": str(temp), "PGHOST": "nowhere", "CELERY_BROKER_URL": "x"},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.output = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line

    def wait_for(self, pattern: str, times: int = 1) -> list[str]:
        found = wait_until(
            lambda: len(re.findall(pattern, self.output)) >= times or self.process.poll() is not None,
            DEADLINE,
        )
        matches: list[str] = re.findall(pattern, self.output)
        assert found, self.output
        assert len(matches) >= times, self.output
        return matches

    def pid_of(self, service: str) -> int:
        return int(self.wait_for(rf"started {service}, process (\d+)")[-1])

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, with_signal: signal.Signals) -> int:
        self.process.send_signal(with_signal)
        returncode = self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        return returncode


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def page(port: int, path: str, password: str | None = None) -> int:
    login = base64.b64encode(f"operator:{password}".encode()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers={"Authorization": f"Basic {login}"} if password else {})
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def up(private_temp: Path, port: int) -> Iterator[Up]:
    stack = Up(private_temp, flower_port=str(port), http_port=str(free_port()))
    yield stack
    if stack.process.poll() is None:
        stack.end(signal.SIGTERM)


def the_stack() -> RunningStack:
    (stack,) = running_stacks()
    return stack


def test_a_stack_from_start_to_end(up: Up, private_temp: Path, port: int) -> None:
    (password,) = up.wait_for(r"user operator   password (\S+)")
    up.wait_for("Ctrl-C stops")
    check_announcement(up, private_temp)
    check_login_of_workers(the_stack().urls.database_url)
    check_calm_but_for_alarms(up, private_temp)
    check_privacy(up, private_temp)
    check_http(up, private_temp)
    assert [page(port, "/tasks"), page(port, "/api/workers")] == [401, 401]
    assert [page(port, "/tasks", password), page(port, "/api/workers", password)] == [200, 200]
    check_restart_after_kill(up)
    check_clean_end(up, private_temp)


def check_announcement(up: Up, temp: Path) -> None:
    stack = the_stack()
    assert stack.pid == up.process.pid
    (url,) = re.findall(r"export STATS_REFRESH_DATABASE_URL='(postgresql://\S+)'", up.output)
    with closing(psycopg2.connect(url)) as connection:  # libpq reads it, as in psql
        assert connection.info.user == "stats_refresh_worker"
    (socket_path,) = re.findall(r"redis-cli -s (\S+)", up.output)
    assert redis.Redis(unix_socket_path=socket_path).ping()
    assert stack.urls.redis_url is not None
    assert f"export STATS_REFRESH_REDIS_URL='{stack.urls.redis_url}'" in up.output
    assert redis.Redis.from_url(stack.urls.redis_url).ping()
    (state,) = temp.glob("*/*/stack.json")
    assert stat.S_IMODE(state.stat().st_mode) == 0o600


def check_http(up: Up, temp: Path) -> None:
    """The printed address answers, and the printed file has the secrets for its owner alone."""
    (address, file) = re.search(r"HTTP     http://(\S+)   its secrets: (\S+)", up.output).groups()
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    secrets = json.loads(Path(file).read_text())
    assert not any(secret in up.output for secret in secrets.values())
    connection = http.client.HTTPConnection(address, timeout=10)
    worker = {"Authorization": f"Bearer {secrets['service_token']}"}
    for headers, status in (({}, 200), (worker, 200), ({"Authorization": "Bearer other"}, 401)):
        connection.request("GET", "/stats-process-refresh-jobs", headers=headers)
        answer = connection.getresponse()
        assert (answer.status, b"worker" in answer.read()) == (status, headers is worker)
    connection.close()


def check_login_of_workers(url: str) -> None:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        role = (
            "select rolname, rolsuper, rolcreaterole, rolbypassrls from pg_roles where rolname = session_user"
        )
        assert connection.execute(text(role)).one() == ("stats_refresh_worker", False, False, False)
        connection.execute(text("set local role service_role"))


def check_calm_but_for_alarms(up: Up, temp: Path) -> None:
    """A healthy start shows no line of a child; the file has them all; a warning shows up with who wrote it."""
    (log,) = temp.glob("*/*/stack.log")
    assert f"Logs     {log} " in up.output
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    for service in SERVICE_NAMES:
        assert wait_until(lambda service=service: f" {service:<11} | " in log.read_text(), DEADLINE)
    # A few seconds of beats later Flower has asked the workers, too, whether or not they were there yet.
    assert wait_until(lambda: log.read_text().count("Sending due task") > 15, DEADLINE)
    assert lines_of_children(up) == []
    assert "statement timeout" not in log.read_text()

    with create_engine(the_stack().urls.database_url, poolclass=NullPool).connect() as connection:
        with pytest.raises(DataError):
            connection.execute(text("select 1 / 0"))
        connection.rollback()
        with pytest.raises(DataError):
            connection.execute(text("select cast(:note as text), 1 / 0"), {"note": "knee hurts"})
        connection.rollback()
        connection.execute(text("do 'begin raise warning ''look here''; end'"))
    up.wait_for(r"postgres +\| .* WARNING:  look here")
    assert wait_until(lambda: "ERROR:  division by zero" in log.read_text(), DEADLINE)
    # What a client has been told already is in the file alone, and what it sent is in none.
    assert "division by zero" not in up.output
    assert wait_until(lambda: log.read_text().count("ERROR:  division by zero") == 2, DEADLINE)
    assert "STATEMENT" not in log.read_text()
    assert "knee hurts" not in log.read_text()


def check_privacy(up: Up, temp: Path) -> None:
    """No file of a running stack is for others, and what everybody may see of a process holds no password."""
    (home,) = temp.iterdir()
    assert open_to_others(home) == []
    secret = stack_password(the_stack().urls.admin_url)
    family = up.family()
    assert len(family) > 8
    for process in family:
        assert secret not in " ".join(process.cmdline())
        assert stat.S_IMODE(os.stat(f"/proc/{process.pid}/environ").st_mode) == 0o400
    (log,) = temp.glob("*/*/stack.log")
    assert secret not in log.read_text() + up.output


def lines_of_children(up: Up) -> list[str]:
    children = "|".join(SERVICE_NAMES)
    return re.findall(rf"^\d\d:\d\d:\d\d (?:{children}) .*", up.output, re.MULTILINE)


def check_restart_after_kill(up: Up) -> None:
    worker = psutil.Process(up.pid_of("pipeline"))
    pool = worker.children(recursive=True)
    assert len(pool) == 2
    for service in ("pipeline", "beat"):
        os.kill(up.pid_of(service), signal.SIGKILL)
    up.wait_for("(pipeline|beat) is back", times=2)
    assert all(gone(child) for child in pool)
    assert up.process.poll() is None


def check_clean_end(up: Up, temp: Path) -> None:
    family = up.family()
    assert up.end(signal.SIGINT) == 0
    order = re.findall(r"stopping (\w+)", up.output)
    assert order == ["edge", "flower", "beat", "maintenance", "compute", "pipeline", "valkey", "postgres"]
    assert all(gone(process) for process in family)
    assert list(temp.iterdir()) == []


def test_nothing_survives_a_killed_supervisor_and_kept_data_is_found_again(
    private_temp: Path, run_folder: RunFolder
) -> None:
    data = run_folder.path / "kept data"
    first = Up(private_temp, flower_port=str(free_port()), http_port=str(free_port()), data_dir=str(data))
    first.wait_for("Ctrl-C stops")
    with create_engine(the_stack().urls.admin_url, poolclass=NullPool).begin() as connection:
        connection.execute(text("create table kept as select 42 as answer"))
    family = first.family()
    assert len(family) > 8
    first.end(signal.SIGKILL)
    assert wait_until(lambda: all(gone(process) for process in family), DEADLINE)
    assert running_stacks() == []
    assert list(private_temp.iterdir()) == []

    second = Up(private_temp, flower_port=str(free_port()), http_port=str(free_port()), data_dir=str(data))
    second.wait_for("Ctrl-C stops")
    with create_engine(the_stack().urls.admin_url, poolclass=NullPool).connect() as connection:
        assert connection.scalar(text("select answer from kept")) == 42
    assert second.end(signal.SIGTERM) == 0
    assert list(private_temp.iterdir()) == []
    assert f"Data stays in {data}" in second.output
    assert (data / "stack.log").exists()
    assert list(data.glob("flower*"))
    assert open_to_others(data) == []
