"""Servers and a worker for the tests of the wake-up: started once a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.rig import Rig, rig


@pytest.fixture(scope="module")
def full_rig() -> Iterator[Rig]:
    """A Valkey and a migrated database."""
    with rig() as made:
        yield made
