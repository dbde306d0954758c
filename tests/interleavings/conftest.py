"""A worker without a broker."""

from __future__ import annotations

import pytest

import tasks.config
import tasks.database


@pytest.fixture
def worker_process(database, monkeypatch):
    """This process, configured as a worker that leaves the hand-off to the beats: no broker is needed.

    Yields its engine, which has one connection.
    """
    monkeypatch.setenv(
        "STATS_REFRESH_DATABASE_URL", database.engine.url.render_as_string(hide_password=False)
    )
    monkeypatch.setenv("STATS_REFRESH_WAKE", "off")
    tasks.config.config.cache_clear()
    tasks.database.engine.cache_clear()
    yield tasks.database.engine()
    tasks.database.engine().dispose()
    tasks.database.engine.cache_clear()
    tasks.config.config.cache_clear()
