"""One service for the tests of this folder that leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.serving import Edge, edge


@pytest.fixture(scope="session")
def here() -> Iterator[Edge]:
    with edge() as made:
        yield made
