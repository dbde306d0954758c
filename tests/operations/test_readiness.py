"""A server that doesn't speak English is noticed before a worker takes work from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool
from support.proxy import Proxy

from core.config import Config
from embedded.postgres import FAST, PostgresServer
from sql.migrate import migrate
from tasks import readiness
from tasks.readiness import TIMEOUT_TEXT, language_problem, timeout_text

GERMAN_TEXT = "storniere Anfrage wegen Zeitüberschreitung der Anfrage"
TRANSLATION = Path("/usr/share/locale/de/LC_MESSAGES/postgres-15.mo")
BINARIES = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture(scope="module")
def german_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A real server with translated messages: the wheel has none, Debian's packages do."""
    if not (TRANSLATION.exists() and (BINARIES / "initdb").exists() and shutil.which("localedef")):
        pytest.skip("needs Debian's PostgreSQL 15 with its German translation, and localedef")
    server = PostgresServer(settings=FAST, binaries=BINARIES)
    locales = server.run_folder.path / "locales"
    locales.mkdir(mode=0o755)
    subprocess.run(
        ["localedef", "-f", "UTF-8", "-i", "de_DE", str(locales / "de_DE.UTF-8")],
        check=True,
        capture_output=True,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCPATH", str(locales))
        server.start()
    try:
        migrate(create_engine(server.url(), poolclass=NullPool))
        yield server
    finally:
        server.stop()


def test_an_english_server_is_fine_and_the_transaction_goes_on(database):
    with database.engine.begin() as connection:
        assert timeout_text(connection) == TIMEOUT_TEXT
        assert language_problem(connection) is None
        assert connection.scalar(text("show statement_timeout")) == "0"
        assert connection.scalar(text("select 1")) == 1


def test_the_status_function_says_that_messages_are_english(database):
    status = database.as_service().value("select public.stats_projection_worker_status_v1()")
    assert status["messages_are_english"] is True


def test_a_german_server_is_told_apart_by_its_own_words(german_server):
    problem = _speaking_german(german_server, language_problem)
    assert GERMAN_TEXT in problem
    assert "ALTER DATABASE postgres SET lc_messages = 'C'" in problem


def test_the_status_function_notices_a_german_server(german_server):
    status = _speaking_german(
        german_server,
        lambda connection: connection.scalar(text("select public.stats_projection_worker_status_v1()")),
    )
    assert status["messages_are_english"] is False


def test_a_worker_refuses_to_start_on_a_german_server(german_server):
    engine = create_engine(german_server.url(), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("alter database postgres set lc_messages = 'de_DE.UTF-8'"))
    try:
        worker = _start_worker(german_server.url())
    finally:
        with engine.begin() as connection:
            connection.execute(text("alter database postgres reset lc_messages"))
    assert worker.returncode != 0
    assert "ALTER DATABASE postgres SET lc_messages = 'C'" in worker.stderr


class SilentAtTheCheck(Proxy):
    """Falls silent when somebody asks for a statement timeout."""

    def _pump(self, source, sink, direction, silent):
        while data := source.recv(65536):
            if b"pg_sleep" in data:
                self.silenced.set()
                silent.add(direction)
            if direction not in silent:
                sink.sendall(data)

    def __init__(self, url: str) -> None:
        self.silenced = threading.Event()
        super().__init__(url)


def test_a_check_without_an_answer_ends_and_the_worker_goes_on(database, monkeypatch, caplog):
    with SilentAtTheCheck(database.url) as proxy:
        monkeypatch.setattr(readiness, "config", lambda: Config(database_url=proxy.url))
        checked = threading.Thread(target=readiness.refuse_other_language, args=[0.5])
        checked.start()
        assert proxy.silenced.wait(10)
        checked.join(10)
        assert not checked.is_alive()
    assert "the database's language is not checked" in caplog.text


def _speaking_german(server: PostgresServer, ask):
    with create_engine(server.url(), poolclass=NullPool).begin() as connection:
        connection.execute(text("set local lc_messages = 'de_DE.UTF-8'"))
        return ask(connection)


def _start_worker(database_url: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "STATS_REFRESH_DATABASE_URL": database_url,
        # Nobody listens there: the worker must end before it looks for its broker.
        "STATS_REFRESH_REDIS_URL": "redis://127.0.0.1:1/0",
    }
    return subprocess.run(
        [sys.executable, "-m", "celery", "-A", "tasks.app", "worker", "--concurrency", "1"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
