"""The command line, in this process and against the test's database."""

from __future__ import annotations

import sys

import pytest

from core.config import config
from ops.cli import main


@pytest.fixture
def stats_refresh(database, monkeypatch, capsys):
    """Run the command line against the test's database; return (exit code, output, errors)."""

    def run(*arguments: str, url: str = database.url) -> tuple[int, str, str]:
        monkeypatch.setenv("STATS_REFRESH_DATABASE_URL", url)
        monkeypatch.setattr(sys, "argv", ["stats-refresh", *arguments])
        config.cache_clear()
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return end.value.code or 0, printed.out, printed.err

    yield run
    config.cache_clear()
