"""A worker without a broker."""

from __future__ import annotations

import pytest

import core.config
import core.database


@pytest.fixture
def worker_process(database, monkeypatch):
    """This process, configured as a worker that leaves the hand-off to the beats: no broker is needed.

    Yields its engine, which has one connection.
    """
    monkeypatch.setenv(
        "STATS_REFRESH_DATABASE_URL", database.engine.url.render_as_string(hide_password=False)
    )
    monkeypatch.setenv("STATS_REFRESH_WAKE", "off")
    core.config.config.cache_clear()
    core.database.engine.cache_clear()
    yield core.database.engine()
    core.database.engine().dispose()
    core.database.engine.cache_clear()
    core.config.config.cache_clear()
