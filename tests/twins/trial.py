"""Runs the test of a twin in a process of its own, and says how it ended.

The processes are forked from one that has imported what every test needs, which was most of a twin's time; the
server's template is a migrated database, so that none of them migrates. Nothing else is shared.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine
from support.servers import SERVER_VARIABLE

from embedded.postgres import FAST, PostgresServer
from sql.migrate import migrate

from . import VARIABLE, verdict
from .twin import Twin

TESTS = Path(__file__).parents[1]
DEADLINE = 90
"""Seconds for one twin: a test that hangs instead of failing is no proof."""

_forks = multiprocessing.get_context("forkserver")
# Not the tests themselves: pytest rewrites their assertions as it imports them.
_forks.set_forkserver_preload(
    [
        "pytest",
        "hypothesis.stateful",
        "sqlalchemy.dialects.postgresql.psycopg2",
        "psycopg2",
        "models",
        "sql.migrate",
        "tasks.app",
        "ops.cli",
    ]
)


@dataclass(frozen=True)
class Trial:
    """A server for the twins alone: they make and drop the roles that other tests log in with."""

    server_url: str

    def must_be_red(self, twin: Twin, folder: Path) -> None:
        """Fail unless the twin's test ends by an assertion of its own. `folder` is for what the process writes."""
        broken, found, output = folder / "broken.sql", folder / "verdict", folder / "output"
        broken.write_text(twin.broken_text(), encoding="utf-8")
        environment = {
            # Half of a twin's time was plugins that it does not use.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            SERVER_VARIABLE: self.server_url,
            VARIABLE: str(broken),
            verdict.VARIABLE: str(found),
        }
        process = _forks.Process(target=_run, args=(twin.node, environment, output))
        process.start()
        process.join(DEADLINE)
        if process.exitcode is None:
            process.kill()
            process.join()
        ended = found.read_text(encoding="utf-8") if found.exists() else "no such test, or it hangs"
        assert ended == "red", f"{twin.node} should notice it, but: {ended}\n{output.read_text()[-3000:]}"


@contextmanager
def trial() -> Iterator[Trial]:
    """Yield the twins' server while it runs."""
    server = PostgresServer(settings={**FAST, "max_connections": "120"})
    server.start()
    try:
        # Where `create database` copies from.
        migrate(create_engine(server.url("template1"), poolclass=NullPool))
        yield Trial(server.url())
    finally:
        server.stop()


def _run(node: str, environment: dict[str, str], output: Path) -> None:
    with output.open("w") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
        os.environ.update(environment)
        os.chdir(TESTS.parent)
        gc.freeze()  # what was imported before the fork is nothing to collect here
        status = pytest.main([node, "-p", "twins.verdict", "-q", "--tb=short", "-p", "no:cacheprovider"])
    raise SystemExit(status)
