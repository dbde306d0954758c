"""Each broken twin turns its test red, by that test's own assertion."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.servers import SERVER_VARIABLE

from ops.embedded.postgres import FAST, PostgresServer

from . import VARIABLE, verdict
from .broken import TWINS

TESTS = Path(__file__).parents[1]
DEADLINE = 90
"""Seconds for one twin: a test that hangs instead of failing is no proof."""


@pytest.fixture(scope="module")
def twins_server() -> Iterator[str]:
    """The URL of a server for the twins alone: they make and drop the roles that other tests log in with."""
    server = PostgresServer(settings={**FAST, "max_connections": "120"})
    server.start()
    try:
        yield server.url()
    finally:
        server.stop()


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_server: str, tmp_path: Path) -> None:
    twin = TWINS[name]
    twin.broken_text()  # raises where the line that it breaks is not there any more
    file = tmp_path / "verdict"
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            twin.node,
            "-p",
            "no:xdist",
            "-p",
            "twins.verdict",
            "-q",
            "--tb=short",
        ],
        cwd=TESTS.parent,
        env={
            **os.environ,
            "PYTHONPATH": str(TESTS),
            # Half of a twin's time was plugins that it does not use.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            SERVER_VARIABLE: twins_server,
            VARIABLE: name,
            verdict.VARIABLE: str(file),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    found = file.read_text(encoding="utf-8") if file.exists() else "no such test"
    assert found == "red", f"{twin.node} should notice {name}, but: {found}\n{process.stdout[-3000:]}"
