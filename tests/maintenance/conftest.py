"""Fixtures of the maintenance tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from maintenance.scene import Pages

if TYPE_CHECKING:
    from conftest import Database


@pytest.fixture
def pages(database: Database) -> Pages:
    """The maintenance pages on the test's database."""
    return Pages(database)


@pytest.fixture(autouse=True)
def fresh_cursors(database: Database) -> None:
    """The template of the test's database may be older than what alerts."""
    database.admin("update public.stats_maintenance_cursors set updated_at = now()")
