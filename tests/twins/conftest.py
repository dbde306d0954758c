"""What the twins share: one server for all that run in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .trial import Trial, trial


@pytest.fixture(scope="session")
def twins_trial() -> Iterator[Trial]:
    with trial() as made:
        yield made
