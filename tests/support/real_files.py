"""Real exports of other apps, where this checkout has them beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

_REAL_FILES = Path(__file__).parents[2] / ".." / "shared" / "data"


@pytest.fixture
def real_file() -> Callable[[str], Path]:
    """Return what finds a real export by name, and skips the test where the folder is missing."""

    def find(name: str) -> Path:
        path = _REAL_FILES / name
        if not path.exists():
            pytest.skip(f"no real exports here: ../shared/data/{name} is missing")
        return path

    return find
