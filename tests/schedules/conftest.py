"""Servers for the tests with real beats: started once a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.rig import Rig, rig


@pytest.fixture(scope="module")
def beat_rig() -> Iterator[Rig]:
    """A Valkey alone: beat needs no database."""
    with rig(postgres=False) as made:
        yield made


@pytest.fixture(scope="module")
def full_rig() -> Iterator[Rig]:
    """A Valkey and a migrated database."""
    with rig() as made:
        yield made
