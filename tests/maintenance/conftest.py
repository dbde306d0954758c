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
